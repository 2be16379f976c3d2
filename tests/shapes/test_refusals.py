"""Asked shapes that torch refuses: all violations at once, in the user's names, and what exports when it is pasted."""

from __future__ import annotations

import collections
import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from commands import marked
from torch import nn
from torch.export import Dim

from exportlint import ModelCase
from exportlint.checks import capture
from exportlint.checks.context import Context, Settings

HERE = Path(__file__)
Pair = collections.namedtuple("Pair", ["q", "kv"])


@dataclass
class Batch:
    ids: torch.Tensor
    mask: torch.Tensor
    extra: torch.Tensor | None = None


torch.export.register_dataclass(Batch, serialized_type_name="exportlint_tests.RefusedBatch")


def several(self, x, y):
    x = x.view(x.shape[0] // 4, 4, -1)  # at: divides
    y = y[:, :16]  # at: bounds
    z = y + torch.ones(int(y.shape[0]), 1)  # at: pins
    return x.sum() + z.sum()


def derived(self, x, y, z):
    return torch.cat([x, x], 1) + y + z[:, 1:]  # at: derives


def bounds(self, x):
    if x.shape[0] < 4:  # at: minimum
        x = x * 2
    if x.shape[1] > 100:  # at: maximum
        x = x + 1
    return x


def product(self, x):
    return x.reshape(-1, 12)  # at: product


def equal(self, x, y, w):
    return (x @ x.T) + y + w  # at: equal


def whole(self, x):
    return x.reshape(-1, 12)  # at: whole


def only(self, x):
    if x.shape[0] % 2 == 0 and x.shape[0] >= 8:  # at: only
        return x * 2
    return x.mean()


def shifted(self, x, y):
    h = x.reshape(-1, 12)
    return h.sum() + (x[1:, :1] + y).sum()  # at: shifted


def nested(self, batch, opts):
    h = batch["pair"].q + batch["pair"].kv[0]  # at: pair
    return h[:, : opts["n"]] * batch["rec"].mask  # at: rec


def record(self, b):
    t = b.ids.shape[1]
    m = b.mask[:, None, :t] * b.mask[:, :t, None]  # at: mask
    pe = torch.arange(int(b.ids.shape[0]))  # at: arange
    return m.float().view(b.ids.shape[0], t, t // 2, 2).sum() + pe.sum()  # at: view


def cached(self, x, cache):
    k, v = cache.update(x, x, 0)
    return k.sum(2) + v.sum(2)[..., :3] + torch.ones(int(x.shape[0]), 1, 1)  # at: cached


def rand(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def names(*said):
    return [Dim(name) for name in said]


B, S, T, N, M = names("b", "s", "t", "n", "m")
NESTED = {"pair": Pair(rand(4, 6), [rand(4, 6)]), "rec": Batch(rand(4, 6), rand(4, 3))}
OF_NESTED = {"pair": Pair({0: B, 1: S}, [{0: T}]), "rec": [{0: Dim("r")}, {0: N, 1: Dim("w")}]}

CASES = {
    "several": (
        several,
        (rand(8, 6), rand(3, 9)),
        {"x": {0: B}, "y": {0: Dim("r", max=64), 1: Dim("c", max=512)}},
        {"divides": "b = x.shape[0]", "bounds": "c = y.shape[1]", "pins": "marked r as dynamic"},
        "{'x': {0: 4 * Dim('b_4')}, 'y': {1: Dim('c', max=15)}}",
    ),
    "derived": (
        derived,
        (rand(3, 4), rand(3, 8), rand(3, 9)),
        {"x": {0: B, 1: S}, "y": {0: Dim("b2", max=32), 1: T}, "z": {0: B, 1: N}},
        {"derives": "b2 = y.shape[0] and b = x.shape[0] must always be equal|by t = 2*s|by n = 2*s + 1"},
        (
            "{'x': {0: Dim('b', max=32), 1: Dim('s')}, 'y': {0: Dim('b', max=32), 1: 2 * Dim('s')}, "
            "'z': {0: Dim('b', max=32), 1: 2 * Dim('s') + 1}}"
        ),
    ),
    "bounds": (
        bounds,
        (rand(8, 6),),
        {"x": {0: Dim("b", min=1, max=64), 1: Dim("s", max=512)}},
        {"minimum": "4 <= x.shape[0] and x.shape[0] <= 64", "maximum": "x.shape[1] <= 100"},
        "{'x': {0: Dim('b', min=4, max=64), 1: Dim('s', max=100)}}",
    ),
    "product": (
        product,
        (rand(4, 6),),
        {"x": {0: Dim("b", max=40)}},
        {"product": "b = x.shape[0]|((6*x.shape[0]) % 12) == 0"},
        "{'x': {0: 2 * Dim('b_2', max=20)}}",
    ),
    "equal": (
        equal,
        (rand(4, 6), rand(4, 4), rand(4, 1)),
        {"x": {0: B, 1: S}, "y": {0: T, 1: N}, "w": {0: M}},
        {"equal": "t = y.shape[0] and b|n = y.shape[1] and b|m = w.shape[0] and b = x.shape[0]"},
        "{'x': {0: Dim('b'), 1: Dim('s')}, 'y': {0: Dim('b'), 1: Dim('b')}, 'w': {0: Dim('b')}}",
    ),
    "one multiple in the range": (
        whole,
        (rand(4, 6),),
        {"x": {0: Dim("b", min=3, max=5)}},
        {"whole": "b = x.shape[0]|((6*x.shape[0]) % 12) == 0"},
        "{'x': {0: Dim.DYNAMIC(min=3, max=5)}}",
    ),
    "one multiple above a bound": (
        only,
        (rand(8, 6),),
        {"x": {0: Dim("b", max=9)}},
        {"only": "b = x.shape[0]|(x.shape[0] % 2) == 0|8 <= x.shape[0]"},
        "{'x': {0: Dim.DYNAMIC(min=8, max=9)}}",
    ),
    "a root that would be negative": (
        shifted,
        (rand(4, 6), rand(3, 1)),
        {"x": {0: Dim("b", max=5)}, "y": {0: Dim("c", max=5)}},
        {"shifted": "c = y.shape[0]|b = x.shape[0]"},
        "{'x': {0: 2 * Dim('b_2', min=1, max=2)}, 'y': {0: 2 * Dim('b_2', min=1, max=2) - 1}}",
    ),
    "nested": (
        nested,
        (NESTED, {"n": 3}),
        {"batch": OF_NESTED, "opts": {"n": None}},
        {
            "pair": "marked s as dynamic|t = batch['pair'].kv[0].shape[0] and b = batch['pair'].q.shape[0]",
            "rec": "marked w as dynamic|n = batch['rec'].mask.shape[0] and b",
        },
        (
            "{'batch': {'pair': Pair(q={0: Dim('b')}, kv=[{0: Dim('b')}]), "
            "'rec': [{0: Dim('r')}, {0: Dim('b')}]}, 'opts': {'n': None}}"
        ),
    ),
    "record": (
        record,
        (Batch(rand(3, 8), rand(3, 8)),),
        {"b": [{0: B, 1: S}, {0: B, 1: T}]},
        {"mask": "t = b.mask.shape[1] and s = b.ids.shape[1]", "arange": "b as dynamic", "view": "s = b.ids.shape[1]"},
        "{'b': [{1: 2 * Dim('s_2')}, {1: 2 * Dim('s_2')}]}",
    ),
}


def refused(forward, args, shapes):
    """The findings of the refusal, by line, and what is suggested, which is pasted into a new namespace."""
    model = type(forward.__name__.title(), (nn.Module,), {"forward": forward})
    context = Context(ModelCase(model, args, dynamic_shapes=shapes), Settings(()), lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = capture.run(context)
    assert found.outcome == "failed"
    note = next(note for note in found.notes if note.startswith("dynamic_shapes that export ("))
    imports, _, code = note.removeprefix("dynamic_shapes that export (").partition("): ")
    namespace = {}
    exec(imports, namespace)
    torch.export.export(model(), args, dynamic_shapes=eval(code, namespace), strict=False)
    return {f.line: f for f in found.findings}, code


@pytest.mark.parametrize(("forward", "args", "shapes", "told", "code"), CASES.values(), ids=CASES)
def test_all_violations_are_told_at_once(forward, args, shapes, told, code):
    findings, suggested = refused(forward, args, shapes)
    assert findings.keys() == {marked(HERE, mark) for mark in told}
    for mark, words in told.items():
        evidence = findings[marked(HERE, mark)].evidence
        assert [word for word in words.split("|") if word not in evidence] == []
        assert "L[" not in evidence
    assert suggested == code


def windowed(self, x):
    return torch.stack([x[:, i] for i in range(math.ceil(x.shape[1] / 4))])  # at: windows


def buffered(self, x):
    table = torch.zeros(2, 64)
    table[:, : x.shape[1]] = x  # at: whole table
    return table


@pytest.mark.parametrize(
    ("forward", "size", "most", "code"),
    [(windowed, 11, 64, "Dim('t', min=9, max=12)"), (buffered, 12, 64, "Dim('t', min=2, max=63)")],
)
def test_what_is_suggested_holds_in_its_whole_range(forward, size, most, code):
    shapes = {"x": {1: Dim("t", min=2, max=most)}}
    _, suggested = refused(forward, (rand(2, size),), shapes)
    assert suggested == f"{{'x': {{1: {code}}}}}"
    model = type("Model", (nn.Module,), {"forward": forward})()
    suggested = eval(suggested, {"Dim": Dim})
    program = torch.export.export(model, (rand(2, size),), dynamic_shapes=suggested, strict=False).module()
    for length in range(suggested["x"][1].min, suggested["x"][1].max + 1):
        x = rand(2, length)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.slow
def test_a_cache_of_transformers():
    from transformers import DynamicCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()
    cache = DynamicCache()
    cache.update(rand(2, 1, 5, 3), rand(2, 1, 5, 3), 0)
    shapes = {"x": {0: B, 2: S}, "cache": [[{0: T, 2: N}], [{0: Dim("t2"), 2: M}]]}
    findings, code = refused(cached, (rand(2, 1, 4, 3), cache), shapes)
    assert marked(HERE, "cached") in findings
    evidence = " ".join(f.evidence for f in findings.values())
    assert all(f"marked {name} as dynamic" in evidence for name in ("b", "t", "t2"))
    assert code == "{'x': {2: Dim('s')}, 'cache': [[{2: Dim('n')}], [{2: Dim('m')}]]}"
