"""# model-does-not-run (EXP002)

## What it does
Reports a model case whose factory or whose plain eager call raises, aborts or never ends.

## Why it matters
Everything else that exportlint checks compares with the eager model. While that does not run, no check can pass.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP002",
    name="model-does-not-run",
    summary="The model cannot be built, or its eager call fails, so nothing can be said about its export",
    rewrite="Make the factory return a module that accepts the example inputs.",
    severity="error",
    page=__doc__,
)
