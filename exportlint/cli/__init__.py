"""The command line: one thin module per command, imported when the command is used."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

import click

from exportlint._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACEBACK = "EXPORTLINT_TRACEBACK"
COMMANDS = {
    "report": "exportlint.cli.report",
    "report merge": "exportlint.cli.report_merge",
    "report diff": "exportlint.cli.report_diff",
    "check": "exportlint.cli.check",
    "rule": "exportlint.cli.rule",
    "rules": "exportlint.cli.rule",
    "inspect": "exportlint.cli.inspect",
    "replay": "exportlint.cli.replay",
    "config": "exportlint.cli.config",
}

CUT = 141
"""Exit status where the reader of the output went away: that of a process which SIGPIPE ends."""
_PRINTERS = frozenset({"click.utils", "rich.console"})


def _open_closed_streams() -> None:
    """Put nothing in the place of streams that the caller closed, so that no file of ours gets their numbers."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115


@contextlib.contextmanager
def _output() -> Iterator[None]:
    """End the run where output is cut short or cannot be written, in a line at most."""
    try:
        yield
    except SystemExit as end:
        if not (isinstance(end.__context__, BrokenPipeError) and _is_of_output(end.__context__)):
            raise
        sys.exit(CUT)  # of which rich makes 1, as if there were findings
    except OSError as error:
        if not _is_of_output(error):
            raise
        _let_go_of_output()
        if isinstance(error, BrokenPipeError):
            sys.exit(CUT)
        with contextlib.suppress(OSError):
            click.echo(f"error: standard output: {error.strerror or error}", err=True)
        sys.exit(2)


def _is_of_output(error: OSError) -> bool:
    """Whether the error is one of printing."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") in _PRINTERS for frame, _ in frames)


def _let_go_of_output() -> None:
    """Drop what could not be written: Python would try again at its end, and tell of that."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _usage_in_a_line() -> Iterator[None]:
    """Tell of wrong usage as of all else that is wrong, in one line and with status 2."""
    try:
        yield
    except click.UsageError as error:
        hint = f" ({error.ctx.command_path} --help tells what there is)" if error.ctx is not None else ""
        click.echo(f"error: {' '.join(error.format_message().split()).removesuffix('.')}{hint}", err=True)
        sys.exit(2)


def _refuse_command(word: str, ctx: click.Context) -> NoReturn:
    import difflib  # only where a word is misspelt

    near = difflib.get_close_matches(word.lower(), COMMANDS, 1)
    ctx.fail(f"No such command {word!r}." + (f" Did you mean {near[0]!r}?" if near else ""))


class OneLineGroup(click.Group):
    """A group that tells of wrong usage, and of what goes wrong, in one line."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line."""
        _open_closed_streams()
        with _output():
            try:
                return super().main(*args, **extra)
            finally:
                click.echo(nl=False)  # what is left is written here: at Python's end, a failure would be no status

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the options; what they print, such as a help, may be cut short."""
        with _output(), _usage_in_a_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a fault of exportlint itself is one line and status 2, not a traceback."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # names in source may not be in the terminal's character set
                stream.reconfigure(errors="backslashreplace")
        try:
            with _output(), _usage_in_a_line():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise  # click's own ways to end
        except KeyboardInterrupt:
            click.echo("exportlint: interrupted", err=True)
            sys.exit(130)
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            words = traceback.format_exception_only(type(error), error)[-1].strip()[:300]
            click.echo(f"error: exportlint itself failed: {words} (set {TRACEBACK}=1 to see where)", err=True)
            sys.exit(2)


class LazyGroup(OneLineGroup):
    """A group whose commands are imported when they are used, so that none pays for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        command: click.Command = getattr(module, cmd_name.replace(" ", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word, or of the first two, as ``report merge``."""
        two = " ".join(args[:2])
        if two in COMMANDS:
            return two, self.get_command(ctx, two), args[2:]
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            _refuse_command(args[0], ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="exportlint")
def main() -> None:
    """Find out, early and with the line, what keeps a PyTorch model from being exported and run elsewhere.

    Exit status: 0 clean, 1 findings, 2 usage or internal error, 130 interrupted, 141 nobody reads the output any more.
    """
