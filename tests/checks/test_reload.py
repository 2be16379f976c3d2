"""Where a program that was saved and loaded parts from itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exportlint.checks import loader, reload
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.drop = nn.LayerNorm(8), nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x):
        return x + self.drop(torch.relu(self.up(self.norm(x))))  # of the block


class Net(nn.Module):
    """Draws random numbers, which both programs draw alike."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x * 2  # the end


def other_eps(program):
    node = [n for n in program.graph.nodes if n.target is torch.ops.aten.layer_norm.default][1]
    node.args = (*node.args[:4], 0.1)


def other_factor(program):
    node = next(n for n in program.graph.nodes if n.target is torch.ops.aten.mul.Tensor)
    node.args = (node.args[0], 3)


def other_weight(program):
    with torch.no_grad():
        program.state_dict["blocks.0.up.weight"] *= 2


def nothing(program):
    pass


@pytest.mark.parametrize(
    ("edit", "where", "line"),
    [
        (other_eps, "they part in blocks.1.norm (LayerNorm), first at the node layer_norm_1 (", "# of the block"),
        (other_factor, "they part in Net itself, first at the node mul (aten.mul.Tensor) at ", "# the end"),
        (
            other_weight,
            "they part in blocks.0.up (Linear), first at the node linear (aten.linear.default)",
            "# of the block",
        ),
        (nothing, "", ""),
    ],
)
def test_where_the_loaded_program_parts(tmp_path, edit, where, line):
    ctx = Context(ModelCase(Net, (torch.linspace(-1, 1, 32).view(4, 8),)), Settings((), workdir=str(tmp_path)), str)
    first = reload.run(ctx)
    assert first.reason == reload.PENDING
    program = ctx.program()
    edit(program)
    program.graph_module.recompile()
    torch.export.save(program, tmp_path / loader.PROGRAM)
    result = reload.conclude(first, loader.load(tmp_path), "", 0.0)
    if not where:
        assert (result.outcome, result.findings) == ("passed", ())
        return
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP004", "error")
    assert "values differ, by at most " in finding.evidence
    assert f"; {where}" in finding.evidence
    assert finding.source.endswith(line)


class Neighbours(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("dense", torch.ones(4))
        self.register_buffer("near", torch.eye(4).to_sparse())  # the sparse one

    def forward(self, x):
        return torch.sparse.mm(self.near, x) * self.dense.unsqueeze(1)


def test_a_tensor_of_the_model_that_is_never_written_to_a_file_is_a_fault(tmp_path):
    case = ModelCase(Neighbours, (torch.randn(4, 2),), name="neighbours")
    result = reload.run(Context(case, Settings(("reload",), workdir=str(tmp_path)), lambda _: None))
    assert result.outcome == "failed"
    (finding,) = result.findings
    assert (finding.rule, finding.severity) == ("EXP701", "error")
    assert (
        finding.message
        == "the program cannot be saved: torch.export.save does not write near, which is torch.sparse_coo"
    )
    assert finding.source.endswith("# the sparse one")
    assert finding.rewrite.startswith("Keep the values and indices as dense buffers")
    assert "Cannot access storage" in finding.evidence
