"""The command line: one thin module per command, imported when the command is used."""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback

import click

from exportlint._version import __version__

TRACEBACK = "EXPORTLINT_TRACEBACK"
COMMANDS = {
    "report": "exportlint.cli.report",
    "check": "exportlint.cli.check",
    "rule": "exportlint.cli.rule",
    "rules": "exportlint.cli.rule",
    "config": "exportlint.cli.config",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used, so that none pays for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a fault of exportlint itself is one line and status 2, not a traceback."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # names in source may not be in the terminal's character set
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click's own ways to end
        except KeyboardInterrupt:
            click.echo("exportlint: interrupted", err=True)
            sys.exit(130)
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            words = traceback.format_exception_only(type(error), error)[-1].strip()[:300]
            click.echo(f"exportlint: internal error: {words} (set {TRACEBACK}=1 to see where)", err=True)
            sys.exit(2)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="exportlint")
def main() -> None:
    """Find out, early and with the line, what keeps a PyTorch model from being exported and run elsewhere.

    Exit status: 0 clean, 1 findings, 2 usage or internal error.
    """
