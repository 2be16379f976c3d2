from __future__ import annotations

from pathlib import Path

import pytest
import torch
from forking import in_fork
from torch import nn


class Follows(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 3)
        self.out.bias = nn.Parameter(self.out.weight[0].clone())

    def steps(self, x):
        return torch.arange(x.shape[1], device=x.device)  # helper

    def forward(self, x):
        scale = torch.full((), 2.0, device=x.device)
        if torch.compiler.is_exporting():
            x = x + torch.zeros(x.shape[1], device=x.device)  # exporting
        return self.out(x) * scale + self.steps(x)


class Literal(Follows):
    def forward(self, x):
        return super().forward(x) + torch.ones(3, device="cpu")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(3, 3), nn.GRU(3, 3, batch_first=True)

    def forward(self, x):
        return self.lstm(x[:, 0])[0], self.gru(x)[0]


def line_of(marker):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))


def baked(kind, twin=False):
    from exportlint.devices.provenance import Provenance
    from exportlint.devices.twin import baked_places, export_on_second

    x = torch.ones(2, 3)
    with torch.no_grad(), Provenance("cpu") as watched:
        kind()(x)
    program = torch.export.export(kind(), (x,))
    there = export_on_second(kind(), (x,), {}) if twin else None
    return [place.line for place in baked_places(program, watched.calls, there)]


def test_lines_that_follow_and_are_baked():
    assert baked(Follows) == [line_of("helper")]
    assert baked(Literal) == [line_of("helper")]


def test_the_twin_tells_of_lines_that_only_run_under_capture():
    assert in_fork(baked, Follows, True) == [line_of("exporting"), line_of("helper")]


def test_a_program_of_the_second_device():
    def export():
        from exportlint.devices.twin import export_on_second

        program = export_on_second(Follows(), (torch.ones(2, 3),), {})
        devices = {str(d) for n in program.graph.nodes for d in n.kwargs.values() if isinstance(d, torch.device)}
        assert devices == {"second:0"}
        assert {str(n.meta["val"].device) for n in program.graph.nodes if "val" in n.meta} == {"second:0"}
        tied = export_on_second(Tied(), (torch.ones(2, 3),), {})
        assert len(tied.state_dict) == 4
        assert tied.state_dict["a.weight"] is tied.state_dict["b.weight"]
        cells = export_on_second(Cells(), (torch.ones(2, 4, 3),), {})
        assert {str(n.meta["val"].device) for n in cells.graph.nodes if n.op == "placeholder"} == {"second:0"}

    in_fork(export)


def test_a_literal_cannot_be_exported_there():
    def export():
        from exportlint.devices import second_device
        from exportlint.devices.provenance import Provenance
        from exportlint.devices.twin import export_on_second

        second_device()
        with (
            Provenance("second", births=False) as watched,
            pytest.raises(RuntimeError, match=r"two (different )?devices"),
        ):
            export_on_second(Literal(), (torch.ones(2, 3),), {})
        return watched.blamed.call, watched.blamed.label

    assert in_fork(export) == ["torch.ones", "literal"]
