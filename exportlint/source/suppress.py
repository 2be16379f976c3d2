"""Comments that silence findings: ``# noqa``, ``# noqa: EXP101``, ``# exportlint: ignore[EXP101]``."""

from __future__ import annotations

import io
import re
import tokenize
from types import MappingProxyType
from typing import TYPE_CHECKING

from exportlint.source.files import UnreadableError, read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from exportlint.source.files import SourceFile

_NOQA = re.compile(r"#\s*noqa\b(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)
_IGNORE = re.compile(r"#\s*exportlint:\s*ignore(?:\[(?P<codes>[^\]]*)\])?")
_CODE = re.compile(r"[A-Za-z0-9-]+")

EVERY = "*"


def suppressed_lines(path: Path) -> Mapping[int, frozenset[str]]:
    """The lines of a file that hold a comment which silences findings.

    Args:
        path: A Python file. One that cannot be read, or is no Python, silences nothing.

    Returns:
        By line, counted from 1, the codes and names of rules in upper case (``EXP101``, ``BRANCH-ON-TENSOR``), with
        `EVERY` among them where all rules are silenced. Ask it with `silences`.
    """
    try:
        return MappingProxyType(suppressed(read(path)))
    except UnreadableError:
        return MappingProxyType({})


def silences(lines: Mapping[int, frozenset[str]], code: str, name: str, first: int, last: int | None = None) -> bool:
    """Whether a finding of a rule is silenced: by a comment on its first line or on its last.

    Args:
        lines: What `suppressed_lines` gave for the file.
        code: Code of the rule, such as ``EXP101``.
        name: Name of the rule, such as ``branch-on-tensor``.
        first: First line of the finding.
        last: Last line; the first where ``None``.
    """
    names = {EVERY, code.upper(), name.upper()}
    return any(names & lines.get(line, frozenset()) for line in {first, first if last is None else last})


def suppressed(source: SourceFile) -> dict[int, frozenset[str]]:
    """Codes and names of rules that a comment on the line silences; `EVERY` for all of them."""
    if "noqa" not in source.text.lower() and "exportlint:" not in source.text:
        return {}
    found: dict[int, frozenset[str]] = {}
    for line, comment in _comments(source):
        for pattern in (_NOQA, _IGNORE):
            match = pattern.search(comment)
            if match is not None:
                codes = match.group("codes")
                names = frozenset({EVERY}) if codes is None else frozenset(c.upper() for c in _CODE.findall(codes))
                found[line] = found.get(line, frozenset()) | names
    return found


def _comments(source: SourceFile) -> list[tuple[int, str]]:
    """Comments by line; text inside of strings is none."""
    text = "".join(line.rstrip("\r\n") + "\n" for line in source.lines)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
