"""From a TARGET to its model cases. The code is imported, so this runs in workers only."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from exportlint import zoo
from exportlint.checks import importing, inference, variants
from exportlint.checks.case import CASES_ATTRIBUTE, UNFINISHED, ModelCase, is_unfinished
from exportlint.places import display_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType


NO_FACTORIES = frozenset({"main", "inputs", "inputs2", "kwargs", "more_inputs"})
MOST_ASKABLE = 5


class TargetError(Exception):
    """A TARGET cannot be loaded; the message is one line, fit for a user."""


def cases_of(target: str, asked: tuple[str, ...] = ()) -> list[ModelCase]:
    """The model cases of ``file.py``, ``file.py:name``, ``package.module``, ``package.module:name`` or ``hf:name``.

    They are the `ModelCase` objects and decorated factories of the module, else those of the plain convention:
    ``build()``, ``inputs()`` and optionally ``kwargs()``, ``inputs2()``, ``more_inputs()`` and ``DYNAMIC_SHAPES``.

    Args:
        target: Which.
        asked: Variants of each case, beside those that it has of its own.

    Raises:
        TargetError: When the module cannot be imported, or holds no such case.
    """
    if zoo.is_specification(target):
        try:
            return _expanded(zoo.cases(target), asked)
        except zoo.ZooError as error:
            raise TargetError(str(error)) from error
    source, name = split(target)
    module = _import(source)
    for variable, value in vars(module).items():
        if is_unfinished(value, variable, module.__name__):
            raise TargetError(f"{source}: {variable}: {UNFINISHED}")
    cases = _expanded(declared(module), asked) or _expanded(_of_convention(module, source), asked)
    if name is None:
        if not cases:
            raise TargetError(
                f"{source} holds no model case: no ModelCase, no @export_case and no build() with inputs()"
                + _askable(module, source)
            )
        return _unique(cases, source)
    chosen = [case for case in cases if name in (case.name, variants.without(case.name, asked))]
    chosen = chosen or _expanded(_named(module, name), asked) or _like(module, cases, name, asked)
    if not chosen:
        known = f"; it has: {', '.join(case.name for case in cases)}" if cases else _askable(module, source)
        raise TargetError(f"{source} holds no model case {name!r}{known or '; it has: none'}")
    return _unique(chosen, source)


def _askable(module: ModuleType, source: str) -> str:
    """Words about what may be asked for by name although nobody wrote a case for it; nothing of it is called."""
    values = vars(module).items()
    names = [name for name, value in values if name not in NO_FACTORIES and _is_factory(value, name, module)]
    shown = ", ".join(f"{source}:{name}" for name in names[:MOST_ASKABLE])
    return f"; a function or class that makes a model without arguments can be asked for: {shown}" if names else ""


def _expanded(cases: Iterable[ModelCase], asked: tuple[str, ...]) -> list[ModelCase]:
    """The cases of their methods and variants, with the variants that are asked for."""
    return [part for case in cases for part in variants.added(case, asked).expand()]


def split(target: str) -> tuple[str, str | None]:
    """The file or module of a target, and the name of a case in it."""
    source, colon, name = target.rpartition(":")
    if not colon or "/" in name or "\\" in name:
        return target, None
    return source, name


def _unique(cases: list[ModelCase], source: str) -> list[ModelCase]:
    names = [case.name for case in cases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TargetError(f"{source} has more than one model case named {twice[0]!r}: give each a name of its own")
    return cases


def declared(module: ModuleType) -> Iterator[ModelCase]:
    """ModelCase objects and decorated factories, in the order of the file, each once."""
    seen: set[int] = set()
    for value in list(vars(module).values()):
        for case in _cases_in(value, module):
            if id(case) not in seen:
                seen.add(id(case))
                yield case


def _cases_in(value: Any, module: ModuleType) -> tuple[ModelCase, ...]:
    if isinstance(value, ModelCase):
        return (value,)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, ModelCase) for item in value):
        return tuple(value)
    if callable(value) and getattr(value, "__module__", None) == module.__name__:
        return tuple(getattr(value, "__dict__", {}).get(CASES_ATTRIBUTE, ()))
    return ()


def _of_convention(module: ModuleType, source: str) -> list[ModelCase]:
    build, inputs = getattr(module, "build", None), getattr(module, "inputs", None)
    if not callable(build) or not callable(inputs):
        return []
    path = Path(source)
    if source.endswith(".py"):
        name = path.stem if path.stem != "__init__" else path.resolve().parent.name
    else:
        name = source.rpartition(".")[2]
    optional: dict[str, Any] = {
        "dynamic_shapes": getattr(module, "DYNAMIC_SHAPES", None),
        "inputs2": getattr(module, "inputs2", None),
        "more_inputs": getattr(module, "more_inputs", ()),
    }
    try:
        return [ModelCase(build, inputs, getattr(module, "kwargs", dict), name=name, **optional)]
    except (TypeError, ValueError) as error:
        raise TargetError(f"{source}: {error}") from error


def _named(module: ModuleType, name: str) -> list[ModelCase]:
    """A case by the name of the variable that holds it, or of the factory that it decorates.

    Of a factory that nobody wrote a case for, the inputs are inferred.
    """
    value = getattr(module, name, None)
    found = list(_cases_in(value, module)) if value is not None else []
    return found or ([inference.case_of(value, name)] if callable(value) else [])


def _like(module: ModuleType, cases: list[ModelCase], pattern: str, asked: tuple[str, ...]) -> list[ModelCase]:
    """The cases whose names match a pattern with wildcards, and those of factories that nobody wrote a case for."""
    values = vars(module).items()
    named = {id(c) for key, value in values if fnmatchcase(key, pattern) for c in _cases_in(value, module)}
    held = _expanded([case for case in declared(module) if id(case) in named], asked)
    written = [c for c in cases if fnmatchcase(c.name, pattern)]
    known = {case.name for case in written}
    written += [case for case in held if case.name not in known]
    plain = [key for key, value in values if fnmatchcase(key, pattern) and _is_factory(value, key, module)]
    return written + _expanded([inference.case_of(getattr(module, key), key) for key in plain], asked)


def _is_factory(value: Any, name: str, module: ModuleType) -> bool:
    """Whether something that a module defines may be called for a model, by its parameters and annotations."""
    from torch import nn

    if not inspect.isroutine(value) and not inspect.isclass(value):
        return False
    if name.startswith("_") or value.__module__ != module.__name__ or CASES_ATTRIBUTE in vars(value):
        return False
    if inspect.isclass(value) and not issubclass(value, nn.Module):
        return False
    try:
        parameters = inspect.signature(value).parameters.values()
        returned = value if inspect.isclass(value) else get_type_hints(value).get("return", nn.Module)
    except Exception:  # annotations that cannot be resolved say nothing
        return False
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return not needed and (returned is Any or (inspect.isclass(returned) and issubclass(returned, nn.Module)))


def _import(source: str) -> ModuleType:
    """Import a file or a module.

    Raises:
        TargetError: When that raises anything, with the exception and its line.
    """
    try:
        with importing.noted():
            if source.endswith(".py") or "/" in source:
                return _import_file(Path(source))
            sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(source)
    except TargetError:
        raise
    except (Exception, SystemExit) as error:
        from exportlint import blame

        place = blame.place_of(error)
        where = f" (at {_shown(Path(place.file))}:{place.line})" if place is not None else ""
        raise TargetError(f"{source} cannot be imported: {blame.words(error)}{where}") from error


def _shown(file: Path) -> str:
    """The path as reports write it; outside of the working directory from the file's package on."""
    shown, root = Path(display_path(str(file))), file.parent
    while (root / "__init__.py").is_file() and root.parent != root:
        root = root.parent
    return file.relative_to(root).as_posix() if shown.is_absolute() else shown.as_posix()


def _import_file(path: Path) -> ModuleType:
    """Import a file as the module that it is in its package, so that its own imports work."""
    path = path.resolve()
    if not path.is_file():
        raise TargetError(f"{path} {'is no file' if path.exists() else 'does not exist'}")
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        root, parts = root.parent, [root.name, *parts]
    sys.path.insert(0, str(root))
    _find_packages_of_project(root)
    if len(parts) == 1:
        sys.path.insert(0, str(path.parent))
        free = path.stem.isidentifier() and (_is_from(path.stem, path) or not _taken(path.stem))
        name = path.stem if free else f"exportlint_case_{path.stem}"
    else:
        name = ".".join(parts if parts[-1] != "__init__" else parts[:-1])
        importlib.import_module(name.rpartition(".")[0] or name)
    if _is_from(name, path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _find_packages_of_project(root: Path) -> None:
    """Let a file import the packages of its project, after all else: an example is not run from where they lie."""
    from exportlint.source import layout

    begins = layout.project(root, os.path.isfile)
    if begins is not None:
        sys.path += [folder for folder in layout.tops(begins) if folder not in sys.path]


def _is_from(name: str, path: Path) -> bool:
    """Whether the module of this name was imported from this file."""
    return getattr(sys.modules.get(name), "__file__", None) == str(path)


def _taken(name: str) -> bool:
    return name in sys.modules or name in sys.stdlib_module_names
