"""# unregistered-type (EXP601)

## What it does
Reports inputs and outputs of classes that are not registered as pytree nodes.

## Why it matters
`torch.export` flattens inputs and outputs to tensors. It refuses a class that it cannot flatten.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Given
from exportlint.source.values import Instance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.source.index import ClassEntry

# Subclasses of these are flattened by themselves.
_FLATTENED = ("NamedTuple", "OrderedDict", "defaultdict", "deque", "ModelOutput")


def match(event: Given) -> Iterator[Match]:
    """An example input is an object of a class that nothing registers."""
    if isinstance(event.value, Instance) and not event.value.module and not _is_registered(event.value.cls):
        name = event.value.cls.name
        yield Match(
            event.site, f"`{event.site.text}` is a {name}, which torch.export does not know",
            rewrite=f"Register it: torch.export.register_dataclass({name}), or pass its tensors.",
        )  # fmt: skip


def _is_registered(cls: ClassEntry) -> bool:
    """Whether the class's file registers it, in whatever way, or it is of a kind that needs no registration."""
    text = cls.module.source.text
    if re.search(rf"register_\w+\(\s*(?:\w+\.)*{re.escape(cls.name)}\b", text):
        return True
    registered = any("register" in decorator for decorator in cls.decorators)
    return registered or any(base.rpartition(".")[2] in _FLATTENED for base in cls.bases)


_DATACLASS = """
@dataclass
class Batch:
    x: torch.Tensor
"""
_REGISTERED = """
@dataclass
class Batch:
    x: torch.Tensor


torch.export.register_dataclass(Batch)
"""
_PARTS = {"imports": "from dataclasses import dataclass", "inputs": "Batch(torch.ones(2, 4))"}

RULE = Rule(
    code="EXP601",
    name="unregistered-type",
    summary="An input or output is of a class that torch.export does not know",
    rewrite="Register the class: torch.export.register_dataclass or torch.utils._pytree.register_pytree_node.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
    bad=example("def forward(self, batch):\n    return batch.x * 2", above=_DATACLASS, **_PARTS),
    good=example("def forward(self, x):\n    return x * 2"),
    fixed=example("def forward(self, batch):\n    return batch.x * 2", above=_REGISTERED, **_PARTS),
    near=(
        Near(
            bad=example(
                """
                def forward(self, batch):
                    return batch["x"] * 2
                """,
                imports="from collections import OrderedDict, UserDict",
                above="class Batch(UserDict):\n    pass",
                inputs="Batch(x=torch.ones(2, 4))",
                inputs2="*inputs()",
            ),
            good=example(
                """
                def forward(self, batch):
                    return batch["x"] * 2
                """,
                imports="from collections import OrderedDict, UserDict",
                above="class Batch(UserDict):\n    pass",
                inputs="OrderedDict(x=torch.ones(2, 4))",
                inputs2="*inputs()",
            ),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"),),
    events=(Given,),
    match=match,
)
