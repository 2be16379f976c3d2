"""What the parameters of a forward are that no model case calls: lists and dictionaries that are defaults."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path


def codes(tmp_path: Path, parameter: str, body: str) -> list[str]:
    """The rules that hold in a forward with this parameter and these statements."""
    head = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n"
    text = f"def forward(self, x: torch.Tensor, {parameter}):\n{textwrap.indent(body, '    ')}\n"
    (tmp_path / "net.py").write_text(head + textwrap.indent(text, "    "), encoding="utf-8")
    return [p.rule.code for p in lint([tmp_path / "net.py"], Options())]


@pytest.mark.parametrize(
    ("parameter", "body"),
    [
        ("seen=[]", "seen.append(1)\nreturn x * len(seen)"),
        ("seen: list = []", "seen.append(1)\nreturn x * len(seen)"),
        ("seen: list[torch.Tensor] = []", "seen.append(x)\nreturn x * len(seen)"),
        ("*, seen={}", "seen['n'] = seen.get('n', 0) + 1\nreturn x * seen['n']"),
    ],
)
def test_a_default_that_grows_is_state(tmp_path: Path, parameter: str, body: str) -> None:
    assert codes(tmp_path, parameter, body) == ["EXP501"]


@pytest.mark.parametrize(
    ("parameter", "body"),
    [
        ("states=[]", "for state in states:\n    x = x + state\nif states:\n    x = x * 2\nreturn x"),
        ("states=()", "for state in states:\n    x = x + state\nreturn x * len(states)"),
        ("options={}", "return nn.functional.softmax(x, **options) * options.get('k', 2)"),
        ("found={}", "found['x'] = x * 2\nreturn found['x']"),
        ("seen=[]", "seen = list(seen)\nseen.append(x)\nreturn x * len(seen)"),
        ("seen=None", "seen = [] if seen is None else seen\nseen.append(x)\nreturn x * len(seen)"),
        ("seen=[]", "seen.append(1)\nreturn x * 2"),
    ],
)
def test_a_default_that_no_later_call_reads_is_none(tmp_path: Path, parameter: str, body: str) -> None:
    assert codes(tmp_path, parameter, body) == []
