"""Where what decides came from: through variables, loops and callers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

NET = """
import torch
from torch import nn
from helpers import pad


class Net(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor, flag=True):
"""
HELPERS = """
def pad(x, sizes, side="left"):
    wanted = sizes.max()
    if wanted > 4:
        return x
    return -x
"""


def paths(tmp_path: Path, body: str) -> list[list[tuple[str, str, str]]]:
    """Of each finding the steps: the file, the text of the line, and the words."""
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")
    file = tmp_path / "net.py"
    file.write_text(NET + textwrap.indent(textwrap.dedent(body), " " * 8), encoding="utf-8")
    found = lint([tmp_path], Options())
    return [[(p.name, p.read_text().splitlines()[n - 1].strip(), words) for p, n, words in f.origins] for f in found]


def words(tmp_path: Path, body: str) -> list[str]:
    """The words of the steps of the one finding."""
    ((*steps,),) = paths(tmp_path, body)
    for _, line, text in steps:
        assert text.split("`")[3].partition("...")[0] in line
    return [text for *_, text in steps]


def test_what_stands_in_the_place_itself_needs_no_steps(tmp_path: Path) -> None:
    assert words(tmp_path, "if x.sum() > 0:\n    return x\nreturn -x") == []


def test_variables_are_followed_to_the_first(tmp_path: Path) -> None:
    body = "lengths = mask.sum(1)\nlongest = lengths.max()\nwide = x.shape[1]\nif longest > 3:\n    return x\nreturn -x"
    assert words(tmp_path, body) == ["`lengths` comes from `mask.sum(1)`", "`longest` comes from `lengths.max()`"]


def test_the_variable_that_holds_no_tensor_is_passed_over(tmp_path: Path) -> None:
    body = "limit = 3\ncount = mask.sum()\nif limit < count:\n    return x\nreturn -x"
    assert words(tmp_path, body) == ["`count` comes from `mask.sum()`"]


def test_of_several_bindings_the_last_one_above_counts(tmp_path: Path) -> None:
    body = "n = x.sum()\nn = mask.sum()\nif n > 3:\n    n = x.max()\n    return x * n\nreturn -x"
    assert words(tmp_path, body) == ["`n` comes from `mask.sum()`"]


@pytest.mark.parametrize(
    ("bound", "step"),
    [
        ("a, n = x.max(), mask.sum()", "`n` comes from `x.max(), mask.sum()`"),
        ("for n in mask.sum(1).unbind():\n    pass", "`n` is an element of `mask.sum(1).unbind()`"),
        ("n: torch.Tensor = mask.sum()", "`n` comes from `mask.sum()`"),
        ("print(n := mask.sum())", "`n` comes from `mask.sum()`"),
    ],
)
def test_ways_to_bind(tmp_path: Path, bound: str, step: str) -> None:
    assert step in words(tmp_path, f"{bound}\nif n > 3:\n    return x\nreturn -x")[-1]


@pytest.mark.parametrize("call", ["pad(x, lengths)", "pad(x, sizes=lengths)"])
def test_callers_are_followed_across_files(tmp_path: Path, call: str) -> None:
    (steps,) = paths(tmp_path, f"lengths = mask.sum(1)\nreturn {call}")
    assert steps == [
        ("net.py", "lengths = mask.sum(1)", "`lengths` comes from `mask.sum(1)`"),
        ("net.py", f"return {call}", "`sizes` is given `lengths`"),
        ("helpers.py", "wanted = sizes.max()", "`wanted` comes from `sizes.max()`"),
    ]


def test_a_call_that_spreads_its_arguments_ends_the_way(tmp_path: Path) -> None:
    (steps,) = paths(tmp_path, "given = (x, mask.sum(1))\nreturn pad(*given)")
    assert [text for *_, text in steps] == ["`wanted` comes from `sizes.max()`"]


def test_a_variable_that_follows_from_itself_ends(tmp_path: Path) -> None:
    body = "n = mask.sum()\nfor i in range(3):\n    n = n + i\nwhile n > 3:\n    n = n - 1\nreturn x * n"
    found = words(tmp_path, body)
    assert found[-1] == "`n` comes from `n + i`"
    assert len(found) <= 6
