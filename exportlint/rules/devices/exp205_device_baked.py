"""# device-baked (EXP205)

## What it does
Names the tensors whose device follows the inputs in the source, as it should, and which the exported program
nevertheless makes on the device of the export.

## Why it matters
`torch.export` bakes every device, good or bad. Such a program fails after `.to(...)`; `move_to_device_pass` rewrites
it, but not everything: a layout that the CPU's kernels chose, for instance, stays in the program, and where the pass
fails, or the moved program does, the model has to be exported on its target. Nothing is wrong with the source, so this
is information only.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_HELPERS = """
def made(x):
    return torch.ones(4, device=x.device)


def like(x):
    return torch.ones_like(x)
"""

RULE = Rule(
    code="EXP205",
    name="device-baked",
    summary="A device that follows the inputs in the source is a constant in the exported program",
    rewrite="Export on the target device, or move the program with torch.export.passes.move_to_device_pass.",
    page=__doc__,
    outcomes=observed("fine"),
    advice=True,
    bad=example("def forward(self, x):\n    return x + torch.arange(4, device=x.device)"),
    good=example("def forward(self, x):\n    return x + torch.ones_like(x)"),
    fixed=example(
        "def forward(self, x):\n    return x + self.steps",
        init='self.register_buffer("steps", torch.arange(4), persistent=False)',
    ),
    near=(
        Near(
            bad=example("def forward(self, x):\n    return x + made(x)", above=_HELPERS),
            good=example("def forward(self, x):\n    return x + like(x)", above=_HELPERS),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="device"),),
)
