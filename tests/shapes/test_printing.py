from __future__ import annotations

import collections
from dataclasses import dataclass

import pytest
import torch

from exportlint.shapes import printing

Pair = collections.namedtuple("Pair", ["first", "second"])
X = torch.zeros(2)


@dataclass
class Sample:
    ids: torch.Tensor
    size: int = 3


torch.export.register_dataclass(Sample, serialized_type_name="exportlint_tests.PrintedSample")


@pytest.mark.parametrize(
    ("args", "kwargs", "tensors", "code"),
    [
        ((X,), {}, {0: "A"}, "model(A)"),
        ((X, 2, None, "s"), {"scale": 1.5}, {0: "A"}, "model(A, 2, None, 's', scale=1.5)"),
        (([X, 1], (X.clone(),)), {}, {0: "A", 2: "B"}, "model([A, 1], (B,))"),
        (({"a": X, 3: True},), {}, {0: "A"}, "model({'a': A, 3: True})"),
        ((Pair(X, 2),), {}, {0: "A"}, "model(Pair(A, 2))"),
        ((Sample(X),), {}, {0: "A"}, "model(Sample(ids=A, size=3))"),
        ((X, X), {}, {0: "A"}, "t0 = A; model(t0, t0)"),
        ((X,), {}, {}, "model(<tensor of shape [2]>)"),
    ],
)
def test_a_call_as_code(args, kwargs, tensors, code):
    assert printing.call((args, kwargs), tensors) == code


def test_a_cache_of_transformers_is_listed():
    from transformers import DynamicCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()
    cache = DynamicCache()
    cache.update(torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 2, 3), 0)
    assert "<DynamicCache of " in printing.call(((cache,), {}), {})
