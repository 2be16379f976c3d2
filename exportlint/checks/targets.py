"""Which files a TARGET names. No code is imported here: the caller's process reads text only."""

from __future__ import annotations

import ast
import fnmatch
import glob
import importlib.util
import re
from pathlib import Path

from exportlint import config, zoo
from exportlint.places import parsed
from exportlint.text import counted

WILD = "*?["
SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
HINT = re.compile(rb"\bModelCase\b|\bexport_case\b|^(?:def build\b|build *=)", re.MULTILINE)


class MissingTargetError(Exception):
    """A TARGET names nothing; the message is one line, fit for a user."""


def expand(target: str) -> list[str]:
    """The files or modules, each with its case's name where one was given, that a TARGET stands for.

    A folder stands for its files, and those of its subfolders, that hold model cases by the look of their text. The
    models that ``hf:NAME`` and the like stand for are listed in a worker, since their library has to be imported.
    Wildcards of a path stand for the files that hold model cases or, before ``:name``, something of that name; those
    of a name are for a worker, too. A TOML file lists TARGETs under the key ``targets``; its paths are relative to it.

    Raises:
        MissingTargetError: When there is no such file or module, or no model case in the folder.
    """
    if not target.strip():
        raise MissingTargetError(f"{target!r} is no target")
    if zoo.is_specification(target):
        return [_required(target)]
    path = Path(target)
    if path.is_dir():
        return _in_folder(path, target)
    if path.suffix == ".toml" and path.is_file():
        return _listed(path)
    source = target.rpartition(":")[0] or target
    if path.is_file() or Path(source).is_file():
        if not (target if path.is_file() else source).endswith(".py"):
            raise MissingTargetError(f"{target} is no Python file")
        return [target]
    if any(mark in source for mark in WILD):
        return _matching(target)
    if "/" in source or source.endswith(".py"):
        there = path.exists() or Path(source).exists()
        raise MissingTargetError(f"{target} {'is neither a file nor a folder' if there else 'does not exist'}")
    if not all(part.isidentifier() for part in source.split(".")) or not _module_exists(source):
        raise MissingTargetError(f"{target} is neither a file, a folder nor a module that can be found")
    return [target]


def _required(specification: str) -> str:
    """The specification, whose library is there."""
    try:
        zoo.require(specification)
    except zoo.ZooError as error:
        raise MissingTargetError(str(error)) from error
    return specification


def _listed(file: Path) -> list[str]:
    """What the TARGETs of a list stand for, each once."""
    try:
        table = config.in_file(file)
        if table is None:
            raise MissingTargetError(f"{file} is the configuration of a project, and no list of targets")
        table.only(["targets"])
        targets = table.strings("targets") or ()
    except config.ConfigError as error:
        raise MissingTargetError(str(error)) from error
    if not targets:
        raise MissingTargetError(f'{file} lists no target: write targets = ["cases.py", "hf:bert"]')
    found: dict[str, None] = {}
    for target in targets:
        try:
            found.update(dict.fromkeys(_of_list(file, target)))
        except MissingTargetError as error:
            raise MissingTargetError(f"{table.place('targets', target)}: {error}") from error
    return list(found)


def _of_list(file: Path, target: str) -> list[str]:
    """What one TARGET of a list stands for."""
    if Path(target).suffix == ".toml":
        raise MissingTargetError(f"{target} is a list, and lists hold none")
    near = str(file.parent / target)
    path = near if near.endswith(".py") else near.rpartition(":")[0] or near
    is_path = not zoo.is_specification(target) and ("/" in target or Path(near).exists() or Path(path).exists())
    return expand(near if is_path else target)


def _in_folder(folder: Path, target: str) -> list[str]:
    files = [str(file) for file in _python_files(folder) if _may_hold_cases(file)]
    if not files:
        raise MissingTargetError(
            f"{target} holds no model case: no ModelCase, no @export_case, no build() with inputs()"
        )
    return files


def _matching(target: str) -> list[str]:
    """The files that a path with wildcards stands for, each with the name after it."""
    pattern, _, name = target.rpartition(":") if not target.endswith(".py") else (target, "", "")
    pattern, name = (pattern, name) if pattern else (target, "")
    matches = [Path(match) for match in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207 - Path.glob takes no absolute pattern
    files = [file for m in matches for file in (_python_files(m) if m.is_dir() else [m] * (m.suffix == ".py"))]
    if not files:
        raise MissingTargetError(f"{target} matches no Python file")
    wanted = [file for file in dict.fromkeys(files) if (_defines(file, name) if name else _may_hold_cases(file))]
    if not wanted:
        what = f"something called {name}" if name else "a model case"
        raise MissingTargetError(f"{target} matches {counted(len(files), 'file')}, of which none holds {what}")
    return [f"{file}:{name}" if name else str(file) for file in wanted]


def _defines(file: Path, name: str) -> bool:
    """Whether the file defines something at its top that is called so; the name may hold wildcards."""
    tree = parsed(str(file))
    if tree is None:
        return True  # the import will say what is wrong with it
    return any(fnmatch.fnmatchcase(found, name) for found in _names(tree))


def _names(tree: ast.Module) -> set[str]:
    """What a module defines at its top."""
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return names | {
        t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)
    }


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
        if is_passed_over(path):
            continue
        if path.is_dir() and not path.is_symlink():
            found += _python_files(path)
        elif path.suffix == ".py" and path.is_file():
            found.append(path)
    return found


def is_passed_over(path: Path) -> bool:
    """Whether nothing in a folder is the project's own: hidden ones, environments, and what tools make."""
    return path.name.startswith(".") or path.name in SKIPPED_FOLDERS or (path / "pyvenv.cfg").is_file()


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
    imports = {a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
    uses = {"ModelCase", "export_case"} & imports or any(
        isinstance(node, ast.Attribute) and node.attr in ("ModelCase", "export_case") for node in ast.walk(tree)
    )
    return bool(uses) or {"build", "inputs"} <= _names(tree)
