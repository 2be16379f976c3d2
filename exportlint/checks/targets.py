"""Which files a TARGET names. No code is imported here: the caller's process reads text only."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

from exportlint import zoo

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
HINT = re.compile(rb"\bModelCase\b|\bexport_case\b|^(?:def build\b|build *=)", re.MULTILINE)


class MissingTargetError(Exception):
    """A TARGET names nothing; the message is one line, fit for a user."""


def expand(target: str) -> list[str]:
    """The files or modules, each with its case's name where one was given, that a TARGET stands for.

    A folder stands for its files, and those of its subfolders, that hold model cases by the look of their text. The
    models that ``hf:NAME`` and the like stand for are listed in a worker, since their library has to be imported.

    Raises:
        MissingTargetError: When there is no such file or module, or no model case in the folder.
    """
    if not target.strip():
        raise MissingTargetError(f"{target!r} is no target")
    if zoo.is_specification(target):
        try:
            zoo.require(target)
        except zoo.ZooError as error:
            raise MissingTargetError(str(error)) from error
        return [target]
    path = Path(target)
    if path.is_dir():
        files = [str(file) for file in _python_files(path) if _may_hold_cases(file)]
        if not files:
            raise MissingTargetError(
                f"{target} holds no model case: no ModelCase, no @export_case, no build() with inputs()"
            )
        return files
    source = target.rpartition(":")[0] or target
    if path.is_file() or Path(source).is_file():
        if not (target if path.is_file() else source).endswith(".py"):
            raise MissingTargetError(f"{target} is no Python file")
        return [target]
    if "/" in source or source.endswith(".py"):
        raise MissingTargetError(f"{target} does not exist")
    if not all(part.isidentifier() for part in source.split(".")) or not _module_exists(source):
        raise MissingTargetError(f"{target} is neither a file, a folder nor a module that can be found")
    return [target]


def _module_exists(name: str) -> bool:
    """Whether the top-level package can be found; nothing of it is imported."""
    top = name.partition(".")[0]
    if (Path.cwd() / top).is_dir() or (Path.cwd() / f"{top}.py").is_file():
        return True
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _python_files(folder: Path) -> list[Path]:
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in SKIPPED_FOLDERS:
            continue
        if path.is_dir() and not path.is_symlink() and not (path / "pyvenv.cfg").is_file():
            found += _python_files(path)
        elif path.suffix == ".py" and path.is_file():
            found.append(path)
    return found


def _may_hold_cases(file: Path) -> bool:
    """Whether the file uses exportlint, or defines both build() and inputs()."""
    try:
        text = file.read_bytes()
    except OSError:
        return False
    if not HINT.search(text):
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # the import will say what is wrong with it
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assigned = {
        t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)
    }
    imports = {a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
    uses = {"ModelCase", "export_case"} & imports or any(
        isinstance(node, ast.Attribute) and node.attr in ("ModelCase", "export_case") for node in ast.walk(tree)
    )
    return bool(uses) or {"build", "inputs"} <= names | assigned
