"""# branch-on-tensor (EXP101)

## What it does
Reports Python control flow (`if`, `while`, `case`, `assert`, `and`, `or`, `not`, a conditional expression) that asks a
tensor for its truth value, and what asks for it behind the scenes: `bool()`, `torch.is_nonzero`, `torch._assert`,
`torch.testing.assert_close`, and Python's own
`sorted()`, `any()`, `all()`, `max()` and `min()` of what is in a tensor, or by a `key` that is one.

## Why it matters
While a model is captured, tensors have no values, so there is nothing to decide on: the capture fails. It fails for
buffers and constants as well, but for a tensor that the same call made of a Python number, which `torch.export` knows
by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import Asserted, Branched, Raised, Selected, Skipped, Unasked, first_of, fix
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Asked
from exportlint.source.values import Const, Number, Static, Tensor, Value, is_exact, options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Fix

# These compare whole tensors and hand Python the answer.
_COMPARISONS = ("equal", "allclose", "bool")


def match(event: Asked) -> Iterator[Match]:
    """A tensor was asked for its truth."""
    compared = isinstance(event.value, Number) and event.value.how in _COMPARISONS
    if not compared and not _is_tensor(event.value):
        return
    what = "the content of tensors" if compared else "a tensor"
    if is_exact(event.value):
        yield Match(event.site, f"`{event.site.text}` is asked for its truth, and it is a tensor", "constant")
    elif event.by == "assert":
        yield Match(
            event.site, f"assert asks `{event.site.text}` for its truth, and it is {what}", "assert",
            "Use torch._check, torch._assert_async or an assertion on shapes.",
            fix=fix("Record the assertion", Asserted(event.site.range), unsafe=True) if not compared else None,
        )  # fmt: skip
    elif event.by in ("max", "min"):
        yield Match(
            event.site, f"`{event.site.text}` compares the elements of a tensor in Python", "bool",
            f"Use torch.{'amax' if event.by == 'max' else 'amin'}, which stays in the graph.",
        )  # fmt: skip
    elif event.by in ("in", "bool()", "sorted", "any", "all"):
        # A truth that decides nothing is a problem of its own only where tensors have no values at all.
        alone = event.by == "bool()" and event.site.text.startswith("bool(")
        yield Match(event.site, f"`{event.site.text}` asks {what} for its truth", "bool" if alone else "")
    elif event.by == "case":
        yield Match(event.site, f"`{event.text}` is decided by {what}")
    else:
        yield Match(event.site, f"`{event.by}` is decided by `{event.site.text}`, which is {what}", fix=_fix(event))


def _fix(event: Asked) -> Fix | None:
    """What needs no answer; else both ways are computed, and one is chosen, which needs a tensor of bools."""
    place, value = event.site.range, event.value
    if event.by not in ("if", "conditional expression"):
        return None
    if isinstance(value, Number) and value.how == "equal":
        return fix("Compare element by element, and choose by torch.where", Selected(place), unsafe=True)
    skipped = fix("Ask in eager alone", Skipped(place), unsafe=True)
    if not isinstance(value, Tensor) or not value.boolean:
        return skipped if isinstance(value, Tensor) and event.by == "if" else None
    alone = value.scalar is True
    where = fix("Compute both ways and choose by torch.where", Selected(place, alone), unsafe=True)
    if event.by != "if":
        return where
    return first_of(
        fix("Leave out the question, since nothing changes nothing", Unasked(place), unsafe=True),
        fix("Record the assertion", Raised(place), unsafe=True),
        where,
        fix("Make the two ways functions for torch.cond", Branched(place, alone), unsafe=True),
        skipped,
    )


def _is_tensor(value: Value) -> bool:
    """Whether the value is a tensor on some path, and on every other ``None`` or a plain bool."""
    found = options(value)
    flags = (Const(None), Const(True), Const(False), Static("bool"))
    return any(isinstance(v, Tensor) for v in found) and all(isinstance(v, Tensor) or v in flags for v in found)


_GOOD = example("""
    def forward(self, x):
        return torch.where(x.sum() > 0, x * 2, x)
""")

RULE = Rule(
    code="EXP101",
    name="branch-on-tensor",
    summary="Python control flow is decided by the value of a tensor",
    rewrite="Use torch.where or torch.cond, or decide from shapes, dtypes or configuration instead.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
    variants={
        "bool": Variant(
            outcomes=outcomes(export="breaks", strict="fine", compiled="fine"),
            bad=example("""
                def forward(self, x):
                    return x * bool(x.sum() > 0)
            """),
        ),
        "constant": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="breaks"),
            bad=example("""
                def forward(self, x):
                    limit = torch.tensor(3.0)
                    return x * 2 if limit * 2 > 5 else x
            """),
        ),
        "assert": Variant(
            outcomes=outcomes(export="breaks", strict="fine", compiled="fine"),
            bad=example("""
                def forward(self, x):
                    assert (x > 0).all(), "positive input wanted"
                    return torch.log(x)
            """),
        ),
    },
    bad=example("""
        def forward(self, x):
            if x.sum() > 0:
                x = x * 2
            return x
    """),
    good=_GOOD,
    fixed=example("""
        def forward(self, x):
            x = torch.where(x.sum() > 0, x * 2, x)
            return x
    """),
    near=(
        Near(
            bad=example("""
                def forward(self, x):
                    return x * 2 if x.max() > 4 else x
            """),
            good=example("""
                def forward(self, x):
                    return x * 2 if x.dim() > 4 else x
            """),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    while not x.norm() > 2:
                        x = x[None]
                    return x * 2
            """),
            good=example("""
                def forward(self, x):
                    while not x.dim() > 2:
                        x = x[None]
                    return x * 2
            """),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    return x + 1 if self.on else x
                """,
                imports="from torch import tensor",
                init="self.on = tensor(True)",
            ),
            good=example(
                """
                def forward(self, x):
                    return x + 1 if self.on else x
                """,
                imports="from torch import tensor",
                init="self.on = bool(True)",
            ),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    for part in sorted(x.flatten()):
                        x = x + part
                    return x
            """),
            good=example("""
                def forward(self, x):
                    for part in reversed(x.flatten()):
                        x = x + part
                    return x
            """),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    return sorted([x, x * 2], key=lambda part: part.sum())[0]
            """),
            good=example("""
                def forward(self, x):
                    return sorted([x, x * 2], key=lambda part: part.dim())[0]
            """),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    return x * 2 if any(x.flatten()) else x
            """),
            good=example("""
                def forward(self, x):
                    return x * 2 if any(x.size()) else x
            """),
        ),
        Near(
            variant="bool",
            bad=example("""
                def forward(self, x):
                    return x * max(x.flatten())
            """),
            good=example("""
                def forward(self, x):
                    return x * max(x.size())
            """),
        ),
        Near(
            bad=example(
                """
                def forward(self, x, mask=None):
                    if mask is not None and torch.all(mask):
                        mask = None
                    return x if mask is None else x * mask
                """,
                inputs="torch.ones(2, 4), torch.ones(2, 4)",
            ),
            good=example(
                """
                def forward(self, x, mask=None):
                    if mask is not None and torch.is_floating_point(mask):
                        mask = None
                    return x if mask is None else x * mask
                """,
                inputs="torch.ones(2, 4), torch.ones(2, 4)",
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, q, k):
                    return q if self.rtol is None and torch.equal(q, k) else q + k
                """,
                init="self.rtol = None",
                inputs="torch.ones(2, 4), torch.ones(2, 4)",
            ),
            good=example(
                """
                def forward(self, q, k):
                    return q if self.rtol is not None and torch.equal(q, k) else q + k
                """,
                init="self.rtol = None",
                inputs="torch.ones(2, 4), torch.ones(2, 4)",
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    low = x < 2
                    if low.any():
                        x = x.clone()
                        x[low] = 0
                    return x * 2
            """,
                inputs2="torch.ones(2, 4) * 3",
            ),
            good=example(
                """
                def forward(self, x):
                    low = x < 2
                    if low.dim():
                        x = x.clone()
                        x[low] = 0
                    return x * 2
            """,
                inputs2="torch.ones(2, 4) * 3",
            ),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    if torch.isinf(x).any():
                        raise ValueError("finite input wanted")
                    return x * 2
            """),
            good=example(
                """
                def forward(self, x):
                    if torch.isinf(x).is_complex():
                        raise ValueError("finite input wanted")
                    return x * 2
            """
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    y = x + 1
                    if x.sum() > 0:
                        x = x * 2
                        y = y - x
                    return x * y
            """,
                inputs2="-torch.ones(2, 4)",
            ),
            good=example(
                """
                def forward(self, x):
                    y = x + 1
                    if x.dim() > 0:
                        x = x * 2
                        y = y - x
                    return x * y
            """,
                inputs2="-torch.ones(2, 4)",
            ),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"), Observer(check="compile", mode="compile")),
    events=(Asked,),
    match=match,
)
