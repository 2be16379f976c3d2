"""Commands by their names, and what is said of a misspelt one."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from exportlint.cli import COMMANDS, main


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("chekc", " Did you mean 'check'?"),
        ("Check", " Did you mean 'check'?"),
        ("reprot", " Did you mean 'report'?"),
        ("rul", " Did you mean 'rule'?"),
        ("xyzzy", ""),
        ("", ""),
    ],
)
def test_a_misspelt_command_is_told_with_the_nearest(word: str, hint: str) -> None:
    result = CliRunner().invoke(main, [word])
    assert result.exit_code == 2
    words = f"No such command {word!r}.{hint}".removesuffix(".")
    assert result.stderr == f"error: {words} (main --help tells what there is)\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_help(name: str) -> None:
    result = CliRunner().invoke(main, [*name.split(), "--help"])
    assert (result.exit_code, result.output.startswith(f"Usage: main {name} ")) == (0, True)


def test_an_option_of_no_command_is_an_error_of_its_own() -> None:
    result = CliRunner().invoke(main, ["--chekc"])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: No such option")
