from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from exportlint.parity.parting import fingerprint, parting

aten = torch.ops.aten


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.relu(self.up(self.norm(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 3)

    def forward(self, x, mask):
        for block in self.blocks:
            x = block(x)
        x = x.masked_fill(mask, -1e4)  # the line
        x = x * torch.full((8,), 2.0)  # scaled
        return self.head(x), x[:, 1:]


def net():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    torch.manual_seed(1)
    return torch.randn(4, 8), torch.rand(4, 8) > 0.8


def changed(edit):
    """The program with an edit to its graph."""
    program = torch.export.export(net(), inputs())
    edit(program.graph)
    program.graph_module.recompile()
    return program


def nodes(graph, op):
    return [node for node in graph.nodes if node.op == "call_function" and node.target is op]


def other_eps(graph):
    node = nodes(graph, aten.layer_norm.default)[1]
    node.args = (*node.args[:4], 1e-3)


def other_fill(graph):
    node = nodes(graph, aten.masked_fill.Scalar)[0]
    node.args = (*node.args[:2], -1e3)


def other_start(graph):
    node = nodes(graph, aten.slice.Tensor)[-1]
    node.args = (*node.args[:2], 2, *node.args[3:])


def no_residual(graph):
    node = nodes(graph, aten.add.Tensor)[0]
    node.replace_all_uses_with(node.args[1])
    graph.erase_node(node)


def no_relu(graph):
    node = nodes(graph, aten.relu.default)[0]
    node.replace_all_uses_with(node.args[0])


def other_constant(graph):
    node = nodes(graph, aten.full.default)[0]
    node.args = (node.args[0], 0.25)


@pytest.mark.parametrize(
    ("edit", "module", "kind", "operator", "line"),
    [
        (other_eps, "blocks.1.norm", "LayerNorm", "aten.layer_norm.default", "self.up(self.norm(x))"),
        (other_fill, "", "Net", "aten.masked_fill.Scalar", "# the line"),
        (other_start, "", "Net", "aten.slice.Tensor", "return self.head(x), x[:, 1:]"),
        (no_residual, "blocks.0", "Block", "aten.relu.default", "return x + torch.relu"),
        (no_relu, "blocks.0", "Block", "aten.add.Tensor", "return x + torch.relu"),
        (other_constant, "", "Net", "aten.mul.Tensor", "# scaled"),
    ],
)
def test_module_and_node(edit, module, kind, operator, line):
    model = net()
    found = parting(model, lambda: model(*inputs()), changed(edit), pytree.tree_leaves(inputs()))
    assert found is not None
    assert (found.module, found.kind, found.operator) == (module, kind, operator)
    assert found.place is not None
    assert line in found.place.source


def test_a_right_program_does_not_part():
    model = net()
    assert parting(model, lambda: model(*inputs()), changed(lambda graph: None), pytree.tree_leaves(inputs())) is None


def test_fingerprints():
    x = torch.randn(7, 3)
    same = [x.clone(), x.T.contiguous().T]
    other = [x + 1e-6, x.flip(0), x.T, x.double(), x.view(torch.int32)]
    assert all(fingerprint(t) == fingerprint(x) for t in same)
    assert all(fingerprint(t) != fingerprint(x) for t in other)
    assert fingerprint(torch.tensor([0.0])) == fingerprint(torch.tensor([-0.0]))
    for t in (
        torch.tensor(True),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.complex64),
        torch.ones(0),
    ):
        assert fingerprint(t) == fingerprint(t.clone())


class Leaves(nn.Module):
    """Does not add anything where it is captured."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        h = self.linear(x)
        unused = self.linear(x + 3)  # what nobody uses is no loss
        return h if torch.compiler.is_exporting() else h + 1, unused


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = Leaves(), Leaves(), nn.Linear(8, 8)

    def forward(self, x):
        return self.last(self.second(self.first(x)[0])[0])


def test_a_module_that_leaves_something_out_is_named():
    torch.manual_seed(0)
    model, x = Chain(), torch.randn(2, 8)
    found = parting(model, lambda: model(x), torch.export.export(model, (x,)), [x])
    assert found is not None
    assert (found.module, found.kind, found.left_out) == ("first", "Leaves", True)
    assert "whose result the program lacks, after the node linear" in str(found)


class Widens(nn.Module):
    """Leaves the last steps out where it is captured, behind a module that is all there."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        h = self.linear(x)
        if torch.compiler.is_exporting():
            return h
        return h.double()  # not in the program


def test_what_a_program_lacks_is_told_in_the_module_that_computes_it():
    model, x = Widens(), torch.randn(2, 8)
    found = parting(model, lambda: model(x), torch.export.export(model, (x,)), [x])
    assert found is not None
    assert (found.module, found.kind, found.left_out) == ("", "Widens", True)
    assert found.place is not None
    assert "# not in the program" in found.place.source
    words = str(found)
    assert (
        "in Widens itself, where after the node linear (aten.linear.default) the program lacks aten._to_copy" in words
    )


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        h = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (self.linear(x),))
        return h * (2 if torch.compiler.is_exporting() else 3)  # parts


def test_values_part_behind_a_branch_which_is_captured_afterwards():
    model, x = Branches(), torch.randn(2, 8)
    for _ in range(2):
        program = torch.export.export(model, (x,), strict=False)
        found = parting(model, lambda: model(x), program, [x])
        assert found is not None
        assert found.place is not None
        assert "# parts" in found.place.source
