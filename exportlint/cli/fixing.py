"""Options of ``exportlint check`` that mend what is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from exportlint.config import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from exportlint.fixes.edits import Applicability
    from exportlint.fixes.files import FixedFile
    from exportlint.linting.settings import Resolver
    from exportlint.source.engine import Prediction

Command = TypeVar("Command", bound="Callable[..., Any]")
_ALL: tuple[Applicability, ...] = ("safe", "unsafe")
_WORDS = ("fix", "fix_only", "diff")
_OPTIONS = (
    click.option("--fix", is_flag=True, help="Write the safe fixes into the files, and report what is left."),
    click.option("--unsafe-fixes", is_flag=True, help="Take the fixes too that may change what a model computes."),
    click.option("--diff", is_flag=True, help="Print what --fix would change, and write nothing; exit 1 if anything."),
    click.option("--fix-only", is_flag=True, help="As --fix, and report nothing that is left; exit 0."),
)


def fix_options(command: Command) -> Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Fixing:
    """What was asked for.

    Attributes:
        wanted: Which fixes.
        writes: Whether they are written, not printed.
        reports: Whether what is left is reported.
    """

    wanted: tuple[Applicability, ...]
    writes: bool
    reports: bool


def fixing(given: dict[str, Any], *, stdin: bool) -> Fixing | None:
    """What the options ask for; ``None`` where nothing is to be mended.

    Raises:
        UserError: When they do not go together.
    """
    if not any(given[word] for word in _WORDS):
        if given["unsafe_fixes"]:
            raise UserError("--unsafe-fixes goes with --fix, --fix-only or --diff")
        return None
    for option in ("add_ignores", "update_baseline", "show_files", "statistics"):
        if given[option] and not (option == "statistics" and given["fix"]):
            raise UserError(f"--{option.replace('_', '-')} does not go with --fix, --fix-only or --diff")
    reports = given["fix"] and not given["fix_only"] and not given["diff"]
    if stdin and reports:
        raise UserError("--fix needs files; for standard input, --fix-only prints the text with fixes")
    return Fixing(_ALL if given["unsafe_fixes"] else ("safe",), not given["diff"], reports)


def offered(asked: Fixing | None, *, stdin: bool) -> tuple[Applicability, ...]:
    """Which fixes ``--fix`` could write that were not tried by then; it writes no standard input."""
    tried = asked.wanted if asked is not None else ()
    return () if stdin else tuple(each for each in _ALL if each not in tried)


def mend(
    asked: Fixing, found: Iterable[Prediction], left_out: Sequence[Prediction], settings: Resolver, stdin: bytes | None
) -> int:
    """Mend findings, or print how; the least exit status that this comes to, 2 where a file cannot be written.

    Args:
        asked: How.
        found: The findings.
        left_out: Findings that stay as they are, since nobody asked for them.
        settings: The settings of each file.
        stdin: What was read from standard input, where that is what is linted.

    A file that cannot be written stays as it is; that is told, and the others are mended.
    """
    from exportlint.text import counted

    files = mended = further = failed = 0
    text, found = stdin, list(found)
    for file in _fixed(asked, found, left_out, settings, stdin):
        _tell_what_is_left(file)
        if not file.fixed.mended:
            continue
        if not asked.writes:
            _print_diff(file, stdin is None)
        elif stdin is not None:
            text = file.fixed.data
        elif not _written(file):
            failed += 1
            continue
        told = _told(file, found)
        files, mended, further = files + 1, mended + told, further + len(file.fixed.mended) - told
    if text is not None and asked.writes:
        click.echo(text, nl=False)
    words = "fixed" if asked.writes else "would be fixed"
    more = f", and {further} more that came to light by that" if further else ""
    click.echo(f"{counted(mended, 'finding')} {words} in {counted(files, 'file')}{more}", err=True)
    return 2 if failed else int(not asked.writes and files > 0)


def _told(file: FixedFile, found: Iterable[Prediction]) -> int:
    """How many of the findings that are mended in a file were told before: a line's first one may hide others."""
    known = Counter((p.rule.code, p.message) for p in found if p.path == file.path)
    return (Counter((p.rule.code, p.message) for p in file.fixed.mended) & known).total()


def _tell_what_is_left(file: FixedFile) -> None:
    from exportlint.formats.wording import place

    left = [(p, "its fix does not mend it") for p in file.fixed.unmended]
    left += [(p, f"its fix cannot be written ({why})") for p, why in file.fixed.unfit]
    for p, why in left:
        click.echo(f"{place(p)}: {p.rule.code} was left as it is: {why}", err=True)


def _written(file: FixedFile) -> bool:
    """Write the fixes of a file; whether that went well, which is told where it did not."""
    try:
        file.write()
    except OSError as error:
        click.echo(f"error: {_failure(file, error)}", err=True)
        return False
    return True


def _failure(file: FixedFile, error: OSError) -> str:
    from exportlint.formats.wording import shown_path

    return f"{shown_path(file.path)}: {error.strerror or error}"


def _fixed(
    asked: Fixing, found: Iterable[Prediction], left_out: Sequence[Prediction], settings: Resolver, stdin: bytes | None
) -> Iterator[FixedFile]:
    from exportlint.linting.linter import check_text
    from exportlint.source.files import content

    found = list(found)
    if not any(p.fix_among(asked.wanted) for p in found):
        return
    from exportlint.fixes.files import fixed_files

    unasked = {(p.path, p.rule.code, p.message) for p in left_out}

    def lint(path: Path, data: bytes) -> Sequence[Prediction]:
        there = check_text(path, data, settings).predictions
        return [p for p in there if (p.path, p.rule.code, p.message) not in unasked]

    yield from fixed_files(found, lambda path: content(path) if stdin is None else stdin, lint, asked.wanted)


def _print_diff(file: FixedFile, of_file: bool) -> None:
    from exportlint.fixes.rounds import diff
    from exportlint.formats.wording import shown_path

    click.echo(diff(shown_path(file.path), file.before, file.fixed.data), nl=False)
    if of_file:
        try:
            file.writable()
        except OSError as error:
            click.echo(_failure(file, error), err=True)
