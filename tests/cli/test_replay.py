"""``exportlint replay``: saved programs, node by node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile

import pytest
import torch
from commands import exportlint
from torch import nn
from torch.export import Dim

from exportlint.checks import replaying
from exportlint.checks.isolation.job import Ending
from exportlint.cli.replay import Told


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x, *, mask):
        if x.shape[0] > 7:
            x = x * 2
        y = self.fc(x)  # the layer
        return {"y": y.log() * mask, "parts": [y[0], y.sum()]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A program, and inputs for it."""
    made = tmp_path_factory.mktemp("replay")
    torch.manual_seed(0)
    shapes = {"x": {0: Dim.DYNAMIC}, "mask": None}
    mask = torch.ones(3)
    program = torch.export.export(Net(), (torch.ones(2, 4),), {"mask": mask}, dynamic_shapes=shapes)
    torch.export.save(program, made / "net.pt2")
    inputs = {
        "many": ((torch.ones(9, 4),), {"mask": mask}),
        "wide": ((torch.ones(2, 5),), {"mask": mask}),
        "names": {"x": torch.ones(2, 4), "other": mask},
        "undefined": ((torch.full((2, 4), -1e4),), {"mask": mask}),
        "text": "no inputs",
        "word": (("x",), {"mask": mask}),
        "nones": ((None,), {"mask": None}),
        "meta": ((torch.ones(2, 4, device="meta"),), {"mask": mask}),
    }
    for name, value in inputs.items():
        torch.save(value, made / f"{name}.pt")
    with zipfile.ZipFile(made / "other.pt2", "w") as archive:
        archive.writestr("words.txt", "no program")
    (made / "broken.pt2").write_bytes(b"PK\x03\x04 not a program")
    (made / "words.pt").write_text("hello")
    (made / "empty.pt").write_bytes(b"")
    os.mkfifo(made / "pipe.pt")
    (made / "pickled.pt").write_bytes(b"cposix\nsystem\n(S'touch harmed'\ntR.")
    (made / "operators.py").write_text("raise RuntimeError('cannot be had')\n")
    return made


@pytest.fixture
def told(folder, capsys, monkeypatch):
    """Replay in this process: the exit status, or why it was refused, and what is printed."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))

    def run(file, inputs="", *, guards=True, imports=(), verbose=False):
        heard = Told(file, verbose)
        replaying.job(heard.hear, file, inputs, imports, guards=guards)
        status = heard.refused if heard.refused is not None else heard.end(Ending("done"))
        return status, capsys.readouterr().out

    return run


def line_of(words):
    with open(__file__, encoding="utf-8") as file:  # noqa: PTH123
        return next(number for number, line in enumerate(file, 1) if words in line)


def test_a_program_runs_with_what_it_was_captured_with(told):
    status, out = told("net.pt2", verbose=True)
    assert status == 0
    last = out.splitlines()[-1]
    assert re.fullmatch(r"net\.pt2: \d+ nodes ran; it returns float32\[2, 3\], float32\[3\], float32\[\]", last)
    assert "linear = aten.linear.default(x float32[2, 4], fc_weight float32[3, 4], fc_bias float32[3])" in out
    assert re.search(rf"-> float32\[2, 3\] \d+\.\d+ ms .*:{line_of('# the ' + 'layer')}: y = self\.fc\(x\)", out)


def test_the_node_that_fails_is_named_with_its_line_and_shapes(told):
    status, out = told("net.pt2", "wide.pt", guards=False)
    lines = out.splitlines()
    assert status == 1
    assert re.fullmatch(r"net\.pt2: node 1 of \d+ fails: linear \(aten\.linear\.default\)", lines[0])
    assert lines[1].endswith(f"test_replay.py:{line_of('# the ' + 'layer')}: y = self.fc(x) # the layer")
    assert lines[2] == "  given x float32[2, 5], fc_weight float32[3, 4], fc_bias float32[3]"
    assert lines[3] == "  RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x5 and 4x3)"


def test_what_the_program_refuses_is_told_as_that(told):
    words = "net.pt2: the program refuses these inputs: AssertionError: Guard failed: x.size()[0] <= 7\n"
    assert told("net.pt2", "many.pt") == (1, words)
    assert told("net.pt2", "many.pt", guards=False)[0] == 0


def test_the_first_nan_is_named(told):
    status, out = told("net.pt2", "undefined.pt")
    assert status == 0
    assert re.match(r"the first NaN is made by node \d+, log \(aten\.log\.default\) at .*test_replay\.py:\d+", out)


@pytest.mark.parametrize(
    ("file", "inputs", "imports", "words"),
    [
        ("other.pt2", "", (), "other.pt2 cannot be loaded as a program: "),
        ("net.pt2", "names.pt", (), "the program takes 1 positional argument and mask by name"),
        ("net.pt2", "text.pt", (), "text.pt holds no inputs: TypeError: "),
        ("net.pt2", "words.pt", (), "words.pt holds no inputs: torch.save did not write it, or it is damaged"),
        ("net.pt2", "net.pt2", (), "net.pt2 holds no inputs: torch.save did not write it, or it is damaged"),
        ("net.pt2", "empty.pt", (), "empty.pt holds no inputs: it is empty"),
        ("net.pt2", "word.pt", (), "the program takes a tensor for x, and not 'x'"),
        ("net.pt2", "nones.pt", (), "the program takes a tensor for x, and not None"),
        ("net.pt2", "pickled.pt", (), "pickled.pt holds no inputs: tensors, numbers and plain containers"),
        ("net.pt2", "", ("operators",), "operators cannot be imported: RuntimeError: cannot be had"),
    ],
)
def test_bad_input_is_refused_in_a_line(told, folder, file, inputs, imports, words):
    refused, _ = told(file, inputs, imports=imports)
    assert words in refused
    assert "\n" not in refused
    assert not (folder / "harmed").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.pt2",), "missing.pt2: no such file"),
        (("net.pt2", "--inputs", "missing.pt"), "missing.pt: no such file"),
        (("net.pt2", "--inputs", "pipe.pt"), "pipe.pt: is no plain file"),
        ((".",), ".: is a folder"),
        (("other.pt2",), "other.pt2 cannot be loaded as a program: "),
        (("broken.pt2",), "broken.pt2 is no saved program; torch.export.save writes one"),
    ],
)
def test_what_is_refused_ends_with_status_2(folder, arguments, words):
    ran = exportlint("replay", *arguments, cwd=folder)
    assert (ran.status, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    assert words in line


def test_where_inputs_are_is_told_where_that_is_not_the_cpu(told):
    status, out = told("net.pt2", "meta.pt", guards=False)
    assert status == 1
    assert "  given x float32[2, 4] on meta, fc_weight float32[3, 4], fc_bias float32[3]\n" in out


def test_numbers_and_words_of_another_kind_are_refused(told, folder):
    class Number(nn.Module):
        def forward(self, x, k, word):
            return x * k if word == "a" else x

    shapes = {"x": None, "k": Dim.DYNAMIC, "word": None}
    program = torch.export.export(Number(), (torch.ones(2), 3, "a"), dynamic_shapes=shapes)
    torch.export.save(program, folder / "number.pt2")
    for name, given in (("k", (torch.ones(2), "3", "a")), ("word", (torch.ones(2), 3, None))):
        torch.save(given, folder / "other.pt")
        refused, _ = told("number.pt2", "other.pt")
        assert f" for {name}, and not {given[1 if name == 'k' else 2]!r}" in refused
    torch.save((torch.ones(2), 5, "a"), folder / "other.pt")
    assert told("number.pt2", "other.pt")[0] == 0


LIBRARY = """
import dataclasses, torch

@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor

torch.export.register_dataclass(Pair, serialized_type_name="replayed.Pair")

@torch.library.custom_op("exportlint_replay::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2

scale.register_fake(torch.empty_like)

class Model(torch.nn.Module):
    def forward(self, x):
        return Pair(scale(x) if USES else x + 1, x)

torch.export.save(torch.export.export(Model(), (torch.ones(2),)), NAME)
"""


@pytest.mark.parametrize(("uses", "name"), [(True, "exportlint_replay::scale"), (False, "replayed.Pair")])
def test_what_nobody_registered_is_named(tmp_path, uses, name):
    library = LIBRARY.replace("USES", str(uses)).replace("NAME", "'uses.pt2'")
    subprocess.run([sys.executable, "-c", library], check=True, cwd=tmp_path)
    ran = exportlint("replay", "uses.pt2", cwd=tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert name in ran.err
    assert "--import MODULE" in ran.err
    (tmp_path / "library.py").write_text(library.rpartition("\n\n")[0])
    assert exportlint("replay", "uses.pt2", "--import", "library", cwd=tmp_path).status == 0


class Dies(nn.Module):
    def forward(self, x):
        return torch.ops.exportlint_replay.dies(x * 2)


DIES = """
import os, signal, torch

@torch.library.custom_op("exportlint_replay::dies", mutates_args=())
def dies(x: torch.Tensor) -> torch.Tensor:
    os.kill(os.getpid(), signal.SIGKILL) if x.numel() > 2 else None
    return x.clone()

dies.register_fake(torch.empty_like)
"""


def test_a_node_at_which_the_process_dies_is_named(tmp_path):
    (tmp_path / "deadly.py").write_text(DIES)
    exec(compile(DIES, "deadly.py", "exec"), {})
    program = torch.export.export(Dies(), (torch.ones(2, 4),))
    torch.export.save(program, tmp_path / "dies.pt2")
    ran = exportlint("replay", "dies.pt2", "--import", "deadly", cwd=tmp_path)
    assert ran.status == 1
    assert "dies.pt2: node 3 of 3 fails: dies (exportlint_replay.dies.default)" in ran.out
    assert "the process was killed by SIGKILL" in ran.out


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.ones(2, 3, dtype=torch.int8), "int8[2, 3]"),
        ([torch.ones(1), None], "[float32[1], None]"),
        ((1, "a"), "(1, 'a')"),
        (list(range(10)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
    ],
)
def test_values_are_described_shortly(value, words):
    assert replaying.described(value) == words


def test_a_line_is_told_as_it_was_recorded():
    trace = 'File "/elsewhere/net.py", line 7, in forward\n    y = self.fc(x)\n'
    trace += f'  File "{torch.__path__[0]}/nn/modules/linear.py", line 134, in forward\n    return F.linear(input)'
    assert replaying.line_of(trace) == "/elsewhere/net.py:7: y = self.fc(x)"
    assert replaying.line_of("") == ""
