"""What is known of values, and of values that are one of several."""

from __future__ import annotations

import ast

import pytest

from exportlint.source.values import (
    NONE,
    NOTHING,
    UNKNOWN,
    Closure,
    Const,
    Dict,
    Function,
    Number,
    Sequence,
    Size,
    Static,
    Tensor,
    Union,
    Value,
    is_tensor,
    join,
    join_all,
    options,
    sizes,
    tensors,
    the_tensor,
)

VALUES: list[Value] = [
    UNKNOWN, NONE, NOTHING, Const(1), Const(True), Const(1.0), Static("int"), Size(True, 0, 2), Size(False, 1, 2),
    Number("item"), Tensor("follows"), Tensor("default", scalar=False), Sequence((Const(1),), kind="tuple"),
    Sequence(None, Tensor("follows")), Dict((("a", Const(1)),)), Union((NONE, Tensor("follows"))),
]  # fmt: skip


@pytest.mark.parametrize("left", VALUES, ids=str)
@pytest.mark.parametrize("right", VALUES, ids=str)
def test_a_join_knows_no_more_than_either_side(left: Value, right: Value) -> None:
    both = join(left, right)
    assert both == join(left, right)
    assert join(both, left) == both
    assert join(both, right) == both
    if UNKNOWN in (left, right):
        assert both == UNKNOWN
    assert is_tensor(both) <= all(is_tensor(v) or v in (NONE, NOTHING) for v in (left, right))


def test_constants_of_different_types_are_different() -> None:
    assert Const(1) != Const(True)
    assert Const(1) != Const(1.0)
    assert join(Const(1), Const(True)) == Static()


def test_a_tensor_or_none_is_a_tensor_and_a_tensor_or_a_number_is_not() -> None:
    optional = join(NONE, Tensor("follows"))
    assert is_tensor(optional)
    assert the_tensor(optional) == Tensor("follows")
    assert the_tensor(join(optional, Const(3))) is None
    assert join_all((Tensor("follows"), UNKNOWN)) == UNKNOWN
    assert options(NOTHING) == ()
    assert join(NOTHING, NOTHING) == NOTHING


def test_a_tensor_of_two_places_has_no_known_place() -> None:
    both = join(Tensor("follows", fed=True, sized=True), Tensor("default", scalar=False))
    assert isinstance(both, Tensor)
    assert (both.placement, both.fed, both.sized, both.scalar) == ("unknown", False, True, None)


def test_elements_of_a_mixture_are_not_known() -> None:
    assert Sequence((Tensor("follows"), Tensor("follows"))).any == Tensor("follows")
    assert Sequence((Tensor("follows"), Static("int"))).any == UNKNOWN
    assert Sequence((Const(1), Const(2))).any == Static()


def test_tuples_of_one_length_are_joined_item_by_item() -> None:
    first = Sequence((Tensor("follows"), Const(1)), kind="tuple")
    second = Sequence((Tensor("follows"), Const(2)), kind="tuple")
    assert join(first, second) == Sequence((Tensor("follows"), Static()), kind="tuple")


def test_tensors_and_sizes_are_found_in_sequences() -> None:
    nested = Sequence((Tensor("follows"), Sequence((Size(True), Tensor("default")))))
    assert [t.placement for t in tensors((nested,))] == ["follows", "default"]
    assert sizes((nested, Size(False))) == [Size(True), Size(False)]


@pytest.mark.parametrize(
    ("size", "varies"),
    [
        (Size(True, -1), True),
        (Size(False, 0), False),
        (Size(None, 0), True),
        (Size(None, 1), True),
        (Size(None, -1), False),
        (Size(None, -2), True),
        (Size(None, 2, 3), False),
        (Size(None, 1, 4), False),
        (Size(None, 3, 4), True),
        (Size(None), False),
    ],
)
def test_which_dimensions_are_taken_to_vary(size: Size, varies: bool) -> None:
    assert size.varies is varies


def test_a_lambda_made_in_other_calls_is_looked_up_without_comparing_all_of_them():
    """What is kept of calls is found by hash: with one hash for all, a chain of such calls never ends."""
    node = ast.parse("lambda x: x", mode="eval").body
    made = [Function(node, Closure(None, {})) for _ in range(50)]
    assert len({hash(function) for function in made}) == len(set(made)) == 50
    assert hash(made[0]) == hash(Function(node, made[0].closure))
