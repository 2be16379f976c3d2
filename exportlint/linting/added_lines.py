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
    from collections.abc import Iterable, Mapping

_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_ESCAPED = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
# Each stands against a setting of the user, or an attribute of a file, that changes what is printed.
_DIFF = (
    "diff",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--text",
    "--find-renames",
    "--unified=0",
    "--inter-hunk-context=0",
    "--diff-algorithm=default",
    "--indent-heuristic",
    "--submodule=short",
    "--ignore-submodules=none",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--diff-filter=d",
)
# What git hears from the environment before its options.
_OVERRIDING = frozenset({"GIT_DIFF_OPTS", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS"})
# What a hook of git is told of its own repository, which is untrue of a submodule.
_OF_ONE_REPOSITORY = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}
)
_SUBMODULE = "160000"


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


def added_since(revision: str, folder: Path, files: Iterable[Path]) -> Added:
    """The lines of the working tree that are new since it parted from a revision.

    Args:
        revision: A commit, as git names them. What came to it after the history parted is not counted.
        folder: A folder of the repository.
        files: Those that are asked about. One in a submodule is compared with the commit of the submodule that belongs
            to that of the repository.

    Raises:
        DiffError: When there is no repository, git is not there, or the history is too short.
    """
    root = Path(os.path.realpath(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n")))
    asked = frozenset(os.path.realpath(file) for file in files)
    try:
        return _added(root, _base(revision, root), asked, is_submodule=False)
    except _LackingError as error:
        raise DiffError(f"--diff-base {revision}: {error}") from None


class _LackingError(Exception):
    """A submodule lacks the commit to compare it with."""


def _added(root: Path, base: str, asked: frozenset[str], *, is_submodule: bool) -> Added:
    """What is new in a repository, and in those of its submodules that hold files which are asked about."""
    only = ["*.py"] if all(file.endswith(".py") for file in asked) else []  # others may be large, and no text
    found = _sections(_git(root, *_DIFF, base, "--", *only, is_submodule=is_submodule))
    changed = {str(root / name): lines for name, lines in found.items()}  # a link among them is no file's real path
    known: set[str] = set()
    for entry in _git(root, "ls-files", "--stage", "-z", is_submodule=is_submodule).split("\0")[:-1]:
        about, _, name = entry.partition("\t")
        if not about.startswith(_SUBMODULE):
            known.add(str(root / name))
            continue
        inside = frozenset(file for file in asked if Path(file).is_relative_to(root / name))
        if inside and (commit := _submodule_at(root, base, name, is_submodule=is_submodule)):
            inner = _added(root / name, commit, inside, is_submodule=True)
            changed |= inner.changed
            known |= inner.unchanged
    return Added(changed, frozenset(known - changed.keys()))


def _submodule_at(root: Path, base: str, name: str, *, is_submodule: bool) -> str:
    """The commit of a submodule that a commit of its repository holds; empty where it holds none.

    Raises:
        _LackingError: When the submodule does not have that commit.
    """
    about = _git(root, "ls-tree", "-z", base, "--", name, is_submodule=is_submodule).partition("\t")[0].split()
    if not about or about[0] != _SUBMODULE:
        return ""
    try:
        _git(root / name, "cat-file", "-e", f"{about[2]}^{{commit}}", is_submodule=True)
    except DiffError:
        raise _LackingError(f"the submodule {name} lacks its commit {about[2][:12]}: fetch it there first") from None
    return about[2]


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


def _sections(text: str) -> dict[str, tuple[range, ...]]:
    """The ranges that a diff without context adds, by file; an empty one lies where lines were only taken out."""
    found: dict[str, tuple[range, ...]] = {}
    name, left = None, 0
    for line in text.split("\n"):
        if left:  # a line of a file, which may look like a heading; "\\ No newline" is none
            left -= line.startswith(("+", "-"))
        elif line.startswith("+++ "):
            name = _name(line[4:])
        elif name is not None and (hunk := _HUNK.match(line)):
            gone, first, count = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
            start = first if count else first + 1  # git names the line before
            found[name] = (*found.get(name, ()), range(start, start + count))
            left = gone + count
    return found


def _name(text: str) -> str | None:
    """The file that a heading of a diff names; ``None`` for none."""
    if text.startswith('"'):
        text = _ESCAPE.sub(lambda m: _ESCAPED.get(m[1]) or (chr(int(m[1], 8)) if m[1].isdigit() else m[1]), text[1:-1])
    else:
        text = text.removesuffix("\t")  # stands after a name with blanks
    return text.removeprefix("b/") if text.startswith("b/") else None


def _git(folder: Path, *arguments: str, is_submodule: bool = False) -> str:
    unheard = _OVERRIDING | _OF_ONE_REPOSITORY if is_submodule else _OVERRIDING
    environment = {name: value for name, value in os.environ.items() if name not in unheard}
    try:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            cwd=folder,
            capture_output=True,
            check=True,
            env={**environment, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
        )
    except FileNotFoundError as error:
        raise DiffError("--diff-base needs git, which is not there") from error
    except subprocess.CalledProcessError as error:
        words = os.fsdecode(error.stderr).strip().splitlines()
        raise DiffError(f"--diff-base: git {arguments[0]}: {words[0] if words else 'failed'}") from error
    return os.fsdecode(done.stdout)
