from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from exportlint.shapes import contents
from exportlint.shapes.contents import BOOLEAN_KINDS, COMPLEX_KINDS, FLOAT_KINDS, INTEGER_KINDS, UNIT_KINDS, Domain
from exportlint.shapes.contract import declared

X = torch.randn(2, 3)
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)


def recipe(data, like, shape, domain):
    return contents.recipe(
        lambda kinds, layouts: (
            data.draw(st.sampled_from(kinds)),
            data.draw(st.integers(0, 2**16)),
            data.draw(st.sampled_from(layouts)),
        ),
        like,
        shape,
        domain,
        4,
    )


def drawn(data, like, shape, domain):
    made = recipe(data, like, shape, domain)
    return made.make(), made.kind


@pytest.mark.parametrize(
    ("dtype", "domain", "kinds"),
    [
        (torch.float32, None, FLOAT_KINDS),
        (torch.float64, Domain(0.0, 1.0), UNIT_KINDS),
        (torch.float32, Domain(2.0, 3.0), ("uniform",)),
        (torch.float32, Domain(-2.0, 0.0), ("zeros", "uniform")),
        (torch.float32, Domain(-1e9, 0.0, mask=True), BOOLEAN_KINDS),
        (torch.bfloat16, None, FLOAT_KINDS),
        (torch.complex64, None, COMPLEX_KINDS),
        (torch.complex128, None, COMPLEX_KINDS),
        (torch.bool, None, BOOLEAN_KINDS),
        (torch.int64, Domain(0, 1, mask=True), BOOLEAN_KINDS),
        (torch.int32, Domain(3, 9), INTEGER_KINDS),
        (torch.uint8, Domain(0, 255), INTEGER_KINDS),
        (torch.int64, Domain(-5, -5), INTEGER_KINDS),
    ],
)
def test_contents_of_each_kind(dtype, domain, kinds):
    seen = set()

    @settings(QUICK, max_examples=200)
    @given(st.data())
    def draw(data):
        shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=3)))
        like = torch.zeros(2, dtype=dtype, requires_grad=dtype == torch.float32)
        made, kind = drawn(data, like, shape, domain)
        seen.add(kind)
        assert made.shape == shape
        assert made.dtype == dtype
        assert made.requires_grad == like.requires_grad
        assert bool(torch.isfinite(made.detach().to(torch.complex128)).all())
        if domain is not None and made.numel():
            assert domain.low <= float(made.detach().min()) <= float(made.detach().max()) <= domain.high

    draw()
    assert seen == set(kinds)


def test_complex_contents_have_both_parts_or_one():
    parts = {}
    for kind in COMPLEX_KINDS:
        made = contents.Recipe((3, 5), "torch.complex128", kind, seed=1).make()
        parts[kind] = bool(made.real.any()), bool(made.imag.any())
    assert parts.pop("zeros") == (False, False)
    assert parts.pop("imaginary") == (False, True)
    assert {parts.pop(kind) for kind in ("constant", "real", "negative")} == {(True, False)}
    assert set(parts.values()) == {(True, True)}


def domains_of(model, args, declared_ranges=None, more=()):
    contract = declared(model, (args, {}), None)
    found = contents.domains(model, contract, ((args, {}), *more), declared_ranges or {})
    return {leaf.words: found.get(leaf.index) for leaf in contract.leaves}


class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.bag = nn.EmbeddingBag(7, 4)

    def forward(self, ids, bag, steps, pixels, noise, attention_mask, flags):
        return self.embed(ids[:, 1:]).sum() + self.bag(bag).sum() + steps.sum() + pixels.sum() + noise.sum()


def test_domains():
    args = (
        torch.zeros(2, 4, dtype=torch.int64),
        torch.zeros(2, 4, dtype=torch.int64),
        torch.tensor([4, 9]),
        torch.rand(2, 3),
        torch.randn(2, 30),
        torch.ones(2, 4, dtype=torch.int64),
        torch.ones(2, dtype=torch.bool),
    )
    found = domains_of(Reads(), args)
    assert found["ids"] == Domain(0, 10)  # a slice of it is what the embedding reads
    assert found["bag"] == Domain(0, 6)
    assert found["steps"] == Domain(4, 9)
    assert found["pixels"] == Domain(0.0, 1.0, firm=False)
    assert found["noise"] is None
    assert found["attention_mask"] == Domain(1, 1, mask=True)
    assert found["flags"] is None
    assert domains_of(Reads(), args, {"ids": (2, 3), "steps": (0, 99)})["ids"] == Domain(2, 3)
    assert domains_of(Reads(), args, {"steps": (0, 99)})["steps"] == Domain(0, 99)


class Pair(NamedTuple):
    ids: torch.Tensor
    more: torch.Tensor


class Takes(nn.Module):
    def forward(self, batch):
        return [part + 1 for part in batch]


@pytest.mark.parametrize("kind", [lambda *parts: parts, lambda *parts: list(parts), Pair])
def test_a_declared_range_holds_for_all_that_a_parameter_holds(kind):
    found = domains_of(Takes(), (kind(torch.tensor([4, 9]), torch.tensor([5])),), {"batch": (0, 99)})
    assert [*found.values()] == [Domain(0, 99), Domain(0, 99)]


def test_what_an_example_between_0_and_1_does_not_rule_out():
    """Only a declared range does: many examples are made by `torch.rand` without a thought."""
    seen = Domain(0.0, 1.0, firm=False)
    kinds = contents.kinds_of(X, seen)
    assert set(kinds) == {*FLOAT_KINDS, "uniform"}
    assert next(kind for kind in contents.PLAIN if kind in kinds) == "uniform"  # what hides least stays in the range
    assert contents.kinds_of(X, Domain(0.0, 1.0)) == UNIT_KINDS
    made = contents.Recipe((40,), "torch.float32", "normal", 3, 0.0, 1.0).make()
    assert float(made.min()) < 0
    assert float(made.max()) > 1


@pytest.mark.parametrize("hidden", [-torch.inf, torch.finfo(torch.float32).min, -1e4])
def test_a_mask_that_is_added_is_drawn_as_one(hidden):
    mask = torch.zeros(2, 1, 3, 4)
    mask[1, :, :, 2:] = hidden
    domain = domains_of(Adds(), (mask,))["bias"]
    assert domain == Domain(hidden, 0.0, mask=True)
    for kind in BOOLEAN_KINDS:
        made = contents.recipe(lambda *_: (kind, 0, "contiguous"), mask, (2, 1, 3, 4), domain, 4)  # noqa: B023
        assert set(made.make().unique().tolist()) <= {hidden, 0.0}
        kept = msgspec.json.decode(msgspec.json.encode(made), type=contents.Recipe)
        assert (kept, kept.code) == (made, made.code)
    assert domains_of(Adds(), (torch.tensor([0.0, -3.0]),))["bias"] is None
    assert domains_of(Adds(), (torch.tensor([0.0, -1e9, 2.0]),))["bias"] is None


class Adds(nn.Module):
    def forward(self, bias):
        return bias + 1


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
@pytest.mark.parametrize(
    ("kind", "shape", "shown"),
    [
        ("empty row", (3, 4), [0, 4, 4]),
        ("full row", (3, 4), [4, 0, 0]),
        ("empty row", (2, 1, 2, 4), [0, 8]),
        ("empty row", (4,), [0]),
        ("empty row", (0, 4), []),
        ("empty row", (3, 0), [0, 0, 0]),
        ("full row", (), [1]),
    ],
)
def test_masks_in_which_one_row_differs_from_all_others(dtype, kind, shape, shown):
    like = torch.ones(2, dtype=dtype)
    made = contents.recipe(lambda *_: (kind, 0, "contiguous"), like, shape, Domain(1, 1, mask=True), 4).make()
    assert (made.dtype, made.shape) == (dtype, shape)
    rows = made.reshape(shape[0] if len(shape) > 1 else 1, -1) if made.numel() or len(shape) == 1 else made
    assert rows.to(torch.int64).sum(-1).flatten().tolist() == shown


def test_a_mask_of_ones_is_drawn_with_zeros():
    seen = set()

    @settings(QUICK, max_examples=30)
    @given(st.data())
    def draw(data):
        made, _ = drawn(data, torch.ones(2, 4, dtype=torch.int64), (2, 4), Domain(1, 1, mask=True))
        seen.update(made.flatten().tolist())

    draw()
    assert seen == {0, 1}


def test_a_loop_that_torch_compiles_is_looked_into_and_runs_as_before():
    from torch._higher_order_ops import while_loop

    class Loops(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(7, 4)

        def forward(self, ids):
            rows = self.table(ids)
            return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), rows))[1]

    ids = torch.tensor([1, 2])
    model = Loops()
    assert contents._vocabularies(model, ((ids,), {})) == {contents._memory(ids): 7}
    with torch.no_grad():
        assert torch.equal(model(ids), model.table(ids) * 8)
