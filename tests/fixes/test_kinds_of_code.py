"""Fixes of one kind of code: what they come to, and what is so much like it that nothing may be written."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from mending import mended

from exportlint.rules.examples import example

CACHE = """
def forward(self, x):
    if x.shape[1] != self.length:
        self.length = x.shape[1]
        self.table = torch.arange(x.shape[1], device=x.device)
    return x + self.table
"""
CACHED = {"init": "self.length = None\nself.table = None", "inputs2": "torch.ones(2, 7)"}
ROWS = {"inputs": "torch.ones(3, 4)", "inputs2": "torch.ones(5, 4)"}
MASK = "low = x < 2\nif low.any():\n    x = x.clone()\n    x[low] = 0\nreturn x * 2"

COND = """
def if_so():
    y = x * 2
    # kept
    z = y + 1
    return z

def if_not():
    z = x - 1
    return z

z = torch.cond(x.sum() > 0, if_so, if_not, ())
return z
"""


COND_NOT = """
def if_so(x):
    y = x.clamp(max=9)
    x = y + 1
    return x

def if_not(x):
    return x.clone()

x = torch.cond(~torch.isfinite(x).all(), if_so, if_not, (x,))
return x
"""


def method(body: str, **given: str) -> str:
    """An example whose forward has this body."""
    return example(f"def forward(self, x):\n{indent(dedent(body).strip(), '    ')}", **given)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (MASK, "low = x < 2\nx = x.clone()\nx[low] = 0\nreturn x * 2"),
        (
            "rows = x[:, 0].nonzero()[:, 0]\nif len(rows) > 0:\n    x = x.index_fill(0, rows, 2)\nreturn x",
            "rows = x[:, 0].nonzero()[:, 0]\nx = x.index_fill(0, rows, 2)\nreturn x",
        ),
        (
            "if not (x > 0).all():\n    raise ValueError('positive')\nreturn x.log()",
            "torch._assert_async((x > 0).all(), 'positive')\nreturn x.log()",
        ),
        ("if x.max().item() > 3:\n    return x - 1\nreturn x", "return torch.where(x.max() > 3, x - 1, x)"),
        (
            "n = x.argmax().item()\nif n < 0 or n > 8:\n    raise ValueError(f'{n}')\nreturn x[:n]",
            "n = x.argmax().item()\n# else: {n}\ntorch._check_value(n >= 0)\ntorch._check_value(n <= 8)\nreturn x[:n]",
        ),
        (
            "n = x.argmax().item()\nif not 0 <= n <= len(x):\n    raise RuntimeError\nreturn x * n",
            "n = x.argmax().item()\ntorch._check(0 <= n)\ntorch._check(n <= len(x))\nreturn x * n",
        ),
        (
            "rows = x[:, 0].nonzero()\nif len(rows) == 7:\n    raise IndexError('a' 'b')\nreturn x * rows.sum()",
            "rows = x[:, 0].nonzero()\n# else: ab\ntorch._check_index(len(rows) != 7)\nreturn x * rows.sum()",
        ),
        (
            "if x.sum() > 0:\n    y = x * 2\n    # kept\n    z = y + 1\nelse:\n    z = x - 1\nreturn z",
            COND,
        ),
        (
            "if not torch.isfinite(x).all():\n    y = x.clamp(max=9)\n    x = y + 1\nreturn x",
            COND_NOT,
        ),
        ("return x if not (x > 1).all() else x + 1", "return torch.where(~(x > 1).all(), x, x + 1)"),
        # a test that may have dimensions, each of one element
        ("return x * 2 if x[:1, :1] > 0 else x", "return torch.where((x[:1, :1] > 0).reshape(()), x * 2, x)"),
        (
            "gate = x[:1]\nif not (gate > 0)[:, :1]:\n    x = x * 2\nreturn x",
            "gate = x[:1]\nx = torch.where((~(gate > 0)[:, :1]).reshape(()), x * 2, x)\nreturn x",
        ),
        (
            "if x[:1, :1].item() > 3:\n    return x - 1\nreturn x",
            "return torch.where(x[:1, :1].reshape(()) > 3, x - 1, x)",
        ),
        (
            "n = x[0, 0].item()\nif n > 3:\n    return x - n\nreturn x",
            "n = x[0, 0].reshape(())\nreturn torch.where(n > 3, x - n, x)",
        ),
        # comments stay
        (
            "if x.sum() > 0:  # why\n    y = x * 2\n    z = y + 1\nelse:  # else\n    z = x - 1\nreturn z",
            COND.strip()
            .replace("    y = x", "    # why\n    y = x")
            .replace("    # kept\n", "")
            .replace("    z = x - 1", "    # else\n    z = x - 1"),
        ),
        (
            "if x.sum() > 0:  # why\n    # so\n    x = x * 2  # it\nreturn x",
            "# why\n# so\nx = torch.where(x.sum() > 0, x * 2, x)  # it\nreturn x",
        ),
        (MASK.replace("any():", "any():  # why"), "low = x < 2\n# why\nx = x.clone()\nx[low] = 0\nreturn x * 2"),
        (
            "if x.shape[1] > 2: print(x.shape)\nreturn x",
            "if not torch.compiler.is_compiling():\n    if x.shape[1] > 2: print(x.shape)\nreturn x",
        ),
        # both ways may be computed
        ("return self.layer(x) if x.sum() > 0 else x", "return torch.where(x.sum() > 0, self.layer(x), x)"),
        (
            "return F.dropout(x, training=False) if x.sum() > 0 else x",
            "return torch.where(x.sum() > 0, F.dropout(x, training=False), x)",
        ),
        ("return x + self.table[x.argmax()]", "return x + self.table[x.argmax()[None]][0]"),
        ("y = torch.stack([x[i] * 2 for i in range(len(x))])\nreturn y", "y = x * 2\nreturn y"),
    ],
)
def test_code_of_a_kind_is_rewritten(body: str, wanted: str) -> None:
    given = {
        **ROWS,
        "imports": "import torch.nn.functional as F",
        "init": 'self.register_buffer("table", torch.ones(12))\nself.layer = torch.nn.Linear(4, 4)',
    }
    assert mended(method(body, **given)).data.decode() == method(wanted, **given)


@pytest.mark.parametrize(
    "body",
    [
        MASK.replace("x[low] = 0", "x[0] = 0"),
        MASK.replace("x = x.clone()", "x = x * 3"),
        MASK.replace("    x[low] = 0", "    x[low] = 0\n    y = x\nx = x + y"),
        "rows = x[:, 0].nonzero()[:, 0]\nif len(rows) > 1:\n    x = x.index_fill(0, rows, 2)\nreturn x",
        "if (x > 0).any():\n    raise ValueError(f'no {x.shape}')\nreturn x",
        "n = x.max().item()\nif n > 3:\n    return x - n\nreturn x[: int(n)]",
        "return x * 2 if x.sum() else x + 1",
        "if x.sum() > 3:\n    return x.sum(0)\nreturn x",
        "n = x.argmax().item()\nif n:\n    return x * 2\nreturn x + 1",
        "try:\n    if x.sum() > 3:\n        raise ValueError('large')\nexcept ValueError:\n    x = x / 2\nreturn x",
        "n = int(math.sqrt(len(x)))\nreturn x[:n]",
        "z = 0\nif x.sum() > 0:\n    z = x.sum() + 1\n    x = x * 2\nreturn x + z",
        "if x.sum() > 0:\n    y = torch.cat([x, x])\nelse:\n    y = x * 2\nreturn y.sum()",
        "for i in range(1 if x.sum() > 0 else 2):\n    x = x + i\nreturn x",
        "if x.numel() == 0:\n    return torch.zeros(0, 4)\nreturn x - x.max()",
        "n = x.argmax().item()\nif n % 2 == 0:\n    raise ValueError\nreturn x * n",
        "n = x.argmax().item()\nif n > 1 and n < 8:\n    raise ValueError\nreturn x * n",
        "n = x.argmax().item()\nif n > 1 or x.sum() > 3:\n    raise ValueError\nreturn x * n",
        "n = x.argmax().item()\nif n > 8:\n    raise ValueError(self.words)\nreturn x * n",
        "if (x > 0).any() or self.training:\n    raise ValueError('large')\nreturn x",
        "if not ((x > 0).any() or self.training):\n    raise ValueError('large')\nreturn x",
        "n = x.mean().item()\nif n > 8:\n    raise ValueError('large')\nreturn x * n",
        "y = torch.stack([x[i] * 2 for i in range(len(x) - 1)])\nreturn y",
        "y = torch.stack([x[i] * i for i in range(len(x))])\nreturn y",
        "y = torch.stack([x[i].sort()[0] for i in range(len(x))])\nreturn y",
        "y = x\nif x.sum() > 0:\n    y = x * 2\n    y += 1\nreturn y",
        "y = x\nif x.sum() > 0:\n    y = x * 2\n    y = y.view(-1)\nreturn y",
        "if x.sum() > 0:\n    y = x * 2\n    n = 3\nelse:\n    n = 4\nreturn x * n",
    ],
)
def test_what_only_looks_like_it_stays(body: str) -> None:
    source = method(body, **ROWS)
    result = mended(source)
    assert result.data.decode() == source
    assert not result.unmended


SCALED = "def forward(self, x):\n    return x * self.scale"


@pytest.mark.parametrize(
    "init", ["self.scale = None\nself.scale = {}", "self.scale = None\nif True:\n    self.scale = {}"]
)
def test_an_attribute_that_begins_empty_is_a_buffer_that_does(init: str) -> None:
    made = init.format("torch.ones(4) * 2").replace(
        "self.scale = None", 'self.register_buffer("scale", None, persistent=False)'
    )
    assert mended(example(SCALED, init=init.format("torch.ones(4) * 2"))).data.decode() == example(SCALED, init=made)


@pytest.mark.parametrize(
    "init",
    [
        "self.scale = torch.ones(4)\nself.scale = torch.zeros(4)",
        "if True:\n    self.scale = None\nself.scale = torch.ones(4)",
        "self.scale = 0\nself.scale = torch.ones(4)",
    ],
)
def test_an_attribute_that_is_bound_otherwise_stays(init: str) -> None:
    source = example(SCALED, init=init)
    assert mended(source).data.decode() == source


GRAPH = """
def forward(self, x):
    return self.graph(x) + self.graph_(x) + {}
"""
GRAPHS = "self.graph = torch.nn.Linear(4, 4)\nself.graph_ = torch.nn.Linear(4, 4)"


def test_a_name_that_is_taken_is_not_given_twice() -> None:
    made = mended(example(GRAPH.format("1"), init=GRAPHS)).data.decode()
    assert "return self.graph_2(x) + self.graph_(x) + 1" in made
    assert "self.graph_2 = torch.nn.Linear(4, 4)\n        self.graph_ = torch.nn.Linear(4, 4)" in made


def test_what_is_asked_for_by_its_name_is_not_renamed() -> None:
    source = example(GRAPH.format('getattr(self, "graph").weight.sum()'), init=GRAPHS)
    assert mended(source).data.decode() == source


LAYERS = """\
self.norm = torch.nn.BatchNorm1d(4)
self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.1))
self.calls = []
self.register_buffer("seen", torch.zeros(4))"""
METHODS = """
def note(self, x):
    self.last = x
    return x

def draw(self, x):
    return self.drawn(x)

def drawn(self, x):
    return x + torch.rand_like(x)

def add(self, x):
    self.seen.add_(x.sum(0))
    return x * 2
"""


@pytest.mark.parametrize(
    "way",
    [
        "self.norm(x)",
        "self.layers(x)",
        "x + self.layers(x).sin()",
        "torch.nn.functional.dropout(x)",
        "torch.nn.functional.dropout(x, training=self.training)",
        "x + torch.randn(4)",
        "x.add_(1)",
        "x.clone().clamp_(0)",
        "self.note(x)",
        "self.draw(x)",
        "self.add(x)",
        "(y := x * 2)",
        "(self.calls.append(1), x)[1]",
    ],
)
def test_what_does_more_than_computing_is_not_done_where_it_was_not(way: str) -> None:
    for body in (f"return {way} if x.sum() > 0 else x", f"if x.sum() > 0:\n    return x - 1\nreturn {way}"):
        source = example(
            f"def forward(self, x):\n{indent(body, '    ')}\n{METHODS}", init=LAYERS, inputs="torch.ones(3, 4)"
        )
        assert "torch.where" not in mended(source).data.decode()


def test_a_cache_that_something_else_reads_stays() -> None:
    made = mended(example(CACHE, **CACHED)).data.decode()
    assert "self.table" not in made
    assert "table = torch.arange(x.shape[1], device=x.device)\n        return x + table" in made
    for more in ("def reset(self):\n    self.table = None", "def size(self):\n    return self.table.shape"):
        source = example(f"{CACHE}\n{more}", **CACHED)
        assert mended(source).data.decode() == source


def test_what_a_call_is_given_is_not_read_before() -> None:
    switch = 'def forward(self, x):\n    {}\n    return x * 2 if os.environ.get("SWITCH", {}) else x'
    alone = mended(example(switch.format("y = 'a'", "'b'"), imports="import os")).data.decode()
    assert "self.switch = os.environ.get(\"SWITCH\", 'b')" in alone
    source = example(switch.format("y = 'a'", "y"), imports="import os")
    assert mended(source).data.decode() == source


MASKED = """
def forward(self, x, mask=None):
    if mask is not None and torch.all(mask):
        mask = None
    return x if mask is None else x * mask
"""


def test_only_a_mask_that_masks_nothing_is_forgotten_in_eager_alone() -> None:
    given = {"inputs": "torch.ones(2, 4), torch.ones(2, 4)"}
    made = mended(example(MASKED, **given)).data.decode()
    assert "if not torch.compiler.is_compiling() and mask is not None and torch.all(mask):" in made
    opposite = MASKED.replace("torch.all(mask)", "not torch.any(mask)")
    assert (
        "is_compiling() and mask is not None and not torch.any(mask):"
        in mended(example(opposite, **given)).data.decode()
    )
    for other in ("torch.any(mask)", "not torch.all(mask)"):
        source = example(MASKED.replace("torch.all(mask)", other), **given)
        assert mended(source).data.decode() == source
    source = example(MASKED.replace("mask", "scale"), **given)
    assert mended(source).data.decode() == source


def test_one_draw_decides_as_a_number() -> None:
    source = method("return x * 2 if random.random() > 0.5 else x", imports="import random")
    assert mended(source).data.decode() == source


COUNTED = """
import torch
from torch import nn


class Net(nn.Module):
    calls = 0

    def forward(self, x):
        {change}
        return x * Net.calls
"""


@pytest.mark.parametrize("change", ["type(self).calls += 1", "Net.calls += 1"])
def test_an_attribute_of_a_class_becomes_no_buffer(change: str) -> None:
    source = COUNTED.format(change=change)
    assert mended(source).data.decode() == source


RESERVED = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("code", torch.ones(4))

    def forward(self, x):
        return x * self.code
"""
DERIVED = """

class Other(Net):
    def forward(self, x):
        return x - self.code
"""


@pytest.mark.parametrize(("below", "renamed"), [("", True), (DERIVED, False)])
def test_a_name_is_kept_that_a_derived_class_may_use(below: str, renamed: bool) -> None:
    found = mended(RESERVED + below).data.decode()
    assert ('"code_"' in found) is renamed
    assert ("self.code_" in found) is renamed
