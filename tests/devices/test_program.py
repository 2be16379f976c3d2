"""Programs in canonical form: equal where they compute the same, unlike at the line where they part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from exportlint.devices.program import _value, canonical, unlike


def line_of(marker):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))


class Plain(nn.Module):
    def forward(self, x):
        y = x * 2
        return y.sum(1) + torch.tensor([1.0, 2.0])


class LaidOut(nn.Module):
    def forward(self, x):
        x.exp()
        doubled = x.contiguous() * 2
        return doubled.clone().sum(1) + torch.tensor([1.0, 2.0])


class Moved(nn.Module):
    def forward(self, x):
        y = x.to("cpu") * 2
        return y.sum(1) + torch.tensor([1.0, 2.0]).to(x.device)


class Cast(nn.Module):
    def forward(self, x):
        y = (x * 2).to("cpu", torch.float64)
        return y.sum(1).float() + torch.tensor([1.0, 2.0])


class OtherNumber(nn.Module):
    def forward(self, x):
        y = x * 3  # number
        return y.sum(1) + torch.tensor([1.0, 2.0])


class OtherConstant(nn.Module):
    def forward(self, x):
        y = x * 2
        return y.sum(1) + torch.tensor([1.0, 3.0])  # constant


class OtherOperator(nn.Module):
    def forward(self, x):
        y = x * 2
        return y.amax(1) + torch.tensor([1.0, 2.0])  # operator


class Swapped(nn.Module):
    def forward(self, x):
        y = x * 2
        return torch.tensor([1.0, 2.0]) + y.sum(1)  # order


class Nested(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda t: t * self.number, lambda t: t - 1, (x,))  # branch


def steps(model, dynamic=False):
    shapes = ({0: torch.export.Dim.DYNAMIC},) if dynamic else None
    with torch.no_grad():
        return canonical(torch.export.export(model, (torch.ones(2, 3),), dynamic_shapes=shapes))


def test_moves_to_a_device_do_not_matter_and_casts_do():
    assert unlike(steps(Plain()), steps(Moved())) is None
    assert unlike(steps(Plain()), steps(Cast())) is not None


def test_layout_names_and_dead_code_do_not_matter():
    assert unlike(steps(Plain()), steps(LaidOut())) is None


@pytest.mark.parametrize(
    ("other", "line", "words"),
    [
        (OtherNumber, "number", "aten.mul.Tensor has other arguments"),
        (OtherConstant, "constant", "aten.add.Tensor has other arguments"),
        (OtherOperator, "operator", "aten.sum.dim_IntList in one program, aten.amax.default in the other"),
        (Swapped, "order", "aten.add.Tensor has other arguments"),
    ],
)
def test_where_two_programs_part(other, line, words):
    parting = unlike(steps(other()), steps(Plain()))
    forwards = unlike(steps(Plain()), steps(other()))
    assert parting.place.line == line_of(line)
    assert forwards.words == words


def test_nested_graphs_are_compared():
    assert unlike(steps(Nested(2)), steps(Nested(2))) is None
    parting = unlike(steps(Nested(2)), steps(Nested(3)))
    assert parting.words == "aten.mul.Tensor has other arguments"
    assert parting.place.line == line_of("branch")


def test_a_layer_more_is_in_one_program_only():
    class Longer(Plain):
        def forward(self, x):
            return super().forward(x) + 1

    parting = unlike(steps(Longer()), steps(Plain()))
    assert (parting.theirs, parting.words) == (None, "aten.add.Tensor in one program, nothing in the other")


class Buffers(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.register_buffer("a", torch.ones(3))
        self.register_buffer("b", torch.ones(3))
        self.used = (first, second)

    def forward(self, x):
        first, second = (getattr(self, name) for name in self.used)
        first.add_(1)
        return x + second


def test_writes_into_buffers_are_no_dead_code():
    assert unlike(steps(Buffers("a", "b")), steps(Buffers("a", "b"))) is None
    assert unlike(steps(Buffers("a", "b")), steps(Buffers("b", "a"))) is not None
    assert "aten.add_.Tensor" in [step.operator for step in steps(Buffers("a", "b"))]


def test_dynamic_sizes_are_no_constants():
    class Sized(nn.Module):
        def forward(self, x):
            return x + torch.arange(x.shape[0])[:, None]

    assert unlike(steps(Sized(), dynamic=True), steps(Sized(), dynamic=True)) is None
    assert unlike(steps(Sized(), dynamic=True), steps(Sized())) is not None


def test_constants_are_told_apart_without_numpy(monkeypatch):
    """torch does without it, and an installation may lack it."""

    def lacks(*_: object, **__: object) -> None:
        raise RuntimeError("Numpy is not available")

    monkeypatch.setattr(torch.Tensor, "numpy", lacks)
    assert _value(torch.tensor([1.0, 2.0])) == _value(torch.tensor([1.0, 2.0]))
    assert _value(torch.tensor([1.0, 2.0])) != _value(torch.tensor([1.0, 3.0]))
    assert _value(torch.empty(0)) == _value(torch.empty(0))
