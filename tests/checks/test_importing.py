"""Models that hold what the machine has since they were imported: found at the line that asked."""

from __future__ import annotations

import sys

import msgspec
import pytest
import torch
from forking import in_fork

from exportlint.checks.context import Settings

CASE = """
class M(nn.Module):
    def forward(self, x):
        return FORWARD

def build():
    return M()

def inputs():
    return (torch.ones(2, 4),)
"""
HEAD = "import torch\nfrom torch import nn\n"


def check(files, folder, target="model.py"):
    """Findings of the check ``device``, as a worker that imports the target tells them."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    def run():
        from exportlint.checks import jobs

        said = []
        jobs.check_named(said.append, str(folder / target), "model", msgspec.to_builtins(Settings(("device",))))
        (result,) = [message["result"] for message in said if "result" in message]
        findings = [(f["rule"], f["severity"], f["file"].rpartition("/")[2], f["line"]) for f in result["findings"]]
        return result["outcome"], findings, result["notes"]

    outcome, findings, notes = in_fork(run)
    return outcome, [tuple(finding) for finding in findings], notes


def of(head, forward):
    return HEAD + head + CASE.replace("FORWARD", forward)


@pytest.mark.parametrize(
    ("head", "forward", "line"),
    [
        ("FAST = torch.cuda.is_available()\n", "x * 2 if FAST else x", 3),
        ("from torch.cuda import is_available\n\nFAST = is_available()\n", "x * 2 if FAST else x", 5),
        ("class Config:\n    fast = torch.backends.mps.is_available()\n", "x * 2 if Config.fast else x", 4),
    ],
)
def test_a_constant_that_decides_is_named_where_it_was_asked_for(tmp_path, head, forward, line):
    outcome, findings, _ = check({"model.py": of(head, forward)}, tmp_path)
    assert (outcome, findings) == ("failed", [("EXP204", "warning", "model.py", line)])


def test_other_modules_of_the_users_are_imported_anew_as_well(tmp_path):
    files = {
        "constants_of_mine.py": "import torch\n\n\nFAST = torch.cuda.is_available()\n",
        "model.py": of("from constants_of_mine import FAST\n", "x * 2 if FAST else x"),
    }
    assert check(files, tmp_path)[:2] == ("failed", [("EXP204", "warning", "constants_of_mine.py", 4)])


def test_in_a_package(tmp_path):
    files = {
        "pack/__init__.py": "",
        "pack/constants.py": "import torch\n\nFAST = torch.cuda.is_available()\n",
        "pack/model.py": of("from .constants import FAST\n", "x * 2 if FAST else x"),
    }
    assert check(files, tmp_path, "pack/model.py")[:2] == ("failed", [("EXP204", "warning", "constants.py", 3)])


@pytest.mark.parametrize(
    "forward",
    [
        "x * 2",
        "x.to(DEVICE) * 2 if DEVICE == 'cpu' else x.to(DEVICE) * 2",
        "x + torch.ones((), device=DEVICE)",
    ],
)
def test_a_constant_that_decides_nothing_is_no_alarm(tmp_path, forward):
    head = "DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    outcome, findings, _ = check({"model.py": of(head, forward)}, tmp_path)
    assert outcome == "passed"
    assert not [finding for finding in findings if finding[0] == "EXP204"]


def test_a_module_that_cannot_be_imported_twice_is_told(tmp_path):
    head = "import sys\nassert not hasattr(sys, 'once_only')\nsys.once_only = torch.cuda.is_available()\n"
    outcome, findings, notes = check({"model.py": of(head, "x * 2 if sys.once_only else x")}, tmp_path)
    assert findings == []
    told = "other answers to what modules asked when they were imported were not tried: "
    assert outcome == "passed"
    assert [note for note in notes if note.startswith(f"{told}TargetError: ")] == notes


def test_modules_hold_torchs_own_functions_after_their_import(tmp_path):
    (tmp_path / "holds_question.py").write_text("from torch.cuda import is_available\nASKED = is_available()\n")

    def run():
        from exportlint.checks import importing, loading

        with pytest.raises(loading.TargetError, match="no model case"):
            loading.cases_of(str(tmp_path / "holds_question.py"))
        assert sys.modules["holds_question"].is_available is torch.cuda.is_available
        return [place.line for place in importing.asked]

    assert in_fork(run) == [2]
