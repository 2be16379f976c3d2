from __future__ import annotations

import collections
import enum
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from exportlint.shapes import printing

Pair = collections.namedtuple("Pair", ["first", "second"])
X = torch.zeros(2)
HERE = Path(__file__)
MINE = f"from {__name__} import"


@dataclass
class Sample:
    ids: torch.Tensor
    size: int = 3
    length: int = field(init=False, default=0)


class Named(dict):
    """A mapping of a class of its own."""


class Mode(enum.Enum):
    FAST = 1


def local():
    @dataclass
    class Hidden:
        x: int = 1

    return Hidden()


@pytest.mark.parametrize(
    ("args", "kwargs", "tensors", "code"),
    [
        ((X,), {}, {0: "A"}, "model(A)"),
        ((X, 2, None, "s"), {"scale": 1.5}, {0: "A"}, "model(A, 2, None, 's', scale=1.5)"),
        (([X, 1], (X.clone(),)), {}, {0: "A", 2: "B"}, "model([A, 1], (B,))"),
        (({"a": X, 3: True},), {}, {0: "A"}, "model({'a': A, 3: True})"),
        ((Pair(X, 2),), {}, {0: "A"}, f"{MINE} Pair; model(Pair(A, 2))"),
        ((X, X), {}, {0: "A"}, "t0 = A; model(t0, t0)"),
        ((torch.ones(1, 2),), {}, {}, "model(torch.tensor([[1.0, 1.0]], dtype=torch.float32))"),
        ((torch.zeros(100),), {}, {}, ""),
        ((X, object()), {}, {0: "A"}, ""),
        ((X, local()), {}, {0: "A"}, ""),
    ],
)
def test_a_call_as_code(args, kwargs, tensors, code):
    assert printing.call((args, kwargs), tensors) == code


def cache(layers):
    from transformers import DynamicCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()
    made = DynamicCache()
    for index in range(layers):
        made.update(torch.full((1, 1, 2, 3), float(index)), torch.ones(1, 1, 2, 3), index)
    return made


def cases():
    yield "tensors", (X, torch.arange(3), torch.tensor(True)), {"y": X.clone()}
    yield "containers", ([X, (X.clone(), [1]), ()], {"a": {"b": X.clone()}, 2: []}), {}
    yield "ordered", (collections.OrderedDict(a=X), collections.defaultdict(list, {"a": X.clone()})), {}
    yield "deque", (collections.deque([X, 1], 4), Named(a=X.clone())), {}
    yield "named tuples", (Pair(X, Pair(1, None)),), {}
    yield "data classes", (Sample(X, 4), [Sample(X.clone())]), {}
    yield "a shared tensor", (X, [X]), {}
    yield "none", (None, X), {"z": None}
    yield "numbers", (True, 3, -2.5, float("inf"), float("-inf")), {"s": "it's\n'x'", "b": b"\0"}
    yield "words of torch", (torch.float16, torch.device("cpu"), torch.Size([2, 3]), Mode.FAST, range(3), ...), {}


def cases_of_transformers():
    from transformers import EncoderDecoderCache
    from transformers.modeling_outputs import BaseModelOutput

    yield "a cache", (X, cache(2)), {}
    yield "caches", (cache(1), EncoderDecoderCache(cache(1), cache(2))), {}
    yield "a model output", (BaseModelOutput(last_hidden_state=X),), {}


def told(value):
    """A value in words that tell all of it."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {value.tolist()}"
    name = type(value).__qualname__
    if name == "EncoderDecoderCache":
        return f"{name} {told([value.self_attention_cache, value.cross_attention_cache])}"
    if hasattr(value, "layers"):
        return f"{name} {told([(layer.keys, layer.values) for layer in value.layers])}"
    if isinstance(value, dict):
        return f"{name} {[(key, told(item)) for key, item in value.items()]}"
    if isinstance(value, (list, tuple, collections.deque)):
        return f"{name} {[told(item) for item in value]} {getattr(value, 'maxlen', '')}"
    return f"{name} {told(vars(value))}" if isinstance(value, Sample) else f"{name} {value!r}"


@pytest.mark.parametrize("made", [cases, pytest.param(cases_of_transformers, marks=pytest.mark.slow)])
def test_the_code_makes_the_call_in_a_fresh_process(made, tmp_path):
    script = ["import torch", "from test_printing import told", "def model(*args, **kwargs):"]
    script += ["    print(ascii(told((args, kwargs))))"]
    wanted = []
    for name, args, kwargs in made():
        code = printing.call((args, kwargs), {})
        assert code, name
        script.append(code)
        wanted.append(ascii(told((args, kwargs))))
    file = tmp_path / "printed.py"
    file.write_text("\n".join(script), encoding="utf-8")
    environment = {"PYTHONPATH": f"{HERE.parent}:{HERE.parents[2]}", "PATH": ""}
    run = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == wanted, run.stderr


@pytest.mark.parametrize(("value", "equal"), [(float("nan"), "float('nan')"), (slice(1, 2), "")])
def test_values_that_are_not_equal_to_themselves_or_not_plain(value, equal):
    assert printing.call(((value,), {}), {}) == (f"model({equal})" if equal else "")
