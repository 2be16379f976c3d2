"""``exportlint check``: lint source files."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exportlint.cli.effort import effort_of, effort_options, profile
from exportlint.cli.fixing import fix_options, fixing, mend, offered
from exportlint.cli.lint_options import resolver, settings_options
from exportlint.cli.paths import GivenPath
from exportlint.config import UserError
from exportlint.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.fixes.edits import Applicability
    from exportlint.linting.discovery import Discovered
    from exportlint.linting.excerpts import Excerpts
    from exportlint.linting.linter import Checked
    from exportlint.linting.settings import Resolver
    from exportlint.source.engine import Prediction, Unanalysed

STDIN = Path("-")
COUNTED = ("full", "concise", "grouped", "json", "json-lines")
"""Formats that statistics have a form in."""


@click.command()
@click.argument("paths", nargs=-1, type=GivenPath())
@settings_options
@click.option("--output-format", type=click.Choice(list(FORMATS)), default="full", show_default=True)
@click.option("--output-file", type=GivenPath(), metavar="FILE", help="Write there instead of printing.")
@click.option("--statistics", is_flag=True, help="Print how often each rule was found, instead of the findings.")
@click.option(
    "--stdin-filename",
    type=GivenPath(),
    metavar="FILE",
    help="Where the text would lie that is read from standard input for the path -.",
)
@click.option("--show-files", is_flag=True, help="Print the files that would be linted, and lint none.")
@click.option(
    "--fail-unanalysed", is_flag=True, help="Let a function that was not analysed make the exit status 1, too."
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
@click.option("--diff-base", metavar="REVISION", help="Only findings on lines added since this commit, by git.")
@click.option("--baseline", type=GivenPath(), metavar="FILE", help="Findings that are known and stay quiet.")
@click.option(
    "--update-baseline", is_flag=True, help="Take out of the baseline what is gone; make it if there is none."
)
@click.option("--add-ignores", is_flag=True, help="Write comments into the files that silence what is found.")
@fix_options
@effort_options
def check(paths: tuple[Path, ...], **given: Any) -> None:
    """Lint Python files, and the Python files below folders, for what stops a model from being portable.

    Nothing that is read is imported or run. Without PATHS, the working directory is linted; the path - is standard
    input. Exit status: 0 clean, 1 findings, 2 a path that does not exist or cannot be read, a file that --fix cannot
    write, or wrong settings.
    """
    from exportlint.places import display_path

    try:
        status = _run(paths or (Path(),), resolver(given), **given)
    except OSError as error:
        if error.filename is None:
            raise  # standard output
        _fail(f"{display_path(error.filename)}: {error.strerror or error}")
    except UserError as error:
        _fail(str(error))
    sys.exit(0 if given["exit_zero"] and status == 1 else status)


def _fail(message: str) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)


def _run(paths: tuple[Path, ...], settings: Resolver, *, show_files: bool, **given: Any) -> int:
    from exportlint.linting.linter import refused

    if given["update_baseline"] and given["baseline"] is None:
        raise UserError("--update-baseline needs --baseline FILE")
    _refuse_statistics_as(given)
    sought = _files(paths, settings, given)
    _refuse_to_write_over(sought, settings, given)
    asked = fixing({**given, "show_files": show_files}, stdin=STDIN in paths)
    if show_files:
        _put("".join(f"{file}\n" for file in sought.files), given["output_file"])
        return _told(refused(sought), 0)
    _tell_what_is_not_looked_for(settings, sought.files)
    # that of an excluded file too where a caller takes what is printed for the file
    data = _standard_input() if STDIN in paths and (sought.files or asked is not None) else None
    checked, excerpts = _linted(paths, sought, settings, given, data)
    found, shown = _asked_for(checked, excerpts, settings, given, tells=asked is None or not asked.reports)
    written = 0
    if asked is not None:
        chosen = set(map(id, shown))
        hidden = [p for p in checked.predictions if id(p) not in chosen]
        written = mend(asked, shown, hidden, settings, data)
        if not asked.reports:
            return _told(checked.unanalysed, written)
        checked, excerpts = _linted(paths, sought, settings, given, data)
        found, shown = _asked_for(checked, excerpts, settings, given)
    if given["add_ignores"]:
        return _told(checked.unanalysed, _add_ignores(shown))
    fails = any(settings.of_file(p.path).fails(p.severity) for p in found)
    fails = fails or (given["fail_unanalysed"] and bool(checked.unanalysed))
    status = _told(checked.unanalysed, max(written, int(fails)))
    _print(found, shown, checked, excerpts, given, offered(asked, stdin=data is not None))
    return status


def _refuse_statistics_as(given: dict[str, Any]) -> None:
    name = given["output_format"]
    if given["statistics"] and name not in COUNTED:
        raise UserError(f"--statistics has no form as {name}: choose {', '.join(COUNTED[:-1])} or {COUNTED[-1]}")


def _refuse_to_write_over(sought: Discovered, settings: Resolver, given: dict[str, Any]) -> None:
    """Refuse to put results in the place of what is linted or known."""
    file = given["output_file"]
    if file is None:
        return
    named = [each for each in (given["baseline"], settings.file, given["stdin_filename"]) if each is not None]
    clash = file.resolve() in {each.resolve() for each in named}  # of which some may not be there yet
    if not clash and file.exists():
        clash = any(each.samefile(file) for each in sought.files if each.exists())
    if clash:
        raise UserError(f"--output-file {file} is read by this run: choose another")


def _told(unanalysed: Iterable[Unanalysed], status: int) -> int:
    """Tell what could not be analysed; the exit status, which is this one where all was read."""
    from exportlint.formats.wording import as_line

    for left_out in unanalysed:
        click.echo(as_line(left_out), err=True)
        status = 2 if left_out.is_unread else status
    return status


def _standard_input() -> bytes:
    if sys.__stdin__ is None:  # what stands in for it is empty, and would be clean
        raise UserError("standard input is closed")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise UserError(f"standard input cannot be read: {error.strerror or error}") from error


def _asked_for(
    checked: Checked, excerpts: Excerpts, settings: Resolver, given: dict[str, Any], *, tells: bool = True
) -> tuple[list[Prediction], list[Prediction]]:
    """The findings that are new in the sense of the options, and those of them that are shown.

    What became of known findings is told, unless a further look follows.
    """
    found = list(checked.predictions)
    fresh = _on_new_lines(found, given["diff_base"])  # git may refuse: before the baseline is written
    if given["baseline"] is not None:  # it sees all lines: what is on others is known, and not gone
        found, words = _new_to_baseline(found, checked, excerpts, settings, given)
        if tells:
            click.echo(words, err=True)
    found = [p for p in found if id(p) in fresh]
    return found, [p for p in found if not _is_hidden(p, settings)]


def _is_hidden(prediction: Prediction, settings: Resolver) -> bool:
    return not settings.of_file(prediction.path).shows(prediction.severity, prediction.rule.code)


def _files(paths: tuple[Path, ...], settings: Resolver, given: dict[str, Any]) -> Discovered:
    """The files to lint: one, which need not be there, where its text comes from standard input."""
    from exportlint.linting.discovery import Discovered, discovered, is_forced_out

    name = given["stdin_filename"]
    if STDIN not in paths:
        if name is not None:
            raise UserError("--stdin-filename goes with the path -, which stands for standard input")
        found = discovered(paths, settings)
        if found.refused and not found.files:
            raise UserError(next(iter(found.refused)))
        return found
    if len(paths) > 1:
        raise UserError("-, which stands for standard input, goes with no other path")
    if given["add_ignores"]:
        raise UserError("--add-ignores needs files, not standard input")
    file = name or Path("<stdin>")
    return Discovered(() if name is not None and is_forced_out(file, settings) else (file,))


def _linted(
    paths: tuple[Path, ...], sought: Discovered, settings: Resolver, given: dict[str, Any], data: bytes | None
) -> tuple[Checked, Excerpts]:
    from exportlint.linting.excerpts import Excerpts
    from exportlint.linting.linter import check_files, check_text, refused

    if data is not None and sought.files:
        return check_text(sought.files[0], data, settings), Excerpts.of_text(sought.files[0], data)
    for path in sought.empty:
        click.echo(f"no Python files in {path}", err=True)
    effort = effort_of(given, settings)
    checked = check_files(sought.files, settings, effort, paths)
    if effort.seconds is not None:
        click.echo(profile(effort.seconds), err=True)
    return replace(checked, unanalysed=(*refused(sought), *checked.unanalysed)), Excerpts()


def _add_ignores(found: list[Prediction]) -> int:
    from exportlint.formats.wording import place, shown_path
    from exportlint.linting.adding_ignores import add_ignores
    from exportlint.source.unused import UNUSED
    from exportlint.text import counted

    added = add_ignores(p for p in found if p.rule.code != UNUSED)
    for p in added.left:
        click.echo(f"{place(p)}: {p.rule.code} cannot be silenced by a comment", err=True)
    for path, why in added.failed:
        click.echo(f"error: {shown_path(path)}: {why}", err=True)
    click.echo(f"{counted(added.findings, 'finding')} silenced in {counted(added.files, 'file')}")
    return 2 if added.failed else int(bool(added.left))


def _tell_what_is_not_looked_for(settings: Resolver, files: tuple[Path, ...]) -> None:
    """That nothing is found of a rule which was asked for, and which is not looked for, would mean nothing."""
    from exportlint.cli.rule import predicted
    from exportlint.linting.selection import codes
    from exportlint.rules import catalogue

    for selector in (*(settings.layer.select or ()), *settings.layer.extend_select):
        found = [rule for code in codes(selector) if predicted(rule := catalogue()[code])]
        if not found:
            click.echo(f"{selector} is seen where a model is run (exportlint report, pytest), not in source", err=True)
        elif (
            files
            and all(rule.stage == "preview" for rule in found)
            and not any(settings.of_file(file).preview for file in files)
        ):
            click.echo(f"{selector} is not stable yet and off; --preview turns it on", err=True)


def _on_new_lines(found: list[Prediction], revision: str | None) -> set[int]:
    """Which findings are on lines that are new, all without a revision; and why a changed file is no Python."""
    from exportlint.linting.added_lines import added_since
    from exportlint.linting.selection import SYNTAX

    if revision is None:
        return set(map(id, found))
    added = added_since(revision, Path.cwd(), (p.path for p in found))
    return {
        id(p)
        for p in found
        if added.touches(p.path, p.range.line, p.range.end_line) or (p.rule.code == SYNTAX and added.holds(p.path))
    }


def _new_to_baseline(
    found: list[Prediction], checked: Checked, excerpts: Excerpts, settings: Resolver, given: dict[str, Any]
) -> tuple[list[Prediction], str]:
    """The findings that the baseline does not know, and what became of the others, which is written where asked."""
    from exportlint.linting.baseline import Baseline, read
    from exportlint.text import counted

    file, update = given["baseline"], given["update_baseline"]
    matters: list[Prediction] = []
    unasked: list[Prediction] = []  # advice that is neither shown nor counted
    for p in found:
        quiet = _is_hidden(p, settings) and not settings.of_file(p.path).fails("info")
        (unasked if quiet else matters).append(p)
    if update and not file.exists():
        made = Baseline(file)
        made.add(matters, excerpts, settings)
        made.write()
        return unasked, f"baseline: {counted(made.known.total(), 'finding')} written to {file}"
    known = read(file)
    beside = known.compared([*matters, *unasked], checked, excerpts, settings)
    if update and beside.gone:
        known.known -= beside.gone
        known.write()
    more = "" if update or not beside.gone else " (take them out with --update-baseline)"
    if beside.unsought:
        more += f"; {beside.unsought} kept, which this run did not look for"
    return beside.new, f"baseline: {counted(beside.there, 'known finding')}, {beside.gone.total()} gone{more}"


def _print(
    found: list[Prediction],
    shown: list[Prediction],
    checked: Checked,
    excerpts: Excerpts,
    given: dict[str, Any],
    offered: tuple[Applicability, ...],
) -> None:
    from exportlint.formats import Results, render

    file, name = given["output_file"], given["output_format"]
    results = Results(
        shown=tuple(shown),
        hidden=len(found) - len(shown),
        files=len(checked.files),
        unanalysed=checked.unanalysed,
        excerpts=excerpts,
        colour=file is None and wants_colour(),
        offered=offered,
    )
    if given["statistics"]:
        from exportlint.formats.statistics import render as render_statistics

        text = render_statistics(results, name)
    else:
        text = render(name, results)
    _put(text, file, colour=results.colour)


def _put(text: str, file: Path | None, *, colour: bool = False) -> None:
    """Print a text, or write it into a file."""
    if file is None:
        click.echo(text, nl=False, color=colour)
    else:
        _write(file, text)


def _write(file: Path, text: str) -> None:
    from exportlint import whole_file

    if not file.parent.is_dir():
        raise FileNotFoundError(2, f"the folder {file.parent} does not exist", str(file))
    if file.exists() and not file.is_file():
        raise OSError(21, "is no regular file", str(file))
    whole_file.write(file.resolve(), text.encode("utf-8", "backslashreplace"))


def wants_colour() -> bool:
    """Whether standard output should be coloured: ``FORCE_COLOR``, else ``NO_COLOR``, else whether it is a terminal."""
    import os

    if os.environ.get("FORCE_COLOR"):
        return True
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()
