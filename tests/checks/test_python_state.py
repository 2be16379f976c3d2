from __future__ import annotations

import collections

import pytest

from exportlint.checks.state.python_state import save


class Instantiating(collections.OrderedDict):
    """As transformers keeps its activations: what is stored is a class, what is read an instance."""

    def __getitem__(self, key):
        return super().__getitem__(key)()


class Picky:
    def __getattr__(self, name):
        raise SystemExit(name)


def test_a_mapping_that_makes_what_is_read_is_left_as_it_is():
    registry = Instantiating(number=int, text=str)
    save(registry).restore()
    assert dict(registry.items()) == {"number": int, "text": str}
    assert registry["number"] == 0


def test_no_attribute_is_asked_of_an_object_that_answers_with_any_exception():
    odd = Picky()
    assert save(odd).restore() is odd


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1, 2], lambda v: v.append(3)),
        ({"a": 1}, lambda v: v.update(b=2)),
        ({1, 2}, lambda v: v.add(3)),
        (collections.deque([1], maxlen=2), lambda v: v.append(3)),
        (collections.OrderedDict(b=1, a=2), lambda v: v.update(c=3)),
        (collections.defaultdict(list, a=[1]), lambda v: v["b"].append(1)),
        ({"a": [1, {"b": 2}]}, lambda v: v["a"][1].update(b=3)),
    ],
)
def test_containers_change_and_are_put_back(value, change):
    before, kept = repr(value), save(value)
    change(value)
    assert save(value).mark != kept.mark
    assert kept.restore() is value
    assert repr(value) == before
    assert save(value).mark == kept.mark
