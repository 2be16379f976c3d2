"""Comments that silence findings, in the manner of Ruff's.

======================================  =====================================================================
``x = ...  # exportlint: ignore[...]``  findings that begin or end on the line
``# exportlint: ignore[...]`` alone     findings in the first logical line of the statement below
``# exportlint: disable[...]`` alone    findings from here to ``# exportlint: enable[...]`` of the same rules, to a bare
                                        ``# exportlint: enable``, or to the block's end
``# exportlint: ignore-file[...]``      findings in the file
``# noqa: EXP101``, ``# noqa``          findings that begin or end on the line
======================================  =====================================================================

Between the brackets stand codes and names of rules; without brackets, all rules are meant. A comment that begins so and
goes on otherwise silences nothing, and says so (`Comment.fault`). After ``noqa:`` stand codes; where none follows,
it silences nothing, and says so where a rule of ours was likely meant.
"""

from __future__ import annotations

import bisect
import io
import re
import tokenize
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast

from exportlint.source.files import UnreadableError, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from exportlint.source.files import SourceFile

Kind = Literal["noqa", "ignore", "disable", "enable", "ignore-file"]

_CODE = r"[A-Z]+[0-9]+\b"
_NOQA = re.compile(rf"#\s*noqa\b(?:(?P<colon>\s*:\s*)(?P<codes>{_CODE}(?:[,\s]+{_CODE})*)?)?", re.IGNORECASE)
_WORD = re.compile(r"[,\s]*(?P<word>[\w-]+)")
_LIKE_CODE = re.compile(r"EXP(?=\w*\d)[\dilo]{3}", re.IGNORECASE)
_CLOSE_NAME = 0.9  # names of other linters' rules are farther from ours
_OURS = re.compile(r"#\s*exportlint(?P<colon>[\s:=-]*)(?P<word>[\w-]*)", re.IGNORECASE)
_NAMES = re.compile(r"\[(?P<names>[^\]\[#]*)\]")
_NAME = r"(?:EXP\d+|[a-z]+(?:-[a-z]+)+)"
# What follows is meant to stand in brackets: a code, or nothing but names of rules.
_BARE = re.compile(rf"[\s:=(]*(?:EXP\d|\[|{_NAME}(?:[,\s]+{_NAME})*[\])\s]*$)", re.IGNORECASE)
_KINDS = ("ignore", "disable", "enable", "ignore-file")
_CLOSE_FILE = 0.8  # to silence a whole file is meant by few
_LONGEST = 60
_LAYOUT = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT})

MARK = "exportlint"
"""What a text holds in which one of our comments may stand."""
EVERY = "*"
WHOLE_FILE = 0
"""The line under which that is kept which is silenced in the whole file."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment that silences findings.

    Attributes:
        kind: What it is.
        spelt: Codes and names of rules as they are written; `EVERY` alone for all of them, none where there is a fault.
        line: The line that it stands on.
        column: Its first column, counted from 1.
        end_column: The column after its last.
        first: The first line that it is about; `WHOLE_FILE` where it is about all.
        last: The last line that it is about.
        fault: Why it silences nothing, whatever is found; empty where that is not so.
    """

    kind: Kind
    spelt: tuple[str, ...]
    line: int
    column: int
    end_column: int
    first: int
    last: int
    fault: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The same codes and names in upper case."""
        return frozenset(name.upper() for name in self.spelt)

    def silences(self, code: str, name: str, first: int, last: int) -> bool:
        """Whether a finding of a rule, on these lines, is silenced."""
        about = self.first == WHOLE_FILE or any(self.first <= line <= self.last for line in (first, last))
        return about and bool(self.names & {EVERY, code.upper(), name.upper()})


def suppressed_lines(path: Path) -> Mapping[int, frozenset[str]]:
    """The lines of a file in which a comment silences findings.

    Args:
        path: A Python file. One that cannot be read, or is no Python, silences nothing.

    Returns:
        By line, counted from 1, the codes and names of rules in upper case (``EXP101``, ``BRANCH-ON-TENSOR``), with
        `EVERY` among them where all rules are silenced; under `WHOLE_FILE` what is silenced everywhere. Ask it with
        `silences`.
    """
    try:
        return MappingProxyType(suppressed(read(path)))
    except UnreadableError:
        return MappingProxyType({})


def silences(lines: Mapping[int, frozenset[str]], code: str, name: str, first: int, last: int | None = None) -> bool:
    """Whether a finding of a rule is silenced: by a comment about its first line, its last, or the file.

    Args:
        lines: What `suppressed_lines` gave for the file.
        code: Code of the rule, such as ``EXP101``.
        name: Name of the rule, such as ``branch-on-tensor``.
        first: First line of the finding.
        last: Last line; the first where ``None``.
    """
    names = {EVERY, code.upper(), name.upper()}
    return any(names & lines.get(line, frozenset()) for line in {WHOLE_FILE, first, first if last is None else last})


def suppressed(source: SourceFile) -> dict[int, frozenset[str]]:
    """Codes and names of rules that a comment silences, by line; `EVERY` for all of them."""
    found: dict[int, frozenset[str]] = {}
    for comment in comments(source):
        if comment.fault:
            continue
        for line in range(comment.first, comment.last + 1):
            found[line] = found.get(line, frozenset()) | comment.names
    return found


def comments(source: SourceFile) -> tuple[Comment, ...]:
    """The comments of a file that silence findings, in the order of their lines."""
    return comments_in(source.lines) if "noqa" in source.text.lower() or MARK in source.text else ()


def comments_in(lines: Sequence[str]) -> tuple[Comment, ...]:
    """The comments of these lines that silence findings, in their order."""
    text = "".join(line.rstrip("\r\n") + "\n" for line in lines)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return ()
    return tuple(sorted(_comments(tokens, len(lines)), key=lambda c: (c.line, c.column)))


def _comments(tokens: list[tokenize.TokenInfo], last: int) -> Iterator[Comment]:
    code = [token for token in tokens if token.type not in _LAYOUT]
    statements = list(_statements(tokens))
    begun: list[Comment] = []
    for token in tokens:
        for comment in _read(token) if token.type == tokenize.COMMENT else ():
            alone = not any(t.start[0] <= comment.line <= t.end[0] for t in _near(code, comment.line))
            if comment.fault:
                yield comment
            elif comment.kind == "enable":
                yield from _ended(begun, comment)
            elif comment.kind == "disable":
                begun.append(replace(comment, last=_end_of_block(statements, comment, last)))
            elif comment.kind == "ignore-file":
                yield replace(comment, first=WHOLE_FILE, last=WHOLE_FILE)
            elif comment.kind == "ignore" and alone:
                after = bisect.bisect_right(statements, (comment.line, last))
                below = statements[after][:2] if after < len(statements) else (comment.line, comment.line)
                yield replace(comment, first=below[0], last=below[1])
            else:
                yield comment
    yield from begun


def _read(token: tokenize.TokenInfo) -> Iterator[Comment]:
    yield from _read_noqa(token)
    for match in _OURS.finditer(token.string):
        rest = token.string[match.end() :].partition("# exportlint")[0]
        kind = cast("Kind", match["word"]) if match["word"] in _KINDS else None
        names = _NAMES.match(rest)
        spelt = (EVERY,) if names is None else _split(names["names"])
        is_bare = names is None and _BARE.match(rest) is not None
        if kind and ":" in match["colon"] and MARK in match[0] and spelt and not is_bare:
            yield _comment(kind, spelt, token, match.start(), match.end() + (names.end() if names else 0))
        elif ":" in match["colon"] or (kind and (names or is_bare or not rest.strip())):  # else it speaks of exportlint
            end = match.start() + len((match[0] + rest).rstrip())
            fault = _fault(match["word"], rest, token.string[match.start() : end])
            yield replace(_comment(kind or "ignore", (), token, match.start(), end), fault=fault)


def _read_noqa(token: tokenize.TokenInfo) -> Iterator[Comment]:
    """What a `noqa` silences; where no code follows its colon, words do, which say nothing unless they mean a rule."""
    for match in _NOQA.finditer(token.string):
        codes = _split(match["codes"] or "")
        if codes or match["colon"] is None:
            yield _comment("noqa", codes or (EVERY,), token, match.start(), match.end())
        ours = match["colon"] is None or any(code.upper().startswith("EXP") for code in codes)
        word = None if ours else _WORD.match(token.string, match.end())
        meant = word and _code_meant(word["word"])
        if word and meant:
            written = _shown(token.string[match.start() : word.end()])
            fault = f"{written} silences no rule of exportlint; did you mean `# noqa: {meant}`?"
            yield replace(_comment("noqa", (), token, match.start(), word.end()), fault=fault)


def _code_meant(word: str) -> str | None:
    """The code of the rule that a word looks like, by its code or its name."""
    import difflib

    from exportlint.rules import catalogue
    from exportlint.rules.spelling import nearest

    if _LIKE_CODE.fullmatch(word):
        return nearest(word)
    names = {rule.name: rule.code for rule in catalogue().values()}
    near = difflib.get_close_matches(word.lower(), names, 1, _CLOSE_NAME) if "-" in word else []
    return names[near[0]] if near else None


def _split(names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, re.split(r"[,\s]+", names))))


def _comment(kind: Kind, spelt: tuple[str, ...], token: tokenize.TokenInfo, start: int, end: int) -> Comment:
    line, column = token.start
    return Comment(kind, spelt, line, column + 1 + start, column + 1 + end, line, line)


def _fault(word: str, rest: str, written: str) -> str:
    """What is wrong with a comment, and what was likely meant."""
    kind, shown = _kind_meant(word.lower()), _shown(written)
    if kind is None:
        return f"{shown} silences nothing: {', '.join(_KINDS[:-1])} and {_KINDS[-1]} are what may follow `exportlint:`"
    if re.fullmatch(r"\[[\s,]*\]?\s*", rest):
        return f"{shown} silences nothing: it names no rule; without brackets, all rules are meant"
    names = re.findall(_NAME, rest, re.IGNORECASE) if _NAMES.match(rest) or _BARE.match(rest) else []
    meant = f"# exportlint: {kind}" + (f"[{', '.join(names)}]" if names else "")
    return f"{shown} silences nothing; did you mean `{meant}`?"


def _kind_meant(word: str) -> str | None:
    """What likely stood for a word that is none of ours, such as those of other linters."""
    import difflib

    if re.search(r"-next\b|-line\b", word):
        return "ignore"
    if re.search(r"-files?$", word):
        return "ignore-file"
    near = difflib.get_close_matches(word, _KINDS[3:], 1, _CLOSE_FILE) or difflib.get_close_matches(word, _KINDS[:3], 1)
    return near[0] if near else None


def _shown(written: str) -> str:
    return f"`{written if len(written) <= _LONGEST else written[:_LONGEST] + ' ...'}`"


def _near(code: list[tokenize.TokenInfo], line: int) -> Iterable[tokenize.TokenInfo]:
    """The tokens around a line."""
    after = bisect.bisect_right(code, line, key=lambda token: token.start[0])
    return code[max(after - 1, 0) : after]


def _statements(tokens: list[tokenize.TokenInfo]) -> Iterator[tuple[int, int, int]]:
    """First and last line of each logical line, and its indentation."""
    first: tuple[int, int] | None = None
    for token in tokens:
        if token.type == tokenize.NEWLINE:
            line, column = first or token.start
            yield line, token.start[0], column
            first = None
        elif token.type not in _LAYOUT and first is None:
            first = token.start


def _ended(begun: list[Comment], end: Comment) -> Iterator[Comment]:
    """The comments that this one ends, up to there: the innermost of the same rules, or all where it names none."""
    ends_all, codes = EVERY in end.names, _codes(end)
    on = [c for c in reversed(begun) if end.line <= c.last and (ends_all or _codes(c) == codes)]
    for comment in on if ends_all else on[:1]:
        begun.remove(comment)
        yield replace(comment, last=end.line)
    if not on:
        yield replace(end, spelt=(), fault="no comment `disable` of the same rules is ended by this `enable`")


def _codes(comment: Comment) -> frozenset[str]:
    """What it names, by code where a rule has that name."""
    from exportlint.rules import catalogue

    codes = {rule.name.upper(): rule.code for rule in catalogue().values()}
    return frozenset(codes.get(name, name) for name in comment.names)


def _end_of_block(statements: list[tuple[int, int, int]], begin: Comment, last: int) -> int:
    """The last line of the block that a comment stands in, by its indentation."""
    after = bisect.bisect_right(statements, (begin.line, last))
    outside = (first for first, _, column in statements[after:] if column + 1 < begin.column)
    return next(outside, last + 1) - 1
