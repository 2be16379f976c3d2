"""# data-dependent-number (EXP102)

## What it does
Reports a number taken from a tensor (`int(t)`, `float(t)`, `range(t)`, `operator.index(t)`, `.item()`, `.tolist()`, the
length of a data-dependent result) on which a Python decision hangs: a branch, a loop, a place in a list, a key of a
dictionary, the window of a pooling.

## Why it matters
The number is unknown while the model is captured. `.item()` alone is captured as an unknown symbol; a branch, a loop
or a conversion that needs the number is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import Checked, Lifted, Stacked, Unasked, Unread, first_of, fix
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.rules.integer_arguments import integer_arguments
from exportlint.source.events import Asked, Called, Converted, Event, Indexed, Iterated
from exportlint.source.outside import OUTSIDE
from exportlint.source.values import (
    Const,
    Dict,
    Instance,
    Number,
    Sequence,
    Tensor,
    TorchModule,
    Truth,
    Value,
    options,
    the_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Fix

# Functions of ``math``: those that symbols have but a strict export refuses, those that round, and those that ask.
_SYMBOLIC = frozenset({
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "log2",
})  # fmt: skip
_ROUNDINGS = frozenset({"floor", "ceil", "trunc"})
_PREDICATES = frozenset({"isnan", "isinf", "isfinite", "isclose"})
_NEEDING = ("int", "float", "index", "divmod")
_CHOSEN = (
    "Keep the number in its tensor, and choose by torch.where, or by torch.cond; where one side only raises, demand it "
    "with torch._check."
)
# Numbers of other origins, which other rules report.
_OTHERS = frozenset({"equal", "allclose", "bool"}) | OUTSIDE


def match(event: Event) -> Iterator[Match]:
    """Python needs a number that is in a tensor."""
    if isinstance(event, Asked):
        yield from _asked(event)
    elif isinstance(event, Converted):
        yield from _converted(event)
    elif isinstance(event, Iterated):
        yield from _iterated(event)
    elif isinstance(event, Indexed):
        yield from _indexed(event)
    elif isinstance(event, Called):
        yield from _called(event)


def _called(event: Called) -> Iterator[Match]:
    lengths = event.arguments[1:2] or tuple(v for k, v in event.keywords.items() if k == "lengths")
    packed = event.name == "torch.nn.utils.rnn.pack_padded_sequence"
    if packed and any(isinstance(v, Tensor) for v in lengths):
        yield Match(event.site, "packing a sequence needs the lengths, which are in a tensor", "packing")
    if event.name == "torch.nn.functional.one_hot" and len(event.arguments) < 2 and "num_classes" not in event.keywords:
        text = f"`{event.site.text}` looks for the largest class in the tensor"
        yield Match(event.site, text, rewrite="Say how many classes there are: num_classes=...")
    number = next((n for value in integer_arguments(event) if (n := _number(value)) is not None), None)
    if number is not None:
        variant = "range" if event.name.rpartition(".")[2].islower() else ""  # no mode makes a module of such a number
        yield Match(event.site, f"`{event.site.text}` takes a plain integer, and is given {_origin(number)}", variant)
    template = event.receiver.value if event.name == ".format" and isinstance(event.receiver, Const) else ""
    given = (*event.arguments, *event.keywords.values())
    if ":" in str(template) and any(isinstance(v, Tensor) for v in given):
        yield Match(event.site, f"`{event.site.text}` needs the number that is in a tensor", "conversion")


def _number(value: Value) -> Number | None:
    """The data-dependent number that the value is, or was decided by."""
    for option in options(value):
        number = option.of if isinstance(option, Truth) else option
        if isinstance(number, Number) and number.how not in _OTHERS:
            return number
    return None


def _origin(number: Number) -> str:
    if number.how in ("size", "numel"):
        return "a size that depends on the content of a tensor"
    return f"a number read out of a tensor (`{number.site.text}`)" if number.site else "a number read out of a tensor"


def _asked(event: Asked) -> Iterator[Match]:
    number = _number(event.value)
    if number is not None:
        variant = "assert" if event.by == "assert" else "asked of an input" if _is_whole_input(event, number) else ""
        text = f"`{event.text}` is decided by {_origin(number)}"
        decides = number.how == "item" and event.by in ("if", "conditional expression")
        yield Match(event.site, text, variant, _CHOSEN if decides else "", fix=_fix(event, number))


def _is_whole_input(event: Asked, number: Number) -> bool:
    """Whether an integer is asked that is an input, which torch.compile guards: by what it is compared with."""
    against = [option.against for option in options(event.value) if isinstance(option, Truth)]
    whole = all(isinstance(v, Const) and isinstance(v.value, int) and not isinstance(v.value, bool) for v in against)
    return number.given and not number.real and bool(against) and whole


def _fix(event: Asked, number: Number) -> Fix | None:
    """Nobody need ask for a size where nothing changes nothing, a number can stay in its tensor or be demanded."""
    demanded = fix("Demand it with torch._check", Checked(event.site.range), unsafe=True)
    if event.by == "if" and number.how in ("size", "numel"):
        unasked = fix("Leave out the question, since nothing changes nothing", Unasked(event.site.range), unsafe=True)
        return first_of(unasked, demanded)
    found = []
    chosen = number.how == "item" and event.by in ("if", "conditional expression")
    if chosen and number.site is not None and number.site.source is event.site.source:
        kept = Unread(number.site.range, event.site.range)
        found.append(fix("Keep the number in its tensor, and choose by torch.where", kept, unsafe=True))
    if event.by == "if" and not number.real:
        found.append(demanded)
    return first_of(*found) if found else None


def _converted(event: Converted) -> Iterator[Match]:
    tensor, number = the_tensor(event.value), _number(event.value)
    if event.to == "len":
        if tensor is not None and tensor.counted:
            yield Match(event.site, f"`{event.site.text}` is a length that depends on data", "conversion")
        return
    if tensor is None and number is None:
        return
    text = f"`{event.site.text}` needs the number that is in a tensor"
    if event.to.startswith("math."):
        yield from _mathematical(event, tensor, number, text)
    elif event.to in ("round", "range") and tensor is not None:
        yield Match(event.site, text, "untraced" if tensor.exact else "")
    elif event.to == "tolist" and tensor is not None and tensor.real:
        yield Match(event.site, f"`{event.site.text}` makes a list of floating-point numbers", "untraced")
    elif event.to in ("format", "%"):
        yield Match(event.site, f"formatting `{event.site.text}` needs the number that is in a tensor", "format")
    elif event.to in _NEEDING:
        yield Match(event.site, text, _needed(event, tensor))
    elif event.to in ("max", "min") and number is not None and number.real and tensor is None:
        yield Match(event.site, f"`{event.to}` compares {_origin(number)}", "conversion")


def _needed(event: Converted, tensor: Tensor | None) -> str:
    """The variant of what needs the number itself: a special method called by name is refused in every mode."""
    if event.to == "divmod" or (event.to == "index" and event.site.text.endswith("__()")):
        return ""
    return "lookup" if event.to == "index" and tensor is None else "conversion"


def _mathematical(event: Converted, tensor: Tensor | None, number: Number | None, text: str) -> Iterator[Match]:
    """What functions of ``math`` do depends on whether they have a symbolic form, and on the kind of number."""
    name = event.to.removeprefix("math.")
    real = tensor.real if tensor is not None else number is not None and number.real
    if name in _ROUNDINGS:
        if tensor is not None:
            yield Match(event.site, text)
    elif name == "pow":
        yield Match(event.site, text, "untraced" if real else "power")
    elif name == "sqrt" and tensor is None:
        yield Match(event.site, text, "conversion")
    elif name in _PREDICATES or (real and (tensor is not None or name not in _SYMBOLIC)):
        yield Match(event.site, text)
    else:
        yield Match(event.site, text, "mathematics")


def _iterated(event: Iterated) -> Iterator[Match]:
    value = event.value
    if isinstance(value, Tensor) and value.counted and event.by in ("for", "comprehension", "zip", "starred"):
        yield Match(event.site, f"the loop runs over `{event.site.text}`, whose length depends on data")
    elif isinstance(value, Sequence) and value.kind == "range" and (number := _number(value.dim)) is not None:
        yield Match(event.site, f"the loop runs as often as {_origin(number)} says", "range")


def _indexed(event: Indexed) -> Iterator[Match]:
    tensor = the_tensor(event.index)
    number = _number(event.index)
    if number is not None and isinstance(event.value, Sequence) and event.value.kind in ("list", "tuple"):
        yield Match(event.site, f"a Python {event.value.kind} is indexed by {_origin(number)}", "lookup")
    elif number is not None and isinstance(event.value, Dict):
        yield Match(event.site, f"a Python dictionary is asked for {_origin(number)}", "lookup")
    elif number is not None and isinstance(event.value, TorchModule) and event.value.parts:
        keyed = event.value.name == "torch.nn.ModuleDict"
        text = f"a container of modules is indexed by {_origin(number)}"
        yield Match(event.site, text, "" if keyed and not number.given else "lookup")
    elif number is not None and isinstance(event.value, Instance):
        text = f"an attribute is asked for by {_origin(number)}: `{event.site.text}`"
        yield Match(event.site, text, "lookup" if number.given else "")
    if tensor is None:
        return
    if isinstance(event.value, TorchModule) and event.value.parts:
        every = fix("Call every module, and choose among the results", Stacked(event.site.range), unsafe=True)
        plain = every if event.value.name == "torch.nn.ModuleList" else None
        yield Match(event.site, f"a container of modules is indexed by a tensor: `{event.site.text}`", fix=plain)
    elif isinstance(event.value, Sequence) and event.value.kind in ("list", "tuple"):
        yield Match(event.site, f"a Python {event.value.kind} is indexed by a tensor: `{event.site.text}`", "lookup")
    elif isinstance(event.value, Tensor) and tensor.scalar is True and not tensor.boolean:
        one = fix("Index with a tensor of one dimension", Lifted(event.site.range), unsafe=True)
        yield Match(event.site, f"`{event.site.text}` indexes with a tensor of no dimension", "scalar index", fix=one)


RULE = Rule(
    code="EXP102",
    name="data-dependent-number",
    summary="A Python number read out of a tensor decides what is computed",
    rewrite="Keep the number in a tensor, or constrain it with torch._check before it is used.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
    variants={
        "assert": Variant(
            outcomes=outcomes(export="fine", strict="fine", compiled="fine"),
            bad=example("""
                def forward(self, x):
                    assert x.sum().item() > 0
                    return torch.log(x)
            """),
        ),
        "asked of an input": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
            bad=example(
                """
                def forward(self, x, n):
                    return x * 2 if n.item() > 3 else x
                """,
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
        ),
        "conversion": Variant(
            outcomes=outcomes(export="breaks", strict="fine", compiled="fine"),
            bad=example(
                """
                def forward(self, x, n):
                    return x * int(n)
                """,
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
        ),
        "mathematics": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
            bad=example(
                """
                def forward(self, x, n):
                    return x * math.exp(n)
                """,
                imports="import math",
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
        ),
        "power": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="fine"),
            bad=example(
                """
                def forward(self, x, n):
                    return x * math.pow(n, 2)
                """,
                imports="import math",
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
        ),
        "untraced": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="breaks"),
            bad=example("""
                def forward(self, x):
                    return x * torch.tensor(x.mean(1).tolist()).sum()
            """),
        ),
        # What is computed in the graph breaks torch.compile too; a number that is an input does not.
        "lookup": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
            bad=example(
                """
                def forward(self, x, n):
                    return x * [0.5, 1.0, 2.0, 4.0][n]
                """,
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
        ),
        "format": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
            bad=example("""
                def forward(self, x):
                    label = f"mean={x.mean():.3f}"
                    return x if label.startswith("mean") else -x
            """),
        ),
        "range": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
            bad=example(
                """
                def forward(self, x, n):
                    for _ in range(n.item()):
                        x = x * 2
                    return x
                """,
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
        ),
        "scalar index": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="fine"),
            bad=example(
                """
                def forward(self, x, level):
                    return x + self.table[level]
                """,
                init='self.register_buffer("table", torch.tensor([0.5, -0.5, 2.0]))',
                inputs="torch.ones(3), torch.tensor(1)",
            ),
        ),
        "packing": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
            bad=example(
                """
                def forward(self, x, lengths):
                    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
                    return self.rnn(packed)[1]
                """,
                init="self.rnn = nn.GRU(4, 3, batch_first=True)",
                imports="from torch.nn.utils.rnn import pack_padded_sequence",
                inputs="torch.ones(3, 5, 4), torch.tensor([5, 3, 2])",
            ),
        ),
    },
    bad=example("""
        def forward(self, x):
            mean = x.mean().item()
            if mean > 0.5:
                return x - mean
            return x + mean
    """),
    good=example("""
        def forward(self, x):
            mean = x.mean().item()
            return x - mean
    """),
    fixed=example("""
        def forward(self, x):
            mean = x.mean()
            return torch.where(mean > 0.5, x - mean, x + mean)
    """),
    near=(
        Near(
            bad=example("""
                def forward(self, x):
                    rows = (x[:, 0] > 2).nonzero()
                    return x * 2 if rows.shape[0] == 0 else x
            """),
            good=example("""
                def forward(self, x):
                    rows = (x[:, 0] > 2).nonzero()
                    return x * 2 if rows.shape[1] == 0 else x
            """),
        ),
        Near(
            bad=example(
                """
                def forward(self, x, which):
                    return self.layers[which.max()](x)
                """,
                init="self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))",
                inputs="torch.ones(2, 4), torch.tensor(1)",
            ),
            good=example(
                """
                def forward(self, x, which):
                    return self.layers[which.dim()](x)
                """,
                init="self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))",
                inputs="torch.ones(2, 4), torch.tensor(1)",
            ),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    y = x
                    for _ in range(x.argmax()):
                        y = y * 2
                    return y
            """),
            good=example("""
                def forward(self, x):
                    y = x
                    for _ in range(x.dim()):
                        y = y * 2
                    return y
            """),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    place = x.sum(1).argmax().item()
                    if place < 0 or place > 8:
                        raise ValueError(f"{place} is out of range")
                    return x.repeat(place + 1, 1).sum(0)
            """),
            good=example("""
                def forward(self, x):
                    place = x.sum(1).argmax().dim()
                    if place < 0 or place > 8:
                        raise ValueError(f"{place} is out of range")
                    return x.repeat(place + 1, 1).sum(0)
            """),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    total = x.new_zeros(4)
                    for i in (x.sum(1) > 0).nonzero():
                        total = total + x[0] * i
                    return total
            """),
            good=example("""
                def forward(self, x):
                    total = x.new_zeros(4)
                    for i in (x.sum(1) > 0).long():
                        total = total + x[0] * i
                    return total
            """),
        ),
        Near(
            variant="lookup",
            bad=example(
                """
                def forward(self, x, n):
                    return x * list((1, 2, 3))[n.item() - 2]
                """,
                imports="from torch import tensor",
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
            good=example(
                """
                def forward(self, x, n):
                    return x * tensor((1, 2, 3))[n.item() - 2]
                """,
                imports="from torch import tensor",
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
        ),
        Near(
            variant="conversion",
            bad=example("""
                def forward(self, x):
                    label = "value={:.2f}".format(x.mean())
                    return x if label else -x
            """),
            good=example("""
                def forward(self, x):
                    label = "value={:.2f}".format(x.dim())
                    return x if label else -x
            """),
        ),
        Near(
            variant="format",
            bad=example("""
                def forward(self, x):
                    return x if "%.2f" % x.mean() else -x
            """),
            good=example("""
                def forward(self, x):
                    return x if "%.2f" % x.dim() else -x
            """),
        ),
        Near(
            bad=example(
                """
                def forward(self, x, task):
                    return self.heads[str(task.item())](x)
                """,
                init='self.heads = nn.ModuleDict({"0": nn.Linear(4, 4), "1": nn.Linear(4, 4)})',
                inputs="torch.ones(2, 4), torch.tensor(1)",
            ),
            good=example(
                """
                def forward(self, x, task):
                    return self.heads[str(task.dim())](x)
                """,
                init='self.heads = nn.ModuleDict({"0": nn.Linear(4, 4), "1": nn.Linear(4, 4)})',
                inputs="torch.ones(2, 4), torch.tensor(1)",
            ),
        ),
        Near(
            variant="conversion",
            bad=example(
                """
                def forward(self, x, n):
                    three = torch.tensor(3.0)
                    return x * int(n.ceil())
                """,
                inputs="torch.ones(2, 4), torch.tensor(2.5)",
            ),
            good=example(
                """
                def forward(self, x, n):
                    three = torch.tensor(3.0)
                    return x * int(three.ceil())
                """,
                inputs="torch.ones(2, 4), torch.tensor(2.5)",
            ),
        ),
        Near(
            variant="conversion",
            bad=example("""
                def forward(self, x):
                    return x * max(1.0, x.mean().item())
            """),
            good=example("""
                def forward(self, x):
                    return x * max(1.0, x.mean().dim())
            """),
        ),
        Near(
            variant="conversion",
            bad=example(
                """
                def forward(self, x, n):
                    return x[:, : int(n)].sum(1)
                """,
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
            good=example(
                """
                def forward(self, x, n):
                    return x[:, : abs(n)].sum(1)
                """,
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    out = torch.zeros_like(x)
                    for i in range(2):
                        rows = (x[:, 0] > i).nonzero()[:, 0]
                        if rows.numel() == 0:
                            continue
                        out.index_copy_(0, rows, x[rows] * 2)
                    return out
            """,
                inputs2="torch.zeros(2, 4)",
            ),
            good=example(
                """
                def forward(self, x):
                    out = torch.zeros_like(x)
                    for i in range(2):
                        rows = (x[:, 0] > i).nonzero()[:, 0]
                        if rows.dim() == 0:
                            continue
                        out.index_copy_(0, rows, x[rows] * 2)
                    return out
            """,
                inputs2="torch.zeros(2, 4)",
            ),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"), Observer(check="compile", mode="compile")),
    events=(Asked, Converted, Iterated, Indexed, Called),
    match=match,
)
