"""What the configuration tells the linter: entry points, annotations that mean a tensor, the release of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exportlint.rules.examples import example
from exportlint.source.engine import Options, examine, examine_text, lint

if TYPE_CHECKING:
    from pathlib import Path

FUNCTIONS = """import torch

def score(x: torch.Tensor):
    return x if x.sum() > 0 else -x

def other(x: torch.Tensor):
    return x if x.sum() > 0 else -x
"""
METHODS = """import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(3)

    def encode(self, x: torch.Tensor):
        return x * self.scale if x.sum() > 0 else -x

    @staticmethod
    def decode(x: torch.Tensor):
        return x if x.sum() > 0 else -x

class Plain:
    def encode(self, x: torch.Tensor):
        return x if x.sum() > 0 else -x
"""


def found(tmp_path: Path, text: str, **options: object) -> list[tuple[str, int]]:
    file = tmp_path / "model.py"
    file.write_text(text, encoding="utf-8")
    return [(p.rule.code, p.range.line) for p in lint([file], Options(**options))]


def test_a_function_that_is_an_entry_point_is_captured(tmp_path: Path) -> None:
    assert found(tmp_path, FUNCTIONS) == []
    assert found(tmp_path, FUNCTIONS, entry_points=frozenset({"model.score"})) == [("EXP101", 4)]
    assert found(tmp_path, FUNCTIONS, entry_points=frozenset({"model.*"})) == [("EXP101", 4), ("EXP101", 7)]
    assert found(tmp_path, FUNCTIONS, entry_points=frozenset({"other.score"})) == []


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("model.Net.encode", [("EXP203", 7), ("EXP101", 10)]),
        ("model.Net.decode", [("EXP101", 14)]),
        ("model.Plain.encode", [("EXP101", 18)]),
        ("*.encode", [("EXP203", 7), ("EXP101", 10), ("EXP101", 18)]),
    ],
)
def test_a_method_that_is_an_entry_point_is_captured(tmp_path: Path, name: str, lines: list[tuple[str, int]]) -> None:
    assert found(tmp_path, METHODS) == []
    assert found(tmp_path, METHODS, entry_points=frozenset({name})) == lines


def test_a_package_is_part_of_the_name(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "scores.py").write_text(FUNCTIONS)
    options = Options(entry_points=frozenset({"pkg.scores.score"}))
    assert [p.range.line for p in lint([package], options)] == [4]


TYPED = """import numpy.typing as npt
from torch import nn
{above}

class Net(nn.Module):
    def forward(self, x: {annotation}):
        if x:
            return 1
        return 0
"""


@pytest.mark.parametrize(
    ("above", "annotation", "name"),
    [
        ("from jaxtyping import Float, Array", 'Float[Array, "b n"]', "jaxtyping.Float"),
        ("import jaxtyping as jt", "jt.Float[jt.Array, 'b n']", "jaxtyping.Float"),
        ("Image = object", "Image", "model.Image"),
        ("class Image: ...", "'Image'", "model.Image"),
        ("class Image: ...", "Image | None", "model.Image"),
    ],
)
def test_annotations_that_mean_a_tensor(tmp_path: Path, above: str, annotation: str, name: str) -> None:
    text = TYPED.format(above=above, annotation=annotation)
    assert found(tmp_path, text) == []
    assert [code for code, _ in found(tmp_path, text, tensor_types=frozenset({name}))] == ["EXP101"]
    assert found(tmp_path, text, tensor_types=frozenset({"other.Image"})) == []


@pytest.mark.parametrize(("release", "severities"), [(None, ["error"]), ((2, 13), ["error"]), ((2, 14), [])])
def test_what_a_release_of_torch_no_longer_does_is_left_out(
    tmp_path: Path, release: tuple[int, int] | None, severities: list[str]
) -> None:
    file = tmp_path / "model.py"
    file.write_text(example("def forward(self, x):\n    return pow(x, 2)"))  # traced by torch.compile from 2.14 on
    found = lint([file], Options(modes=("compile",), torch_version=release))
    assert [p.severity for p in found] == severities


def test_text_is_linted_in_place_of_a_file(tmp_path: Path) -> None:
    branch = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")
    (tmp_path / "helper.py").write_text("def positive(x):\n    return x.sum() > 0\n")
    uses = branch.replace("x.sum() > 0", "positive(x)").replace(
        "import torch", "import torch\nfrom helper import positive"
    )
    for name in ("model.py", "nowhere.py"):
        (tmp_path / "model.py").write_text("x = 1\n")
        (p,) = examine_text(tmp_path / name, uses.encode(), Options()).predictions
        assert (p.rule.code, p.path) == ("EXP101", tmp_path / name)
    assert examine([tmp_path / "model.py"], Options()).predictions == ()
    (broken,) = examine_text(tmp_path / "model.py", b"x = (", Options()).predictions
    assert broken.rule.code == "EXP001"
