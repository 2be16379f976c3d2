"""The check ``lint``: what the source predicts, laid over what the other checks observed.

The half that runs in a worker says which lines building and calling the model runs. The linter itself runs in the
caller's process (`prediction`), and `exportlint.joining` gives the verdicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exportlint.checks import divergence
from exportlint.checks.context import ModelError, call
from exportlint.findings import CheckResult
from exportlint.joining import NAME
from exportlint.places import display_path

if TYPE_CHECKING:
    from exportlint.checks.context import Context

PENDING = "watched"  # the reason of a result whose other half is still to come


def run(ctx: Context) -> CheckResult:
    """The worker's half: a result with the reason `PENDING`."""
    try:
        ctx.observe(exercised(ctx))
    except ModelError as error:
        return CheckResult(name=NAME, outcome="not_checked", reason=f"the model does not run: the {error.stage} fails")
    return CheckResult(name=NAME, outcome="not_checked", reason=PENDING)


def exercised(ctx: Context) -> dict[str, Any]:
    """The fields of `exportlint.joining.Exercised`.

    Raises:
        ModelError: When the model cannot be built or called.
    """
    ctx.expected()
    inputs, lines = ctx.example(), dict[str, set[int]]()
    ctx.stage("eager call that records lines")
    for file, line in divergence.lines_of(lambda: call(ctx.build(), inputs)):
        lines.setdefault(display_path(file), set()).add(line)
    contract, _ = ctx.contract()
    return {
        "lines": {file: sorted(numbers) for file, numbers in lines.items()},
        "dynamic": contract.dynamic and all(len(leaf.asked) == len(leaf.shape) for leaf in contract.leaves),
        "sizes": sorted(leaf.name(d) for leaf, d, _ in contract.asked),
    }
