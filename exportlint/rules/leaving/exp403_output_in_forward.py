"""# output-in-forward (EXP403)

## What it does
Reports `print`, logging and warnings in code that runs under capture, and what asks a logger for its level.

## Why it matters
Both export modes run them once, while the model is captured, and are right otherwise. `torch.compile` with
`fullgraph=True` refuses them; without it, the graph breaks there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import Guarded, fix
from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.rules.output import LEVELS
from exportlint.source.events import Called

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREDICATE = "torch.compiler.is_compiling"


def match(event: Called) -> Iterator[Match]:
    """Something was printed or logged."""
    space, _, name = event.name.rpartition(".")
    logged = space in ("logging.Logger", "logging") and name in LEVELS
    if name in ("isEnabledFor", "setLevel") and space == "logging.Logger":
        yield Match(event.site, f"`{event.site.text}` asks a logger, and torch.compile(fullgraph=True) refuses that")
    if logged or event.name in ("builtins.print", "warnings.warn"):
        yield Match(
            event.site,
            f"`{event.site.text}` writes while the model runs, and torch.compile(fullgraph=True) refuses that",
            fix=fix("Leave it out while the model is captured", Guarded(event.site.range, _PREDICATE)),
        )


RULE = Rule(
    code="EXP403",
    name="output-in-forward",
    summary="The model prints, logs or warns, which torch.compile(fullgraph=True) refuses",
    rewrite="Remove it, or guard it by `not torch.compiler.is_compiling()`.",
    page=__doc__,
    outcomes=outcomes(export="fine", strict="fine", compiled="breaks"),
    bad=example("def forward(self, x):\n    print(x.shape)\n    return x * 2"),
    good=example('def forward(self, x):\n    if x.shape[1] != 4:\n        raise ValueError("four")\n    return x * 2'),
    fixed=example(
        "def forward(self, x):\n    if not torch.compiler.is_compiling():\n        print(x.shape)\n    return x * 2"
    ),
    near=(
        Near(
            bad=example(
                """
                def forward(self, x):
                    if self.verbose:
                        LOG.info("in %s", x.shape)
                    return x * 2
                """,
                imports="import logging",
                init="self.verbose = True",
                above="LOG = logging.getLogger(__name__)",
            ),
            good=example(
                """
                def forward(self, x):
                    if self.verbose:
                        LOG.info("in %s", x.shape)
                    return x * 2
                """,
                imports="import logging",
                init="self.verbose = False",
                above="LOG = logging.getLogger(__name__)",
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    warn("odd")
                    return x * 2
                """,
                imports="from warnings import warn",
            ),
            good=example(
                """
                def forward(self, x):
                    UserWarning("odd")
                    return x * 2
                """,
                imports="from warnings import warn",
            ),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="compile", mode="compile"),),
    events=(Called,),
    match=match,
)
