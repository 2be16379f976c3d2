"""The project around a file: which name means what, across files, and which classes are modules.

Only files of the file's own package, and files beside it, are followed: what happens to be installed where the linter
runs changes no finding. A file that declares model cases, such as one of tests, sees the packages of its repository.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exportlint.source import layout
from exportlint.source.facts import facts
from exportlint.source.files import UnreadableError
from exportlint.source.index import ClassEntry, FunctionEntry, ModuleIndex, index

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

_FRAMEWORK = frozenset({"torch", "numpy", "scipy", "functools", "typing", *sys.stdlib_module_names})
_BUILTINS = frozenset(dir(builtins))
_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Assigned:
    """A name that a module binds by an assignment."""

    module: ModuleIndex
    name: str


@dataclass(frozen=True, slots=True)
class Outside:
    """A name that lies outside the project; `dotted` is its canonical name as far as imports tell."""

    dotted: str


Target = ClassEntry | FunctionEntry | ModuleIndex | Assigned | Outside


ABSENT, PRESENT = "-", "+"
"""What is noted of a file of which no more was asked than whether it is there."""
Reads = dict[str, str]
"""Digests of the files that something was found out from, by real path; with a question mark before it, whether it is
there."""


@dataclass(slots=True, eq=False)
class Project:
    """Files by path, indexed when they are first asked for; what is found out is remembered with what was read for it.

    Attributes:
        bases: Further dotted names of classes that count as modules, from the configuration.
        predicates: Dotted names of functions that answer yes while a model is captured, from the configuration.
        entry_points: Dotted names, with ``*`` for any part, of functions and methods that are captured.
        tensor_types: Dotted names of annotations that mean a tensor.
        given: What files hold whose text was handed over, by real path.
    """

    bases: frozenset[str] = frozenset()
    predicates: frozenset[str] = frozenset()
    entry_points: frozenset[str] = frozenset()
    tensor_types: frozenset[str] = frozenset()
    given: Mapping[str, bytes] = field(default_factory=dict)
    _modules: dict[str, ModuleIndex | UnreadableError] = field(default_factory=dict)
    _memory: dict[Hashable, tuple[Any, Reads]] = field(default_factory=dict)
    _trail: list[Reads] = field(default_factory=lambda: [{}])
    _noted: set[Hashable] = field(default_factory=set)
    _there: dict[str, bool] = field(default_factory=dict)
    _roots: dict[int, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Note anew what is read."""
        self._trail = [{}]
        self._noted.clear()

    @property
    def reads(self) -> Reads:
        """What was read since the beginning."""
        return self._trail[0]

    @property
    def held(self) -> int:
        """How many lines there are whose trees are in memory."""
        return sum(module.held for module in self._modules.values() if isinstance(module, ModuleIndex))

    def let_go(self) -> None:
        """Forget trees until they are asked for again."""
        for module in self._modules.values():
            if isinstance(module, ModuleIndex):
                module.let_go()

    def _remembered(self, key: Hashable, meanwhile: Any, find: Callable[[], Any]) -> Any:
        """What was found out before, or is now; meanwhile another answer is given, which cuts circles."""
        known = self._memory.get(key)
        if known is None:
            self._memory[key] = (meanwhile, {})
            self._trail.append({})
            try:
                known = (find(), self._trail[-1])
            except BaseException:
                del self._memory[key]
                raise
            finally:
                self._trail.pop()
            self._memory[key] = known
        if len(self._trail) > 1:
            self._trail[-1].update(known[1])
        elif key not in self._noted:
            self._noted.add(key)
            self._trail[0].update(known[1])
        return known[0]

    def module(self, path: Path) -> ModuleIndex:
        """The index of a file.

        Raises:
            UnreadableError: When it cannot be read, or is not Python.
        """
        found = self._remembered(("module", path), None, lambda: self._module(os.path.realpath(path)))
        if isinstance(found, UnreadableError):
            raise found
        return found  # type: ignore[no-any-return]

    def _module(self, key: str) -> ModuleIndex | UnreadableError:
        if key not in self._modules:
            try:
                self._modules[key] = index(Path(key), self._dotted_name(Path(key)), self.given.get(key))
            except UnreadableError as error:
                self._modules[key] = error
        found = self._modules[key]
        self._trail[-1][key] = found.digest if isinstance(found, UnreadableError) else found.source.digest
        self._dotted_name(Path(key))
        return found

    def _is_file(self, path: str) -> bool:
        there = self._there.get(path)
        if there is None:
            there = self._there[path] = os.path.isfile(path)  # noqa: PTH113 - asked often
        self._trail[-1][f"?{path}"] = PRESENT if there else ABSENT
        return there

    def _dotted_name(self, path: Path) -> str:
        packages = path.parent.relative_to(layout.top(path.parent, self._is_file)).parts
        return ".".join(packages if path.name == "__init__.py" else (*packages, path.stem))

    def find(self, dotted: str, near: ModuleIndex) -> ModuleIndex | None:
        """The project's file for a dotted module name, seen from a file of the project."""
        head = dotted.partition(".")[0]
        if not dotted or head in _FRAMEWORK:
            return None
        own = self._root(near)
        around = self._around(own)
        roots = [own] if around or not near.package or head == near.package.partition(".")[0] else []
        roots += [root for root in (*around, *self._further_roots(near)) if root not in roots]
        bases = (f"{root}{os.sep}{dotted.replace('.', os.sep)}" for root in roots)
        found = (self._remembered(("find", base), None, partial(self._found, base)) for base in bases)
        return next((each for each in found if each is not None), None)

    def _found(self, base: str) -> ModuleIndex | None:
        for candidate in (f"{base}{os.sep}__init__.py", f"{base}.py"):
            if self._is_file(candidate):
                try:
                    return self.module(Path(candidate))
                except UnreadableError:
                    return None
        return None

    def _root(self, near: ModuleIndex) -> str:
        """The folder from which dotted names count, seen from a file."""
        if id(near) not in self._roots:
            above = near.package.count(".") + 1 if near.package else 0
            self._roots[id(near)] = str(near.source.path.parents[above])
        return self._roots[id(near)]

    def _around(self, root: str) -> tuple[str, ...]:
        """The folders in which the packages of the project lie that holds a root; none for installed packages."""

        def find() -> tuple[str, ...]:
            if layout.is_installed(Path(root)):
                return ()
            begins = layout.project(Path(root), self._is_file)
            return (root, *(layout.tops(begins) if begins is not None else ()))

        return self._remembered(("around", root), (), find)  # type: ignore[no-any-return]

    def _further_roots(self, near: ModuleIndex) -> tuple[str, ...]:
        """The folders in which a file that declares model cases finds packages besides its own."""

        def find() -> tuple[str, ...]:
            if not layout.may_declare(near.source.text):
                return ()
            return tuple(layout.roots(Path(self._root(near)), self._is_file))

        return self._remembered(("roots", id(near)), (), find)  # type: ignore[no-any-return]

    def resolve(self, module: ModuleIndex, name: str) -> Target | None:
        """What a dotted name means in a module; ``None`` for a name that nothing binds."""
        key = (id(module), name)
        return self._remembered(key, None, lambda: self._resolve(module, name, _DEPTH))  # type: ignore[no-any-return]

    def member(self, module: ModuleIndex, name: str) -> Target | None:
        """What an attribute of a file is: a name that the file binds, or a file of the package."""
        key = ("member", id(module), name)
        return self._remembered(key, None, lambda: self._member(module, name, _DEPTH))  # type: ignore[no-any-return]

    def _resolve(self, module: ModuleIndex, name: str, depth: int) -> Target | None:
        head, _, rest = name.partition(".")
        target = self._head(module, head, depth)
        while rest and target is not None:
            head, _, rest = rest.partition(".")
            target = self._member(target, head, depth)
        return target

    def _head(self, module: ModuleIndex, name: str, depth: int) -> Target | None:
        if depth < 0:
            return None
        defined: Target | None = module.classes.get(name) or module.functions.get(name)
        if defined is not None:
            return defined
        if name in module.imports:
            return self._imported(module, module.imports[name], depth)
        if name in module.assigned:
            return Assigned(module, name)
        found = self._starred(module, name, depth)
        if found is None and name in _BUILTINS:
            return Outside(f"builtins.{name}")
        return found

    def _starred(self, module: ModuleIndex, name: str, depth: int) -> Target | None:
        for star in module.stars:
            origin = self.find(star, module)
            if origin is None and star.partition(".")[0] == "torch" and name not in _BUILTINS:
                return Outside(canonical(f"{star}.{name}"))
            found = self._head(origin, name, depth - 1) if origin is not None and origin is not module else None
            if found is not None and not (isinstance(found, Outside) and found.dotted.startswith("builtins.")):
                return found
        return None

    def imported(self, module: ModuleIndex, dotted: str) -> Target:
        """What an import of this dotted name means in a module."""
        return self._imported(module, dotted, _DEPTH)

    def _imported(self, module: ModuleIndex, dotted: str, depth: int) -> Target:
        found = self.find(dotted, module)
        if found is not None:
            return found
        parent, _, name = dotted.rpartition(".")
        origin = self.find(parent, module) if parent else None
        if origin is not None and origin is not module:
            return self._head(origin, name, depth - 1) or Outside(dotted)
        return Outside(canonical(dotted))

    def _member(self, target: Target, name: str, depth: int) -> Target | None:
        if isinstance(target, Outside):
            return Outside(canonical(f"{target.dotted}.{name}"))
        if isinstance(target, ModuleIndex):
            found = self._head(target, name, depth - 1)
            if found is None or (isinstance(found, Outside) and found.dotted.startswith("builtins.")):
                return self.find(f"{target.name}.{name}", target)
            return found
        return target.methods.get(name) if isinstance(target, ClassEntry) else None

    def entries(self, module: ModuleIndex) -> Iterator[tuple[FunctionEntry, ClassEntry | None]]:
        """The functions of a file, and the methods with their classes, that the configuration says are captured."""
        if self.entry_points:
            for function in module.functions.values():
                if self._is_entry(f"{module.name}.{function.name}"):
                    yield function, None
            for cls in module.all_classes:
                for method in cls.methods.values():
                    if self._is_entry(f"{module.name}.{cls.name}.{method.name}"):
                        yield method, cls

    def _is_entry(self, dotted: str) -> bool:
        return any(fnmatchcase(dotted, pattern) for pattern in self.entry_points)

    def is_tensor_type(self, module: ModuleIndex, name: str) -> bool:
        """Whether a dotted name in a module is an annotation that the configuration says means a tensor."""
        target = self.resolve(module, name) if self.tensor_types and name else None
        if isinstance(target, (ClassEntry, Assigned)):
            return f"{target.module.name}.{target.name}" in self.tensor_types
        return isinstance(target, Outside) and target.dotted in self.tensor_types

    def lineage(self, cls: ClassEntry) -> tuple[tuple[ClassEntry, ...], tuple[str, ...]]:
        """The class and its bases in the project, nearest first, and the dotted names of its bases outside of it."""
        return self._remembered(id(cls), ((cls,), ()), lambda: self._lineage(cls))  # type: ignore[no-any-return]

    def _lineage(self, cls: ClassEntry) -> tuple[tuple[ClassEntry, ...], tuple[str, ...]]:
        inside, outside = [cls], []
        for base in cls.bases:
            target = self.resolve(cls.module, base)
            if isinstance(target, ClassEntry):
                further, names = self.lineage(target)
                inside += [c for c in further if c not in inside]
                outside += [n for n in names if n not in outside]
            else:
                outside.append(target.dotted if isinstance(target, Outside) else f"?.{base}")
        return tuple(inside), tuple(outside)

    def is_module(self, cls: ClassEntry) -> bool:
        """Whether the class is an ``nn.Module``: by its bases, by the tables, or by an unknown base and a forward."""
        inside, outside = self.lineage(cls)
        known = facts()
        for name in outside:
            if known.is_module(name) or name in self.bases:
                return True
            top = name.partition(".")[0]
            if top not in _FRAMEWORK and top != "builtins" and any("forward" in c.methods for c in inside):
                return True
        return False

    def is_replaced(self, entry: FunctionEntry) -> bool:
        """Whether a decorator of the class, defined in the project, puts another function in the method's place."""
        if entry.parent is None:
            return False
        for name in entry.parent.decorators:
            decorator = self.resolve(entry.module, name)
            lines = decorator.extent.lines if isinstance(decorator, FunctionEntry) else ()
            if any(re.search(rf"\.{entry.name}[ \t]*=(?!=)", line) for line in lines):
                return True
        return False

    def method(self, cls: ClassEntry, name: str, after: ClassEntry | None = None) -> FunctionEntry | None:
        """The method of that name, as instances of the class see it; with `after`, as ``super()`` there sees it."""
        inside, _ = self.lineage(cls)
        start = inside.index(after) + 1 if after in inside else 0
        return next((c.methods[name] for c in inside[start:] if name in c.methods), None)


def canonical(dotted: str) -> str:
    """One name for what torch offers under several."""
    for long, short in (
        ("torch.nn.modules.", "torch.nn."),
        ("torch.functional.", "torch."),
        ("functorch.", "torch.func."),
    ):
        if dotted.startswith(long):
            return short + (dotted.rpartition(".")[2])
    return dotted
