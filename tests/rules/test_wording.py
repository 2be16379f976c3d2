"""What a finding says, where it says more than its rule does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exportlint.rules import catalogue
from exportlint.rules.examples import example
from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.findings import Mode
    from exportlint.source.engine import Prediction


def only(tmp_path: Path, forward: str, init: str = "", above: str = "", mode: Mode = "export") -> Prediction:
    """The one finding of a file."""
    file = tmp_path / "model.py"
    file.write_text(example(forward, init=init, above=above), encoding="utf-8")
    (found,) = lint([file], Options(modes=(mode,)))
    return found


def result(expression: str) -> str:
    return f"def forward(self, x):\n    return {expression}"


@pytest.mark.parametrize(
    ("expression", "rewrite"),
    [
        ("x.cuda() + 1", "Move it to the device of a tensor at hand: .to(x.device) instead of .cuda()."),
        ("x + x.sum(0).cpu()", "Move it to the device of a tensor at hand: .to(x.device) instead of .cpu()."),
        ('x.to("cuda:0") + 1', 'Move it to the device of a tensor at hand: .to(x.device) instead of .to("cuda:0").'),
        ('x + torch.zeros(4, device="cpu")', "Take the device from a tensor at hand: device=x.device."),
    ],
)
def test_the_rewrite_of_a_literal_device_fits_its_spelling(tmp_path: Path, expression: str, rewrite: str) -> None:
    found = only(tmp_path, result(expression))
    assert (found.rule.code, found.rewrite) == ("EXP201", rewrite)


def test_the_rewrite_of_numpy_is_to_stay_in_torch(tmp_path: Path) -> None:
    found = only(tmp_path, result("torch.from_numpy(x.detach().numpy()) + 1"))
    assert (found.rule.code, found.rewrite) == (
        "EXP401",
        "Leave out .numpy() and compute with torch on the tensor.",
    )


def test_output_is_refused_by_a_whole_graph_only(tmp_path: Path) -> None:
    found = only(tmp_path, "def forward(self, x):\n    print(x.shape)\n    return x", mode="compile")
    assert found.message.endswith("torch.compile(fullgraph=True) refuses that")
    assert "fullgraph=True" in catalogue()["EXP403"].page


@pytest.mark.parametrize("code", ["EXP201", "EXP202", "EXP203"])
def test_the_page_says_why_compile_is_fine(code: str) -> None:
    assert "torch.compile" in catalogue()[code].page
    assert "anew on the device at hand" in " ".join(catalogue()[code].page.split())


@pytest.mark.parametrize(
    "change",
    [
        "self.calls += 1",
        "self.calls = self.calls + 1",
        "self.calls = 1 + self.calls  # n",
        "self.calls += 1\n    if self.calls > 9:\n        log.info('%d', self.calls)",
        "self.calls += 1\n    if self.calls > 9:\n        self.log.debug(\n            'n'\n        )",
        "self.calls += 1\n    if self.calls > 9:\n        print(self.calls)",
    ],
)
def test_a_counter_that_nothing_reads_is_advice(tmp_path: Path, change: str) -> None:
    found = only(tmp_path, f"def forward(self, x):\n    {change}\n    return x", init="self.calls = 0")
    assert (found.severity, found.variant) == ("info", "unread counter")


@pytest.mark.parametrize(
    "forward",
    [
        "def forward(self, x):\n    self.calls += 1\n    return x * self.calls",
        "def forward(self, x):\n    self.calls += 1\n    return x\n\ndef seen(self):\n    return self.calls",
        "def forward(self, x):\n    self.calls += 1\n    return x * getattr(self, 'calls')",
        "def forward(self, x):\n    self.calls = n = self.calls + 1\n    return x * n",
        "def forward(self, x):\n    self.calls += 1; x = x * self.calls\n    return x",
        "def forward(self, x):\n    self.calls = self.calls + self.step()\n    return x\ndef step(self):\n    return 1",
    ],
)
def test_a_counter_that_something_reads_is_an_error(tmp_path: Path, forward: str) -> None:
    found = only(tmp_path, forward, init="self.calls = 0")
    assert (found.severity, found.variant) == ("error", "")


COUNTER = """
import torch
from torch import nn

class Base(nn.Module):
    def seen(self):
        return {base}

class Net(Base):
    calls = 0
    def forward(self, x: torch.Tensor):
        {change}
        return x + 1

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
    def forward(self, x: torch.Tensor):
        return {other}
{after}
"""


@pytest.mark.parametrize(
    "change", ["self.calls += 1", "Net.calls += 1", "type(self).calls += 1", "self.__class__.calls += 1"]
)
@pytest.mark.parametrize(
    ("base", "other", "after", "severity"),
    [
        ("0", "x + self.calls", "", "info"),
        ("0", "x", "class Own(Other):\n    def seen(self):\n        return self.calls", "info"),
        ("self.calls", "x", "", "error"),
        ("0", "x + Net.calls", "", "error"),
        ("0", "x + self.net.calls", "", "error"),
        ("0", "x", "class Own(Net):\n    def seen(self):\n        return self.calls", "error"),
        ("0", "x", "def seen(net):\n    return net.calls", "error"),
        ("0", "x", "def seen(self):\n    return self.calls\nNet.seen = seen", "error"),
    ],
)
def test_what_another_class_reads_of_itself_is_not_the_counter(  # the name alone says little
    tmp_path: Path, change: str, base: str, other: str, after: str, severity: str
) -> None:
    text = COUNTER.format(change=change, base=base, other=other, after=after)
    (tmp_path / "net.py").write_text(text, encoding="utf-8")
    found = [p for p in lint([tmp_path], Options()) if p.rule.code == "EXP501"]
    assert [(p.severity, p.range.line) for p in found] == [(severity, 12)]


@pytest.mark.parametrize(
    ("forward", "rewrite"),
    [
        (
            "def forward(self, x):\n    return x + torch.arange(4)",
            "Pass the device of a tensor at hand: device=x.device",
        ),
        (
            "def forward(self, hidden):\n    return hidden + torch.arange(4)",
            "Pass the device of a tensor at hand: device=hidden.device, or use hidden.new_zeros and its like.",
        ),
        (
            "def forward(self, hidden):\n    return hidden + torch.zeros(4, device='cpu')",
            "Take the device from a tensor at hand: device=hidden.device.",
        ),
        (
            "def forward(self, hidden):\n    return hidden + hidden.sum(0).cpu()",
            "Move it to the device of a tensor at hand: .to(hidden.device) instead of .cpu().",
        ),
        (
            "def forward(self, h):\n    return self.add(h)\n\ndef add(self, rows):\n    return rows + torch.ones(4)",
            "Pass the device of a tensor at hand: device=rows.device, or use rows.new_zeros and its like.",
        ),
        (
            "def forward(self, x):\n    return x + torch.from_numpy(TABLE)",
            "Move it to the device of a tensor at hand: .to(x.device).",
        ),
        (
            "def forward(self, x):\n    return x + self.steps(4)\n\ndef steps(self, n):\n    return torch.arange(n)",
            "Give `steps` a device, or a tensor to take it from: nothing at hand there says one.",
        ),
        (
            "def forward(self, x):\n    return x * 2 if x.max().item() > 3 else x",
            "Keep the number in its tensor, and choose by torch.where",
        ),
    ],
)
def test_a_rewrite_fits_where_it_stands(tmp_path: Path, forward: str, rewrite: str) -> None:
    assert only(tmp_path, forward, above="import numpy as np\n\nTABLE = np.ones(4)").rewrite.startswith(rewrite)


CAST = "; a buffer of floats is also cast by .to(dtype), as the plain tensor was not."


@pytest.mark.parametrize(
    ("kept", "init", "above", "words", "rewrite"),
    [
        ("self.t", "self.t = torch.ones(4)", "", "`self.t` is a plain tensor", 'Register it: self.register_buffer("t"'),
        ("T", "", "T = torch.ones(4)", "`T` is a plain tensor", 'Register it: self.register_buffer("T"'),
        (
            "T['a']",
            "",
            "T = {'a': torch.ones(4)}",
            "the global container `T` holds a plain tensor",
            "Make the tensors where they are used, on the device of the inputs, or keep them in buffers",
        ),
        (
            "self.t[0]",
            "self.t = [torch.ones(4)]",
            "",
            "the container `self.t` holds a plain tensor",
            'Register each tensor: self.register_buffer(f"t_{i}"',
        ),
    ],
)
def test_what_is_outside_of_the_state_is_called_what_it_is(
    tmp_path: Path, kept: str, init: str, above: str, words: str, rewrite: str
) -> None:
    found = only(tmp_path, result(f"x * {kept}"), init=init, above=above)
    assert found.message.startswith(f"{words}, which .to() does not move")
    assert found.rewrite.startswith(rewrite)
    assert found.rewrite.endswith(CAST)


def test_a_distance_is_told_which_way_to_compute(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    text = example(result("torch.cdist(x, x)"), inputs="torch.ones(3, 4)", inputs2="torch.ones(5, 4)")
    file.write_text(text, encoding="utf-8")
    (found,) = lint([file], Options())
    assert found.rule.code == "EXP301"
    assert found.rewrite.startswith('Choose one way to compute: compute_mode="use_mm_for_euclid_dist"')
