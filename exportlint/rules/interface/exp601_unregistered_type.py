"""# unregistered-type (EXP601)

## What it does
Reports inputs and outputs of classes that are not registered as pytree nodes.

## Why it matters
`torch.export` flattens inputs and outputs to tensors. It refuses a class that it cannot flatten.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint.fixes.edits import Below, fix
from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Given, Returned
from exportlint.source.values import UNREGISTERED, Dict, Instance, Sequence, Static, Value, options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Fix
    from exportlint.source.index import ClassEntry
    from exportlint.source.sites import Site

# Subclasses of these are flattened by themselves.
_FLATTENED = ("NamedTuple", "OrderedDict", "defaultdict", "deque", "ModelOutput")


def match(event: Given | Returned) -> Iterator[Match]:
    """An example input, or what comes out, is or holds an object of a class that nothing registers."""
    for value in _parts(event.value):
        if isinstance(value, Instance) and not value.module and not _is_registered(value.cls):
            name = value.cls.name
            yield Match(
                event.site, f"`{event.site.text}` {_verb(event, value)} a {name}, which torch.export does not know",
                rewrite=f"Register it: torch.export.register_dataclass({name}), or pass its tensors.",
                fix=_fix(event.site, value.cls),
            )  # fmt: skip
        elif isinstance(value, Static) and value.of in UNREGISTERED:
            name = value.of.rpartition(".")[2]
            text = f"`{event.site.text}` {_verb(event, value)} a {name}, which torch.export does not know"
            yield Match(event.site, text, rewrite="Use a dict, a list or a registered class.")
        elif isinstance(event, Returned) and isinstance(value, Sequence) and value.kind in ("set", "iterator"):
            name = {"iterator": "an iterator"}.get(value.kind, "a set")
            text = f"`{event.site.text}` {_verb(event, value)} {name}, which torch.export does not know"
            yield Match(event.site, text, rewrite="Return a list or a tuple.")


def _fix(site: Site, cls: ClassEntry) -> Fix | None:
    """A dataclass of the same file is registered below it; unsafe, since it can be registered only once."""
    dataclass = any(decorator.rpartition(".")[2].startswith("dataclass") for decorator in cls.decorators)
    if not dataclass or cls.module.source is not site.source:
        return None
    registered = Below(site.range, cls.name, "torch.export.register_dataclass")
    return fix("Register it", registered, unsafe=True)


def _verb(event: Given | Returned, value: Value) -> str:
    return "is" if value in options(event.value) else "holds"


def _parts(value: Value) -> Iterator[Value]:
    """The value, and what is in its lists, tuples and dictionaries."""
    for option in options(value):
        yield option
        inside: tuple[Value, ...] = ()
        if isinstance(option, Sequence) and option.kind in ("list", "tuple"):
            inside = option.items or ()
        elif isinstance(option, Dict):
            inside = tuple(item for _, item in option.items)
        for item in inside:
            yield from _parts(item)


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
            bad=example("def forward(self, x):\n    return set([x])"),
            good=example("def forward(self, x):\n    return list([x])"),
        ),
        Near(
            bad=example(
                "def forward(self, x):\n    return {'a': Out(x)}",
                imports="from dataclasses import dataclass",
                above="@dataclass\nclass Out:\n    x: torch.Tensor",
            ),
            good=example(
                "def forward(self, x):\n    return {'a': abs(x)}",
                imports="from dataclasses import dataclass",
                above="@dataclass\nclass Out:\n    x: torch.Tensor",
            ),
        ),
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
    events=(Given, Returned),
    match=match,
)
