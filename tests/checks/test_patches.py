"""Patches for lines of libraries: proposed where they help, pasted as they stand, and taken back."""

from __future__ import annotations

import importlib
import re
import sys

import pytest
from forking import in_fork

LIBRARY = """
import torch
from torch import nn


def positions(x, n):
    return torch.arange(n) + 1.5  # helper


def table(n, width):
    return torch.ones(n, width)  # nothing at hand


class Base(nn.Module):
    def forward(self, x):
        return x * torch.zeros(
            x.shape[-1],
            dtype=x.dtype,
        ) + 1  # several lines


class Layer(Base):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return super().forward(x) + torch.ones(4)  # method

    @property
    def scale(self):
        return torch.full((4,), 3.0, device="cpu") * self.weight  # literal

    def closed(self, x):
        def inner():
            return torch.arange(4) * x  # closure

        return inner()
"""

USES = {
    "helper": "return x + self.lib.positions(x, 4)",
    "method": "return self.layer(x)",
    "literal": "return x * self.layer.scale",
    "closure": "return self.layer.closed(x)",
    "nothing at hand": "return x * self.lib.table(2, 4)",
}
HEAD = """
import torch
from torch import nn
import strayed_library
class M(nn.Module):
    lib = strayed_library
    def __init__(self):
        super().__init__()
        self.layer = self.lib.Layer()
    def forward(self, x):
"""


def line_of(marker):
    return next(n for n, line in enumerate(LIBRARY.splitlines(), 1) if line.endswith(f"# {marker}"))


def look(folder, use):
    """What the check finds, what it proposes, and what it finds under each patch as it is pasted, and after."""
    import torch

    import exportlint
    from exportlint.checks.context import Context, Settings
    from exportlint.checks.device import check as device

    library = folder / "site-packages" / "strayed_library"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(LIBRARY)
    (folder / "uses_it.py").write_text(f"{HEAD}        {USES[use]}\n")
    sys.path[:0] = [str(folder), str(library.parent)]
    case = exportlint.ModelCase(importlib.import_module("uses_it").M, args=(torch.ones(2, 4),))

    def check():
        result = device.run(Context(case, Settings(("device",)), lambda _: None))
        return [(f.rule, f.line, f.rewrite) for f in result.findings if f.counts]

    found = check()
    pasted = [re.search(r"with (exportlint\.patched\(.*\)):$", rewrite) for _, _, rewrite in found]
    under = []
    for paste in filter(None, pasted):
        with eval(paste[1], {"exportlint": exportlint}):
            under.append([line for _, line, _ in check()])
    return found, under, check() == found


@pytest.mark.parametrize(
    ("use", "lines", "left"),
    [
        ("helper", ["helper"], [[]]),
        ("method", ["several lines", "method"], [["method"], ["several lines"]]),
        ("literal", ["literal"], [[]]),
        ("closure", ["closure"], [[]]),
    ],
)
def test_a_patch_that_is_pasted_mends_its_line(tmp_path, use, lines, left):
    found, under, restored = in_fork(look, tmp_path, use, seconds=120)
    at = {line_of(marker): marker for marker in lines}
    at[line_of("several lines") - 3] = "several lines"  # a call is known by its first line
    assert [at.get(line) for _, line, _ in found] == lines, found
    assert [[at.get(line) for line in each] for each in under] == left, found
    assert restored


def test_nothing_is_proposed_where_no_tensor_is_at_hand(tmp_path):
    found, under, _ = in_fork(look, tmp_path, "nothing at hand", seconds=120)
    assert [(rule, line) for rule, line, _ in found] == [("EXP202", line_of("nothing at hand"))]
    assert under == []
    assert found[0][2] == "Pass the device of a tensor at hand: device=x.device, or use x.new_zeros and its like."
