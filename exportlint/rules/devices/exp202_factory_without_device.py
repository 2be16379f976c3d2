"""# factory-without-device (EXP202)

## What it does
Reports a factory call (`torch.arange`, `torch.zeros`, `torch.tensor`, ...) without `device=` whose result meets tensors
that follow the inputs.

## Why it matters
The result is made on the default device, the CPU. The model runs and exports there, and fails or computes on the wrong
device everywhere else. A result without dimensions, or one that only indexes, is portable and is not reported.

Under `torch.compile` it is no finding: the model is captured anew on the device at hand, and fails there only where it
fails in eager too.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from exportlint.fixes.edits import AT_HAND, Behind, Keyword, fix
from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Met
from exportlint.source.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Fix
    from exportlint.source.sites import Site


def match(event: Met) -> Iterator[Match]:
    """A tensor that this call made on the default device meets one that follows the inputs."""
    stray = event.stray
    if stray.placement == "default" and not stray.home:
        yield Match(
            event.site,
            f"`{event.site.text}` makes a tensor on the default device, and it meets tensors that follow the inputs",
            rewrite="" if _takes_device(event.site) else "Move it to the device of a tensor at hand: .to(x.device).",
            fix=_fix(event.site),
        )


def _fix(site: Site) -> Fix | None:
    """The device of a tensor at hand: asked of the factory, or of what it made where it takes none."""
    if not isinstance(site.node, ast.Call):
        return None
    given = {keyword.arg for keyword in site.node.keywords}
    if given & {"generator", "out", "pin_memory"}:
        return None
    if _takes_device(site) and None not in given:
        return fix(f"Make it on the device of `{AT_HAND}`", Keyword(site.range, "device", f"{AT_HAND}.device"))
    return fix(f"Move it to the device of `{AT_HAND}`", Behind(site.range, f".to({AT_HAND}.device)"))


def _takes_device(site: Site) -> bool:
    """Whether what is called takes a device, as far as torch's schemas say."""
    func = site.node.func if isinstance(site.node, ast.Call) else None
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    known = facts().functions.get(f"torch.{name}")
    return name in ("tensor", "as_tensor", "asarray") or (known is not None and known.device)


RULE = Rule(
    code="EXP202",
    name="factory-without-device",
    summary="A tensor is made on the default device instead of the device of the inputs",
    rewrite="Pass the device of a tensor at hand: device=x.device, or use x.new_zeros and its like.",
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="unportable", compiled="fine"),
    bad=example(
        """
        def forward(self, x):
            return x * torch.arange(x.size(1))
        """,
        inputs="torch.ones(2, 4)",
    ),
    good=example("""
        def forward(self, x):
            return x * torch.tensor(0.5)
    """),
    fixed=example("""
        def forward(self, x):
            return x * torch.arange(x.size(1), device=x.device)
    """),
    near=(
        Near(
            bad=example(
                """
                def forward(self, x):
                    rows = torch.arange(x.size(0))
                    return x[rows] + rows
                """,
                inputs="torch.ones(4, 4)",
            ),
            good=example(
                """
                def forward(self, x):
                    rows = torch.arange(x.size(0))
                    return x[rows] + x
                """,
                inputs="torch.ones(4, 4)",
            ),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    kind = x.dtype
                    return x + torch.tensor([1.0, 2.0, 3.0, 4.0]).to(kind)
            """),
            good=example("""
                def forward(self, x):
                    kind = x.dtype
                    return x + torch.tensor([1.0, 2.0, 3.0, 4.0]).to(x)
            """),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    total = torch.zeros(1)
                    for row in x:
                        total = total + row.sum()
                    return total
            """),
            good=example("""
                def forward(self, x):
                    total = torch.zeros(1)
                    for row in x:
                        total = row + row.sum()
                    return total
            """),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    made = torch.FloatTensor(4).zero_()
                    return x + made.sin()
            """),
            good=example("""
                def forward(self, x):
                    made = torch.FloatTensor(4).zero_()
                    return x + x.sin()
            """),
        ),
    ),
    proof="second device",
    observed_by=(Observer(check="device"),),
    events=(Met,),
    match=match,
)
