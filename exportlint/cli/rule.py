"""``exportlint rule`` and ``exportlint rules``: what the linter and the checks know."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from exportlint.findings import Mode
    from exportlint.rules.base import Rule

LEGEND = """\
severity: for torch.export.export, of the main form first, then of forms that differ; else with the mode where it bites;
          "info" is advice, shown on request
check: "predicts" where exportlint check finds it in source; the others are observed, by exportlint report and pytest"""


@click.command()
@click.argument("name", metavar="CODE|NAME")
def rule(name: str) -> None:
    """Explain a rule, given by its code or its name."""
    from exportlint.rules import catalogue
    from exportlint.rules.pages import page
    from exportlint.rules.spelling import nearest

    wanted = name.strip().lower()
    found = next((r for r in catalogue().values() if wanted in (r.code.lower(), r.name)), None)
    if found is None:
        near = nearest(wanted)
        hint = f"did you mean {near!r}?" if near else "exportlint rules lists them all"
        click.echo(f"error: {name}: no such rule; {hint}", err=True)
        sys.exit(2)
    click.echo(page(found).rstrip("\n"))


@click.command()
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
def rules(output_format: str) -> None:
    """List all rules."""
    from exportlint.rules import catalogue

    found = list(catalogue().values())
    if output_format == "json":
        click.echo(json.dumps([as_json(r) for r in found], indent=2))
        return
    click.echo(as_table(found))


def as_table(found: list[Rule]) -> str:
    """One line a rule: code, name, severities, whether ``exportlint check`` predicts it, and what it is about."""
    head = ("code", "name", "severity", "check", "what it is about")
    rows = [head, *((r.code, r.name, _severities(r), "predicts" if predicted(r) else "-", r.summary) for r in found)]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    lines = ("  ".join([*(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows)
    return "\n".join([*lines, "", LEGEND])


def _graded(found: Rule) -> tuple[list[str], Mode]:
    """What its forms mean for ``torch.export.export``, the main form first; or for the first mode where it bites."""
    from exportlint.findings import MODES, severity

    forms = ["", *found.variants]
    advice = ["info"] if any(found.is_advice(form) for form in forms) else []
    for mode in MODES:
        severities = dict.fromkeys(s for form in forms if (s := severity(found.outcomes_of(form), [mode])) is not None)
        if severities:
            return [*severities, *advice], mode
    return advice, MODES[0]


def _severities(found: Rule) -> str:
    severities, mode = _graded(found)
    return ", ".join(severities) + ("" if mode == "export" else f" ({mode})")


def predicted(found: Rule) -> bool:
    """Whether ``exportlint check`` can report the rule; one that cannot is only observed, by the checks of a report."""
    from exportlint.source.engine import SYNTAX
    from exportlint.source.unused import UNUSED

    return found.match is not None or found.code in (SYNTAX, UNUSED)


def as_json(found: Rule) -> dict[str, Any]:
    """The rule's metadata."""
    return {
        "code": found.code,
        "name": found.name,
        "summary": found.summary,
        "rewrite": found.rewrite,
        "severity": _graded(found)[0][0],
        "stage": found.stage,
        "predicted": predicted(found),
        "outcomes": dict(found.outcomes),
        "advice": found.advice,
        "variants": {name: {"outcomes": dict(v.outcomes), "advice": v.advice} for name, v in found.variants.items()},
        "observed_by": [o.check for o in found.observed_by],
        "page": found.page.strip(),
    }
