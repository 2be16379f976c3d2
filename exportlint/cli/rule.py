"""``exportlint rule`` and ``exportlint rules``: what the linter and the checks know."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from exportlint.rules.base import Outcomes, Rule


@click.command()
@click.argument("name", metavar="CODE|NAME")
def rule(name: str) -> None:
    """Explain a rule, given by its code or its name."""
    from exportlint.rules import catalogue

    wanted = name.strip().lower()
    found = next((r for r in catalogue().values() if wanted in (r.code.lower(), r.name)), None)
    if found is None:
        click.echo(f"error: {name}: no such rule; exportlint rules lists them all", err=True)
        sys.exit(2)
    click.echo(as_markdown(found))


@click.command()
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
def rules(output_format: str) -> None:
    """List all rules."""
    from exportlint.rules import catalogue

    found = list(catalogue().values())
    if output_format == "json":
        click.echo(json.dumps([as_json(r) for r in found], indent=2))
        return
    width = max(len(r.name) for r in found)
    for r in found:
        click.echo(f"{r.code}  {r.name:<{width}}  {r.summary}")


def as_markdown(found: Rule) -> str:
    """The rule's page, what happens in each mode, and its examples."""
    parts = [found.page.strip(), "## What to do\n" + found.rewrite]
    if found.outcomes:
        rows = [("", found.outcomes), *((name, v.outcomes) for name, v in found.variants.items())]
        head = "| form | export | export-strict | compile |\n|---|---|---|---|"
        parts.append("\n".join(["## Outcomes", head, *(_row(name, o) for name, o in rows)]))
    for title, text in (("Bad", found.bad), ("Good", found.good), ("Fixed", found.fixed)):
        if text:
            parts.append(f"## {title}\n```python\n{text.strip()}\n```")
    return "\n\n".join(parts)


def _row(name: str, outcomes: Outcomes) -> str:
    return "| " + " | ".join([name or "main", *outcomes.values()]) + " |"


def as_json(found: Rule) -> dict[str, Any]:
    """The rule's metadata."""
    return {
        "code": found.code,
        "name": found.name,
        "summary": found.summary,
        "rewrite": found.rewrite,
        "severity": found.severity,
        "stage": found.stage,
        "predicted": found.match is not None,
        "outcomes": dict(found.outcomes),
        "variants": {name: dict(v.outcomes) for name, v in found.variants.items()},
        "observed_by": [o.check for o in found.observed_by],
        "page": found.page.strip(),
    }
