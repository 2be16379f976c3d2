"""Comments that silence nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules import catalogue
from exportlint.rules.spelling import nearest, without_commas
from exportlint.source.suppress import EVERY

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from exportlint.rules.base import Rule
    from exportlint.source.suppress import Comment
    from exportlint.source.units import Heard

UNUSED = "EXP006"
NO_RULE = "no rule"
"""The variant for a name that no rule has."""
MALFORMED = "malformed"
"""The variant for a comment that silences nothing by the way it is written."""


def unused(
    comments: Sequence[Comment], heard: Iterable[Heard], *, preview: bool, whole: bool
) -> Iterator[tuple[Comment, str, str]]:
    """The comments that silence nothing, each with a message and the variant of the rule.

    Args:
        comments: The comments of a file.
        heard: All that was heard of the file, in whatever mode it bites.
        preview: Whether rules that are not stable yet are on.
        whole: Whether everything was analysed that may say something of the file; else comments may be needed.
    """
    known = {word: rule for rule in catalogue().values() for word in (rule.code, rule.name.upper())}
    silenced = [(catalogue()[each.code], each.range.line, each.range.end_line) for each in heard]
    for comment in comments:
        if _is_excused(comment, comments):
            continue
        if comment.fault:
            yield comment, comment.fault, MALFORMED
        if comment.fault or comment.kind == "noqa":  # which may be there for other linters
            continue
        strange = [name for name in comment.spelt if name != EVERY and name.upper() not in known]
        if strange:
            hints = (_with_hint(name, known) for name in strange)
            yield comment, f"no rule is called {' or '.join(hints)}", NO_RULE
        meant = [known.get(name) for name in sorted(comment.names.difference(map(str.upper, strange)))] if whole else []
        idle = [r for r in meant if _is_predicted(r, preview) and not _silences(comment, r, silenced)]
        if idle:
            of = " or ".join(r.code for r in idle if r is not None)
            what = f"nothing of {of}" if of else "nothing"
            yield comment, f"`exportlint check` finds {what} that the comment could silence", ""


def _with_hint(name: str, known: Container[str]) -> str:
    parted = without_commas(name, lambda part: part.upper() in known)
    if parted:
        return f"`{name}` ({parted})"
    near = nearest(name)
    return f"`{name}` (did you mean `{near}`?)" if near else f"`{name}`"


def _is_excused(comment: Comment, comments: Sequence[Comment]) -> bool:
    """Whether another comment silences this rule here by its name."""
    rule = catalogue()[UNUSED]
    others = (c for c in comments if c is not comment and EVERY not in c.names)
    return any(c.silences(rule.code, rule.name, comment.line, comment.line) for c in others)


def _is_predicted(rule: Rule | None, preview: bool) -> bool:
    """Whether the linter would have found the rule; what only a run shows may be silenced as well."""
    return rule is None or (rule.match is not None and (rule.stage == "stable" or preview))


def _silences(comment: Comment, rule: Rule | None, heard: list[tuple[Rule, int, int]]) -> bool:
    return any(
        (rule is None or found is rule) and comment.silences(found.code, found.name, first, last)
        for found, first, last in heard
    )
