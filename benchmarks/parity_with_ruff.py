"""Makes docs/parity-with-ruff.md: what the linter does in Ruff's manner, as commands and what they print.

``python benchmarks/parity_with_ruff.py`` runs every command in a scratch repository and writes the file anew.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from exportlint import whole_file
from exportlint.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE = Path(__file__).parents[1] / "docs" / "parity-with-ruff.md"
LONGEST = 20  # lines of an output that are shown
_TIMES = re.compile(r"\d+\.\d+ s +\d+\.\d%")

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
        "The fields of `json` have Ruff's names.",
    ),
    Manner(
        "SARIF",
        "ruff check --output-format sarif --output-file found.sarif",
        (
            "exportlint check models/attention.py --output-format sarif --output-file found.sarif",
            "python scripts/show_sarif.py found.sarif",
        ),
        "The rules come with their pages, which are left out here.",
    ),
    Manner(
        "Colours",
        "FORCE_COLOR=1 ruff check",
        (
            "FORCE_COLOR=1 exportlint check models/attention.py --output-format concise",
            "NO_COLOR=1 exportlint check models/attention.py --output-format concise",
        ),
        "`\\x1b` begins a colour. Without these variables, terminals get colours and nothing else does.",
    ),
    Manner(
        "How a model gets there",
        "",
        ("exportlint check samples/calls.py samples/helper.py",),
        "Not Ruff's. A finding in a helper tells the calls that lead to it, after `reached by`.",
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
        "Files that nobody wants to have",
        "ruff check bad",
        ("exportlint check bad --output-format concise",),
        "A file that is no Python, one with a null byte, and one that is no UTF-8 and does not say what it is.",
    ),
    Manner(
        "How a model is captured",
        "",
        (
            "exportlint check models/mask.py --statistics",
            "exportlint check models/mask.py --statistics --mode compile",
            "exportlint check models/mask.py --statistics --mode compile --mode export",
        ),
        "Not Ruff's. A default device is baked in by `torch.export.export`, and not by `torch.compile`.",
    ),
    Manner(
        "What counts as a model, as a tensor, and as captured",
        "",
        (
            "exportlint check samples --isolated --output-format concise",
            "exportlint check samples/entry.py --statistics --entry-point '*.Net.encode'",
            "exportlint check samples/base.py --statistics --module-base framework.Base",
            "exportlint check samples/image.py --statistics --tensor-type framework.Image",
            "exportlint check samples/predicate.py --statistics --tracing-predicate framework.is_tracing",
            "exportlint check samples/power.py --statistics --mode compile",
            "exportlint check samples/power.py --statistics --mode compile --torch-version 2.14",
        ),
        "Not Ruff's. The keys `entry-points`, `module-bases`, `tensor-types`, `tracing-predicates`\n"
        "and `torch-version` say the same in the configuration.",
    ),
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
        "The nearest configuration wins as a whole.",
    ),
    Manner(
        "A configuration that starts from another",
        "ruff check --config team/exportlint.toml",
        ("exportlint check team --statistics", "exportlint config team | grep -v '# default\\|^rules'"),
        '`team/exportlint.toml` says `extend = "../pyproject.toml"` and ignores EXP202.',
    ),
    Manner(
        "A mistake in the configuration",
        "ruff check --config bad.toml",
        ("exportlint check --config bad.toml", "exportlint check --exclude '[a'"),
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
    Manner("From Python", "", ("python scripts/api.py",), "Not Ruff's."),
    Manner(
        "What is known",
        "",
        (
            "exportlint check models --baseline known.json --update-baseline",
            "sed -i '1i # a line more' models/mask.py",
            "exportlint check models --baseline known.json",
            "exportlint check models --baseline known.json --update-baseline --select EXP1",
            "sed -i 's/torch.arange(4)/torch.ones(4)/' models/mask.py",
            "exportlint check models --baseline known.json --update-baseline --output-format concise",
        ),
        "Not Ruff's. Findings stay known while lines move. What is gone is taken out, what is new is not taken\n"
        "in, and what a run does not look for stays.",
    ),
    Manner(
        "Only what is new",
        "",
        (
            "exportlint check --diff-base HEAD --output-format concise",
            "git clone -q --depth 1 file://$PWD ../shallow",
            "cd ../shallow && exportlint check --diff-base HEAD~1",
            "git checkout -q models/mask.py",
            "exportlint check --diff-base HEAD --output-format concise",
        ),
        "Not Ruff's. The line with `torch.ones(4)` of the last section is not committed.",
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
        "`# exportlint: ignore[...]`, `disable`, `enable`, `ignore-file`, and `# noqa`; [more](linter.md). Ruff\n"
        'takes foreign codes in `noqa` for mistakes, unless `external = ["EXP"]` stands in `[tool.ruff.lint]`.',
    ),
    Manner(
        "Comments that silence nothing",
        "ruff check --select RUF100",
        ("exportlint check models/silenced.py samples/malformed.py --select EXP006 --output-format concise",),
    ),
    Manner(
        "Processes, the cache, and what each rule takes",
        "ruff check --no-cache --cache-dir cache",
        (
            "exportlint check --no-cache --jobs 2 --statistics",
            "exportlint check --cache-dir cache --statistics",
            "ls cache",
            "exportlint check --profile-rules models/mask.py --statistics 2>&1 | grep 'EXP202\\|run'",
        ),
        "What rules take is told for each; the times are left out here.",
    ),
    Manner(
        "Rules that are not stable yet",
        "ruff check --preview",
        ("exportlint check models/mask.py --preview --statistics",),
    ),
    Manner(
        "Hooks",
        "",
        ("exportlint check --force-exclude models/mask.py third_party/net.py --output-format concise",),
        "That is what the hook `exportlint` of pre-commit runs, and `exportlint-fix` with `--fix`. [How to set them\n"
        "up](continuous-integration.md), as well as the GitHub action, which uploads SARIF, and a recipe for GitLab.",
    ),
)

HEADING = "import torch\nfrom torch import nn\n"
NET = "\n\nclass {name}({base}):\n    def {method}(self, {given}) -> torch.Tensor:\n{body}\n"
BRANCH = "return x if x.sum() > 0 else -x"


def model(*body: str, imported: str = "", name: str = "Net", base: str = "nn.Module", **signature: str) -> str:
    """A file with one module class, whose forward takes a tensor and has these lines."""
    filled = {"method": "forward", "given": "x: torch.Tensor", **signature}
    lines = "\n".join(f"        {line}" for line in body)
    return HEADING + imported + NET.format(name=name, base=base, body=lines, **filled)


ATTENTION = model(BRANCH)
MASK = model("return x + torch.arange(4)")
SILENCED = model(
    "# exportlint: disable[EXP202]",
    "x = x + torch.arange(4) + torch.ones(4)",
    "# exportlint: enable[EXP202]",
    "x = x * 2  # exportlint: ignore[EXP101] it was a branch once",
    "y = x + 1 if x.max() > 0 else x  # noqa: EXP101",
    f"{BRANCH.replace('-x', 'y')}  # exportlint: ignore[EXP101]",
)
SAMPLES = {
    "calls.py": model("return flipped(x)", imported="\nfrom helper import flipped\n"),
    "helper.py": f"def flipped(x):\n    {BRANCH}\n",
    "entry.py": model(BRANCH, method="encode"),
    "base.py": model(
        "assert x.relu().any()", "return x", imported="\nfrom framework import Base\n", base="Base", given="x"
    ),
    "image.py": model("return 1 if x else 0", imported="\nfrom framework import Image\n", given="x: Image"),
    "predicate.py": model("if is_tracing():", "    return x", BRANCH, imported="\nfrom framework import is_tracing\n"),
    "power.py": model("return pow(x, 2)"),
    "malformed.py": model("return x * 2  # exportlint: ignore EXP101"),
}
SHOW_SARIF = """\
import json
import sys

with open(sys.argv[1]) as stream:
    run = json.load(stream)["runs"][0]
result = run["results"][0]
rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
print(rule["id"], rule["help"]["markdown"].splitlines()[0])
print(result["level"], result["locations"][0]["physicalLocation"])
print(result["partialFingerprints"])
"""
API = """\
from exportlint import check_paths, check_source

for found in [*check_paths(["models"], select=["EXP1"]), *check_source("x = (", "models/new.py")]:
    print(found.path, found.range.line, found.rule.code, found.severity)
try:
    check_paths(["models"], modes=["exprot"])
except ValueError as error:
    print(error)
"""
FILES = {
    "pyproject.toml": '[tool.exportlint]\nextend-exclude = ["third_party", "samples", "bad", "team", "scripts"]\n\n'
    '[tool.exportlint.per-file-ignores]\n"tools/*" = ["devices"]\n',
    "bad.toml": "# a typing error\nselct = []\n",
    "team/exportlint.toml": 'extend = "../pyproject.toml"\nignore = ["EXP202"]\n',
    ".gitignore": "generated/\n.exportlint_cache/\nfound.*\n",
    "models/attention.py": ATTENTION,
    "models/mask.py": MASK,
    "models/silenced.py": SILENCED,
    **{f"samples/{name}": text for name, text in SAMPLES.items()},
    "scripts/show_sarif.py": SHOW_SARIF,
    "scripts/api.py": API,
    "tools/build.py": MASK,
    "team/net.py": MASK,
    "third_party/net.py": ATTENTION,
    "generated/net.py": ATTENTION,
    "bad/syntax.py": "x = (\n",
    "bad/null.py": "x = 1\0\n",
    "bad/encoding.py": "x = '\udce9'\n",
}


def document() -> str:
    """The page; every command is run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name)) / "project"
        for file, text in FILES.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(text.encode("utf-8", "surrogateescape"))
        programs = _programs(Path(name) / "bin")
        with _inside(folder):
            for arguments in ("init -q", "add .", "commit -qm first", "commit -q --allow-empty -m second"):
                _git(arguments)
            sections = [_section(manner, folder, programs) for manner in MANNERS]
    return "\n".join([HEAD, *sections, APART, "## The repository\n", _repository()]) + "\n"


def _repository() -> str:
    """The files, those that hold the same together; not those that cannot be shown."""
    names: dict[str, list[str]] = {}
    for file, text in FILES.items():
        if not file.startswith("bad/"):
            names.setdefault(text, []).append(file)
    parts = (
        f"{', '.join(f'`{file}`' for file in files)}:\n\n```{_language(files[0])}\n{text.rstrip()}\n```"
        for text, files in names.items()
    )
    return "\n\n".join(parts)


def _programs(folder: Path) -> Path:
    """A folder with the programs `exportlint` and `python`, which are this Python."""
    folder.mkdir()
    for program, module in (("exportlint", "-m exportlint"), ("python", "")):
        (folder / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (folder / program).chmod(0o755)
    return folder


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


def _section(manner: Manner, folder: Path, programs: Path) -> str:
    lines = [f"## {manner.title}", ""]
    if manner.ruff:
        lines += [f"Ruff: `{manner.ruff}`", ""]
    if manner.words:
        lines += [manner.words, ""]
    shown = "\n\n".join(_ran(command, folder, programs) for command in manner.commands)
    return "\n".join([*lines, "```console", shown, "```", ""])


def _ran(command: str, folder: Path, programs: Path) -> str:
    """A command and what it printed, with its status where that is not 0."""
    if command.startswith("exportlint ") and not set(command) & set("|&<>$"):
        result = CliRunner().invoke(main, shlex.split(command)[1:], env={"FORCE_COLOR": "", "NO_COLOR": "1"})
        output, status = result.output, result.exit_code
    else:
        environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR")}
        environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
        done = subprocess.run(
            ["sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            check=False,
        )
        output, status = done.stdout, done.returncode
    output = _TIMES.sub("... s  ...%", output.replace(str(folder), "/project").replace("\x1b", "\\x1b"))
    lines = output.rstrip().splitlines()
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
