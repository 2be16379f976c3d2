"""# cache-grown-by-length (EXP302)

## What it does
Reports a table that `forward` keeps on `self`, in a global or in a cache, and rebuilds when the length changes or grows.

## Why it matters
The capture sees one length. The program keeps the table of that length, or the comparison pins the dimension to the
example's side; the cached tensor is also left behind in the eager model, on the device of the first call.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP302",
    name="cache-grown-by-length",
    summary="A table is cached on the module or globally, for the first length that was seen",
    rewrite="Compute the table in forward, or make it once for the largest length and slice it.",
    severity="warning",
    page=__doc__,
)
