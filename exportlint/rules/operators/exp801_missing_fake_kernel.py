"""# missing-fake-kernel (EXP801)

## What it does
Reports calls of custom operators that the same file, or for `custom_op` the one that it is imported from, defines
without a fake kernel. What an operator does inside is nobody's business: captures do not look there.

## Why it matters
The capture runs on fake tensors. Without a fake kernel it does not know the shape of the result.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called
from exportlint.source.values import Function

if TYPE_CHECKING:
    from collections.abc import Iterator

# Any of these gives operators of a library a kernel for fake tensors, or none is needed.
_FAKE = re.compile(r"[\"'](?:Meta|CompositeImplicitAutograd|CompositeExplicitAutograd)[\"']")
_REGISTERING = r"\b(?:register_fake|impl_abstract)\(\s*"


def match(event: Called) -> Iterator[Match]:
    """An operator that the file defines was called, and has no fake kernel there."""
    parts = event.name.split(".")
    if not event.name.startswith("torch.ops.") or len(parts) < 4:
        return
    text = event.site.source.text
    names: list[str] = []
    if isinstance(event.receiver, Function) and event.receiver.entry is not None:
        text += event.receiver.entry.module.source.text
        names = [event.receiver.entry.name]
    if (names or _is_defined(text, *parts[2:4])) and not _has_fake(text, parts[2], parts[3], names):
        yield Match(event.site, f"`{event.name}` has no fake kernel, so its result has no shape under capture")


def _is_defined(text: str, space: str, name: str) -> bool:
    """Whether the file defines the operator; by a schema, one that returns something."""
    if re.search(rf"custom_op\(\s*[\"']{space}::{name}[\"']", text):
        return True
    defined = re.search(rf"(?:Library|define)\(\s*[\"']{space}\b", text)
    return defined is not None and not re.search(rf"\b{name}\([^\"']*\)\s*->\s*\(\)", text)


def _has_fake(text: str, space: str, name: str, names: list[str]) -> bool:
    """Whether the file registers a fake kernel that may be this operator's."""
    own = rf"[\"']{space}::{name}[\"']"
    if re.search(rf"{_REGISTERING}(?:{own}|(?![\"'])\w+\s*[,)])", text):
        return True
    made = re.search(rf"custom_op\(\s*{own}", text)
    if made is None and not names:
        return _FAKE.search(text) is not None
    names = names + re.findall(rf"(\w+)\s*(?::[^=\n]+)?=\s*[\w.]*custom_op\(\s*{own}", text)
    if made is not None:
        names += re.findall(r"^\s*(?:async\s+)?def\s+(\w+)", text[made.end() :], re.MULTILINE)[:1]
    return any(re.search(rf"\b{each}\.(?:register_fake|register_vmap_fake|impl_abstract)\b", text) for each in names)


_OPERATOR = """
LIB = torch.library.Library("example_{name}", "FRAGMENT")
LIB.define("twice(Tensor x) -> Tensor")
LIB.impl("twice", lambda x: x * 2, "{key}")
"""
_FORWARD = "def forward(self, x):\n    return torch.ops.example_{}.twice(x)"
_FIXED = """
@torch.library.custom_op("example_fixed::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def fake_twice(x):
    return torch.empty_like(x)
"""

RULE = Rule(
    code="EXP801",
    name="missing-fake-kernel",
    summary="A custom operator has no fake kernel, so nothing can be captured through it",
    rewrite="Register one with torch.library.register_fake.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
    bad=example(_FORWARD.format("bad"), above=_OPERATOR.format(name="bad", key="CPU")),
    good=example("def forward(self, x):\n    return torch.ops.aten.mul(x, 2)"),
    fixed=example(_FORWARD.format("fixed"), above=_FIXED),
    near=(
        Near(
            bad=example(_FORWARD.format("near"), above=_OPERATOR.format(name="near", key="CPU")),
            good=example(_FORWARD.format("near"), above=_OPERATOR.format(name="near", key="CompositeImplicitAutograd")),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"), Observer(check="compile", mode="compile")),
    events=(Called,),
    match=match,
)
