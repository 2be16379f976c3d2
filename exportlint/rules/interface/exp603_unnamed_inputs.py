"""# unnamed-inputs (EXP603)

## What it does
Reports a `forward` whose parameters cannot be matched to `dynamic_shapes`: it takes `*args` or `**kwargs`, or names or
nesting differ, be it by a misspelt key.

## Why it matters
`torch.export` matches `dynamic_shapes` to the parameters of `forward`. What has no name cannot be made dynamic.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_SHAPES = '{"x": {0: torch.export.Dim.DYNAMIC}}'
_GOOD = example("def forward(self, x):\n    return x * 2", shapes=_SHAPES)

RULE = Rule(
    code="EXP603",
    name="unnamed-inputs",
    summary="dynamic_shapes cannot be matched to the parameters of forward",
    rewrite="Give forward one named parameter for each input, and use the same names and nesting in dynamic_shapes.",
    page=__doc__,
    outcomes=observed("breaks"),
    bad=example("def forward(self, *inputs):\n    return inputs[0] * 2", shapes=_SHAPES),
    good=_GOOD,
    fixed=_GOOD,
    near=(
        Near(
            bad=example("def forward(self, tokens):\n    return tokens * 3", shapes=_SHAPES.replace("x", "tokes", 1)),
            good=example("def forward(self, tokens):\n    return tokens * 3", shapes=_SHAPES.replace("x", "tokens", 1)),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="capture"),),
)
