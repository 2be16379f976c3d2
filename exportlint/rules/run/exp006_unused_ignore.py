"""# unused-ignore (EXP006)

## What it does
Reports comments that silence nothing: `# exportlint: ignore[EXP101]` where `exportlint check` finds nothing of EXP101,
names between the brackets that no rule has, and what is written as no such comment is (`# exportlint: ignore EXP101`).
Comments for other linters, and `# noqa`, are not judged, unless what follows its colon is the name of a rule or a
misspelt rule: `# noqa: branch-on-tensr` silences nothing.

## Why it matters
A comment that silences nothing tells readers of a hazard that is gone, and hides the next one on its line. A misspelt
one silences nothing at all. It is advice: a comment may be there for what only a run shows, in a report or in pytest.

`exportlint check --select EXP006` lists them; with `--fail-level info` they change the exit status.
"""

from exportlint.rules.base import Near, Rule, Variant, outcomes
from exportlint.rules.examples import example

_FINE = outcomes(export="fine", strict="fine", compiled="fine")

RULE = Rule(
    code="EXP006",
    name="unused-ignore",
    summary="A comment silences nothing that is found",
    rewrite="Remove the comment, or mend what in it silences nothing.",
    page=__doc__,
    outcomes=_FINE,
    bad=example("def forward(self, x):\n    return x * 2  # exportlint: ignore[EXP101]"),
    good=example("def forward(self, x):\n    return x if x.sum() > 0 else -x  # exportlint: ignore[EXP101]"),
    fixed=example("def forward(self, x):\n    return x * 2"),
    variants={
        "no rule": Variant(
            outcomes=_FINE,
            bad=example("def forward(self, x):\n    return x * 2  # exportlint: ignore[EXP999]"),
            advice=True,
        ),
        "malformed": Variant(
            outcomes=_FINE,
            bad=example("def forward(self, x):\n    return x * 2  # exportlint: ignore(EXP101)"),
            advice=True,
        ),
    },
    near=(
        Near(
            bad=example("def forward(self, x):\n    return x if x.dim() > 0 else -x  # exportlint: ignore[EXP101]"),
            good=example("def forward(self, x):\n    return x if x.sum() > 0 else -x  # exportlint: ignore[EXP101]"),
        ),
    ),
    advice=True,
    proof="run",
)
