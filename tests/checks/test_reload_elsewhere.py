"""Programs of other releases of torch, and other environments in which a program is loaded."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys

import pytest
import torch
from commands import ROOT, exportlint
from torch import nn

from exportlint.checks import reload
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.checks.other_python import OtherPython, identify
from exportlint.checks.runner import Options, Runner
from exportlint.findings import CheckResult
from exportlint.inspecting import inspect

PROGRAMS = ROOT / "fixtures" / "programs"
FILES = sorted(PROGRAMS.glob("*.pt2"))
X = torch.linspace(-1, 1, 8).view(2, 4)


def models():
    spec = importlib.util.spec_from_file_location("programs_make", PROGRAMS / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MODELS


def test_there_are_programs_of_two_releases():
    assert {file.stem for file in FILES} >= {f"{name}-{release}" for name in models() for release in ("2.13", "2.14")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_programs_of_each_release_load_and_compute_the_same(file):
    model, args, kwargs, _ = models()[file.stem.partition("-")[0]]
    program, eager = torch.export.load(file).module(), model().eval()
    for factor in (1, 3, -2):
        inputs = tuple(x * factor for x in args)
        torch.testing.assert_close(program(*inputs, **kwargs), eager(*inputs, **kwargs), rtol=0, atol=0)
    if file.stem.startswith("dynamic"):
        assert program(torch.ones(5, 4)).shape == (5, 3)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_programs_of_each_release_are_described(file):
    assert inspect(file).torch.startswith(file.stem.partition("-")[2])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_programs_name_no_folder_of_the_machine_that_made_them(file):
    import zipfile

    with zipfile.ZipFile(file) as archive:
        assert not any(b"site-packages" in archive.read(name) for name in archive.namelist())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x).relu()  # relu


def result_with(python: OtherPython) -> CheckResult:
    with Runner(Options(checks=("reload",), others=(python,))) as runner:
        (check,) = runner.check_object(ModelCase(Net, (X,), name="net"), "here").checks
    return check


def test_a_program_loads_in_another_environment():
    here = identify(sys.executable)
    assert here.words.startswith(f"torch {torch.__version__}, Python 3.")
    check = result_with(dataclasses.replace(here, words="that torch"))
    assert (check.outcome, check.findings) == ("passed", ())
    assert check.notes[-1].startswith("loads in ")
    assert check.notes[-1].endswith(" s with that torch, and computes the same")
    size, saved = check.notes[0].split(", ")
    assert size.endswith(" KiB")
    assert saved.startswith("saved in 0.")


@pytest.fixture
def broken(tmp_path):
    """An interpreter that says that it has torch, and loads nothing."""
    file = tmp_path / "python"
    file.write_text("#!/bin/sh\ncase \"$*\" in *loader*) exit 3;; esac\necho 'torch 1.0, Python 3.1'\n")
    file.chmod(0o755)
    return file


def test_an_environment_that_loads_nothing(broken):
    check = result_with(identify(str(broken)))
    (finding,) = check.findings
    assert (check.outcome, finding.rule, finding.severity) == ("failed", "EXP701", "warning")
    assert finding.message == "the saved program cannot be loaded with torch 1.0, Python 3.1"
    assert check.reason == "with torch 1.0, Python 3.1: the process ended with status 3"


FIRST = CheckResult(name="reload", outcome="not_checked", reason=reload.PENDING, notes=("1 KiB",))


@pytest.fixture
def first(tmp_path) -> CheckResult:
    return reload.run(Context(ModelCase(Net, (X,), name="net"), Settings((), workdir=str(tmp_path)), lambda _: None))


def loaded(error, step="load", **more):
    return {"step": step, "error": error, "seconds": 0.1, **more}


def test_what_another_environment_says(first):
    passed = reload.conclude(first, loaded(None), "", 0.2)
    other = reload.conclude_elsewhere(passed, first, "torch 9", loaded("RuntimeError: too new"), "")
    assert (other.outcome, other.reason) == ("failed", "with torch 9: load: RuntimeError: too new")
    assert other.findings[0].evidence == "load: RuntimeError: too new"
    differs = reload.conclude_elsewhere(passed, first, "torch 9", loaded("1 of 6 values differ", "compare"), "")
    assert (differs.findings[0].rule, differs.findings[0].severity) == ("EXP004", "error")
    assert differs.findings[0].message == "the program returns something else with torch 9"
    failed = reload.conclude(first, loaded("RuntimeError: no"), "", 0.2)
    same = reload.conclude_elsewhere(failed, first, "torch 9", loaded("RuntimeError: no"), "")
    assert (same.findings, same.notes[-1]) == (failed.findings, "the same with torch 9")


def test_a_file_is_saved_twice(first, tmp_path, monkeypatch):
    assert (tmp_path / "again" / "program.pt2").read_bytes() == (tmp_path / "program.pt2").read_bytes()
    assert len(first.notes) == 1
    save, times = torch.export.save, []

    def unstable(program, file):
        times.append(file)
        program.example_inputs[0][0].add_(len(times))  # as what is kept in the file may change from one to the next
        save(program, file)

    monkeypatch.setattr(torch.export, "save", unstable)
    ctx = Context(ModelCase(Net, (X.clone(),), name="net"), Settings((), workdir=str(tmp_path)), lambda _: None)
    (_, note) = reload.run(ctx).notes
    assert note.startswith("a file that is saved once more under this name is another: ")
    assert "sample_inputs" in note


@torch.library.custom_op("test_reload_elsewhere::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Calls(nn.Module):
    def forward(self, x):
        y = x + 1
        return twice(y)  # call


def test_operators_that_loading_needs_are_named():
    with Runner(Options(checks=("reload",))) as runner:
        (check,) = runner.check_object(ModelCase(Calls, (X,), name="net"), "here").checks
    (finding,) = check.findings
    assert (check.outcome, finding.rule, finding.severity) == ("failed", "EXP701", "warning")
    assert finding.message.endswith("the model's source, which registers `test_reload_elsewhere.twice.default`")
    assert finding.source.endswith("# call")
    assert check.reason.startswith("load: SerializeError: We failed to resolve torch.ops.test_reload_elsewhere.twice")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, " is no program that can be run"),
        (
            "#!/bin/sh\necho 'ImportError: none' >&2\nexit 1\n",
            "cannot import torch: ImportError: none",
        ),
        ("#!/bin/sh\necho hello\n", "cannot import torch: it says nothing"),
        ("#!/no/such/program\n", "does not run: "),
    ],
)
def test_what_is_no_interpreter_with_torch(tmp_path, text, words):
    file = tmp_path / "python"
    if text is not None:
        file.write_text(text)
        file.chmod(0o755)
    ran = exportlint("report", "model.py", "--reload-python", file, cwd=tmp_path)
    assert ran.status == 2
    assert words in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.slow
def test_the_next_torch():
    """Where there is an environment with it."""
    python = ROOT / ".venv-next" / "bin" / "python"
    if not os.access(python, os.X_OK):
        pytest.skip("there is no .venv-next")
    other = identify(str(python))
    check = result_with(other)
    assert check.outcome == "passed", check
    assert f"with {other.words}, and computes the same" in check.notes[-1]
