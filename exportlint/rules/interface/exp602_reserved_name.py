"""# reserved-name (EXP602)

## What it does
Reports top-level submodules, parameters and buffers named `graph`, `code` or `meta`.

## Why it matters
The export succeeds, but `ExportedProgram.module()` raises, so the program cannot be run from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import Renamed, fix
from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Defined
from exportlint.source.values import is_state, options

if TYPE_CHECKING:
    from collections.abc import Iterator

_RESERVED = ("graph", "code", "meta")


def match(event: Defined) -> Iterator[Match]:
    """The model has a submodule, parameter or buffer of a reserved name."""
    for name in _RESERVED:
        value, site = event.attributes.get(name), event.sites.get(name)
        if event.top and site is not None and value is not None and any(is_state(v) for v in options(value)):
            yield Match(
                site,
                f"`self.{name}` has a name that the exported program keeps for itself",
                fix=fix("Rename it", Renamed(site.range, name, f"{name}_"), unsafe=True),
            )


RULE = Rule(
    code="EXP602",
    name="reserved-name",
    summary="A submodule, parameter or buffer has a name that torch.fx keeps for itself",
    rewrite="Rename the attribute.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
    bad=example("def forward(self, x):\n    return self.graph(x)", init="self.graph = nn.Linear(4, 4)"),
    good=example("def forward(self, x):\n    return x * self.graph", init="self.graph = 4"),
    fixed=example("def forward(self, x):\n    return self.graph_(x)", init="self.graph_ = nn.Linear(4, 4)"),
    near=(
        Near(
            bad=example(
                "def forward(self, x):\n    return x + next(self.parameters())",
                init="self.code = nn.Parameter(torch.ones(4))",
            ),
            good=example(
                "def forward(self, x):\n    return x + next(self.parameters())",
                init="self.node = nn.Parameter(torch.ones(4))",
            ),
        ),
        Near(
            bad=example(
                "def forward(self, x):\n    return x + next(self.buffers())",
                init='self.register_buffer("meta", torch.ones(4))',
            ),
            good=example(
                "def forward(self, x):\n    return x + next(self.buffers())",
                init='self.register_buffer("data", torch.ones(4))',
            ),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"),),
    events=(Defined,),
    match=match,
)
