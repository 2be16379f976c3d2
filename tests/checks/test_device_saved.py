"""Programs that the check saves: another process, which lacks the model's source, runs them on their device."""

from __future__ import annotations

import dataclasses
import sys

import pytest
import torch
from device_kinds import load, model
from forking import in_fork
from torch.export import passes

from exportlint.checks import loader
from exportlint.checks.context import Context, Settings
from exportlint.checks.device import check as device
from exportlint.checks.device import saved as device_saved
from exportlint.findings import CheckResult

FOLLOWS = model(
    "m = torch.arange(4, device=x.device)\nreturn torch.cond(x.sum() > 0, self.f, lambda t: t * 2, (x,)) + m",
    "self.f = nn.Linear(4, 4)",
)
AUTOCAST = model(
    "with torch.autocast(x.device.type, dtype=torch.bfloat16):\n    return self.f(x)", "self.f = nn.Linear(4, 4)"
)
EXPORTED, MOVED = "exported on the second device", "moved to the second device"


def check(text, folder, args=None):
    """The notes of the first half, and what is saved."""
    (folder / "work").mkdir()
    settings = Settings(("device",), workdir=str(folder / "work"))
    case = load(text, folder, "saves")
    case = case if args is None else dataclasses.replace(case, args=args)
    result = device.run(Context(case, settings, lambda _: None))
    return list(result.notes)


def loaded(folder):
    """What the loader says; its process has never seen the model's file."""
    messages = []
    loader.job_elsewhere(messages.append, str(folder / "work"))
    return messages[-1]["loaded"]


def test_both_programs_are_loaded_and_run_there(tmp_path):
    assert in_fork(check, FOLLOWS, tmp_path) == []
    assert device_saved.pending(str(tmp_path / "work"))
    said = in_fork(loaded, tmp_path)
    assert list(said) == [EXPORTED, MOVED]
    assert [(one["step"], one["error"]) for one in said.values()] == [("compare", None)] * 2


def test_what_another_process_finds_otherwise_is_told(tmp_path):
    in_fork(check, FOLLOWS, tmp_path)
    record = torch.load(tmp_path / "work" / loader.ELSEWHERE)
    record["programs"][0]["expected"][0] += 1
    torch.save(record, tmp_path / "work" / loader.ELSEWHERE)
    (tmp_path / "work" / record["programs"][1]["file"]).write_bytes(b"no program")
    said = in_fork(loaded, tmp_path)
    assert said[EXPORTED]["error"].startswith("output[0]: ")
    assert said[MOVED]["step"] == "load"


CLASSES = """
import collections
from torch.utils import _pytree as pytree

Batch = collections.namedtuple("Batch", "a b")  # torch saves no program that takes it


class Output:
    def __init__(self, second, first):
        self.first, self.second = first, second


pytree.register_pytree_node(
    Output, lambda o: ([o.second, o.first], None), lambda c, _: Output(*c), serialized_type_name="saves.Output"
)


"""


def test_classes_of_arguments_and_results_are_not_needed(tmp_path):
    """As the outputs of transformers: whoever loads the program would have to import the library."""
    text = CLASSES + model("both = Batch(x, x + 1)\nreturn Output(self.f(both.a), both.b)", "self.f = nn.Linear(4, 4)")
    assert in_fork(check, text, tmp_path) == []
    said = in_fork(loaded, tmp_path)
    assert [(how, one["step"], one["error"]) for how, one in said.items()] == [
        (EXPORTED, "compare", None),
        (MOVED, "compare", None),
    ]


def test_a_named_tuple_among_the_arguments_is_no_matter_of_the_device(tmp_path):
    text = CLASSES + model("return self.f(x.a) + x.b", "self.f = nn.Linear(4, 4)")

    def batch():
        return (sys.modules["saves"].Batch(torch.ones(2, 4), torch.zeros(4)),)

    assert in_fork(check, text, tmp_path, batch) == []
    assert [one["error"] for one in in_fork(loaded, tmp_path).values()] == [None, None]


def test_what_the_pass_breaks_is_advice_at_the_node(tmp_path):
    """Strides that the CPU's program has baked; eager and the program that is exported there are right."""

    def run():
        passes.move_to_device_pass = breaking(passes.move_to_device_pass)
        result = device.run(Context(load(FOLLOWS, tmp_path, "breaks"), Settings(("device",)), lambda _: None))
        findings = [(f.rule, f.severity, f.line, f.message) for f in result.findings if "move_to_device" in f.message]
        return result.outcome, findings, list(result.notes)

    message = "the program, moved to the second device by move_to_device_pass, does not run there"
    assert in_fork(run) == ["passed", [["EXP205", "info", 9, message]], []]


def breaking(original):
    """The pass, with a program in which the first factory makes too many numbers."""

    def move(program, device):
        moved = original(program, device)
        node = next(node for node in moved.graph.nodes if "arange" in str(node.target))
        node.args = (7, *node.args[1:])
        moved.graph_module.recompile()
        return moved

    return move


def test_a_program_that_torch_cannot_save_is_noted_once_and_in_brief(tmp_path):
    def run():
        def refuse(*_):
            raise NotImplementedError("no serialisation of " + "many words " * 40)

        torch.export.save = refuse
        return check(FOLLOWS, tmp_path)

    (note,) = in_fork(run)
    assert note.startswith(f"{device_saved.UNSAVED}: NotImplementedError: no serialisation of many words")
    assert len(note) < 200


def test_a_program_that_does_not_run_there_is_not_saved(tmp_path):
    assert in_fork(check, AUTOCAST, tmp_path) == []
    assert list(in_fork(loaded, tmp_path)) == [EXPORTED]


def test_without_a_folder_nothing_is_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = load(FOLLOWS, tmp_path, "saves_not")
    in_fork(lambda: device.run(Context(case, Settings(("device",)), lambda _: None)).outcome)
    assert not list(tmp_path.glob("*.pt*"))
    assert not device_saved.pending("")


PASSED = CheckResult(name="device", outcome="passed", seconds=1.0, notes=("a note",))
UNLOADABLE = {"step": "load", "error": "RuntimeError: no class"}
RIGHT, WRONG = {"step": "compare", "error": None}, {"step": "run", "error": "ValueError: no"}


@pytest.mark.parametrize(
    ("said", "reason", "notes"),
    [
        ({EXPORTED: RIGHT, MOVED: RIGHT}, "2 programs rerun", ()),
        (
            {EXPORTED: WRONG, MOVED: RIGHT},
            "1 program rerun",
            (f"the program, {EXPORTED}, fails once it is saved and loaded in another process: run: ValueError: no",),
        ),
        (
            {EXPORTED: UNLOADABLE, MOVED: UNLOADABLE},
            None,
            (f"{device_saved.UNLOADABLE}: RuntimeError: no class",),
        ),
        (None, None, ("the process that loads the saved programs was killed",)),
    ],
)
def test_the_result_of_both_halves(said, reason, notes):
    result = device_saved.conclude(PASSED, said, "was killed")
    assert (result.outcome, result.reason, result.notes) == ("passed", reason, ("a note", *notes))


def test_the_reason_of_a_failure_stays():
    failed = CheckResult(name="device", outcome="failed", reason="here")
    assert device_saved.conclude(failed, {EXPORTED: RIGHT}, "") == failed
    assert device_saved.not_loaded(failed).notes[0].endswith("since the check reload fails")
