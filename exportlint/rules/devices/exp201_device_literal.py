"""# device-literal (EXP201)

## What it does
Reports a device that is a constant in the source: `device="cpu"`, `.cuda()`, `.to("cuda:0")`, where the tensor meets
one that follows the inputs.

## Why it matters
After the model moved, the tensor stays where the literal says. The eager model then fails with tensors on two
devices, and a program exported on one device keeps that device for good. A literal `cuda` fails wherever there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Met

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Met) -> Iterator[Match]:
    """A tensor on a literal device meets one that follows the inputs."""
    stray = event.stray
    if stray.placement != "literal" or stray.home:
        return
    accelerator = "cuda" in event.site.text
    yield Match(
        event.site,
        f"`{event.site.text}` puts a tensor on a device of its own, and it meets tensors that follow the inputs",
        "accelerator" if accelerator else "",
    )


RULE = Rule(
    code="EXP201",
    name="device-literal",
    summary="A device is written down in the source, so the tensor does not follow the model",
    rewrite="Take the device from a tensor at hand: device=x.device.",
    severity="error",
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
                    return x + torch.full((4,), 0.5, device=torch.device("cpu"))
            """),
            good=example("""
                def forward(self, x):
                    return x + torch.full((), 0.5, device=torch.device("cpu"))
            """),
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
    events=(Met,),
    match=match,
)
