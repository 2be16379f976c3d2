"""The run as one HTML file that needs nothing else: no font, no network, and only the script that it holds.

The script is a file of this package; the page's content security policy names its digest, so that nothing else runs.
Without scripts everything is shown; with them cases can be searched, filtered and sorted.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib import resources
from typing import TYPE_CHECKING

import jinja2
import markupsafe

from exportlint.report.excerpts import Sources
from exportlint.report.overview import MOST_CASES, environment_rows, overview
from exportlint.report.plots import plots
from exportlint.report.score_card import percent
from exportlint.text import clip, counted, listed, map_strings, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.findings import CaseResult, Dimension, Readiness
    from exportlint.report.overview import Overview


def render(readiness: Readiness) -> str:
    """The run as a self-contained HTML page."""
    view = overview(readiness)
    numbers: dict[str, list[str]] = {}  # of the rows of each case, by its name
    for number, row in enumerate(view.rows, 1):
        numbers.setdefault(row.name, []).append(str(number))

    def numbers_of(names: Iterable[str]) -> str:
        return " ".join(number for name in names for number in numbers.get(name, ()))

    script, shown = _resource("readiness.js"), map_strings(readiness, visible).cases
    return _template().render(
        view=view,
        environment=environment_rows(view),
        filters=_filters(view),
        numbers=numbers_of,
        excerpt=Sources().excerpt,
        contracts=contracts(shown),
        plots=plots(shown),
        script=markupsafe.Markup(script),
        script_hash=_digest(script),
    )


def contracts(cases: Iterable[CaseResult]) -> list[tuple[str, tuple[Dimension, ...]]]:
    """The sizes of each case that should be dynamic, by its name."""
    return [(case.name, check.contract) for case in cases for check in case.checks if check.contract]


def _filters(view: Overview) -> list[tuple[str, str, list[str]]]:
    """Id, title and values of each choice."""
    return [
        ("outcome", "Outcome", sorted({word for row in view.rows for word in row.outcomes})),
        ("rule", "Rule", sorted({rule for row in view.rows for rule in row.rules})),
        ("package", "Finding in", sorted({name for row in view.rows for name in row.packages})),
        ("origin", "From", sorted({row.origin for row in view.rows})),
    ]


def _digest(script: str) -> str:
    """The source of a script as a content security policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def unbroken(text: str) -> str:
    """The text with its times, such as ``1.7 s``, kept on one line."""
    return re.sub(r"(?<=\d) s\b", "\N{NO-BREAK SPACE}s", text)


def _capital(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(clip=clip, one_line=one_line, unbroken=unbroken, percent=percent, capital=_capital)
    environment.globals.update(counted=counted, listed=listed, MOST_CASES=MOST_CASES)
    return environment.from_string(_resource("readiness.html.j2"))


@functools.cache
def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
