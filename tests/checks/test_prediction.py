"""What the linter predicts for files that ran: by the project's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from exportlint.checks.prediction import Predictor
from exportlint.checks.runner import Options, Runner

TYPED = """import torch
from torch import nn
from pictures import Image


class Net(nn.Module):
    def forward(self, x: Image):
        if x:
            return 1
        return 0
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(TYPED)


def predicted(predictor: Predictor) -> list[tuple[str, int | None]]:
    return [(found.rule, found.line) for found in predictor.predict({"net.py": frozenset({7, 8, 9})})]


def test_the_configuration_is_heard() -> None:
    assert predicted(Predictor()) == []
    Path("exportlint.toml").write_text('tensor-types = ["pictures.Image"]\nmodes = ["compile"]\n')
    assert predicted(Predictor()) == [("EXP101", 8)]


def test_a_wrong_configuration_is_told_and_the_linter_runs() -> None:
    Path("exportlint.toml").write_text('tensor-typs = ["pictures.Image"]\n')
    Path("net.py").write_text(TYPED.replace("if x:", "if x.sum() > 0:"))
    predictor = Predictor()
    assert predicted(predictor) == [("EXP101", 8)]
    (note,) = predictor.notes(["net.py"])
    assert note.startswith("linted without the configuration, which is wrong: ")
    assert "exportlint.toml:1: tensor-typs is not known; did you mean 'tensor-types'?" in note


PLAIN = (
    TYPED.replace("if x:", "if x.sum() > 0:")
    .replace("from pictures import Image\n", "")
    .replace("Image", "torch.Tensor")
)


def in_library(file: Path, source: str = "") -> list[bool]:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PLAIN)
    return [found.library for found in Predictor().predict({str(file): frozenset({6, 7, 8})}, source)]


@pytest.mark.parametrize("marker", ["pyproject.toml", ".git"])
def test_the_project_of_a_target_elsewhere_is_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    near, far = tmp_path / "project" / "cases" / "models.py", tmp_path / "project" / "layers" / "net.py"
    assert in_library(near) == in_library(far) == [True]
    (near.parent / marker).touch()
    for source in (str(near), "../project/cases/models.py"):
        assert in_library(near, source) == [False]
        assert in_library(far, source) == [True]
    (near.parent / marker).rename(tmp_path / "project" / marker)
    assert in_library(far, "../project/cases/models.py") == [False]
    assert in_library(tmp_path / "another" / "net.py", str(near)) == [True]
    assert in_library(tmp_path / "project" / ".venv" / "site-packages" / "lib" / "net.py", str(near)) == [True]


def test_the_project_of_a_module_elsewhere_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "path")
    (tmp_path / "path" / "elsewhere_of_prediction").mkdir(parents=True)
    (tmp_path / "path" / "elsewhere_of_prediction" / "__init__.py").touch()
    file = tmp_path / "path" / "elsewhere_of_prediction" / "net.py"
    assert in_library(file) == in_library(file, "json") == in_library(file, "missing_of_prediction.net") == [True]
    assert in_library(file, "elsewhere_of_prediction.net") == [False]


def test_what_is_installed_is_a_library_although_it_is_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = tmp_path / "site-packages" / "lib" / "net.py"
    assert in_library(file, str(file)) == [True]


def test_a_run_knows_the_project_of_its_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    frozen = "return x + torch.full((int(x.shape[0]), 1), 2.0, device=x.device)"
    text = (
        f"import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        {frozen}\n"
    )
    text += "\n\ndef build():\n    return Net()\n\n\ndef inputs():\n    return (torch.ones(2, 4),)\n"
    (tmp_path / "elsewhere" / "frozen.py").write_text(text)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with Runner(Options(checks=("lint",))) as runner:
        (case,) = runner.list_cases("../elsewhere/frozen.py")
        (result,) = runner.check_named(case).checks
    assert [(found.rule, found.line, found.library, found.counts) for found in result.findings] == [
        ("EXP301", 7, False, True)
    ]


SEVERAL = """import torch
from torch import nn
from constants_of_prediction import FAR as THERE, NEVER

ANCHORS = torch.tensor([0.0, 1.0])
OTHERS = torch.tensor([0.0, 1.0])
WIDE = OTHERS[None]


class Anchored(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + ANCHORS


class Widened(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + WIDE


class Far(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + THERE


class Plain(nn.Module):
    def forward(self, x: torch.Tensor, ANCHORS=None):
        return x if ANCHORS is None else x + ANCHORS
"""
CONSTANTS = """import torch
from torch import nn

FAR = torch.tensor([0.0, 1.0])
NEVER = torch.tensor([0.0, 1.0])


class NotRun(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + FAR - NEVER
"""


@pytest.mark.parametrize(
    ("ran", "counts"),
    [
        (12, {("several.py", 5)}),
        (17, {("several.py", 6)}),
        (22, {("constants_of_prediction.py", 4)}),
        (27, set()),
    ],
)
def test_what_stands_outside_of_functions_concerns_only_who_reads_it(ran: int, counts: set[tuple[str, int]]) -> None:
    Path("several.py").write_text(SEVERAL)
    Path("constants_of_prediction.py").write_text(CONSTANTS)
    lines = {"several.py": frozenset({ran}), "constants_of_prediction.py": frozenset[int]()}
    found = Predictor().predict(lines)
    predicted = {("several.py", 5), ("several.py", 6)} | {("constants_of_prediction.py", line) for line in (4, 5)}
    assert {(str(one.file), one.line) for one in found if one.rule == "EXP203"} >= predicted
    assert {(str(one.file), one.line) for one in found if one.counts} == counts


SIZED = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return self.scaled(x)

    def scaled(self, x):
        if x.sum() > 0:
            x = -x
        return x * torch.linspace(0, 1, x.shape[1], device=x.device)
"""
TOLD = """import torch
from exportlint import ModelCase
from {model} import Net

net = ModelCase(Net, (torch.ones(2, 4),), inputs2=(torch.ones(3, 6),))
"""
OTHER = "from torch import nn\n\n\nclass Other(nn.Module):\n    def forward(self, x):\n        return -x\n"


@pytest.fixture
def sized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a model, and cases of it that lie elsewhere."""
    package = tmp_path / "package_of_prediction"
    (package / "models").mkdir(parents=True)
    for folder in (package, package / "models"):
        (folder / "__init__.py").touch()
    (package / "models" / "sized.py").write_text(SIZED)
    told = TOLD.format(model="package_of_prediction.models.sized")
    for file in (tmp_path / "cases_of_prediction.py", package / "cases.py", package / "models" / "__init__.py"):
        file.write_text(told)
    monkeypatch.syspath_prepend(tmp_path)
    return Path("package_of_prediction/models/sized.py")


@pytest.mark.parametrize(
    "source",
    [
        "cases_of_prediction.py",
        "cases_of_prediction",
        "package_of_prediction/cases.py",
        "package_of_prediction.cases",
        "package_of_prediction.models",
    ],
)
def test_what_a_case_gives_a_model_of_another_file_is_known(sized: Path, source: str) -> None:
    found = Predictor().predict({str(sized): frozenset({7, 10, 11, 12})}, source)
    assert {(one.rule, one.line) for one in found if one.counts} == {("EXP101", 10), ("EXP301", 12)}
    assert {size for one in found for size in one.sizes} == {"x.shape[1]"}


@pytest.mark.parametrize("others_first", [False, True])
def test_what_is_predicted_does_not_depend_on_the_cases_before(sized: Path, *, others_first: bool) -> None:
    Path("other.py").write_text(OTHER)
    predictor = Predictor()
    lines = {str(sized): frozenset({7, 10, 11, 12})}
    if others_first:
        assert not any(one.rule == "EXP301" and one.counts for one in predictor.predict(lines, "other.py"))
    assert any(one.rule == "EXP301" and one.counts for one in predictor.predict(lines, "cases_of_prediction.py"))


def test_a_base_in_another_file_is_judged_as_the_model_runs_it() -> None:
    base = "from torch import nn\n\n\nclass Base(nn.Module):\n    wide = None\n\n    def forward(self, x):\n"
    base += "        if self.wide is not None:\n            if x.sum() > self.wide:\n                return -x\n"
    Path("base_of_prediction.py").write_text(base + "        return x\n")
    Path("child_of_prediction.py").write_text(
        "import torch\nfrom exportlint import ModelCase\nfrom base_of_prediction import Base\n\n\n"
        "class Child(Base):\n    wide = 3\n\n\nchild = ModelCase(Child, (torch.ones(2, 4),))\n"
    )
    found = Predictor().predict({"base_of_prediction.py": frozenset({8, 9, 10})}, "child_of_prediction.py")
    assert [(one.rule, one.line) for one in found if one.counts] == [("EXP101", 9)]
