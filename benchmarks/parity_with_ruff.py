"""Makes docs/parity-with-ruff.md: what the linter does in Ruff's manner, as commands and what they print.

``python benchmarks/parity_with_ruff.py`` runs every command in a scratch repository and writes the file anew.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from exportlint import whole_file
from exportlint.cli import main
from exportlint.rules.examples import example

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE = Path(__file__).parents[1] / "docs" / "parity-with-ruff.md"
LONGEST = 24  # lines of an output that are shown

HEAD = """\
# In Ruff's manner

Who knows Ruff knows the linter. Each manner below is a command and what it prints; the commands were run in the small
repository at the end, by `benchmarks/parity_with_ruff.py`, and a test keeps the page current. `(1)` is an exit status
other than 0; `[...]` stands for further lines.
"""
APART = """\
## What is not as in Ruff

* No `--watch`, no language server, and no notebooks: `.py` files, and what is named.
* Findings have severities, since some of them bite only for other sizes or devices: `--fail-level` and `--show-info`.
* Of a helper, what its callers pass decides; `exportlint check helper.py` therefore reads the rest of the package.
* `--baseline`, `--diff-base` and the formats' `outcomes` have no counterpart in Ruff.
* What is fixed is run through the linter again before it is written: a fix that does not mend its finding is left out.
* `--unsafe-fixes` goes with `--fix`, `--fix-only` or `--diff`, and alone is an error.
* `--add-ignores` writes `# exportlint: ignore[...]`, not `noqa`, which Ruff reads as its own.
"""


@dataclass(frozen=True)
class Manner:
    """Something that Ruff does.

    Attributes:
        title: What it is.
        ruff: How Ruff is told to do it; empty where it is not Ruff's.
        commands: How exportlint is; run in order.
        words: What to know besides.
    """

    title: str
    ruff: str
    commands: tuple[str, ...]
    words: str = ""


MANNERS = (
    Manner("Lines, marks and help", "ruff check", ("exportlint check models/attention.py",)),
    Manner("A line a finding", "ruff check --output-format concise", ("exportlint check --output-format concise",)),
    Manner(
        "Findings by file", "ruff check --output-format grouped", ("exportlint check models --output-format grouped",)
    ),
    Manner(
        "Formats for machines",
        "ruff check --output-format json",
        tuple(
            f"exportlint check models/attention.py --output-format {name}"
            for name in ("json", "json-lines", "github", "gitlab", "junit", "pylint")
        ),
        "The fields of `json` have Ruff's names. `sarif` is the tenth format.",
    ),
    Manner("How often", "ruff check --statistics", ("exportlint check --statistics",)),
    Manner(
        "Select and ignore",
        "ruff check --select F --ignore F401",
        (
            "exportlint check --select EXP2 --output-format concise",
            "exportlint check --select EXP,devices --ignore EXP1 --output-format concise",
            "exportlint check --select EXP101 --ignore EXP1 --output-format concise",
        ),
        "Codes, beginnings of codes, names, families and `ALL`. The more exact selector wins.",
    ),
    Manner("A misspelt rule", "ruff check --select F4O1", ("exportlint check --select branch-on-tenser",)),
    Manner("A rule explained", "ruff rule F401", ("exportlint rule unused-ignore",)),
    Manner(
        "Exit status",
        "ruff check --exit-zero",
        (
            "exportlint check --exit-zero --statistics",
            "exportlint check --fail-level error models/mask.py --statistics",
        ),
        "0: nothing that counts; 1: findings; 2: a mistake. `--fail-level` says what counts.",
    ),
    Manner("A path that is not there", "ruff check gone.py", ("exportlint check gone.py",)),
    Manner(
        "Which files",
        "ruff check --show-files",
        (
            "exportlint check --show-files",
            "exportlint check --show-files --extend-exclude models/mask.py",
            "exportlint check --show-files third_party/net.py generated/net.py",
            "exportlint check --show-files third_party/net.py --force-exclude",
        ),
        "`generated/` is in `.gitignore`, `third_party/` is excluded by the configuration; what is named is linted.",
    ),
    Manner(
        "Standard input",
        "ruff check - --stdin-filename models/new.py",
        ("exportlint check - --stdin-filename models/new.py --output-format concise < models/attention.py",),
    ),
    Manner(
        "Into a file",
        "ruff check --output-file found.txt",
        ("exportlint check --output-file found.txt", "tail -1 found.txt"),
    ),
    Manner(
        "Settings of a path",
        "ruff check --show-settings",
        (
            "exportlint config models/attention.py",
            "exportlint config tools/build.py --select EXP1 --output-format json",
        ),
        "The nearest configuration wins as a whole; `extend` starts from another.",
    ),
    Manner(
        "A mistake in the configuration",
        "ruff check --config bad.toml",
        ("exportlint check --config bad.toml",),
        "`bad.toml` says `selct = []` in its second line.",
    ),
    Manner(
        "Rules that are off in some files",
        "ruff check --config pyproject.toml",
        ("exportlint check tools --output-format concise", "exportlint check tools --isolated --output-format concise"),
        '`[tool.exportlint.per-file-ignores]` holds `"tools/*" = ["devices"]`; `--isolated` reads no configuration.',
    ),
    Manner(
        "Fixes",
        "ruff check --diff --unsafe-fixes",
        ("exportlint check models --diff --unsafe-fixes", "exportlint check models --diff"),
        "`--fix` writes the safe ones and reports what is left, `--fix-only` reports nothing; [more](fixes.md).",
    ),
    Manner(
        "Comments",
        "ruff check --add-noqa",
        (
            "exportlint check models/silenced.py --output-format concise",
            "exportlint check models --add-ignores",
            "git diff --stat",
            "exportlint check models --statistics",
        ),
        "`# exportlint: ignore[...]`, `disable`, `enable`, `ignore-file`, and `# noqa`; [more](linter.md).",
    ),
    Manner(
        "Comments that silence nothing",
        "ruff check --select RUF100",
        ("exportlint check models/silenced.py --select EXP006 --output-format concise",),
    ),
    Manner(
        "Only what is new",
        "",
        (
            "exportlint check --diff-base HEAD --statistics",
            "exportlint check --baseline known.json --update-baseline",
            "exportlint check --baseline known.json",
        ),
        "Not Ruff's. The comments of the last section but one are not committed; no finding lies on a new line.",
    ),
    Manner(
        "Processes and the cache",
        "ruff check --no-cache",
        ("exportlint check --no-cache --jobs 2 --statistics",),
    ),
)

ATTENTION = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")
MASK = example("def forward(self, x):\n    return x + torch.arange(4)")
SILENCED = example(
    "def forward(self, x):\n"
    "    # exportlint: disable[EXP202]\n"
    "    x = x + torch.arange(4) + torch.ones(4)\n"
    "    # exportlint: enable[EXP202]\n"
    "    x = x * 2  # exportlint: ignore[EXP101] it was a branch once\n"
    "    return x if x.sum() > 0 else -x  # exportlint: ignore[EXP101]"
)
FILES = {
    "pyproject.toml": '[tool.exportlint]\nextend-exclude = ["third_party"]\n\n'
    '[tool.exportlint.per-file-ignores]\n"tools/*" = ["devices"]\n',
    "bad.toml": "# a typing error\nselct = []\n",
    ".gitignore": "generated/\n.exportlint_cache/\nfound.txt\n",
    "models/attention.py": ATTENTION,
    "models/mask.py": MASK,
    "models/silenced.py": SILENCED,
    "tools/build.py": MASK,
    "third_party/net.py": ATTENTION,
    "generated/net.py": ATTENTION,
}


def document() -> str:
    """The page; every command is run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name)) / "project"
        for file, text in FILES.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        with _inside(folder):
            for arguments in ("init -q", "add .", "commit -qm first"):
                _git(arguments)
            sections = [_section(manner, folder) for manner in MANNERS]
    files = [
        f"`{file}`:\n\n```{_language(file)}\n{text.rstrip()}\n```" for file, text in FILES.items() if text != ATTENTION
    ]
    holds = f"`models/attention.py`, `third_party/net.py`, `generated/net.py`:\n\n```python\n{ATTENTION.rstrip()}\n```"
    return "\n".join([HEAD, *sections, APART, "## The repository\n", "\n\n".join([*files, holds])]) + "\n"


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _language(file: str) -> str:
    return {".py": "python", ".toml": "toml"}.get(Path(file).suffix, "")


def _section(manner: Manner, folder: Path) -> str:
    lines = [f"## {manner.title}", ""]
    if manner.ruff:
        lines += [f"Ruff: `{manner.ruff}`", ""]
    if manner.words:
        lines += [manner.words, ""]
    shown = "\n\n".join(_ran(command, folder) for command in manner.commands)
    return "\n".join([*lines, "```console", shown, "```", ""])


def _ran(command: str, folder: Path) -> str:
    """A command and what it printed, with its status where that is not 0."""
    words, _, source = command.partition(" < ")
    arguments = shlex.split(words)
    if arguments[0] == "exportlint":
        given = Path(source).read_bytes() if source else None
        result = CliRunner().invoke(main, arguments[1:], input=given, env={"FORCE_COLOR": "", "NO_COLOR": "1"})
        output, status = result.output, result.exit_code
    else:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        output, status = done.stdout + done.stderr, done.returncode
    lines = output.replace(str(folder), "/project").rstrip().splitlines()
    cut = [*lines[:LONGEST], "[...]"] if len(lines) > LONGEST else lines
    return "\n".join([f"$ {command}{f'    ({status})' if status else ''}", *cut])


def _git(arguments: str) -> None:
    identity = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "commit.gpgsign=false",
    ]
    subprocess.run(["git", *identity, *arguments.split()], check=True, capture_output=True)


if __name__ == "__main__":
    whole_file.write(PLACE, document().encode())
