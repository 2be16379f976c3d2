"""# missing-fake-kernel (EXP801)

## What it does
Reports calls of custom operators that the same file defines without a fake kernel.

## Why it matters
The capture runs on fake tensors. Without a fake kernel it does not know the shape of the result.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called

if TYPE_CHECKING:
    from collections.abc import Iterator

# Any of these gives operators of the file a kernel for fake tensors, or none is needed.
_FAKE = re.compile(
    r"register_fake|impl_abstract|[\"'](?:Meta|CompositeImplicitAutograd|CompositeExplicitAutograd)[\"']"
)


def match(event: Called) -> Iterator[Match]:
    """An operator that the file defines was called, and the file has no fake kernel."""
    if not event.name.startswith("torch.ops."):
        return
    namespace = event.name.split(".")[2]
    text = event.site.source.text
    defined = re.search(rf"(?:Library|define|custom_op)\(\s*[\"']{re.escape(namespace)}\b", text)
    if defined and not _FAKE.search(text):
        yield Match(event.site, f"`{event.name}` has no fake kernel, so its result has no shape under capture")


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
