"""# environment-frozen (EXP303)

## What it does
Reports reads of environment variables, clocks and Python's or numpy's random numbers in code that runs under capture.

## Why it matters
They are read once, while the model is captured. The program keeps what was read: the same time, the same random
number, the same switch on every machine. TorchDynamo (strict export and `torch.compile`) refuses most of them.

The check `state` also tries other answers for the grad mode, `requires_grad`, the strides of inputs, the process, the
command line, hashes of text, the number of threads, the default dtype and flags of torch, and reports a line that reads
them where another answer changes what the eager model returns and the program does not follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Asked, Event, Indexed, Used
from exportlint.source.values import External, Number, Truth, options

if TYPE_CHECKING:
    from collections.abc import Iterator

_REWRITES = {
    "environment": "",
    "clock": "Pass the time in as a tensor.",
    "random number": "Draw it with torch, or pass it in.",
    "random range": "Draw it with torch, or pass it in.",
    "numpy random number": "Draw it with torch, or pass it in.",
}


def match(event: Event) -> Iterator[Match]:
    """Something that was read outside of the model takes part in what it computes, or decides something."""
    if isinstance(event, Indexed) and event.value == External("os.environ"):
        yield Match(event.site, f"`{event.site.text}` is read once, while the model is captured")
    elif isinstance(event, Used):
        yield from _read(event.number)
    elif isinstance(event, Asked):
        for option in options(event.value):
            number = option.of if isinstance(option, Truth) else option
            if isinstance(number, Number):
                yield from _read(number)


def _read(number: Number) -> Iterator[Match]:
    if number.how in _REWRITES and number.site is not None:
        variant = "" if number.how == "environment" else number.how
        text = f"`{number.site.text}` is read once, while the model is captured"
        yield Match(number.site, text, variant, _REWRITES[number.how])


_PASSED = example(
    "def forward(self, x, fast):\n    return torch.where(fast, x * 2, x)",
    inputs="torch.ones(2, 4), torch.tensor(False)",
    inputs2="torch.ones(2, 4), torch.tensor(True)",
)
_READ = example(
    'def forward(self, x):\n    return x * 2 if os.environ.get("EXAMPLE_SWITCH") else x',
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
    fixed=_PASSED,
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
    events=(Asked, Indexed, Used),
    match=match,
)
