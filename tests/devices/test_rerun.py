"""Programs on the second device: moved there, exported there, saved, and loaded by another process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from forking import in_fork
from torch import nn

X = torch.linspace(0.1, 1, 8).view(2, 4)


def line_of(marker):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))


class Follows(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.again = nn.Linear(4, 4)
        self.again.weight = self.layer.weight
        self.register_buffer("steps", torch.zeros(4))
        self.register_buffer("table", torch.ones(4), persistent=False)

    def forward(self, x):
        self.steps.add_(1)
        made = torch.arange(4, device=x.device) + torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device)
        return torch.cond(x.sum() > 0, lambda t: self.again(self.layer(t)), lambda t: t * 2, (x,)) + made * self.table


class Casts(Follows):
    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return self.layer(x)  # cast


class Moves(Follows):
    def forward(self, x):
        return x.to(x.device, torch.float64) + x.new_ones(4, device=x.device)


def programs(kind):
    """The program moved to the second device, and the one exported there."""
    from exportlint.devices import export_on_second, rerun

    with torch.no_grad():
        return {
            "moved": rerun.move(torch.export.export(kind(), (X,))),
            "exported": export_on_second(kind(), (X,)),
            "exported, strict": export_on_second(kind(), (X,), strict=True),
        }


def result(program):
    from exportlint.devices import policy, second_device, to_cpu, to_second

    with torch.no_grad(), policy("raise"):
        there = program.module()(to_second(X))
    assert there.device == second_device()
    return to_cpu(there)


@pytest.mark.parametrize("kind", [Follows, Moves])
def test_programs_are_saved_and_loaded_by_another_process(kind, tmp_path):
    def save():
        for how, program in programs(kind).items():
            torch.testing.assert_close(result(program), kind()(X).detach())
            torch.export.save(program, tmp_path / f"{how}.pt2")

    def load():
        from exportlint.devices import second_device

        second_device()
        found = {}
        for file in sorted(tmp_path.glob("*.pt2")):
            program = torch.export.load(file)
            # a constant may be of the CPU: torch 2.11 moves it by a node of the program
            buffers = [program.constants[n] for n in program.graph_signature.non_persistent_buffers]
            found[file.stem] = {t.device.type for t in (*program.state_dict.values(), *buffers)}
            assert all(isinstance(program.state_dict[n], nn.Parameter) for n in program.graph_signature.parameters)
            torch.testing.assert_close(result(program), kind()(X).detach())
        return {how: sorted(types) for how, types in found.items()}

    in_fork(save)
    assert in_fork(load) == {how: ["second"] for how in ("exported", "exported, strict", "moved")}


def test_a_program_of_the_second_device_is_not_loaded_without_it(tmp_path):
    def save():
        torch.export.save(programs(Moves)["exported"], tmp_path / "program.pt2")

    def load():
        with pytest.raises(RuntimeError, match="deserializing"):
            torch.export.load(tmp_path / "program.pt2")

    in_fork(save)
    in_fork(load)


def test_what_the_pass_leaves_behind_is_named():
    def left():
        from exportlint.devices import rerun

        return {
            kind.__name__: [(what, place and place.line) for what, place in rerun.left_behind(programs(kind)["moved"])]
            for kind in (Follows, Moves, Casts)
        }

    region = ["the autocast region", line_of("cast")]
    assert in_fork(left) == {"Follows": [], "Moves": [], "Casts": [region]}
