from __future__ import annotations

import collections
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.export import AdditionalInputs, Dim, ShapesCollection
from torch.utils import _pytree as pytree

from exportlint.shapes.contract import Ask, declared, granted, inferred

Pair = collections.namedtuple("Pair", ["a", "b"])


@dataclass
class Batch:
    ids: torch.Tensor
    mask: torch.Tensor


@dataclass
class Boxed:
    tensor: torch.Tensor
    title: str


pytree.register_pytree_node(Boxed, lambda box: ([box.tensor], box.title), lambda parts, title: Boxed(parts[0], title))
torch.export.register_dataclass(Batch, serialized_type_name="exportlint_tests.Batch")

BATCH = Dim("batch", min=2, max=64)
X, Y = torch.ones(4, 3), torch.ones(4, 5)


class Model(nn.Module):
    """Sums every tensor in its arguments."""

    def forward(self, x, y=None, *rest, **named):
        leaves = [leaf for leaf in pytree.tree_leaves((x, y, rest, named)) if isinstance(leaf, torch.Tensor)]
        return [leaf * 2 for leaf in leaves]


def asked(args, dynamic_shapes, kwargs=None):
    """What is asked, by the words and the dimension."""
    contract = declared(Model(), (args, kwargs or {}), dynamic_shapes)
    return {(leaf.words, d): ask for leaf in contract.leaves for d, ask in leaf.asked.items()}


ASK = Ask("batch", 2, 64)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({0: BATCH}, {0: ASK}),
        ((BATCH, None), {0: ASK}),
        ([BATCH, 3], {0: ASK}),
        ({-2: BATCH}, {0: ASK}),
        ({0: Dim("n")}, {0: Ask("n", 1, None)}),
        ({0: Dim("n", min=0)}, {0: Ask("n", 1, None)}),
        ({0: Dim("n", max=9), 1: Dim("m", min=3)}, {0: Ask("n", 1, 9), 1: Ask("m", 3, None)}),
        ({0: Dim.AUTO, 1: Dim.DYNAMIC}, {0: Ask("", 2), 1: Ask("", 2)}),
        ({0: Dim.AUTO(min=2, max=7)}, {0: Ask("", 2, 7)}),
        ({0: Dim.STATIC, 1: None}, {}),
        ({0: 4}, {}),
        ({2: BATCH, -3: BATCH}, {}),  # which it has not
        ((None, None, BATCH), {}),
        ({}, {}),
        (None, {}),
    ],
)
def test_forms_of_one_dimension(spec, expected):
    assert asked((X,), {"x": spec}) == {("x", d): ask for d, ask in expected.items()}


def test_a_derived_dimension_keeps_the_name_that_says_what_it_derives_from():
    half = Dim("half", min=1, max=8)
    found = asked((X,), {"x": {0: 2 * half, 1: 2 * half + 1}})
    assert found[("x", 0)].name == "2*half"
    assert found[("x", 1)].name == "2*half + 1"


@pytest.mark.parametrize(
    "shapes", [({0: BATCH}, {1: BATCH}), [{0: BATCH}, {1: BATCH}], {"x": {0: BATCH}, "y": {1: BATCH}}]
)
def test_specifications_by_position_and_by_name(shapes):
    assert asked((X, Y), shapes) == {("x", 0): ASK, ("y", 1): ASK}


def test_keyword_arguments():
    assert asked((X,), {"x": None, "y": {0: BATCH}}, {"y": Y}) == {("y", 0): ASK}
    assert asked((), {"y": {0: BATCH}, "x": None}, {"y": Y, "x": X}) == {("y", 0): ASK}


def test_arguments_without_a_name_of_their_own():
    found = asked(
        (X, Y, X.clone()), {"x": None, "y": None, "rest": ({0: BATCH},), "named": {"z": {0: BATCH}}}, {"z": Y.clone()}
    )
    assert found == {("rest[0]", 0): ASK, ("named['z']", 0): ASK}


@pytest.mark.parametrize(
    ("argument", "spec", "words"),
    [
        ({"ids": X, "more": [Y]}, {"ids": {0: BATCH}, "more": [{0: BATCH}]}, ["x['ids']", "x['more'][0]"]),
        ([X, Y], [None, {0: BATCH}], ["x[1]"]),
        ((X, (Y,)), (None, ({0: BATCH},)), ["x[1][0]"]),
        (Pair(X, Y), Pair(None, {0: BATCH}), ["x.b"]),
        (Batch(X, Y), [{0: BATCH}, None], ["x.ids"]),
        (Batch(None, Y), [{0: BATCH}], ["x.mask"]),  # to torch a field of None is none
        (Boxed(X, "title"), [{0: BATCH}], ["x[0]"]),
        (collections.OrderedDict(ids=X), {"ids": {0: BATCH}}, ["x['ids']"]),
        ({"z": X, "a": Y}, {"z": {0: BATCH}, "a": None}, ["x['z']"]),
    ],
)
def test_nested_arguments(argument, spec, words):
    assert asked((argument,), {"x": spec}) == {(word, 0): ASK for word in words}


@pytest.mark.parametrize(
    ("argument", "spec"),
    [
        ({"z": X, "n": 3, "a": [Y, None]}, {"z": {0: BATCH}, "n": None, "a": [{0: BATCH}, None]}),
        (Batch(X, Y), [None, {0: BATCH}]),
        (Batch(None, Y), [{0: BATCH}]),
        (Pair(X, Y), Pair(None, {0: BATCH})),
    ],
)
def test_a_contract_asks_for_what_torch_makes_dynamic(argument, spec):
    """The leaves are numbered as torch numbers the inputs of the program."""
    shapes = {"x": spec}
    program = torch.export.export(Model(), (argument,), dynamic_shapes=shapes)
    contract = declared(Model(), ((argument,), {}), shapes)
    sizes = granted(program).sizes
    for leaf in contract.leaves:
        symbolic = {d for d, size in enumerate(sizes[leaf.index]) if getattr(size, "free_symbols", None)}
        assert symbolic == set(leaf.asked), leaf.words
    assert contract.dynamic


def test_a_collection_of_shapes():
    shapes = ShapesCollection()
    shapes[Y] = {0: BATCH}
    assert asked((X, Y), shapes) == {("y", 0): ASK}


def test_additional_inputs():
    more = AdditionalInputs()
    more.add((torch.ones(7, 3), torch.ones(7, 5)))
    assert set(asked((X, Y), more)) == {("x", 0), ("y", 0)}


def test_nothing_is_asked():
    contract = declared(Model(), ((X, 3, None, "a"), {}), None)
    assert [leaf.words for leaf in contract.leaves] == ["x"]
    assert not contract.dynamic


def test_torchs_own_words():
    contract = declared(Model(), (({"ids": [X]}, Pair(Y, X.clone())), {}), None)
    assert [leaf.source for leaf in contract.leaves] == ["L['x']['ids'][0]", "L['y'].a", "L['y'].b"]


def test_the_same_tensor_twice_is_asked_for_at_both_places():
    contract = declared(Model(), ((X, X), {}), {"x": {0: BATCH}, "y": {0: BATCH}})
    assert [(leaf.index, dict(leaf.asked)) for leaf in contract.leaves] == [(0, {0: ASK}), (1, {0: ASK})]


def test_what_varies_between_two_calls_is_asked():
    contract = inferred(Model(), (({"a": X}, Y), {}), (({"a": torch.ones(4, 9)}, torch.ones(6, 5)), {}))
    assert {(leaf.words, d) for leaf in contract.leaves for d in leaf.asked} == {("x['a']", 1), ("y", 0)}
    assert inferred(Model(), ((X,), {}), ((X,), {})).dynamic is False


def test_two_calls_of_other_structures_ask_for_nothing():
    assert not inferred(Model(), ((X,), {}), ((torch.ones(9, 3), Y), {})).dynamic
    assert not inferred(Model(), ((X,), {}), ((torch.ones(9, 3, 1),), {})).dynamic
    assert not inferred(Model(), ((X, 3), {}), ((X, 4.0), {})).dynamic
    assert not inferred(Model(), ((X, True), {}), ((X, False), {})).dynamic


def test_granted_ranges_and_relations():
    class Halves(nn.Module):
        def forward(self, x, y):
            return x.view(-1, 2, x.shape[1]) * 2, x + y

    n = Dim("n", min=2, max=32)
    program = torch.export.export(
        Halves(), (torch.ones(4, 3), torch.ones(4, 3)), dynamic_shapes={"x": {0: 2 * n}, "y": {0: 2 * n}}
    )
    found = granted(program)
    (first, second), (also, _) = found.sizes[0], found.sizes[1]
    assert first == also
    assert second == 3
    (symbol,) = first.free_symbols
    assert first == 2 * symbol
    assert found.ranges[symbol] == (2, 32)


@pytest.mark.parametrize(("first", "second", "smallest"), [(3, 5, 2), (1, 3, 1), (4, 1, 1)])
def test_sizes_of_one_are_asked_for_where_an_example_has_one(first, second, smallest):
    """torch treats 1 apart and grants sizes from 2 on; nobody said otherwise."""
    contract = inferred(Model(), ((torch.ones(first, 3),), {}), ((torch.ones(second, 3),), {}))
    assert contract.leaves[0].asked == {0: Ask("", smallest, root=f"{first}/{second}")}
