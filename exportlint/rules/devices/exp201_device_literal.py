"""# device-literal (EXP201)

## What it does
Reports a device that is a constant in the source: `device="cpu"`, `.cuda()`, `.to("cuda:0")`, where the tensor meets
one that follows the inputs. A device that was chosen when the file was imported is one too:
`DEVICE = "cuda" if torch.cuda.is_available() else "cpu"`. So is a type of tensors: `torch.cuda.FloatTensor(4)`,
`x.type("torch.FloatTensor")`, and a device that `functools.partial` binds. A move to the device that a test around it
says the inputs are on, as in `if x.is_cuda: h = h.cuda()`, is none.

## Why it matters
After the model moved, the tensor stays where the literal says. The eager model then fails with tensors on two
devices, and a program exported on one device keeps that device for good. A literal `cuda` fails wherever there is none.

Under `torch.compile` a literal CPU is no finding: the model is captured anew on the device at hand, and fails there
only where it fails in eager too.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from exportlint.fixes.edits import AT_HAND, Keyword, Moved, fix
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called, Event, Met
from exportlint.source.values import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Fix
    from exportlint.source.sites import Site


_MOVING = ("cuda", "cpu", "xpu", "to", "type")
_MOVES = re.compile(r"\.(?:cuda|cpu|xpu|to)\([^()]*\)$")


def match(event: Event) -> Iterator[Match]:
    """A tensor on a literal device meets one that follows the inputs; an accelerator need meet nothing."""
    stray = event.stray if isinstance(event, Met) and event.stray.placement == "literal" else None
    if stray is not None and stray.home in ("", "context"):
        text = f"`{event.site.text}` puts a tensor on a device of its own, and it meets tensors that follow the inputs"
        variant = "accelerator" if _is_accelerator(stray) else stray.home
        yield Match(event.site, text, variant, _rewrite(event), fix=_fix(event.site, variant))
    elif isinstance(event, Called) and isinstance(event.result, Tensor) and _is_accelerator(event.result):
        text = f"`{event.site.text}` asks for an accelerator, and fails wherever there is none"
        if event.result.site == event.site:
            yield Match(event.site, text, "accelerator", _rewrite(event), fix=_fix(event.site, "accelerator"))


def _fix(site: Site, variant: str) -> Fix | None:
    """The device of a tensor at hand; unsafe where an accelerator was meant, whatever the inputs are on."""
    if variant == "context" or not isinstance(site.node, ast.Call):
        return None
    unsafe = variant == "accelerator"
    moves = isinstance(site.node.func, ast.Attribute) and site.node.func.attr in _MOVING
    if moves:
        title = f"Move it to the device of `{AT_HAND}`"
        return fix(title, Moved(site.range, f"{AT_HAND}.device"), unsafe=unsafe)
    name = site.node.func.attr if isinstance(site.node.func, ast.Attribute) else ""
    if name.endswith("Tensor"):  # which takes no device
        return None
    title = f"Make it on the device of `{AT_HAND}`"
    return fix(title, Keyword(site.range, "device", f"{AT_HAND}.device"), unsafe=unsafe)


def _rewrite(event: Event) -> str:
    """For a method that moves a tensor; the rule's own for a factory call."""
    method = _MOVES.search(event.site.text)
    return f"Move it to the device of a tensor at hand: .to(x.device) instead of {method[0]}." if method else ""


def _is_accelerator(tensor: Tensor) -> bool:
    name = tensor.kept.removeprefix("device ") if tensor.kept.startswith("device ") else ""
    return tensor.placement == "literal" and name not in ("", "cpu")  # which device it is may not be known


RULE = Rule(
    code="EXP201",
    name="device-literal",
    summary="A device is written down in the source, so the tensor does not follow the model",
    rewrite="Take the device from a tensor at hand: device=x.device.",
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="unportable", compiled="fine"),
    variants={
        "accelerator": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
            bad=example("""
                def forward(self, x):
                    return x + torch.zeros(4, device="cuda:0")
            """),
            proof="capture",
        ),
        "context": Variant(
            outcomes=outcomes(export="unportable", strict="breaks", compiled="breaks"),
            bad=example("""
                def forward(self, x):
                    with torch.device("cpu"):
                        return x + torch.ones(4)
            """),
        ),
    },
    bad=example("""
        def forward(self, x):
            return x + torch.zeros(4, device="cpu")
    """),
    good=example("""
        def forward(self, x):
            return x + torch.zeros(4, device="cpu").to(x.device)
    """),
    fixed=example("""
        def forward(self, x):
            return x + torch.zeros(4, device=x.device)
    """),
    near=(
        Near(
            bad=example("""
                def forward(self, x):
                    return x.type(torch.FloatTensor) + x
            """),
            good=example("""
                def forward(self, x):
                    return x.type(torch.float32) + x
            """),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    low = x < 2
                    return x * low.type(torch.FloatTensor)
            """),
            good=example("""
                def forward(self, x):
                    low = x < 2
                    return x * low.type(torch.float32)
            """),
        ),
        Near(
            variant="accelerator",
            bad=example("""
                def forward(self, x):
                    return x.cuda() + 1
            """),
            good=example("""
                def forward(self, x):
                    return x.clone() + 1
            """),
        ),
        Near(
            variant="accelerator",
            bad=example("""
                def forward(self, x):
                    h = x.sin()
                    if x.is_cpu:
                        h = h.cuda()
                    return x + h
            """),
            good=example("""
                def forward(self, x):
                    h = x.sin()
                    if x.is_cuda:
                        h = h.cuda()
                    return x + h
            """),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    return x + ones(4, device=torch.device("cpu"))
                """,
                imports="from torch import ones, tensor",
            ),
            good=example(
                """
                def forward(self, x):
                    return x + tensor(4, device=torch.device("cpu"))
                """,
                imports="from torch import ones, tensor",
            ),
        ),
        Near(
            bad=example("""
                def forward(self, x):
                    return x + x.sum(0).cpu()
            """),
            good=example("""
                def forward(self, x):
                    return x + x.sum(0).clone()
            """),
        ),
    ),
    proof="second device",
    observed_by=(Observer(check="device"),),
    events=(Met, Called),
    match=match,
)
