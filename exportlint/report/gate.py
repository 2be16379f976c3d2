"""Whether a run makes the command fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from exportlint.findings import RED

if TYPE_CHECKING:
    from exportlint.findings import CheckResult, Readiness
    from exportlint.report.comparing import Comparison

FailOn = Literal["regression", "error", "warning", "none"]
FAIL_ON: tuple[FailOn, ...] = ("regression", "error", "warning", "none")


def status(
    readiness: Readiness, fail_on: FailOn, comparison: Comparison | None = None, *, unchecked_fails: bool = False
) -> int:
    """The exit status of a run.

    Args:
        readiness: The run.
        fail_on: From what on it fails. ``warning``: red checks and findings of severity warning or error. ``error``:
            findings of severity error, and checks that are red for other reasons than warnings. ``regression``: what
            `comparison` says. ``none``: nothing.
        comparison: The run beside an earlier one; needed for ``regression``.
        unchecked_fails: Whether a check that did not run makes it fail too.

    Returns:
        0, or 1 where it fails; 2 where a TARGET could not be loaded, whatever is asked.

    Raises:
        ValueError: When ``regression`` is asked for without a comparison.
    """
    if readiness.errors:
        return 2
    checks = [check for case in readiness.cases for check in case.checks]
    if unchecked_fails and any(check.outcome == "not_checked" and check.expected is None for check in checks):
        return 1
    if fail_on == "regression":
        if comparison is None:
            raise ValueError("regressions are told by an earlier run")
        return int(bool(comparison.regressions))
    if fail_on == "error":
        return int(any(map(_is_error, checks)))
    return readiness.status if fail_on == "warning" else 0


def _is_error(check: CheckResult) -> bool:
    if check.expected is not None:
        return False
    severities = {finding.severity for finding in check.findings if finding.counts}
    if check.outcome == "failed" and severities:
        return "error" in severities
    return check.outcome in RED or "error" in severities
