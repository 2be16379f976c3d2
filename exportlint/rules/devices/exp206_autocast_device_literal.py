"""# autocast-device-literal (EXP206)

## What it does
Reports `torch.autocast("cuda")` and its like in code that runs under capture.

## Why it matters
Exported on a machine without that device, the autocast region is stored as disabled for good. On a device of another
type the region does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import AT_HAND, Keyword, fix
from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called
from exportlint.source.values import Const

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED = frozenset({"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"})
_FIXED = frozenset({"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"})


def match(event: Called) -> Iterator[Match]:
    """An autocast region for a device type that is written down."""
    device = event.keywords.get("device_type") or (event.arguments[0] if event.arguments else None)
    literal = event.name in _NAMED and isinstance(device, Const) and device.value not in ("cpu", "meta", None)
    if literal or event.name in _FIXED:
        named = Keyword(event.site.range, "device_type", f"{AT_HAND}.device.type", 0)
        yield Match(
            event.site,
            f"`{event.site.text}` names a device type, whatever the inputs are on",
            fix=fix(f"Name the device type of `{AT_HAND}`", named, unsafe=True) if literal else None,
        )


_BLOCK = "def forward(self, x):\n    with torch.autocast({}, dtype=torch.bfloat16):\n        return self.fc(x)"
_INIT = "self.fc = nn.Linear(4, 4)"

RULE = Rule(
    code="EXP206",
    name="autocast-device-literal",
    summary="torch.autocast names a device type that is not the inputs' one",
    rewrite="Name the device type of a tensor at hand: torch.autocast(x.device.type).",
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="unportable", compiled="fine"),
    bad=example(_BLOCK.format('"cuda"'), init=_INIT),
    good=example(_BLOCK.replace(", dtype=torch.bfloat16", "").format("x.device.type, enabled=False"), init=_INIT),
    fixed=example(_BLOCK.format("x.device.type"), init=_INIT),
    fixed_differs="It computes in bfloat16 where the bad one, on the CPU, does not.",
    near=(
        Near(
            bad=example(
                """
                def forward(self, x):
                    kind = x.device.type
                    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                        return self.fc(x)
                """,
                init=_INIT,
            ),
            good=example(
                """
                def forward(self, x):
                    kind = x.device.type
                    with torch.autocast(device_type=kind, dtype=torch.bfloat16):
                        return self.fc(x)
                """,
                init=_INIT,
            ),
        ),
    ),
    proof="second device",
    observed_by=(Observer(check="device"),),
    events=(Called,),
    match=match,
)
