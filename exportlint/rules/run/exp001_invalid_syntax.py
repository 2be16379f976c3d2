"""# invalid-syntax (EXP001)

## What it does
Reports a file that cannot be read as Python: invalid syntax, an encoding that does not fit, a null byte. It is read by
the Python that exportlint runs with: code in the syntax of a later one needs exportlint installed there.

## Why it matters
Nothing in such a file can be judged. The other files are checked nevertheless.
"""

from exportlint.rules.base import Near, Rule, outcomes

RULE = Rule(
    code="EXP001",
    name="invalid-syntax",
    summary="The file cannot be read as Python, so nothing in it was checked",
    rewrite="Mend the syntax, or the encoding that the file declares.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
    bad="def forward(self, x)\n    return x\n",
    good="def forward(self, x):\n    return x\n",
    fixed="def forward(self, x):\n    return x\n",
    near=(
        Near(
            bad="def forward(self, x):\n    return x +\n",
            good="def forward(self, x):\n    return x\n",
        ),
    ),
    proof="run",
)
