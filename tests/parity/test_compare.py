from __future__ import annotations

import collections
import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exportlint.parity.compare import Difference, compare, equal_bits
from exportlint.parity.reference import Reference

NAN, INF = float("nan"), float("inf")
EPS32 = torch.finfo(torch.float32).eps
Pair = collections.namedtuple("Pair", ["a", "b"])


def t(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CSR = torch.eye(3).to_sparse_csr()  # torch warns that it is in beta

SAME = [
    (t(1.0, 2.0), t(1.0, 2.0)),
    (t(1.0, NAN, INF, -INF), t(1.0, NAN, INF, -INF)),
    (t(0.0), t(-0.0)),
    (t(1.0, 1000.0), t(1.0, 1000.0 * (1 + 8 * EPS32))),
    (t(1e-9, 1000.0), t(1e-5, 1000.0)),  # rounding error of a reduction is relative to its largest term
    (t(1, 2, dtype=torch.int64), t(1, 2, dtype=torch.int64)),
    (t(True, False, dtype=torch.bool), t(True, False, dtype=torch.bool)),
    (t(1 + 2j, dtype=torch.complex64), t(1 + 2j, dtype=torch.complex64)),
    (t(complex(NAN, 1), dtype=torch.complex64), t(complex(NAN, 1), dtype=torch.complex64)),
    (torch.empty(0, 3), torch.empty(0, 3)),
    (torch.tensor(1.5), torch.tensor(1.5)),
    (torch.eye(3).to_sparse(), torch.eye(3).to_sparse()),
    (CSR, CSR),
    (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
    (torch.ones(2, dtype=torch.float8_e4m3fn), torch.ones(2, dtype=torch.float8_e4m3fn)),
    (t(1.0, dtype=torch.bfloat16), t(1.01, dtype=torch.bfloat16)),
    (torch.ones(2, 3).T, torch.ones(3, 2)),
    (torch.ones(2, requires_grad=True), torch.ones(2)),
    (torch.ones(2, device="meta"), torch.ones(2, device="meta")),
    (None, None),
    ((), ()),
    ([1, "a", None, True, NAN], [1, "a", None, True, NAN]),
    ({"a": t(1.0), "b": (t(2.0), 3)}, {"a": t(1.0), "b": (t(2.0), 3)}),
    (Pair(t(1.0), 2), Pair(t(1.0), 2)),
]

DIFFERENT = [
    ((t(1.0), 2), Pair(t(1.0), 2), "the structure is TreeSpec(tuple, None, [*, *]) in eager, TreeSpec(namedtuple"),
    ([t(1.0)], (t(1.0),), "the structure is TreeSpec(list"),
    (t(1.0, 2.0), t(1.0, 3.0), "1 of 2 values differ, by at most 1"),
    (t(1.0, NAN), t(1.0, 1.0), "NaN in other places"),
    (t(1.0, 1.0), t(1.0, NAN), "NaN in other places"),
    (t(NAN, 1.0), t(1.0, NAN), "NaN in other places"),
    (t(1.0, INF), t(1.0, -INF), "infinities in other places"),
    (t(1.0, INF), t(1.0, 3e38), "infinities in other places"),
    (t(1.0, 3e38), t(1.0, INF), "infinities in other places"),
    (t(NAN, 1.0), t(NAN, 2.0), "1 of 2 values differ, by at most 1"),
    (t(INF, 1.0), t(INF, 2.0), "1 of 2 values differ, by at most 1"),
    (t(0.0, 0.0), t(0.0, 1e-30), "1 of 2 values differ"),
    (t(1.0), t(1.0, dtype=torch.float64), "torch.float32 in eager, torch.float64 in the program"),
    (t(1, dtype=torch.int32), t(1, dtype=torch.int64), "torch.int32 in eager, torch.int64 in the program"),
    (t(1.0), t(1.0, 1.0), "shape [1] in eager, [2] in the program"),
    (torch.ones(1), torch.tensor(1.0), "shape [1] in eager, [] in the program"),
    (torch.empty(0, 3), torch.empty(3, 0), "shape [0, 3] in eager, [3, 0] in the program"),
    (t(1, 2, dtype=torch.int64), t(1, 3, dtype=torch.int64), "1 of 2 values differ"),
    (t(2**53, dtype=torch.int64), t(2**53 + 1, dtype=torch.int64), "1 of 1 values differ"),
    (t(True, dtype=torch.bool), t(False, dtype=torch.bool), "1 of 1 values differ"),
    (t(1 + 2j, dtype=torch.complex64), t(1 - 2j, dtype=torch.complex64), "1 of 1 values differ, by at most 4"),
    (torch.eye(3).to_sparse(), 2 * torch.eye(3).to_sparse(), "3 of 9 values differ"),
    (CSR, 2 * CSR, "3 of 9 values differ"),
    (torch.ones(2, dtype=torch.float8_e4m3fn), torch.zeros(2, dtype=torch.float8_e4m3fn), "2 of 2 values differ"),
    (t(1.0, dtype=torch.bfloat16), t(1.1, dtype=torch.bfloat16), "1 of 1 values differ"),
    (t(1.0, dtype=torch.float16), t(1.01, dtype=torch.float16), "1 of 1 values differ"),
    (torch.ones(2), torch.ones(2, device="meta"), "a tensor without data"),
    (t(1.0), 1.0, "a Tensor in eager, a float in the program"),
    (1, 2, "1 in eager, 2 in the program"),
    (1, True, "1 in eager, True in the program"),
    (1, 1.0, "1 in eager, 1.0 in the program"),
    (1.0, NAN, "1.0 in eager, nan in the program"),
    ("a", None, "'a' in eager"),
    ((t(1.0),), (t(1.0), t(1.0)), "1 outputs in eager, 2 in the program"),
    ({"a": 1, "b": 2}, {"a": 1, "c": 2}, "the structure is"),
    ([[1], [2, 3]], [[1, 2], [3]], "the structure is"),
    ({"a": (1, t(1.0))}, {"a": (1, t(2.0))}, "output['a'][1]: 1 of 1 values differ"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), SAME)
def test_equal(one, two):
    assert compare(one, two) is None


@pytest.mark.parametrize(("one", "two", "words"), DIFFERENT)
def test_different(one, two, words):
    found = compare(one, two)
    assert isinstance(found, Difference)
    assert words in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64])
def test_the_sign_of_a_zero_is_no_difference_and_what_it_decides_is_one(dtype):
    plus, minus = t(0.0, 3.0, dtype=dtype), t(-0.0, 3.0, dtype=dtype)
    assert plus.view(torch.uint8).ne(minus.view(torch.uint8)).any()  # the bits are others
    assert equal_bits(plus, minus)
    assert compare([plus, 0.0], [minus, -0.0]) is None
    assert compare(plus, minus, rtol=0.0, atol=0.0) is None
    assert "values differ" in str(compare(plus, t(-0.0, 4.0, dtype=dtype)))
    if not dtype.is_complex:
        assert "infinities in other places" in str(compare(1 / plus, 1 / minus))


def test_a_fake_tensor_holds_no_data():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(2))
    assert "a tensor without data" in str(compare(torch.ones(2), fake))


def test_a_tolerance_that_is_asked_for_replaces_the_derived_one():
    one, two = t(1.0, 100.0), t(1.0, 100.1)
    assert compare(one, two) is not None
    assert compare(one, two, rtol=0.01) is None
    assert compare(one, two, atol=0.2) is None
    assert compare(one, two, atol=0.05) is not None
    assert compare(t(1.0), t(1.0 + 4 * EPS32)) is None
    assert compare(t(1.0), t(1.0 + 4 * EPS32), rtol=0.0, atol=0.0) is not None
    assert compare(t(1.0, NAN), t(1.0, 1.0), rtol=10.0, atol=10.0) is not None
    assert compare(t(1.0, INF), t(1.0, 1.0), rtol=10.0, atol=10.0) is not None


def test_the_worst_difference_is_told():
    found = compare(t(1.0, 2.0, 3.0), t(1.0, 2.5, 1.0))
    assert found is not None
    assert found.worst == 2.0
    assert math.isnan(compare(t(1.0), t(1.0, 2.0)).worst)


@pytest.mark.parametrize(
    ("dtype", "one", "other", "words"),
    [
        (torch.int64, (1, 5, 9), (2, 5, -9), "2 of 3 values differ, by at most 18, at [2]: 9 in eager, -9"),
        (torch.int64, (2**53, 1), (2**53 + 1, 1), "1 of 2 values differ, by at most 1, at [0]: 9007199254740992 in"),
        (torch.uint8, (1, 255), (2, 0), "2 of 2 values differ, by at most 255, at [1]: 255 in eager, 0"),
        (torch.bool, (True, True), (True, False), "1 of 2 values differ, the first at [1]: True in eager, False"),
    ],
)
def test_of_whole_numbers_the_worst_is_told_too(dtype, one, other, words):
    assert words in str(compare(t(*one, dtype=dtype), t(*other, dtype=dtype)))


values = st.floats(width=32) | st.sampled_from([NAN, INF, -INF, 0.0, -0.0])
FLOATS = st.lists(values, min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(FLOATS)
def test_a_result_equals_itself(numbers):
    assert compare(t(*numbers), t(*numbers)) is None
    assert compare({"a": [t(*numbers)]}, {"a": [t(*numbers)]}) is None


@settings(max_examples=60, deadline=None)
@given(FLOATS, st.integers(0, 7), values)
def test_a_value_that_is_really_another_is_seen(numbers, index, other):
    index %= len(numbers)
    finite = [abs(x) for x in numbers if math.isfinite(x)]
    largest = max(finite, default=0.0)
    one, two = t(*numbers), t(*numbers)
    two[index] = other
    a, b = float(one[index]), float(two[index])
    if a == b or (math.isnan(a) and math.isnan(b)):
        assert compare(one, two) is None
    elif not (math.isfinite(a) and math.isfinite(b)) or abs(a - b) > 1e-4 * largest:
        assert compare(one, two) is not None


@settings(max_examples=30, deadline=None)
@given(FLOATS)
def test_rounding_in_the_order_of_a_sum_is_no_difference(numbers):
    finite = torch.tensor([x for x in numbers if abs(x) < 1e30] or [1.0])
    forward, backward = finite.cumsum(0)[-1:], finite.flip(0).cumsum(0)[-1:]
    scale = torch.cat([forward, finite.abs().sum().reshape(1)])
    assert compare(scale, torch.cat([backward, scale[1:]])) is None


@pytest.mark.parametrize("sentinel", [-1e9, torch.finfo(torch.float32).min, 1e12])
def test_a_sentinel_hides_no_error(sentinel):
    """Scores of masked places are large; the others must still be right."""
    eager = torch.randn(4, 6)
    eager[:, 4:] = sentinel
    near, wrong = eager.clone(), eager.clone()
    near[:, :4] *= 1 + 1e-7
    wrong[:, :4] += 0.01
    assert compare(eager, near) is None
    assert compare(eager, wrong) is not None


def outlier(others, dtype):
    """A hidden state with one channel that is far larger than all others."""
    return torch.cat([torch.tensor([300.0, -300.0, 299.0], dtype=dtype), others.to(dtype)])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_large_channel_hides_no_error(dtype):
    exact = torch.linspace(-1, 1, 125, dtype=torch.float64)
    reference = Reference(lambda: lambda: outlier(exact, torch.float64))
    eager, wrong = outlier(exact, dtype), outlier(-exact, dtype)
    assert compare(eager, eager + 0 * wrong, reference=reference) is None
    found = compare(eager, wrong, reference=reference)
    assert found is not None
    assert "values differ" in found.what


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([torch.bfloat16, torch.float16, torch.float32]))
def test_rounding_beside_a_large_channel_is_no_difference(seed, dtype):
    """The same product, in one piece and summed in two: both are as far from float64."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(96, 64, generator=generator, dtype=torch.float64)
    weight[:2] *= 200
    weight = weight.to(dtype)
    reference = Reference(lambda: lambda: weight.double() @ x.double())
    eager = weight @ x
    again = weight[:, :32] @ x[:32] + weight[:, 32:] @ x[32:]
    assert compare(eager, again, reference=reference) is None


def test_a_reference_that_is_only_partly_one_is_told_with_the_difference():
    def half():
        return torch.tensor([1 / 3] * 20, dtype=torch.float32).double()

    def fails():
        raise RuntimeError("no such kernel")

    for call, words in ((half, "only partly float64"), (fails, "no float64 reference: RuntimeError: no such kernel")):
        found = compare(torch.full((20,), 1 / 3), torch.full((20,), 0.4), reference=Reference(lambda call=call: call))
        assert found is not None
        assert words in found.what
