"""# size-frozen (EXP301)

## What it does
Reports code that turns a dynamic size into a number: `int(x.shape[0])`, `math.sqrt(size)`, a slice by a Python bound, a
loop over the dimension, its unpacking into names, an `if` that compares the size with a constant (`t > 8`,
`t % 2 == 0`), an operator or `expand` that puts it beside a constant size, a call that takes a plain integer
(`F.avg_pool1d(x, x.shape[2])`, the steps of `linspace`).

## Why it matters
The program is then right for the example's size only. With `Dim.DYNAMIC` or a named `Dim` the export fails; with
`Dim.AUTO` it succeeds and the size is silently a constant. Where a comparison decides, the program has the example's
branch only: a guard rejects the sizes of the other one, and `Dim.DYNAMIC` lets that pass as `Dim.AUTO` does, unless the
size becomes a constant. A comparison that all sizes from 2 on answer alike is not reported, nor one that only raises,
unless it asks for equality with what the constructor fixes (`height != self.image_size`): then one size is left.

Which dimensions vary is taken from the project's model cases (a second example of another size, or dynamic shapes);
without one, only spellings that pin any dimension are reported, of no dimension that the code says holds features
(`num_channels != self.num_channels`).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from exportlint.fixes.edits import ARGUMENT, Answered, OfArgument, Plain, Vectorised, fix
from exportlint.fixes.edits import Called as Calling
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.rules.integer_arguments import integer_arguments
from exportlint.source.events import Aligned, Asked, Called, Converted, Event, Indexed, Iterated
from exportlint.source.facts import facts
from exportlint.source.sides import cut_decides, example_decides
from exportlint.source.values import (
    SIZE_TEXT,
    UNKNOWN,
    Array,
    Const,
    Dict,
    Sequence,
    Size,
    Static,
    Tensor,
    TorchModule,
    Truth,
    Value,
    is_setting,
    options,
    sizes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from exportlint.fixes.edits import Fix
    from exportlint.source.sites import Site

_SYMBOLIC = ("math.ceil", "math.floor", "math.prod", "math.trunc")
_PIECES = ("torch.split", "torch.unbind", ".split", ".unbind")
_CHUNKS = ("torch.chunk", "torch.tensor_split", ".chunk", ".tensor_split")
_FILLED = ("zeros", "ones", "empty", "full", "arange")
_RESHAPES = (".view", ".reshape", "torch.reshape")


# What the dimensions are called that a model's parameters fix.
_FEATURES = re.compile(
    r"\b(?:\w+_)?(?:channels?|heads?|codebooks?|features?|(?:head|hidden|state|embed|embedding|model)_?(?:dim|size)|d_model)\b(?![.(\[])"
)


def match(event: Event) -> Iterator[Match]:
    """A size that varies is needed as a number."""
    yield from _MATCHERS[type(event)](event)


def _varying(value: Value) -> bool:
    return any(isinstance(v, Size) and v.varies for v in options(value))


def _requested(values: tuple[Value, ...]) -> bool:
    """Whether a model case says that one of these sizes varies."""
    return any(s.dynamic is True for s in sizes(values))


# What needs a size as a number in every mode.
_NEEDING = {
    "repeat": "repeats a Python list as often as a dynamic size says",
    "index": "makes a number of a size",
    "divmod": "makes numbers of a size",
}


def _converted(event: Converted) -> Iterator[Match]:
    value = event.value
    if isinstance(value, Tensor) and event.to == "len":
        if value.dims and _requested(value.dims[:1]):
            yield Match(event.site, f"`{event.site.text}` makes a number of a size", "number")
        return
    if isinstance(value, Array) and value.of_size and event.to in ("int", "float"):
        yield Match(event.site, f"`{event.site.text}` makes a number of a size that numpy was given")
    if value == SIZE_TEXT and event.to in ("len", "int", "float", "compare"):
        yield Match(event.site, f"`{event.site.text}` is decided by the text of a size, which names a symbol", "text")
    if event.to in ("str", "repr") and _varying_any((value,)):
        yield Match(event.site, f"`{event.site.text}` writes a size down as a number", "printed", guess=True)
    if not _varying(value):
        return
    if event.to in ("format", "%"):
        text = f"formatting `{event.site.text}` needs the size as a number"
        yield Match(event.site, text, "number" if event.to == "format" else "formatted", guess=True)
    elif event.to in _NEEDING:
        spelt = "index method" if event.site.text.endswith("__()") or event.to == "divmod" else ""
        yield Match(event.site, f"`{event.site.text}` {_NEEDING[event.to]}", spelt, guess=event.to != "repeat")
    elif event.to in ("int", "float") or (event.to.startswith("math.") and event.to not in _SYMBOLIC):
        text = f"`{event.site.text}` makes a number of a size"
        yield Match(event.site, text, "number", guess=True, fix=_fix(event))


def _fix(event: Converted) -> Fix | None:
    """A size is an integer already; what else is made of sizes is converted by functions that keep it symbolic."""
    node = event.site.node
    if not isinstance(node, ast.Call):
        return None
    if event.to == "int" and len(node.args) == 1 and _is_plain(node.args[0]):
        return fix("Leave the size as it is", OfArgument(event.site.range, ARGUMENT))
    symbolic = {"int": "sym_int", "float": "sym_float", "math.sqrt": "sym_sqrt"}.get(event.to)
    if symbolic is None or (event.to == "int" and len(node.args) != 1):
        return None
    return fix("Convert it as a symbol", Calling(event.site.range, f"torch.{symbolic}"))


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression is surely an integer: ``x.shape[i]`` or ``x.size(i)``."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size"


def _iterated(event: Iterated) -> Iterator[Match]:
    value = event.value
    if isinstance(value, Sequence) and value.kind == "range" and _varying(value.dim):
        if _counts_features(event.site, sizes((value.dim,)), _loop_variable(event.site)):
            return
        text = f"the loop runs once for each index of a dynamic dimension: `{event.site.text}`"
        yield Match(event.site, text, fix=_mapped(event))
    elif isinstance(value, Tensor) and not value.counted and value.dims and _requested(value.dims[:1]):
        unpacks = event.by == "unpacking"
        text = "a dynamic dimension is unpacked into names" if unpacks else "the loop runs over a dynamic dimension"
        yield Match(event.site, f"{text}: `{event.site.text}`", fix=None if unpacks else _mapped(event))


def _mapped(event: Iterated) -> Fix:
    """What is computed of each row, computed of all of them at once."""
    return fix("Compute all rows at once", Vectorised(event.site.range), unsafe=True)


_PATH = 'Choose one way to compute: compute_mode="use_mm_for_euclid_dist", or "donot_use_mm_for_euclid_dist".'
_EUCLID, _FEW = Const("use_mm_for_euclid_dist_if_necessary"), 25


def _rows(value: Value | None) -> Value:
    dims = value.dims or () if isinstance(value, Tensor) else ()
    return dims[-2] if len(dims) > 1 else UNKNOWN


def _distances(event: Called) -> Iterator[Match]:
    """``torch.cdist`` goes by whether a side has more than 25 rows, the first side first, unless told otherwise."""
    given = dict(zip(("x1", "x2", "p", "compute_mode"), event.arguments, strict=False)) | dict(event.keywords)
    first, second = map(_rows, (given.get("x1"), given.get("x2")))
    open_ended = given.get("p", Const(2)) in (Const(2), Const(2.0)) and given.get("compute_mode", _EUCLID) == _EUCLID
    decided = first.value if isinstance(first, Const) else first.example if isinstance(first, Size) else None
    few = isinstance(decided, int) and decided <= _FEW
    if open_ended and (_requested((first,)) or (few and _requested((second,)))):
        text = f"`{event.site.text}` computes in another way for more than {_FEW} rows, and the program keeps one"
        yield Match(event.site, text, rewrite=_PATH)


def _called(event: Called) -> Iterator[Match]:
    if event.name == "torch.cdist":
        yield from _distances(event)
    given = (*event.arguments, *event.keywords.values())
    pieces = event.result.dim if event.name in _PIECES and isinstance(event.result, Sequence) else UNKNOWN
    if _requested((pieces,)) or (event.name in _CHUNKS and _requested(given[-2:])):
        yield Match(event.site, f"`{event.site.text}` cuts a dynamic dimension into a number of pieces")
    elif event.name.startswith("numpy.") and event.name != "numpy.prod" and _varying_any(given):
        variant = "number" if event.name.removeprefix("numpy.") in _FILLED else ""
        text = f"`{event.site.text}` hands a size to numpy, which makes a number of it"
        plain = fix("Leave the sizes as they are", Plain(event.site.range), unsafe=True)
        yield Match(event.site, text, variant, fix=plain if event.name == "numpy.array" else None)
    elif _requested(tuple(integer_arguments(event))):
        what = "the number of steps" if event.name == "torch.linspace" else "a size as a number"
        yield Match(event.site, f"`{event.site.text}` needs {what}")
    elif event.name in _RESHAPES:
        yield from _reshaped(event)
    elif event.name == ".expand":
        yield from _expanded(event)
    elif any(isinstance(v, Truth) and isinstance(v.of, Size) for k, v in event.keywords.items() if k == "is_causal"):
        text = f"`{event.site.text}` is given a symbolic bool where torch wants a bool"
        plain = fix("Make a plain bool of it", Answered(event.site.range, "is_causal"))
        yield Match(event.site, text, "symbolic bool", fix=plain)
    elif isinstance(event.receiver, TorchModule) and facts().modules.get(event.receiver.name) == "recurrent":
        first = event.arguments[0] if event.arguments else None
        dims = first.dims or () if isinstance(first, Tensor) else ()
        both = len(dims) == 3 and all(isinstance(d, Size) and d.dynamic is True for d in dims[:2])
        text = f"`{event.site.text}` unrolls its time dimension" if both else f"`{event.site.text}` is not compiled"
        yield Match(event.site, text, "recurrent" if both else "recurrent module")


def _counts_features(site: Site, found: Iterable[Size], variable: str = "") -> bool:
    """Whether the code calls a size one of features, or an index in it one of one, and no model case says it varies."""
    named = _FEATURES.search(site.text) or _FEATURES.fullmatch(variable)
    return named is not None and all(size.dynamic is None for size in found)


def _loop_variable(site: Site) -> str:
    """The variable of the loop over this expression, where both stand on one line."""
    before = site.source.lines[site.line - 1].partition(f" in {site.text}")[0]
    found = re.search(r"\bfor (\w+)$", before)
    return found[1] if found is not None else ""


def _varying_any(values: tuple[Value, ...]) -> bool:
    return any(s.varies for s in sizes(values))


def _reshaped(event: Called) -> Iterator[Match]:
    if any(isinstance(value, Array) and value.of_size for value in event.arguments):
        yield Match(event.site, f"`{event.site.text}` is given a number of numpy, made of sizes", "numpy size")
    base = event.receiver if event.name.startswith(".") else (event.arguments or (None,))[0]
    wanted = event.arguments if event.name.startswith(".") else event.arguments[1:]
    if len(wanted) == 1 and isinstance(wanted[0], Sequence):
        wanted = wanted[0].items or ()
    fixed = wanted and all(isinstance(w, (Const, Static)) and w != Const(-1) for w in wanted)
    known = all(isinstance(w, Const) or (isinstance(w, Static) and w.of == "int") for w in wanted)
    if fixed and known and isinstance(base, Tensor) and base.dims and _requested(base.dims):
        yield Match(event.site, f"`{event.site.text}` names every size, so the dynamic one becomes a constant")


def _expanded(event: Called) -> Iterator[Match]:
    """A dimension that varies is expanded to a constant, which it has to be already."""
    wanted = event.arguments
    if len(wanted) == 1 and isinstance(wanted[0], Sequence):
        wanted = wanted[0].items or ()
    dims = event.receiver.dims or () if isinstance(event.receiver, Tensor) else ()
    for size, other in zip(reversed(dims), reversed(wanted), strict=False):
        constant = other.value if isinstance(other, Const) else None
        if isinstance(size, Size) and size.dynamic is True and size.example == constant and constant not in (None, 1):
            yield Match(event.site, f"`{event.site.text}` expands a dynamic size to a constant, {constant}")
            return


def _aligned(event: Aligned) -> Iterator[Match]:
    text = f"`{event.site.text}` puts a dynamic size beside the constant {event.constant}, so it becomes a constant"
    yield Match(event.site, text)


def _indexed(event: Indexed) -> Iterator[Match]:
    if isinstance(event.value, Dict) and not event.value.kept and _varying_any((event.index,)):
        yield Match(event.site, f"`{event.site.text}` looks for a size in a dictionary, which needs it as a number")
    if not isinstance(event.value, Tensor) or not event.value.dims:
        return
    indices = event.index.items if isinstance(event.index, Sequence) and event.index.kind == "tuple" else (event.index,)
    for dim, position in zip(event.value.dims, indices or (), strict=False):
        if not isinstance(position, Sequence) or position.kind != "slice" or not position.items:
            continue
        bounds = [b for b in position.items[:2] if isinstance(b, Const) and isinstance(b.value, int)]
        upper = position.items[1]
        pinned = isinstance(upper, Const) and isinstance(upper.value, int) and upper.value > 0
        if not isinstance(dim, Size) or dim.dynamic is not True:
            continue
        if (pinned and bounds) or cut_decides(dim, position.items):
            yield Match(event.site, f"`{event.site.text}` keeps the example's side of the bound", "slice")


def _asked(event: Asked) -> Iterator[Match]:
    value = event.value
    size = value.of if isinstance(value, Truth) else None
    if isinstance(size, Size) and size.dynamic is True and size.example in (0, 1):
        text = f"`{event.text}` is decided by a dimension that is {size.example} in the example"
        yield Match(event.site, text, "example of one")
    elif isinstance(value, Truth) and value.equality and _is_configured(value, event):
        text = f"`{event.text}` holds for one size, so the dimension is a constant after an export with that size"
        yield Match(event.site, text, "configured", "Leave the dimension static, or compute what depends on its size.")
    elif not event.validates and example_decides(value):
        text = f"`{event.text}` is decided by a dynamic size, and the program keeps the example's side of it"
        yield Match(event.site, text)


def _is_configured(value: Truth, event: Asked) -> bool:
    """Whether a dimension that varies is compared with what the constructor fixes: a setting, a parameter's size."""
    size, other = value.of, value.against
    if isinstance(size, Size) and _counts_features(event.site, (size,)):
        return False
    if not isinstance(size, Size) or not size.varies or (size.dynamic is None and size.rank is None and size.dim == 1):
        return False  # of an image, dimension 1 holds the channels
    if isinstance(other, Size):
        return other.dynamic is False
    if isinstance(other, Const):
        return event.validates and isinstance(other.value, int) and other.value > 1
    return is_setting(other)


_MATCHERS: dict[type[Event], Callable[..., Iterator[Match]]] = {
    Converted: _converted,
    Iterated: _iterated,
    Called: _called,
    Indexed: _indexed,
    Asked: _asked,
    Aligned: _aligned,
}
_FIRST = '{"x": {0: torch.export.Dim.DYNAMIC}}'
_INPUTS = {"inputs": "torch.ones(3, 4)", "inputs2": "torch.ones(5, 4)"}

RULE = Rule(
    code="EXP301",
    name="size-frozen",
    summary="A size that should stay dynamic became a constant or was narrowed",
    rewrite=(
        "Keep the size symbolic: use x.shape[i] in tensor operators without int(), float(), loops or "
        "comparisons with constants."
    ),
    page=__doc__,
    outcomes=outcomes(export="specialises", strict="specialises", compiled="fine"),
    variants={
        "text": Variant(
            outcomes=outcomes(export="silent", strict="specialises", compiled="fine"),
            bad=example(
                """
                def forward(self, x):
                    return x * len(f"{x.shape[0]}")
                """,
                inputs="torch.ones(3, 4)",
                inputs2="torch.ones(12, 4)",
            ),
        ),
        "printed": Variant(
            outcomes=outcomes(export="fine", strict="specialises", compiled="breaks"),
            bad=example("def forward(self, x):\n    return x * 2 if str(x.shape[0]) else x", **_INPUTS),
        ),
        "formatted": Variant(
            outcomes=outcomes(export="specialises", strict="specialises", compiled="breaks"),
            bad=example('def forward(self, x):\n    return x * 2 if "%d" % x.shape[0] else x', **_INPUTS),
        ),
        "number": Variant(
            outcomes=outcomes(export="specialises", strict="fine", compiled="fine"),
            bad=example("def forward(self, x):\n    return x.reshape(int(x.shape[0]) * 2, 2)", **_INPUTS),
        ),
        "index method": Variant(
            outcomes=outcomes(export="specialises", strict="specialises", compiled="breaks"),
            bad=example("def forward(self, x):\n    return x.reshape(x.shape[0].__index__() * 2, 2)", **_INPUTS),
        ),
        "slice": Variant(
            outcomes=outcomes(export="specialises", strict="specialises", compiled="fine"),
            bad=example(
                "def forward(self, x):\n    return x[:4] * 2", inputs="torch.ones(3, 4)", inputs2="torch.ones(7, 4)"
            ),
        ),
        "numpy size": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="breaks"),
            bad=example(
                "def forward(self, x):\n    return x.reshape(np.prod(x.shape))", imports="import numpy as np", **_INPUTS
            ),
        ),
        "symbolic bool": Variant(
            outcomes=outcomes(export="specialises", strict="specialises", compiled="breaks"),
            bad=example(
                """
                def forward(self, x):
                    return F.scaled_dot_product_attention(x, x, x, is_causal=x.shape[1] > 1)
                """,
                imports="import torch.nn.functional as F",
                inputs="torch.ones(2, 3, 4)",
                inputs2="torch.ones(2, 5, 4)",
            ),
        ),
        "recurrent": Variant(
            outcomes=outcomes(export="specialises", strict="specialises", compiled="breaks"),
            bad=example(
                "def forward(self, x):\n    return self.rnn(x)[0]",
                init="self.rnn = nn.LSTM(4, 3, batch_first=True)",
                inputs="torch.ones(2, 5, 4)",
                inputs2="torch.ones(3, 7, 4)",
            ),
        ),
        "recurrent module": Variant(
            outcomes=outcomes(export="fine", strict="fine", compiled="breaks"),
            bad=example(
                "def forward(self, x):\n    return self.rnn(x)[0]",
                init="self.rnn = nn.LSTM(4, 3, batch_first=True)",
                inputs="torch.ones(2, 5, 4)",
                inputs2="torch.ones(3, 5, 4)",
            ),
        ),
        "configured": Variant(
            outcomes=outcomes(export="specialises", strict="specialises", compiled="fine"),
            bad=example(
                """
                def forward(self, x):
                    if x.shape[1] != self.size:
                        raise ValueError("wrong size")
                    return x * 2
                """,
                init="self.size = 5",
                inputs="torch.ones(2, 5, 4)",
                shapes='{"x": {1: torch.export.Dim.DYNAMIC}}',
            ),
        ),
        "example of one": Variant(
            outcomes=outcomes(export="specialises", strict="specialises", compiled="fine"),
            bad=example(
                "def forward(self, x):\n    return x * 10 if x.shape[0] == 1 else x",
                inputs="torch.ones(1, 4)",
                inputs2="torch.ones(3, 4)",
            ),
        ),
    },
    bad=example("def forward(self, x):\n    return torch.stack([x[i] * i for i in range(x.shape[0])])", **_INPUTS),
    good=example("def forward(self, x):\n    return torch.stack([x[:, i] * i for i in range(x.shape[1])])", **_INPUTS),
    fixed=example(
        """
        def forward(self, x):
            return x * torch.arange(x.shape[0], device=x.device)[:, None]
        """,
        **_INPUTS,
    ),
    near=(
        Near(
            variant="configured",
            bad=example(
                """
                def forward(self, x):
                    assert x.shape[1] == self.size
                    return x * 2
                """,
                init="self.size = 5",
                inputs="torch.ones(2, 5, 4)",
                shapes='{"x": {1: torch.export.Dim.DYNAMIC}}',
            ),
            good=example(
                """
                def forward(self, x):
                    assert x.shape[1] >= self.size
                    return x * 2
                """,
                init="self.size = 5",
                inputs="torch.ones(2, 5, 4)",
                shapes='{"x": {1: torch.export.Dim.DYNAMIC}}',
            ),
        ),
        Near(
            bad=example("def forward(self, x):\n    return sum(row for row in x.relu())", **_INPUTS),
            good=example("def forward(self, x):\n    return sum(row for row in x.t())", **_INPUTS),
        ),
        Near(
            bad=example("def forward(self, x):\n    return torch.stack(x.unbind(0))", **_INPUTS),
            good=example("def forward(self, x):\n    return torch.stack(x.unbind(1))", **_INPUTS),
        ),
        Near(
            variant="number",
            bad=example(
                "def forward(self, x):\n    return x * math.sqrt(x.shape[0])", imports="import math", **_INPUTS
            ),
            good=example(
                "def forward(self, x):\n    return x * math.ceil(x.shape[0])", imports="import math", **_INPUTS
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    return x * array(x.shape).max()
                """,
                imports="from numpy import array\nfrom torch import tensor",
                **_INPUTS,
            ),
            good=example(
                """
                def forward(self, x):
                    return x * tensor(x.shape).max()
                """,
                imports="from numpy import array\nfrom torch import tensor",
                **_INPUTS,
            ),
        ),
        Near(
            bad=example(
                "def forward(self, x):\n    n = x.shape[0]\n    return x.reshape(3, 2, 2) * 2",
                inputs="torch.ones(3, 4)",
                shapes=_FIRST,
            ),
            good=example(
                "def forward(self, x):\n    n = x.shape[0]\n    return x.reshape(n, 2, 2) * 2",
                inputs="torch.ones(3, 4)",
                shapes=_FIRST,
            ),
        ),
        Near(
            bad=example("def forward(self, x):\n    first, *rest = x\n    return first * 2", **_INPUTS),
            good=example("def forward(self, x):\n    first, *rest = x,\n    return first * 2", **_INPUTS),
        ),
        Near(
            bad=example("def forward(self, x):\n    return x * {3: 1, 4: 3, 5: 2}[x.shape[0]]", **_INPUTS),
            good=example("def forward(self, x):\n    return x * {3: 1, 4: 3, 5: 2}[x.shape[1]]", **_INPUTS),
        ),
        Near(
            variant="slice",
            bad=example("def forward(self, x):\n    return x[:-4]", **_INPUTS),
            good=example("def forward(self, x):\n    return x[:-9]", **_INPUTS),
        ),
        Near(
            variant="number",
            bad=example(
                "def forward(self, x):\n    return x.reshape(int(math.prod(x.shape)))", imports="import math", **_INPUTS
            ),
            good=example(
                "def forward(self, x):\n    return x.reshape(abs(math.prod(x.shape)))", imports="import math", **_INPUTS
            ),
        ),
        Near(
            variant="slice",
            bad=example(
                """
                def forward(self, x):
                    y = x.T
                    return x[:4]
                """,
                inputs="torch.ones(3, 4)",
                inputs2="torch.ones(7, 4)",
            ),
            good=example(
                """
                def forward(self, x):
                    y = x.T
                    return y[:4]
                """,
                inputs="torch.ones(3, 4)",
                inputs2="torch.ones(7, 4)",
            ),
        ),
        Near(
            bad=example(
                "def forward(self, x):\n    return x * 2 if x.shape[0] % 2 == 0 else x",
                inputs="torch.ones(6, 4)",
                inputs2="torch.ones(9, 4)",
            ),
            good=example(
                "def forward(self, x):\n    return x * 2 if x.shape[1] % 2 == 0 else x",
                inputs="torch.ones(6, 4)",
                inputs2="torch.ones(9, 4)",
            ),
        ),
        Near(
            bad=example(
                "def forward(self, x):\n    return x * 2 if x.shape[0] > 8 else x",
                inputs="torch.ones(6, 4)",
                inputs2="torch.ones(12, 4)",
            ),
            good=example(
                "def forward(self, x):\n    return x * 2 if x.shape[0] > 1 else x",
                inputs="torch.ones(6, 4)",
                inputs2="torch.ones(12, 4)",
            ),
        ),
        Near(
            bad=example(
                "def forward(self, x):\n    return x * 2 if x.shape[0] == 7 else x",
                inputs="torch.ones(7, 4)",
                inputs2="torch.ones(9, 4)",
                shapes='{"x": {0: torch.export.Dim.AUTO}}',
            ),
            good=example(
                "def forward(self, x):\n    return x * 2 if x.shape[0] == 0 else x",
                inputs="torch.ones(7, 4)",
                inputs2="torch.ones(9, 4)",
                shapes='{"x": {0: torch.export.Dim.AUTO}}',
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, a, b):
                    return torch.stack([F.cosine_similarity(a[i], b[i], dim=0) for i in range(a.size(0))])
                """,
                imports="import torch.nn.functional as F",
                inputs="torch.arange(12.0).view(6, 2), torch.ones(6, 2)",
                inputs2="torch.arange(16.0).view(8, 2), torch.ones(8, 2)",
            ),
            good=example(
                """
                def forward(self, a, b):
                    return torch.stack([F.cosine_similarity(a[i], b[i], dim=0) for i in range(a.size(1))])
                """,
                imports="import torch.nn.functional as F",
                inputs="torch.arange(12.0).view(6, 2), torch.ones(6, 2)",
                inputs2="torch.arange(16.0).view(8, 2), torch.ones(8, 2)",
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, a, b):
                    total, both = a.new_zeros(()), (a, b)
                    for each in a:
                        total = total + (each - 1).abs().mean()
                    return total / a.shape[0]
                """,
                inputs="torch.ones(3, 4), torch.zeros(3, 4)",
                inputs2="torch.ones(5, 4), torch.zeros(5, 4)",
                shapes='{"a": {0: torch.export.Dim.DYNAMIC}, "b": {0: torch.export.Dim.DYNAMIC}}',
            ),
            good=example(
                """
                def forward(self, a, b):
                    total, both = a.new_zeros(()), (a, b)
                    for each in both:
                        total = total + (each - 1).abs().mean()
                    return total / a.shape[0]
                """,
                inputs="torch.ones(3, 4), torch.zeros(3, 4)",
                inputs2="torch.ones(5, 4), torch.zeros(5, 4)",
                shapes='{"a": {0: torch.export.Dim.DYNAMIC}, "b": {0: torch.export.Dim.DYNAMIC}}',
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    sides = np.array(x.shape)
                    return x * (sides.max() / sides.min())
                """,
                imports="import numpy as np",
                init="self.shape = (3, 4)",
                **_INPUTS,
            ),
            good=example(
                """
                def forward(self, x):
                    sides = np.array(self.shape)
                    return x * (sides.max() / sides.min())
                """,
                imports="import numpy as np",
                init="self.shape = (3, 4)",
                **_INPUTS,
            ),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="shapes", precondition="dynamic dimension"),),
    events=(Converted, Iterated, Called, Indexed, Asked, Aligned),
    match=match,
)
