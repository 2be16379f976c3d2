"""Which files of a project may lead a model into a file: those that import from it, and those that import from these.

Imports are found by their text, since a whole package is looked through before one file of it is linted. Of a helper
that hundreds of models share, the nearest callers are followed and a spread of the farthest: what the others would add
is not worth minutes, and which ones are followed depends on nothing but the project.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.source.files import UnreadableError, read

if TYPE_CHECKING:
    from collections.abc import Iterator

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<dots>\.*)[ \t]*(?P<origin>[\w.]*)[ \t]+import[ \t]*(?P<names>\([^)]*\)|(?:[^\n\\]|\\\n)*)"
    r"|import[ \t]+(?P<modules>[^\n]*))",
    re.MULTILINE,
)
_DEFINES = re.compile(r"^[ \t]*(?:class|def|async def)[ \t]+(\w+)", re.MULTILINE)
_ASSIGNS = re.compile(r"^[ \t]{0,4}(\w+)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
_WORD = re.compile(r"\w+")
_GENERATED = re.compile(r"generated (?:automatically )?from (?:[\w./]*/)?(\w+\.py)")
_MODEL = re.compile(r"^[ \t]+(?:async )?def forward\b|^def build\b", re.MULTILINE)
_DERIVES = re.compile(r"^[ \t]*class[ \t]+\w+[ \t]*\(", re.MULTILINE)
_HEAD = 1500
_STEPS = 3  # imports between a model and a helper that it is followed through
_FOLLOWED = 32  # callers of one file that are run for it


@dataclass(frozen=True, slots=True)
class _Import:
    """``from origin import name``; ``import origin`` where the name is empty. The origin is absolute."""

    origin: str
    name: str
    bound: str


@dataclass(slots=True, eq=False)
class Callers:
    """Reverse imports, for one package after another."""

    _roots: dict[str, _Graph] = field(default_factory=dict)

    def of(self, path: Path) -> list[Path]:
        """The files with models, other than this one, that are followed into the file; in the order of their paths."""
        real = Path(os.path.realpath(path))
        return [Path(p) for p in self._around(real).callers(str(real))]

    def _around(self, path: Path) -> _Graph:
        root = _root(path)
        package = path.relative_to(root).parts[0] if path.parent != root else ""
        key = str(root / package)
        if key not in self._roots:
            self._roots[key] = _graph(root, package)
        return self._roots[key]


@dataclass(slots=True, eq=False)
class _Graph:
    files: dict[str, str] = field(default_factory=dict)  # path by dotted name
    imports: dict[str, tuple[_Import, ...]] = field(default_factory=dict)  # by path
    defines: dict[str, frozenset[str]] = field(default_factory=dict)  # by path
    handing: dict[str, tuple[_Import, ...]] = field(default_factory=dict)  # what those that hand on names use of them
    models: set[str] = field(default_factory=set)  # paths of those with a model of their own
    heirs: set[str] = field(default_factory=set)  # paths of those with classes that may inherit one
    importers: dict[str, set[str]] | None = None

    def callers(self, path: str) -> list[str]:
        """Files with models that lead into a file, the nearest first; not through other models, which speak for it."""
        found: list[str] = []
        seen, ring = {path}, [path]
        for _ in range(_STEPS):
            ring = sorted({i for each in ring for i in self._importing().get(each, ())} - seen)
            seen.update(ring)
            for kind in (self.models, self.heirs):
                found += _spread([each for each in ring if each in kind], _FOLLOWED - len(found))
            ring = [each for each in ring if each not in self.models]
        return sorted(found)

    def _importing(self) -> dict[str, set[str]]:
        if self.importers is None:
            self.importers = defaultdict(set)
            for importer, imports in self.imports.items():
                for each in self.handing.get(importer, imports):
                    for target in self.targets(each.origin, each.name, set()):
                        self.importers[target].add(importer)
        return self.importers

    def targets(self, origin: str, name: str, seen: set[tuple[str, str]]) -> Iterator[str]:
        """The files that may define what an import brings, re-exports followed."""
        if (origin, name) in seen:
            return
        seen.add((origin, name))
        inner = self.files.get(f"{origin}.{name}") if name else None
        if inner is not None:
            yield inner
            return
        path = self.files.get(origin)
        if path is None:
            return
        if not name or name == "*" or name in self.defines[path]:
            yield path
        for each in self.imports[path]:
            if name and (each.bound in (name, "*") or name == "*"):
                yield from self.targets(each.origin, name if each.name == "*" else each.name, seen)


@dataclass(slots=True, eq=False)
class Generated:
    """Which files others beside them say that they were generated from."""

    _folders: dict[Path, frozenset[str]] = field(default_factory=dict)

    def is_source(self, path: Path) -> bool:
        """Whether a file beside it was generated from this one: what runs is that file."""
        folder = Path(os.path.realpath(path)).parent
        if folder not in self._folders:
            heads = (_head(file) for file in sorted(folder.glob("*.py")))
            self._folders[folder] = frozenset(name for head in heads for name in _GENERATED.findall(head))
        return path.name in self._folders[folder]


def _head(path: Path) -> str:
    """The first lines of a file, as one line."""
    try:
        with path.open("rb") as stream:
            return " ".join(stream.read(_HEAD).decode("utf-8", "replace").split())
    except OSError:
        return ""


def _root(path: Path) -> Path:
    """The folder from which the file's dotted name counts."""
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def _graph(root: Path, package: str) -> _Graph:
    """The imports of the files at the root, and of those in one package there."""
    graph = _Graph()
    paths = [p for p in root.glob("*.py") if p.is_file()]
    if package:
        paths += (root / package).rglob("*.py")
    for path in sorted(paths):
        parts = path.relative_to(root).with_suffix("").parts
        dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        graph.files[dotted] = str(path)
        try:
            text = read(path).text
        except UnreadableError:
            graph.imports[str(path)], graph.defines[str(path)] = (), frozenset()
            continue
        if _MODEL.search(text):
            graph.models.add(str(path))
        elif _DERIVES.search(text):
            graph.heirs.add(str(path))
        defined = _DEFINES.findall(text)
        graph.defines[str(path)] = frozenset([*defined, *_ASSIGNS.findall(text)])
        package = dotted if parts[-1] == "__init__" else dotted.rpartition(".")[0]
        graph.imports[str(path)] = tuple(_imports(text, package))
        if parts[-1] == "__init__":
            graph.handing[str(path)] = _used(graph.imports[str(path)], text) if defined else ()
    return graph


def _spread(paths: list[str], most: int) -> list[str]:
    """At most so many of the paths, evenly spaced."""
    if len(paths) <= most:
        return paths
    return [paths[i * len(paths) // most] for i in range(most)]


def _used(imports: tuple[_Import, ...], text: str) -> tuple[_Import, ...]:
    """The imports of names that the file does more with than to hand them on."""
    words = Counter(_WORD.findall(text))
    return tuple(each for each in imports if words[each.bound] > 1)


def _imports(text: str, package: str) -> Iterator[_Import]:
    for found in _IMPORT.finditer(text):
        if found["modules"] is not None:
            for part in found["modules"].split(","):
                origin, _, bound = part.split("#")[0].strip().partition(" as ")
                yield _Import(origin.strip(), "", bound.strip() or origin.partition(".")[0].strip())
            continue
        origin = found["origin"]
        if found["dots"]:
            parts = package.split(".") if package else []
            kept = parts[: len(parts) - len(found["dots"]) + 1]
            origin = ".".join([*kept, origin] if origin else kept)
        for part in _COMMENT.sub("", found["names"]).replace("\\", " ").strip().strip("()").split(","):
            name, _, bound = part.strip().partition(" as ")
            if name:
                yield _Import(origin, name.strip(), bound.strip() or name.strip())
