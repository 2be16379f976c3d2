"""# leaves-the-graph (EXP402)

## What it does
Reports code under capture that needs real memory or another runtime: `data_ptr()`, foreign functions, threads.

## Why it matters
What happens there is not recorded: the capture fails, or the result of one call is kept for good.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP402",
    name="leaves-the-graph",
    summary="The code asks for something that exists only while the model runs eagerly",
    rewrite="Move it out of forward, or replace it with a torch operator.",
    severity="error",
    page=__doc__,
)
