"""# python-state (EXP501)

## What it does
Reports counters, appended lists and attributes that `forward` changes and that a later call reads.

## Why it matters
The program keeps the value of the one call that was captured. Its second call repeats the first.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP501",
    name="python-state",
    summary="Python state changed in forward is lost by the exported program",
    rewrite="Keep the state in a registered buffer and update it in place, or pass it in and return it.",
    severity="warning",
    page=__doc__,
)
