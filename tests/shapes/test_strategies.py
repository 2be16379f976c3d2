from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from exportlint.checks.context import fresh
from exportlint.shapes import contents, strategies
from exportlint.shapes.contract import Ask, declared, granted, inferred, wanted
from exportlint.shapes.strategies import Space

BATCH = Dim("batch", min=2, max=6)
LENGTH = Dim("length", min=1, max=12)
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(17, 4)

    def forward(self, ids, mask, pairs, scale=1.0):
        hidden = self.embed(ids) * mask.unsqueeze(-1)
        return hidden.sum() * scale + pairs.sum(), pairs.view(-1, 2, pairs.shape[1]), pairs + hidden.sum()


def example():
    ids = torch.tensor([[3, 16, 5], [0, 1, 2], [9, 9, 9]])
    return (ids, torch.ones(3, 3, dtype=torch.int64), torch.randn(6, 5)), {"scale": 2.0}


SHAPES = {"ids": {0: BATCH, 1: LENGTH}, "mask": {0: BATCH, 1: LENGTH}, "pairs": {0: 2 * BATCH}, "scale": None}


@pytest.fixture(scope="module")
def captioner():
    inputs = example()
    program = torch.export.export(Captioner(), inputs[0], inputs[1], dynamic_shapes=SHAPES)
    contract = declared(Captioner(), inputs, SHAPES)
    domains = contents.domains(Captioner(), contract, (fresh(inputs),), {})
    return Space(inputs, contract, granted(program), domains).drawn(), program, domains


def test_drawn_calls_lie_inside_the_contract(captioner):
    strategy, program, _ = captioner
    module = program.module()
    sizes = set()

    @QUICK
    @given(strategy)
    def check(drawn):
        (ids, mask, pairs), kwargs = drawn.inputs
        batch, length = ids.shape
        assert 2 <= batch <= 6
        assert 1 <= length <= 12
        assert mask.shape == (batch, length)
        assert pairs.shape == (2 * batch, 5)
        assert kwargs == {"scale": 2.0}
        assert (ids.dtype, mask.dtype, pairs.dtype) == (torch.int64, torch.int64, torch.float32)
        assert 0 <= int(ids.min()) <= int(ids.max()) <= 16
        assert set(mask.unique().tolist()) <= {0, 1}
        module(ids, mask, pairs, **kwargs)  # the program takes each of them
        sizes.add((batch, length))
        assert drawn.sizes["L['ids'].size()[1]"] == length
        assert drawn.words[0].startswith(f"ids of shape [{batch}, {length}] (")

    check()
    assert len(sizes) > 5


@pytest.mark.parametrize("wanted", [(2, 1), (6, 9)])
def test_the_smallest_and_the_largest_sizes_are_drawn(captioner, wanted):
    """The largest is the declared one, or else about twice that of the example."""
    few = settings(max_examples=2000, deadline=None, database=None)
    found = find(captioner[0], lambda drawn: tuple(drawn.inputs[0][0].shape) == wanted, settings=few)
    assert found.inputs[0][2].shape == (2 * wanted[0], 5)


def test_a_failure_shrinks_to_the_smallest_shape(captioner):
    strategy = captioner[0]
    found = find(
        strategy, lambda drawn: drawn.inputs[0][0].shape[1] >= 5, settings=settings(deadline=None, database=None)
    )
    assert found.inputs[0][0].shape == (2, 5)
    assert found.words[0] == "ids of shape [2, 5] (smallest)"
    assert int(found.inputs[0][0].abs().sum()) == 0


def test_drawing_leaves_the_example_as_it_is(captioner):
    inputs = example()
    before = [leaf.clone() for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    program, contract = captioner[1], declared(Captioner(), inputs, SHAPES)
    strategy = Space(inputs, contract, granted(program), captioner[2]).drawn()

    @settings(QUICK, max_examples=5)
    @given(strategy)
    def draw(drawn):
        drawn.inputs[0][2].zero_()

    draw()
    assert all(map(torch.equal, before, [x for x in pytree.tree_leaves(inputs) if isinstance(x, torch.Tensor)]))


def test_a_tensor_that_is_given_twice_stays_one():
    class Twice(nn.Module):
        def forward(self, x, y):
            return x + y

    x = torch.randn(4, 3)
    shapes = {"x": {0: BATCH}, "y": {0: BATCH}}
    program = torch.export.export(Twice(), (x, x), dynamic_shapes=shapes)
    strategy = Space(((x, x), {}), declared(Twice(), ((x, x), {}), shapes), granted(program), {}).drawn()

    @settings(QUICK, max_examples=5)
    @given(strategy)
    def draw(drawn):
        assert drawn.inputs[0][0] is drawn.inputs[0][1]
        assert len(drawn.words) == 1

    draw()


@pytest.mark.parametrize(
    ("maximum", "known", "expected"),
    [(64, False, (1, 9, 64)), (5000, True, (1, 9, 5000)), (5, True, (1, 5, 5)), (None, False, (1, 9, 9))],
)
def test_a_declared_maximum_is_the_largest_size(maximum, known, expected):
    assert strategies.range_of(Ask("batch", 1, maximum), 3, known=known) == expected


def test_without_a_maximum_sizes_are_large_only_where_it_is_known_what_they_cost():
    assert strategies.range_of(Ask("batch", 1), 20, known=True) == (1, 42, 320)


def test_large_sizes_are_drawn_and_shrink_to_the_smallest():
    sizes = strategies.size(1, 9, 4096)
    few = settings(max_examples=2000, deadline=None, database=None)
    assert find(sizes, lambda size: size == 4096, settings=few) == 4096
    assert 100 <= find(sizes, lambda size: size >= 100, settings=few) <= 101
    assert find(sizes, lambda size: size >= 5, settings=few) == 5
    for low in (10, 20, 40, 80, 160, 320, 640, 1280, 2560):
        assert find(sizes, lambda size, low=low: low <= size < 2 * low, settings=few) >= low


@given(st.integers(0, 5), st.integers(0, 30), st.integers(0, 4000), st.integers(1, 20))
def test_a_sweep_goes_through_the_sizes(low, width, further, count):
    high, edge = low + width, low + width + further
    steps = strategies._steps(low, high, edge, count)
    assert steps == sorted(set(steps))
    assert len(steps) <= count
    assert set(steps) <= set(range(low, edge + 1))
    assert steps[0] == low
    if count > 1:
        assert steps[-1] == edge
    if high == edge and count > width:
        assert steps == list(range(low, high + 1))


def test_a_sweep_leaves_no_gap_among_the_large_sizes():
    steps = strategies._steps(1, 18, 4096, 10)
    large = [size for size in steps if size > 18]
    assert len(large) >= 2
    assert max(b / a for a, b in zip([18, *large], large, strict=False)) <= 16


def doubled(sizes, most):
    return sizes["L['x'].size()[0]"] * sizes["L['x'].size()[1]"] <= most


def test_large_sizes_are_no_larger_together_than_many_calls_may_be():
    dims = ({0: Dim("n", max=1000), 1: Dim("m", max=1000)}, None)
    args = (torch.ones(4, 4), torch.ones(3))
    contract = declared(Apart(), (args, {}), dims)
    cheap, most = (lambda sizes: doubled(sizes, 2000)), (lambda sizes: doubled(sizes, 10_000))
    space = Space((args, {}), contract, wanted(contract), {}, most, cheap)
    assert set(space.variables().values()) == {(1, 10, 1000)}
    drawn = []

    @QUICK
    @given(space.drawn())
    def draw(call):
        drawn.append(call.inputs[0][0].shape)

    draw()
    assert max(shape.numel() for shape in drawn) <= 2000
    assert max(max(shape) for shape in drawn) > 100
    swept = [call.inputs[0][0].shape for call in space.sweep(20)]
    assert 2000 < max(shape.numel() for shape in swept) <= 10_000
    assert {max(shape[d] for shape in swept) for d in (0, 1)} == {1000}


def bounds_of(args, shapes):
    contract = declared(Apart(), (args, {}), shapes)
    space = Space((args, {}), contract, wanted(contract), {})
    return {str(key): bounds for key, bounds in space.variables().items()}, space


@pytest.mark.parametrize(
    ("dim", "size", "bounds"),
    [
        (16 * Dim("n", min=2, max=64), 32, (2, 4, 64)),  # up to about twice the example, as a size of its own
        (2 * Dim("n", min=3, max=64), 12, (3, 13, 64)),  # the declared maximum
        (Dim("n", min=3, max=1_000_000) + 5, 9, (3, 15, 1_000_000)),
        (3 * Dim("n") - 1, 11, (1, 8, 8)),
    ],
)
def test_a_derived_dimension_is_drawn_as_far_as_one_of_its_size_would_be(dim, size, bounds):
    found, space = bounds_of((torch.ones(size, 2), torch.ones(3)), ({0: dim}, None))
    assert found == {"n": bounds}
    low, high, _ = bounds
    sizes = [space.shapes(dict.fromkeys(space.variables(), n))[0][0] for n in (low, high)]
    assert sizes == [dim.fn(low), dim.fn(high)]


def test_a_dimension_and_one_that_derives_from_it_have_the_range_of_both():
    n = Dim("n", min=2)
    found, _ = bounds_of((torch.ones(4), torch.ones(9)), ({0: n}, {0: 2 * n + 1}))
    assert found == {"n": (2, 9, 9)}


class Relates(nn.Module):
    def forward(self, x, y, z):
        return x * 2, y.view(-1, 2) * 3, z * 4


def test_dimensions_that_were_equal_in_every_call_stay_equal_where_the_program_tells_them_apart():
    calls = [((torch.ones(n), torch.ones(n), torch.ones(n)), {}) for n in (4, 6)]
    contract = inferred(Relates(), *calls)
    free = {0: Dim.AUTO}
    loose = granted(torch.export.export(Relates(), calls[0][0], dynamic_shapes=(free, {0: 2 * Dim("half")}, free)))
    assert len({size for shape in loose.sizes.values() for size in shape}) == 3
    space = Space(calls[0], contract, loose, {})
    assert len(space.variables()) == 1
    sizes = set()

    @QUICK
    @given(space.drawn())
    def check(drawn):
        x, y, z = (tensor.shape[0] for tensor in drawn.inputs[0])
        assert x == y == z
        assert x % 2 == 0
        sizes.add(x)

    check()
    assert {4, 6, 8} <= sizes


def test_sizes_near_the_example_need_only_be_affordable():
    args, dims = (torch.ones(2, 4), torch.ones(3)), ({0: Dim("n")}, None)
    contract = declared(Apart(), (args, {}), dims)
    rows = "L['x'].size()[0]"
    for most, bounds in ((100, (1, 9, 16)), (6, (1, 5, 5))):
        affordable, cheap = (lambda sizes, n=most: sizes[rows] <= n), (lambda sizes, n=most: sizes[rows] <= n // 6)
        space = Space((args, {}), contract, wanted(contract), {}, affordable, cheap)
        assert list(space.variables().values()) == [bounds]


class Apart(nn.Module):
    def forward(self, x, y):
        return x * 2, y * 3


def test_a_sweep_hides_no_size_and_keeps_free_dimensions_apart():
    args, shapes = (torch.ones(3, 4), torch.ones(5, 4)), ({0: Dim("a")}, {0: Dim("b")})
    program = torch.export.export(Apart(), args, dynamic_shapes=shapes)
    space = Space((args, {}), declared(Apart(), (args, {}), shapes), granted(program), {})
    shapes = [tuple(t.shape[0] for t in drawn.inputs[0]) for drawn in space.sweep(12)]
    assert {a for a, _ in shapes} >= set(range(1, 9))
    assert any(a != b for a, b in shapes)
    assert all(float(drawn.inputs[0][0].abs().sum()) > 0 for drawn in space.sweep(12))
