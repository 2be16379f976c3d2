"""# environment-frozen (EXP303)

## What it does
Reports reads of environment variables, clocks and Python's or numpy's random numbers in code that runs under capture,
where they take part in what is computed: as numbers, as indices, as names of attributes, as a choice or an order.

## Why it matters
They are read once, while the model is captured. The program keeps what was read: the same time, the same random
number, the same switch on every machine. TorchDynamo (strict export and `torch.compile`) refuses most of them.

The check `state` also tries other answers for the grad mode, `requires_grad`, the strides of inputs, the process, the
command line, hashes of text, the number of threads, the default dtype and flags of torch, and reports a line that reads
them where another answer changes what the eager model returns and the program does not follow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint.fixes.edits import ARGUMENT, AT_HAND, Computed, Hoisted, fix
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Asked, Called, Event, Indexed, Iterated, Used
from exportlint.source.outside import CHOICES, ORDERS, SEVERAL_CHOICES
from exportlint.source.values import External, Number, Sequence, Truth, Value, options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Fix
    from exportlint.source.sites import Site

_REWRITES = {
    "environment": "",
    "clock": "Pass the time in as a tensor.",
    "random number": "Draw it with torch, or pass it in.",
    "random range": "Draw it with torch, or pass it in.",
    "own generator": "Draw it with torch, or pass it in.",
    "numpy random number": "Draw it with torch, or pass it in.",
}
_SYMBOLIC = frozenset({"random range", "own generator"})  # TorchDynamo makes symbols of them, which index nothing
_DRAWN = {
    "random": f"torch.rand((), device={AT_HAND}.device)",
    "uniform": f"torch.empty((), device={AT_HAND}.device).uniform_({ARGUMENT})",
    "gauss": f"torch.empty((), device={AT_HAND}.device).normal_({ARGUMENT})",
    "normalvariate": f"torch.empty((), device={AT_HAND}.device).normal_({ARGUMENT})",
}


def match(event: Event) -> Iterator[Match]:
    """Something that was read outside of the model takes part in what it computes, or decides something."""
    if isinstance(event, Indexed) and event.value == External("os.environ"):
        text = f"`{event.site.text}` is read once, while the model is captured"
        yield Match(event.site, text, fix=_read_before(event.site))
    elif isinstance(event, Indexed):
        yield from _indexed(event.index)
    elif isinstance(event, Called):
        yield from _chosen(event)
    elif isinstance(event, Used):
        yield from _read(event.number)
    elif isinstance(event, Iterated) and isinstance(event.value, Sequence) and isinstance(event.value.dim, Number):
        yield from _read(event.value.dim)
    elif isinstance(event, Asked):
        for option in options(event.value):
            number = option.of if isinstance(option, Truth) else option
            if isinstance(number, Number):
                yield from _read(number)


def _indexed(index: Value) -> Iterator[Match]:
    """Numbers that choose a part of a tensor or a container; a bound of a slice may vary, an index may not."""
    parts = index.items or () if isinstance(index, Sequence) else (index,)
    sliced = isinstance(index, Sequence) and index.kind == "slice"
    for part in parts:
        if isinstance(part, Sequence):
            yield from _indexed(part)
        for number in options(part):
            if isinstance(number, Number):
                yield from _read(number, indexes=not sliced)


def _chosen(event: Called) -> Iterator[Match]:
    """One of several values, or an order, that is drawn in Python."""
    chosen = event.name in CHOICES or event.name in SEVERAL_CHOICES
    variant = "random choice" if chosen else "random order" if event.name in ORDERS else ""
    if variant and (event.used or event.name.endswith(".shuffle")):
        text = f"`{event.site.text}` is drawn once, while the model is captured"
        yield Match(event.site, text, variant, "Draw an index with torch and take what it selects, or pass it in.")


def _read(number: Number, *, indexes: bool = False) -> Iterator[Match]:
    """What was read, where it is used; as an index it is nothing that a tensor could be instead."""
    if number.how in _REWRITES and number.site is not None:
        variant = "random number" if indexes and number.how in _SYMBOLIC else number.how
        text = f"`{number.site.text}` is read once, while the model is captured"
        if number.how == "environment":
            yield Match(number.site, text, "", _REWRITES[number.how], fix=_read_before(number.site))
        else:
            yield Match(number.site, text, variant, _REWRITES[number.how], fix=None if indexes else _drawn(number.site))


def _read_before(site: Site) -> Fix | None:
    """A variable of the environment, read when the model is made."""
    named = re.search(r"""["']([A-Za-z]\w*)["']""", site.text)
    if named is None:
        return None
    return fix("Read it when the model is made", Hoisted(site.range, named[1].lower()), unsafe=True)


def _drawn(site: Site) -> Fix | None:
    """A random number of Python's, drawn by torch."""
    called = re.match(r"(?:random\.)?(\w+)\(", site.text)
    drawn = _DRAWN.get(called[1]) if called is not None else None
    return fix("Draw it with torch", Computed(site.range, drawn), unsafe=True) if drawn is not None else None


_READ = example(
    'def forward(self, x):\n    return x * self.scale if os.environ.get("EXAMPLE_SWITCH") else x',
    init="self.scale = 2",
    imports="import os",
    build='os.environ.pop("EXAMPLE_SWITCH", None)\nreturn Net().eval()',
    inputs2='(os.environ.update(EXAMPLE_SWITCH="1"), torch.ones(2, 4))[1]',
)
_READ_BEFORE = example(
    "def forward(self, x):\n    return x * self.scale if self.example_switch else x",
    init='self.example_switch = os.environ.get("EXAMPLE_SWITCH")\nself.scale = 2',
    imports="import os",
    build='os.environ.pop("EXAMPLE_SWITCH", None)\nreturn Net().eval()',
    inputs2='(os.environ.update(EXAMPLE_SWITCH="1"), torch.ones(2, 4))[1]',
)

RULE = Rule(
    code="EXP303",
    name="environment-frozen",
    summary="A clock, a random number or an environment variable is read once and kept",
    rewrite="Read it in __init__, or pass it in.",
    page=__doc__,
    outcomes=outcomes(export="silent", strict="silent", compiled="silent"),
    variants={
        "clock": Variant(
            outcomes=outcomes(export="silent", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return x * (time.perf_counter() % 1)", imports="import time"),
        ),
        "random number": Variant(
            outcomes=outcomes(export="silent", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return x * random.random()", imports="import random"),
            changed={"2.14": outcomes(export="silent", strict="breaks", compiled="fine")},
        ),
        "own generator": Variant(
            outcomes=outcomes(export="silent", strict="breaks", compiled="silent"),
            bad=example(
                "def forward(self, x):\n    return x * self.rng.random()",
                imports="import random",
                init="self.rng = random.Random(0)",
            ),
        ),
        "random choice": Variant(
            outcomes=outcomes(export="silent", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return x * random.choice(range(1000))", imports="import random"),
        ),
        "random order": Variant(
            outcomes=outcomes(export="silent", strict="breaks", compiled="breaks"),
            bad=example(
                """
                def forward(self, x):
                    order = list(range(1000))
                    random.shuffle(order)
                    return x * order[0]
                """,
                imports="import random",
            ),
            changed={"2.14": outcomes(export="silent", strict="silent", compiled="fine")},
        ),
        "numpy random number": Variant(
            outcomes=outcomes(export="silent", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return x * np.random.rand()", imports="import numpy as np"),
        ),
        "random range": Variant(
            outcomes=outcomes(export="silent", strict="breaks", compiled="fine"),
            bad=example("def forward(self, x):\n    return x + random.uniform(-2, 2)", imports="import random"),
        ),
    },
    bad=_READ,
    good=example("def forward(self, x):\n    return x + torch.rand_like(x) * 0"),
    fixed=_READ_BEFORE,
    fixed_differs="It reads the variable once, when the model is made; torch draws other numbers than Python.",
    near=(
        Near(
            bad=example(
                """
                def forward(self, x):
                    return x * 2 if os.environ.get("EXAMPLE_SWITCH") else x
                """,
                imports="import os",
                init="self.environ = dict(os.environ)",
                build='os.environ.pop("EXAMPLE_SWITCH", None)\nreturn Net().eval()',
                inputs2='(os.environ.update(EXAMPLE_SWITCH="1"), torch.ones(2, 4))[1]',
            ),
            good=example(
                """
                def forward(self, x):
                    return x * 2 if self.environ.get("EXAMPLE_SWITCH") else x
                """,
                imports="import os",
                init="self.environ = dict(os.environ)",
                build='os.environ.pop("EXAMPLE_SWITCH", None)\nreturn Net().eval()',
                inputs2='(os.environ.update(EXAMPLE_SWITCH="1"), torch.ones(2, 4))[1]',
            ),
        ),
        Near(
            variant="numpy random number",
            bad=example(
                """
                def forward(self, x):
                    return x * normal(2)
                """,
                imports="from numpy import tanh\nfrom numpy.random import normal",
            ),
            good=example(
                """
                def forward(self, x):
                    return x * tanh(2)
                """,
                imports="from numpy import tanh\nfrom numpy.random import normal",
            ),
        ),
    ),
    proof="surroundings",
    observed_by=(Observer(check="state"), Observer(check="compile", mode="compile")),
    events=(Asked, Called, Indexed, Iterated, Used),
    match=match,
)
