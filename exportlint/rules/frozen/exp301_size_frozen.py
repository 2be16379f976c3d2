"""# size-frozen (EXP301)

## What it does
Reports code that turns a dynamic size into a number: `int(x.shape[0])`, `math.sqrt(size)`, a slice by a Python bound, a
loop over the dimension, a comparison with a constant.

## Why it matters
The program is then right for the example's size only. With `Dim.DYNAMIC` or a named `Dim` the export fails; with
`Dim.AUTO` it succeeds and the size is silently a constant.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP301",
    name="size-frozen",
    summary="A size that should stay dynamic became a constant or was narrowed",
    rewrite=(
        "Keep the size symbolic: use x.shape[i] in tensor operators without int(), float(), loops or "
        "comparisons with constants."
    ),
    severity="warning",
    page=__doc__,
)
