"""Fixes written into a text, round after round, until none is left; each must mend what it is for."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exportlint.fixes.texts import fitting
from exportlint.fixes.tree import HinderedError, Text, Tree, UnfitError, applied
from exportlint.source.files import LINE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from exportlint.fixes.edits import Applicability, Fix
    from exportlint.source.engine import Prediction

    Lint: TypeAlias = Callable[[bytes], Sequence[Prediction]]

ROUNDS = 20
"""After so many rounds no further one is begun; each round but the last mends something, so few files need many."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text with fixes.

    Attributes:
        data: The text, encoded as it was.
        mended: The findings whose fixes were written, each with its place in the round that wrote it.
        unmended: Findings whose fix did not make them go away, or brought others; nothing of it was written.
        unfit: Findings whose fix fits but cannot be written into this text, each with what is in the way.
    """

    data: bytes
    mended: tuple[Prediction, ...] = ()
    unmended: tuple[Prediction, ...] = ()
    unfit: tuple[tuple[Prediction, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Change:
    """A finding and what its fix writes."""

    finding: Prediction
    texts: tuple[Text, ...]


def fixed(data: bytes, found: Sequence[Prediction], lint: Lint, wanted: Collection[Applicability]) -> Fixed:
    """A text with the fixes of its findings.

    Args:
        data: The bytes of the file.
        found: What is found in it.
        lint: Finds the same in another text at its place.
        wanted: Which fixes are to be written.
    """
    encoding = "utf-8"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, LookupError, UnicodeError):
        why = f"the file is not {encoding}; save it so, or declare its encoding"
        return Fixed(data, unfit=tuple((p, why) for p in found if p.fix_among(wanted)))
    rounds = _Rounds(text, encoding, found, lint, wanted)
    for _ in range(ROUNDS):
        if not rounds.once():
            break
    return Fixed(
        rounds.text.encode(encoding) if rounds.mended else data,
        tuple(rounds.mended),
        tuple(rounds.unmended),
        tuple(rounds.unfit),
    )


@dataclass(slots=True, eq=False)
class _Rounds:
    text: str
    encoding: str
    found: Sequence[Prediction]
    lint: Lint
    wanted: Collection[Applicability]
    mended: list[Prediction] = field(default_factory=list)
    unmended: list[Prediction] = field(default_factory=list)
    refused: set[tuple[str, str]] = field(default_factory=set)
    unfit: list[tuple[Prediction, str]] = field(default_factory=list)  # as of the last round

    def once(self) -> bool:
        """Write the fixes that do not overlap; whether anything was written. What fails with others is tried alone."""
        changes = self._changes()
        if not changes:
            return False
        failing = self._failing(changes)
        if 0 < len(failing) < len(changes):
            failing = self._failing([change for change in changes if change not in failing])
        if not failing:
            return True
        for change in changes:
            if len(changes) > 1 and not self._failing([change]):
                return True
            self._refuse(change)
        return self.once()

    def _refuse(self, change: _Change) -> None:
        self.refused.add(_name(change.finding))
        self.unmended.append(change.finding)

    def _changes(self) -> list[_Change]:
        fixes = [(p, p.fix_among(self.wanted)) for p in self.found if _name(p) not in self.refused]
        asked = [(p, fix) for p, fix in fixes if fix is not None]
        self.unfit = []
        if not asked:
            return []
        try:
            tree = Tree(self.text)
        except UnfitError as error:
            self.unfit = [(finding, str(error)) for finding, _ in asked]
            return []
        return list(self._chosen(asked, tree))

    def _chosen(self, asked: Iterable[tuple[Prediction, Fix]], tree: Tree) -> Iterator[_Change]:
        """The fixes that fit the code and do not overlap; what is in the way of others is noted."""
        taken: set[Text] = set()
        for finding, fix in asked:
            try:
                _, made = fitting(tree, fix)
            except HinderedError as error:
                self.unfit.append((finding, str(error)))
                continue
            except UnfitError:
                continue
            if made and not _overlap(made, taken):
                taken.update(made)
                yield _Change(finding, made)

    def _failing(self, changes: list[_Change]) -> list[_Change]:
        """The changes that do not mend what they are for; where there is none, all are written."""
        writes = sorted({text for change in changes for text in change.texts})
        text = applied(self.text, writes)
        try:
            data = text.encode(self.encoding)
            ast.parse(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return changes
        found = self.lint(data)
        failing = _unmended(_Spans(self.text, text, writes), changes, self.found, found)
        if not failing:
            self.mended += [change.finding for change in changes]
            self.text, self.found = text, found
        return failing


def _name(finding: Prediction) -> tuple[str, str]:
    return finding.rule.code, finding.message


def _overlap(made: Iterable[Text], taken: Collection[Text]) -> bool:
    """Whether texts are written where others are; the same text, such as an import, is written once."""
    return any(
        one not in taken and any(one.start <= other.end and other.start <= one.end for other in taken) for one in made
    )


@dataclass(slots=True, eq=False)
class _Spans:
    """Places of the text before and after some writes."""

    before: str
    after: str
    writes: list[Text]

    def moved(self, offset: int) -> int:
        """Where a place of the old text is in the new one."""
        return offset + sum(len(w.content) - (w.end - w.start) for w in self.writes if w.end <= offset)

    def of(self, change: _Change) -> list[tuple[int, int]]:
        """Where the new text holds what a change wrote, and what its finding was about."""
        spans = [(self.moved(w.end) - len(w.content), self.moved(w.end)) for w in change.texts]
        place = change.finding.range
        first = self.moved(_offset(self.before, place.line, place.column))
        last = self.moved(_offset(self.before, place.end_line, place.end_column))
        return [*spans, (first, last)]

    def was_there(self, finding: Prediction, change: _Change) -> bool:
        """Whether what a finding of the new text is about stood in what a change replaced, where another hid it.

        Of several findings of a rule that begin on a line, the linter tells one.
        """
        place = finding.range
        start = _offset(self.after, place.line, place.column)
        now = self.after[start : _offset(self.after, place.end_line, place.end_column)]
        before = self.before[min(w.start for w in change.texts) : max(w.end for w in change.texts)]
        return now in before and finding.message != change.finding.message


def _offset(text: str, line: int, column: int) -> int:
    """The offset of a place whose line and column count from 1."""
    start = 0
    for _ in range(line - 1):
        ends = [text.find(end, start) for end in ("\r\n", "\n", "\r")]
        found = min((end for end in ends if end >= 0), default=len(text))
        start = found + (2 if text.startswith("\r\n", found) else 1)
    return start + column - 1


def _unmended(
    spans: _Spans, changes: list[_Change], before: Sequence[Prediction], after: Sequence[Prediction]
) -> list[_Change]:
    """The changes after which what they are for is still there, or something new that counts is in what they wrote.

    Elsewhere there may be more than before: a tensor in the place of an array is followed further.
    """
    there = Counter(map(_name, before))
    starts = [(_offset(spans.after, p.range.line, p.range.column), p) for p in after]
    failing = []
    for change in changes:
        others = there - Counter([_name(change.finding)])
        covered = spans.of(change)
        inside = [p for start, p in starts if any(first <= start < last for first, last in covered)]
        new = [p for p in inside if not others[_name(p)] and not spans.was_there(p, change)]
        if any(p.rule is change.finding.rule or p.severity != "info" for p in new):
            failing.append(change)
    return failing


def diff(name: str, before: bytes, after: bytes) -> str:
    """The unified diff of two texts of a file."""
    import difflib

    encoding, _ = tokenize.detect_encoding(io.BytesIO(before).readline)
    old, new = (LINE.findall(data.decode(encoding)) for data in (before, after))
    lines = difflib.unified_diff(old, new, name, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
