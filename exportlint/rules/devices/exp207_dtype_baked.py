"""# dtype-baked (EXP207)

## What it does
Exports the model in float32 and in bfloat16, and runs it in both.

A warning names a line at which the dtype decides what is computed, so that the program in float32 keeps a choice that
bfloat16 does not share: the eager model in bfloat16 returns other numbers, by more than rounding explains.

Information names the tensors whose dtype follows the inputs or the parameters in the source, as it should, and which
the exported program nevertheless makes in the dtype of the export, and says what the program does when it is cast.

## Why it matters
`torch.export` bakes every dtype, as it bakes devices. `ep.module().to(torch.bfloat16)` casts parameters and buffers
only. The casts of the graph still say float32, constants stay float32, and before each cast torch checks for the dtype
of the export. A deliberate island in float32 that casts back to the dtype of its input is right in the source.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

RULE = Rule(
    code="EXP207",
    name="dtype-baked",
    summary="A dtype that follows the inputs in the source is a constant in the exported program",
    rewrite="Cast the model, not the program: export model.to(torch.bfloat16) from inputs of that dtype.",
    page=__doc__,
    outcomes=observed("fine"),
    advice=True,
    bad=example("def forward(self, x):\n    return x * torch.arange(4, dtype=x.dtype, device=x.device)"),
    good=example("def forward(self, x):\n    return x * torch.ones_like(x)"),
    fixed=example(
        "def forward(self, x):\n    return x * self.steps",
        init='self.register_buffer("steps", torch.arange(4.0), persistent=False)',
    ),
    near=(
        Near(
            bad=example("def forward(self, x):\n    return x * (x > 0).to(x.dtype)"),
            good=example("def forward(self, x):\n    return x * (x > 0).to(x.device)"),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="twins"),),
)
