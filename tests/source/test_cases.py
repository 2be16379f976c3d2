"""Model cases that the linter reads: what varies is known wherever a case says so, and nowhere else."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Effort, Options, examine

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
import exportlint
import torch
from exportlint import ModelCase, export_case
from torch import nn
from torch.export import Dim

X = torch.ones(9, 4)
ROWS = {0: Dim.DYNAMIC}
"""
NET = """

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.width = width

    def forward(self, x, y=None):
        return x * 2 if x.shape[0] > 8 else x


"""
VARIES = {
    "class": 'case = ModelCase(Net, (X,), dynamic_shapes={"x": ROWS})',
    "module": 'case = ModelCase(Net(3), (X,), dynamic_shapes={"x": ROWS})',
    "dotted": 'case = exportlint.ModelCase(Net, (X,), dynamic_shapes={"x": ROWS})',
    "lambda": 'case = ModelCase(lambda: Net(), args=(X,), name="net", dynamic_shapes={"x": ROWS})',
    "factory": 'def make():\n    return Net(3).eval()\n\ncase = ModelCase(make, (X,), dynamic_shapes={"x": ROWS})',
    "decorated factory": '@export_case((X,), dynamic_shapes={"x": ROWS})\ndef make():\n    return Net()',
    "decorated twice": """
        @export_case((X,))
        @export_case((X,), dynamic_shapes={"x": ROWS})
        def make():
            return Net()
        """,
    "list of cases": 'CASES = [ModelCase(Net, (torch.ones(2, 3),)), ModelCase(Net, (X,), dynamic_shapes={"x": ROWS})]',
    "by position": "case = ModelCase(Net, (X,), dynamic_shapes=(ROWS,))",
    "by sequence": "case = ModelCase(Net, (X,), dynamic_shapes=((Dim.AUTO, None),))",
    "out of order": 'case = ModelCase(Net, (X, X), dynamic_shapes={"y": None, "x": ROWS})',
    "keywords": 'case = ModelCase(Net, kwargs={"y": X, "x": X}, dynamic_shapes={"y": None, "x": ROWS})',
    "function of arguments": 'case = ModelCase(Net, lambda: (X,), dynamic_shapes={"x": ROWS})',
    "function of keywords": 'case = ModelCase(Net, lambda: {"x": X}, dynamic_shapes={"x": ROWS})',
    "second call": "case = ModelCase(Net, (X,), inputs2=(torch.ones(3, 4),))",
    "second call as a pair": "case = ModelCase(Net, (X,), inputs2=((torch.ones(3, 4),), {}))",
    "further calls": "case = ModelCase(Net, (X,), more_inputs=[(torch.ones(3, 4),)])",
    "a test": """
        def test_net():
            wide = torch.ones(9, 4)
            shapes = {"x": ROWS}
            case = ModelCase(Net(), (wide,), dynamic_shapes=shapes)
            assert case
        """,
    "the fixture": """
        def test_net(export_check):
            export_check(Net(), (X,), dynamic_shapes={"x": ROWS})
        """,
    "a case for the fixture": """
        class TestNet:
            def test_net(self, export_check):
                export_check(ModelCase(Net, (X,), dynamic_shapes={"x": ROWS}))
        """,
}
STAYS = {
    "no case": "x = 1",
    "another dimension": 'case = ModelCase(Net, (X,), dynamic_shapes={"x": {1: Dim.DYNAMIC}})',
    "another input": 'case = ModelCase(Net, (X, X), dynamic_shapes={"y": ROWS, "x": None})',
    "none": 'case = ModelCase(Net, (X,), dynamic_shapes={"x": None})',
    "static": 'case = ModelCase(Net, (X,), dynamic_shapes={"x": {0: Dim.STATIC}})',
    "a number": 'case = ModelCase(Net, (X,), dynamic_shapes={"x": {0: 9}})',
    "the same size": "case = ModelCase(Net, (X,), inputs2=(torch.zeros(9, 4),))",
    "no shapes": "case = ModelCase(Net, (X,))",
    "methods": 'case = ModelCase(Net, (X,), methods={"other": (X,)}, dynamic_shapes={"x": ROWS})',
    "more than is written": 'kept = {}\ncase = ModelCase(Net, (X,), dynamic_shapes={"x": ROWS}, **kept)',
    "another ModelCase": "def ModelCase(*a, **k):\n    pass\n\ncase = ModelCase(Net, (X,), dynamic_shapes=(ROWS,))",
    "a parameter": "def test(ModelCase):\n    ModelCase(Net, (X,), dynamic_shapes=(ROWS,))",
    "no fixture": """
        def export_check(*a, **k):
            pass

        def test():
            export_check(Net, (X,), dynamic_shapes=(ROWS,))
        """,
    "unknown inputs": "def test(wide):\n    ModelCase(Net, (wide,), dynamic_shapes=(ROWS,))",
    "left before": "def test():\n    return\n    ModelCase(Net, (X,), dynamic_shapes=(ROWS,))",
}


def linted(*paths: Path, cache: Path | None = None) -> list[str]:
    """Places of what is found, as ``file:line``."""
    found = examine(paths, Options(), Effort(cache=cache)).predictions
    return [f"{p.path.name}:{p.range.line}" for p in found if p.rule.code == "EXP301"]


@pytest.mark.parametrize("name", VARIES)
def test_a_dimension_that_a_case_lets_vary_is_dynamic(name: str, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(HEAD + NET + textwrap.dedent(VARIES[name]) + "\n")
    assert linted(file) == ["model.py:17"]


@pytest.mark.parametrize("name", STAYS)
def test_a_dimension_of_which_no_case_says_so_is_not(name: str, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(HEAD + NET + textwrap.dedent(STAYS[name]) + "\n")
    assert linted(file) == []


DECORATED = NET.replace("class Net", '@export_case((X,), dynamic_shapes={"x": ROWS})\nclass Net')


def test_a_decorated_class_is_its_own_factory(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(HEAD + DECORATED)
    assert linted(file) == ["model.py:18"]


CASES = {
    "tests": ("pkg/net.py", "tests/test_net.py", "from pkg.net import Net"),
    "tests in folders": ("pkg/net.py", "tests/unit/deep/test_net.py", "from pkg.net import Net"),
    "tests as a package": ("pkg/net.py", "tests/test_net.py", "from pkg.net import Net"),
    "src": ("src/pkg/net.py", "tests/test_net.py", "from pkg.net import Net"),
    "beside src": ("src/pkg/net.py", "cases.py", "from pkg.net import Net"),
    "in the package": ("pkg/net.py", "pkg/cases.py", "from .net import Net"),
    "tests in the package": ("pkg/net.py", "pkg/tests/test_net.py", "from pkg.net import Net"),
    "through the package": ("pkg/net.py", "tests/test_net.py", "from pkg import Net"),
    "beside it": ("net.py", "cases.py", "from net import Net"),
}


@pytest.fixture(params=CASES)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A model and its case, each in a file of its own."""
    model, case = (tmp_path / "repo" / name for name in CASES[request.param][:2])
    for file in (model, case):
        file.parent.mkdir(parents=True, exist_ok=True)
    if model.parent.name == "pkg":
        (model.parent / "__init__.py").write_text("from .net import Net\n")
    if request.param == "tests as a package":
        (case.parent / "__init__.py").touch()
    model.write_text("import torch\nfrom torch import nn\n" + NET)
    case.write_text(f"{HEAD}{CASES[request.param][2]}\n{VARIES['class']}\n")
    return model, case


def test_a_case_in_another_file_counts_whichever_files_are_named_and_whatever_is_kept(
    project: tuple[Path, Path], tmp_path: Path
) -> None:
    model, case = project
    expected = ["net.py:11"]
    assert linted(model) == expected
    assert linted(tmp_path / "repo") == expected
    assert linted(case) == []
    cache = tmp_path / "cache"
    for paths in ((model,), (tmp_path / "repo",), (model,), (case,), (model, case)):
        assert linted(*paths, cache=cache) == (expected if paths != (case,) else [])
    case.write_text(case.read_text().replace("{0: Dim.DYNAMIC}", "{1: Dim.DYNAMIC}"))
    assert linted(model, cache=cache) == linted(tmp_path / "repo", cache=cache) == linted(model) == []
    case.write_text(case.read_text().replace("{1: Dim.DYNAMIC}", "{0: Dim.DYNAMIC}"))
    assert linted(tmp_path / "repo", cache=cache) == linted(model, cache=cache) == expected
    case.unlink()
    assert linted(model, cache=cache) == linted(tmp_path / "repo", cache=cache) == []


def test_a_case_that_comes_later_is_seen_by_a_warm_cache(tmp_path: Path) -> None:
    model, cache = tmp_path / "net.py", tmp_path / "cache"
    model.write_text("import torch\nfrom torch import nn\n" + NET)
    assert linted(model, cache=cache) == []
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_net.py").write_text(f"{HEAD}from net import Net\n{VARIES['class']}\n")
    assert linted(model, cache=cache) == ["net.py:11"]


def test_a_case_that_takes_too_long_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from exportlint.source import interpreter

    file = tmp_path / "model.py"
    file.write_text(HEAD + NET + VARIES["class"] + "\n")
    monkeypatch.setattr(interpreter, "_STEPS", 3)
    words = [left_out.words for left_out in examine([file], Options()).unanalysed]
    assert "the case in line 20 was not analysed: it takes more steps than the analysis may" in words


SIZED = """
import torch
from elsewhere import WIDE
from torch import nn
from torch.export import Dim

class Net(nn.Module):
    def forward(self, x, batch):
        {body}

def build(): return Net()
def inputs(): return (torch.ones(3, 4), {{"ids": torch.ones(5, 4)}})
DYNAMIC_SHAPES = {shapes}
"""
ALL_VARY = '{"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, "batch": {"ids": {0: Dim.DYNAMIC}}}'


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        ("return x * int(x.shape[0] * 1.5)", ("x.shape[0]",)),
        ("n = x.shape[0] * x.shape[1]; return x * int(n * 1.5)", ("x.shape[0]", "x.shape[1]")),
        ("n = x.shape[0] if WIDE else x.shape[1]; return x * int(n * 1.5)", ("x.shape[0]", "x.shape[1]")),
        ("n = x.shape[0] if WIDE else x.shape[0]; return x * int(n * 1.5)", ("x.shape[0]",)),
        ('return x * int(batch["ids"].shape[0] * 1.5)', ("batch['ids'].shape[0]",)),
        ("return x.relu() * int(x.relu().shape[0] * 1.5)", ("x.shape[0]",)),
        ("return x * int(x.nonzero().shape[1] * x.shape[0] * 1.5)", ()),
        ("return x * 2 if x.shape[0] > 7 else x", ("x.shape[0]",)),
        ("return sum(x[i] for i in range(x.shape[0]))", ("x.shape[0]",)),
    ],
)
def test_a_prediction_about_sizes_names_those_of_the_inputs_that_it_comes_from(tmp_path, body, sizes):
    path = tmp_path / "m.py"
    path.write_text(SIZED.format(body=body, shapes=ALL_VARY), encoding="utf-8")
    assert [p.sizes for p in examine([path], Options()).predictions if p.rule.code == "EXP301"] == [sizes]
