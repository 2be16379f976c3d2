"""Which lines are new since a revision, by git."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.config import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


class DiffError(UserError):
    """git cannot say what is new."""


@dataclass(frozen=True, slots=True)
class Added:
    """Lines that are new.

    Attributes:
        changed: Ranges of lines that were added or changed, by file with its links resolved.
        unchanged: Files that git knows and that are as they were.
    """

    changed: Mapping[str, tuple[range, ...]]
    unchanged: frozenset[str]

    def touches(self, path: Path, first: int, last: int) -> bool:
        """Whether one of these lines is new; all lines of a file that git does not know are."""
        real = os.path.realpath(path)
        if real in self.changed:
            return any(first < lines.stop and lines.start <= last for lines in self.changed[real])
        return real not in self.unchanged

    def holds(self, path: Path) -> bool:
        """Whether anything in a file is new, deleted lines included."""
        return os.path.realpath(path) not in self.unchanged


def added_since(revision: str, folder: Path) -> Added:
    """The lines of the working tree that are new since it parted from a revision.

    Args:
        revision: A commit, as git names them. What came to it after the history parted is not counted.
        folder: A folder of the repository.

    Raises:
        DiffError: When there is no repository, git is not there, or the history is too short.
    """
    root = Path(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n"))
    base = _base(revision, root)
    options = (
        "diff",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--find-renames",
        "--unified=0",
        "--diff-filter=d",
    )
    names = _git(root, *options, "--name-only", "-z", base, "--").split("\0")[:-1]
    parts = _sections(_git(root, *options, base, "--"))
    if len(names) != len(parts):
        raise DiffError(f"--diff-base {revision}: the differences changed while they were read")
    changed = {os.path.realpath(root / name): part for name, part in zip(names, parts, strict=True)}
    known = {os.path.realpath(root / name) for name in _git(root, "ls-files", "-z").split("\0")[:-1]}
    return Added(changed, frozenset(known - changed.keys()))


def _base(revision: str, root: Path) -> str:
    """The commit at which the history of the working tree parted from the revision."""
    shallow = _git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
    hint = "this clone is shallow: fetch more history first (git fetch --unshallow, or fetch-depth: 0)"
    try:
        commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
    except DiffError:
        raise DiffError(f"--diff-base {revision}: no such commit{f'; {hint}' if shallow else ''}") from None
    try:
        return _git(root, "merge-base", commit, "HEAD").strip()
    except DiffError:
        reason = hint if shallow else "it has no history in common with HEAD"
        raise DiffError(f"--diff-base {revision}: {reason}") from None


def _sections(text: str) -> list[tuple[range, ...]]:
    """The ranges that each file of a diff adds; lines of the files themselves begin with a sign."""
    found: list[list[range]] = []
    for line in text.split("\n"):
        if line.startswith("diff --git "):
            found.append([])
        hunk = _HUNK.match(line)
        if hunk is not None and found:
            first = int(hunk[1])
            found[-1].append(range(first, first + int(hunk[2] or 1)))
    return [tuple(part) for part in found]


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            cwd=folder,
            capture_output=True,
            check=True,
            env={**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
        )
    except FileNotFoundError as error:
        raise DiffError("--diff-base needs git, which is not there") from error
    except subprocess.CalledProcessError as error:
        words = os.fsdecode(error.stderr).strip().splitlines()
        raise DiffError(f"--diff-base: git {arguments[0]}: {words[0] if words else 'failed'}") from error
    return os.fsdecode(done.stdout)
