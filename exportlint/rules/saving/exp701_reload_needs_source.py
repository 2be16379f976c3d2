"""# reload-needs-source (EXP701)

## What it does
Reports a saved program that a process cannot load, or cannot run with the same result, when the model's own packages
cannot be imported.

## Why it matters
Running without the source is what the export is for.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP701",
    name="reload-needs-source",
    summary="The saved program cannot be loaded without the model's own Python source",
    rewrite=(
        "Return registered containers of tensors only, and register custom operators in a package that the loader has."
    ),
    severity="error",
    page=__doc__,
)
