"""# branch-on-device (EXP204)

## What it does
Reports a branch on `x.is_cuda`, `x.device.type` or `torch.cuda.is_available()` that changes the captured program.

## Why it matters
The branch is taken once, on the machine that exports. The program keeps it everywhere.
"""

from exportlint.rules.base import Near, Observer, Rule, Variant, observed
from exportlint.rules.examples import example

RULE = Rule(
    code="EXP204",
    name="branch-on-device",
    summary="Python control flow is decided by the device at export time",
    rewrite="Write device-independent code, or export once for each kind of device.",
    page=__doc__,
    outcomes=observed("unportable"),
    variants={
        "another path": Variant(
            outcomes=observed("fine"),
            bad=example("def forward(self, x):\n    return x.half().float() if x.is_cuda else x"),
            advice=True,
        ),
    },
    bad=example("def forward(self, x):\n    return x * 2 if x.is_cuda else x"),
    good=example("def forward(self, x):\n    return x * 2 if x.requires_grad else x"),
    fixed=example("def forward(self, x):\n    return x"),
    near=(
        Near(
            bad=example('def forward(self, x):\n    return x * 2 if x.device.type == "cuda" else x'),
            good=example('def forward(self, x):\n    return x * 2 if x.device.type == "none" else x'),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="device"),),
)
