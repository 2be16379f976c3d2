"""The run as one HTML file that needs nothing else: no script, no font, no network."""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import TYPE_CHECKING

import jinja2

from exportlint.report.overview import MOST_CASES, environment_rows, overview
from exportlint.report.score_card import percent
from exportlint.text import clip, counted, listed, one_line

if TYPE_CHECKING:
    from exportlint.findings import Readiness


def render(readiness: Readiness) -> str:
    """The run as a self-contained HTML page."""
    view = overview(readiness)
    return _template().render(view=view, environment=environment_rows(view.environment))


def unbroken(text: str) -> str:
    """The text with its times, such as ``1.7 s``, kept on one line."""
    return re.sub(r"(?<=\d) s\b", "\N{NO-BREAK SPACE}s", text)


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(clip=clip, one_line=one_line, unbroken=unbroken, percent=percent)
    environment.globals.update(counted=counted, listed=listed, MOST_CASES=MOST_CASES)
    source = resources.files(__package__).joinpath("readiness.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source)
