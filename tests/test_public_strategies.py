"""`exportlint.strategies` as a user sees it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from torch import nn
from torch.export import AdditionalInputs, Dim, ShapesCollection

from exportlint import ModelCase, strategies

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), database=None)
BATCH, HALF = Dim("batch", min=2, max=6), Dim("half", min=1, max=5)
Pair = namedtuple("Pair", ["ids", "mask"])


@dataclass
class Sample:
    ids: torch.Tensor
    mask: torch.Tensor


torch.export.register_dataclass(Sample, serialized_type_name="exportlint_tests.StrategySample")


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 4)

    def forward(self, sample, x=None, scale=1.0):
        ids, mask = (sample["ids"], sample["mask"]) if isinstance(sample, dict) else (sample.ids, sample.mask)
        hidden = self.embed(ids) * mask.unsqueeze(-1)
        return hidden.sum() * scale if x is None else hidden.sum() * scale + x.sum()


IDS, MASK = torch.arange(8).view(2, 4), torch.ones(2, 4, dtype=torch.int64)
PART = {0: BATCH, 1: 2 * HALF}


def test_importing_them_costs_no_torch():
    code = "import sys; import exportlint.strategies; sys.exit('torch' in sys.modules or 'hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("model", "dynamic_shapes", "error", "words"),
    [
        (3, {"x": {0: BATCH}}, TypeError, "a contract is that of a module, not of int"),
        (nn.ReLU, {"input": {0: BATCH}}, TypeError, "a contract is that of a module, not of the class ReLU: make one"),
        (nn.ReLU(), {}, ValueError, "dynamic_shapes let nothing vary"),
        (nn.ReLU(), {"input": None}, ValueError, "dynamic_shapes let nothing vary"),
        (nn.ReLU(), ShapesCollection(), ValueError, "dynamic_shapes let nothing vary"),
    ],
)
def test_what_is_no_contract(model, dynamic_shapes, error, words):
    with pytest.raises(error, match=re.escape(words)):
        strategies.contract(model, (torch.ones(2, 3),), dynamic_shapes=dynamic_shapes)


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.eye(3).to_sparse(), "sparse"),
        (torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8), "quantised"),
    ],
)
def test_tensors_of_which_no_others_are_drawn(tensor, kind):
    with pytest.raises(ValueError, match=f"case 'ReLU' has a {kind} tensor as input, of which no others are drawn"):
        strategies.inputs(ModelCase(nn.ReLU, (tensor,)))


def test_what_the_model_raises_is_raised():
    class Refuses(nn.Module):
        def forward(self, x):
            raise LookupError("no such table")

    with pytest.raises(LookupError, match="no such table"):
        strategies.inputs(ModelCase(Refuses, (torch.ones(2, 3),)))


def test_shapes_keep_relations_and_ranges():
    asked = strategies.contract(
        Reader(), ({"ids": IDS, "mask": MASK},), dynamic_shapes={"sample": {"ids": PART, "mask": PART}}
    )
    seen = set()

    @QUICK
    @given(strategies.shapes(asked))
    def check(shapes):
        assert set(shapes) == {"sample['ids']", "sample['mask']"}
        rows, columns = shapes["sample['ids']"]
        assert shapes["sample['mask']"] == (rows, columns)
        assert 2 <= rows <= 6
        assert columns in range(2, 11, 2)
        seen.add((rows, columns))

    check()
    assert len(seen) > 5
    assert find(strategies.shapes(asked), lambda s: s["sample['ids']"][1] > 5)["sample['ids']"] == (2, 6)


def test_shapes_from_several_calls_vary_together():
    calls = [({"ids": torch.ones(n, m).long(), "mask": torch.ones(n, m)},) for n, m in ((2, 4), (3, 4), (3, 7))]
    asked = strategies.contract(Reader(), *calls)

    @QUICK
    @given(strategies.shapes(asked))
    def check(shapes):
        assert shapes["sample['ids']"] == shapes["sample['mask']"]

    check()
    assert {d for leaf in asked.leaves for d in leaf.asked} == {0, 1}


@pytest.mark.parametrize(
    ("sample", "shapes"),
    [
        ({"ids": IDS, "mask": MASK}, {"ids": PART, "mask": PART}),
        (Pair(IDS, MASK), Pair(PART, PART)),
        (Sample(IDS, MASK), [PART, PART]),
    ],
)
@pytest.mark.parametrize("more", [{}, {"x": torch.randn(2, 3)}, {"scale": 2.0}])
def test_inputs_of_a_case(sample, shapes, more):
    given_shapes = {"sample": shapes, **{key: {0: BATCH} if key == "x" else None for key in more}}
    case = ModelCase(Reader, (sample,), more, dynamic_shapes=given_shapes)
    model, kinds = Reader(), set()

    @settings(QUICK, max_examples=100)
    @given(strategies.inputs(case))
    def check(inputs):
        (drawn,), kwargs = inputs
        assert type(drawn) is type(sample)
        assert set(kwargs) == set(more)
        ids, mask = (drawn["ids"], drawn["mask"]) if isinstance(drawn, dict) else (drawn.ids, drawn.mask)
        assert ids.shape == mask.shape
        assert 0 <= int(ids.min()) <= int(ids.max()) <= 10
        kinds.add(tuple(mask.sum(dim=1).tolist()) == (0,) * len(mask))
        assert torch.isfinite(model(drawn, **kwargs))

    check()
    assert kinds == {True, False}  # masks that are empty, and others


def test_every_form_of_dynamic_shapes():
    collection, more = ShapesCollection(), AdditionalInputs()
    collection[IDS], collection[MASK] = PART, PART
    more.add(({"ids": torch.ones(3, 6).long(), "mask": torch.ones(3, 6).long()},))
    hints = {"ids": {0: Dim.AUTO, 1: Dim.DYNAMIC}, "mask": {0: Dim.AUTO(min=2, max=7), 1: Dim.STATIC}}
    for form, count in ((collection, 4), (more, 4), ({"sample": hints}, 3)):
        asked = strategies.contract(Reader(), ({"ids": IDS, "mask": MASK},), dynamic_shapes=form)
        assert sum(len(leaf.asked) for leaf in asked.leaves) == count


@pytest.mark.parametrize(
    ("calls", "kind", "words"),
    [
        ((), ValueError, "needs an example call"),
        (((IDS,),), ValueError, "needs dynamic_shapes, or a second example call"),
        (([IDS], [IDS]), TypeError, "an example call is a tuple"),
    ],
)
def test_bad_contracts(calls, kind, words):
    with pytest.raises(kind, match=words):
        strategies.contract(Reader(), *calls)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (
            {"sample": {"ids": {7: BATCH}, "mask": None}},
            r"dynamic_shapes names dimension 7 of sample\['ids'\], which has 2",
        ),
        ({"sample": {"idz": {0: BATCH}}}, r"dynamic_shapes names sample\['idz'\]"),
        ({"samples": None}, "dynamic_shapes names 'samples', which is no input of the example call; there are: sample"),
        ({"sample": {"ids": {0: Dim("n", min=5)}, "mask": None}}, "wants dimension 0 of sample.* from 5, and it has 2"),
        ({"sample": [PART, PART]}, "dynamic_shapes gives .* for sample, which is a dict: the same nesting is needed"),
        (ShapesCollection(), ""),
    ],
)
def test_shapes_that_do_not_fit_the_call_make_no_contract(shapes, words):
    if isinstance(shapes, ShapesCollection):
        shapes[torch.ones(3)], words = {0: BATCH}, "dynamic_shapes cannot be written out: .* not found in args"
    with pytest.raises(ValueError, match=words):
        strategies.contract(Reader(), ({"ids": IDS, "mask": MASK},), dynamic_shapes=shapes)


def test_shapes_of_another_kind_make_no_contract():
    with pytest.raises(TypeError, match="dynamic_shapes must be a mapping, a tuple or a list, not int"):
        strategies.contract(Reader(), ({"ids": IDS, "mask": MASK},), dynamic_shapes=5)


def test_calls_between_which_nothing_varies_make_no_contract():
    with pytest.raises(ValueError, match="nothing varies between the example calls"):
        strategies.contract(Reader(), ({"ids": IDS, "mask": MASK},), ({"ids": IDS + 1, "mask": MASK},))
    with pytest.raises(ValueError, match="no further example call has the structure of the first"):
        strategies.contract(Reader(), ({"ids": IDS, "mask": MASK},), ({"ids": IDS},))


def test_a_cache_of_transformers_is_drawn_as_one():
    from transformers import DynamicCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support
    from transformers.modeling_outputs import BaseModelOutput

    register_dynamic_cache_export_support()  # as an export of it needs

    class Reads(nn.Module):
        def forward(self, x, cache, output):
            return cache.layers[0].keys.sum() + x.sum() + output.last_hidden_state.sum()

    def call(length=3):
        cache = DynamicCache()
        cache.update(torch.randn(2, 4, length, 8), torch.randn(2, 4, length, 8), 0)
        return torch.randn(2, 5), cache, BaseModelOutput(last_hidden_state=torch.randn(2, length))

    case, seen = ModelCase(Reads, call, inputs2=lambda: call(6)), set()

    @settings(QUICK, max_examples=12)
    @given(strategies.inputs(case))
    def check(inputs):
        (x, cache, output), _ = inputs
        assert (type(cache), type(output), x.shape) == (DynamicCache, BaseModelOutput, (2, 5))
        batch, heads, length, width = cache.layers[0].keys.shape
        assert (batch, heads, width) == (2, 4, 8)
        assert cache.layers[0].values.shape[2] == length == output.last_hidden_state.shape[1]
        seen.add(length)
        Reads()(x, cache, output)

    check()
    assert len(seen) > 2


class Doubles(nn.Module):
    def forward(self, x):
        return x * 2


@pytest.mark.parametrize("maximum", [500, 10**9])
def test_sizes_go_up_to_the_declared_maximum_or_it_is_said(maximum, recwarn):
    shapes = {"x": {0: Dim("n", max=maximum)}}
    case = ModelCase(Doubles, (torch.randn(4, 8),), dynamic_shapes=shapes)
    drawn = strategies.inputs(case)
    said = [str(warning.message) for warning in recwarn if warning.category is UserWarning]
    pattern = (
        r"x.shape\[0\] is drawn up to (1[23]\d{4}), not to the declared 1000000000: a call has at most 1048576 elements"
    )
    assert [bool(re.fullmatch(pattern, words)) for words in said] == [True] * (maximum == 10**9)
    few = settings(max_examples=1000, deadline=None, database=None)
    assert find(drawn, lambda inputs: len(inputs[0][0]) >= 100, settings=few)[0][0].shape[0] in (100, 101)
    sizes = strategies.shapes(strategies.contract(Doubles(), (torch.randn(4, 8),), dynamic_shapes=shapes))
    assert find(sizes, lambda shape: shape["x"][0] == maximum, settings=few)


def test_bounds_and_equal_sizes_are_among_few_draws():
    dims = {"x": {0: Dim("n", max=1000), 1: Dim("m", max=500)}}
    seen = []

    @settings(QUICK, max_examples=20, derandomize=True)
    @given(strategies.shapes(strategies.contract(Doubles(), (torch.randn(4, 8),), dynamic_shapes=dims)))
    def check(shapes):
        seen.append(shapes["x"])

    check()
    assert {1, 1000} <= {rows for rows, _ in seen}
    assert {1, 500} <= {columns for _, columns in seen}
    assert any(rows == columns > 1 for rows, columns in seen)
    assert sum(rows == columns for rows, columns in seen) < len(seen) / 2


def fails():
    raise ZeroDivisionError("no inputs today")


@pytest.mark.parametrize(
    ("case", "kind", "words"),
    [
        (Doubles(), TypeError, "inputs are drawn of a ModelCase, not of a Doubles"),
        (
            ModelCase(Doubles, methods={"forward": (MASK,)}),
            ValueError,
            r"case 'Doubles' has methods, each with calls of its own; case.expand\(\) gives one: forward",
        ),
        (
            ModelCase(Doubles, (MASK,), dynamic_shapes={"x": {5: BATCH}}),
            ValueError,
            "dynamic_shapes names dimension 5 of x, which has 2",
        ),
        (ModelCase(Doubles, (MASK,), dynamic_shapes={"y": {0: BATCH}}), ValueError, "dynamic_shapes names 'y'"),
        (ModelCase(Doubles, fails), ZeroDivisionError, "no inputs today"),
        (ModelCase(Doubles, (MASK,), inputs2=fails), ZeroDivisionError, "no inputs today"),
    ],
)
def test_cases_of_which_no_inputs_can_be_drawn(case, kind, words):
    with pytest.raises(kind, match=words):
        strategies.inputs(case)


def test_shapes_are_drawn_from_contracts_only():
    with pytest.raises(TypeError, match=r"shapes are drawn from what strategies\.contract returns, not from a Doubles"):
        strategies.shapes(Doubles())


class Joined(nn.Module):
    def forward(self, x, y, z):
        return (x * y).sum() + z.sum() + x.new_ones(x.shape[0], x.shape[1]).sum()


@pytest.mark.parametrize("hint", [Dim.AUTO, Dim.DYNAMIC, Dim.AUTO(min=2, max=9)])
@pytest.mark.parametrize("first", [None, Dim("rows", min=3, max=8)])
def test_hints_vary_together_where_the_model_takes_nothing_else(hint, first):
    shapes = {"x": {0: first or hint, 1: hint}, "y": {0: hint, 1: hint}, "z": {0: hint}}
    case = ModelCase(Joined, (torch.randn(4, 4), torch.randn(4, 4), torch.randn(4)), dynamic_shapes=shapes)
    seen = []

    @settings(QUICK, max_examples=60)
    @given(strategies.inputs(case))
    def check(inputs):
        (x, y, z), _ = inputs
        assert x.shape == y.shape
        assert first is None or 3 <= x.shape[0] <= 8
        seen.append((*x.shape, *z.shape))

    check()
    assert any(rows != columns for rows, columns, _ in seen)
    assert any(rows != other != columns for rows, columns, other in seen)  # free, as the model takes it


def test_several_hints_of_a_batch_vary_together():
    class Batch(nn.Module):
        def forward(self, a, b, c):
            return a + b + c

    args = tuple(torch.randn(3, 3) for _ in range(3))
    hints = {name: {0: Dim.AUTO, 1: Dim.AUTO} for name in "abc"}
    shapes = set()

    @QUICK
    @given(strategies.inputs(ModelCase(Batch, args, dynamic_shapes=hints)))
    def check(inputs):
        assert len({made.shape for made in inputs[0]}) == 1
        shapes.add(inputs[0][0].shape)

    check()
    assert any(rows != columns for rows, columns in shapes)
