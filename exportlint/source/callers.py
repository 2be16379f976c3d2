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

import msgspec

from exportlint.source import layout
from exportlint.source.cache import Contents
from exportlint.source.discover import below
from exportlint.source.files import UnreadableError, content, decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_GAP = r"(?:[ \t]|\\\r?\n)"  # between words, over the end of a line where a backslash says so
_IMPORT = re.compile(
    rf"(?:^|[;:]){_GAP}*(?:from{_GAP}+(?P<dots>\.*){_GAP}*(?P<origin>[\w.]*){_GAP}+import{_GAP}*"
    r"(?P<names>\((?:[^)#]|#[^\n]*)*\)|(?:[^\n\\;#]|\\\r?\n)*)"
    rf"|import{_GAP}+(?P<modules>(?:[^\n\\;#]|\\\r?\n)*))",
    re.MULTILINE,
)
_DEFINES = re.compile(r"^[ \t]*(?:class|def|async def)[ \t]+(\w+)", re.MULTILINE)
_ASSIGNS = re.compile(r"^[ \t]{0,4}(\w+)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
_WORD = re.compile(r"\w+")
_GENERATED = re.compile(
    r"^#[ \t]*(?:this (?:file|module|code) (?:was|is|has been) )?(?:auto(?:matically |-)?)?generated "
    r"(?:automatically )?from (?:[\w./-]*/)?(\w+\.py)\.?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_HEAD = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*")
_MODEL = re.compile(r"^[ \t]+(?:async )?def forward\b|^def build\b", re.MULTILINE)
_DERIVES = re.compile(r"^[ \t]*class[ \t]+\w+[ \t]*\(", re.MULTILINE)
_STEPS = 3  # imports between a model and a helper that it is followed through
_FOLLOWED = 32  # callers of one file that are run for it


class Import(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``from origin import name``; ``import origin`` where the name is empty. The origin is absolute."""

    origin: str
    name: str
    bound: str


class Outline(msgspec.Struct, array_like=True, gc=False):
    """What the text of a file says of its place among the others.

    Attributes:
        digest: Digest of the file.
        name: Its dotted name.
        imports: What it imports.
        defines: The names that it binds.
        used: Of a package, the imports that it does more with than to hand them on; ``None`` for other files.
        model: Whether it has a model of its own.
        heir: Whether it has none, and classes that may inherit one.
        code: Whether it defines functions or classes.
        sources: The files that it says it was generated from.
        cases: Whether it may declare model cases, of models that lie elsewhere.
    """

    digest: str
    name: str
    imports: list[Import] = []
    defines: frozenset[str] = frozenset()
    used: list[Import] | None = None
    model: bool = False
    heir: bool = False
    code: bool = False
    sources: list[str] = []
    cases: bool = False


@dataclass(slots=True, eq=False)
class Callers:
    """Reverse imports, for one package after another.

    Attributes:
        contents: What files hold.
        outlines: What is known of files, by path, with what earlier runs found out.
        learnt: Whether something was added to it.
        below: The files of a project that are below a folder.
    """

    contents: Contents = field(default_factory=Contents)
    outlines: dict[str, Outline] = field(default_factory=dict)
    learnt: bool = False
    below: Callable[[Path], Iterable[Path]] = below
    _beginnings: dict[Path, Path | None] = field(default_factory=dict)
    _projects: dict[Path, dict[Path, None]] = field(default_factory=dict)
    _graphs: dict[Path, _Graph] = field(default_factory=dict)
    _folders: dict[str, _Graph] = field(default_factory=dict)
    _declaring: dict[Path, dict[str, Outline]] = field(default_factory=dict)

    def of(self, path: Path) -> list[Path]:
        """The files with models, other than this one, that are followed into the file; in the order of their paths."""
        return list(map(Path, self.into(os.path.realpath(path))))

    def into(self, real: str) -> list[str]:
        """The same by real paths."""
        folder = real.rpartition(os.sep)[0]
        if folder not in self._folders:
            self._folders[folder] = self._around(Path(real))
        graph = self._folders[folder]
        outline = graph.outlines.get(real)
        return graph.callers(real) if outline is None or outline.code else []

    def importing(self, real: str) -> list[str]:
        """The files of the project that import from the file at a real path, re-exports followed."""
        self.into(real)
        return sorted(self._folders[real.rpartition(os.sep)[0]].importing(real))

    def _around(self, path: Path) -> _Graph:
        root = layout.top(path.parent, os.path.isfile)
        package = path.relative_to(root).parts[0] if path.parent != root else ""
        begins = self._begins(root)
        found = self._whole(begins) if begins and not layout.is_test((root / package).relative_to(begins)) else {}
        within = begins if path in found else None  # what the settings pass over is no part of the project
        key = within or root / package
        if key not in self._graphs:
            paths = list(found) if within else layout.beside(root, package)
            self._graphs[key] = self._graph(root, paths, begins or root)
        return self._graphs[key]

    def _begins(self, root: Path) -> Path | None:
        if root not in self._beginnings:
            self._beginnings[root] = None if layout.is_installed(root) else layout.project(root, os.path.isfile)
        return self._beginnings[root]

    def _whole(self, begins: Path) -> dict[Path, None]:
        if begins not in self._projects:
            self._projects[begins] = dict.fromkeys(layout.whole(begins, self.below))
        return self._projects[begins]

    def _graph(self, root: Path, paths: list[Path], begins: Path) -> _Graph:
        """The imports of the files of a project, and of those that declare cases."""
        tops: dict[Path, Path] = {}
        found, files = dict[str, Outline](), defaultdict[str, list[str]](list)
        for path in sorted(paths):
            if path.parent not in tops:
                tops[path.parent] = layout.top(path.parent, os.path.isfile)
            name = str(path)
            outline = found[name] = self._outline(name, _dotted(name, tops[path.parent]))
            around = (Path(top) for top in layout.tops(begins) if path.is_relative_to(top))
            for dotted in {outline.name, *(_dotted(name, top) for top in around)}:
                files[dotted].append(name)
        roots = {str(path): str(tops[path.parent]) for path in paths}
        return _Graph({**self._cases(root), **found}, files, roots)

    def _cases(self, root: Path) -> dict[str, Outline]:
        """The files beside the packages at a root that declare model cases; no other file imports them."""
        if root not in self._declaring:
            paths = {str(path): layout.top(path.parent, os.path.isfile) for path in layout.declaring(root)}
            found = {path: self._outline(path, _dotted(path, own)) for path, own in sorted(paths.items())}
            self._declaring[root] = {path: outline for path, outline in found.items() if outline.cases}
        return self._declaring[root]

    def _outline(self, path: str, name: str) -> Outline:
        known = self.outlines.get(path)
        data, digest = self.contents.read(path)
        if known is None or known.name != name or known.digest != digest:
            known = self.outlines[path] = _outline(data, digest, name, os.path.basename(path))  # noqa: PTH119 - a string
            self.learnt = True
        return known


@dataclass(slots=True, eq=False)
class _Graph:
    outlines: dict[str, Outline]  # by path
    files: Mapping[str, list[str]]  # paths by dotted name, of those that others may import
    roots: Mapping[str, str]  # by path, the folder from which the dotted name of a file counts
    importers: dict[str, set[str]] | None = None
    _targets: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    _bound: dict[str, dict[str, list[Import]]] = field(default_factory=dict)

    def callers(self, path: str) -> list[str]:
        """Files with models that lead into a file, the nearest first; not through other models, which speak for it."""
        found: list[str] = []
        seen, ring = {path}, [path]
        for _ in range(_STEPS):
            ring = sorted({i for each in ring for i in self._importing().get(each, ())} - seen)
            seen.update(ring)
            models = [each for each in ring if self.outlines[each].model]
            heirs = [each for each in ring if self.outlines[each].heir]
            for kind in (models, heirs):
                found += _spread(kind, _FOLLOWED - len(found))
            ring = [each for each in ring if not self.outlines[each].model]
        return sorted(found)

    def importing(self, path: str) -> set[str]:
        """The files that import from a file."""
        return self._importing().get(path, set())

    def _importing(self) -> dict[str, set[str]]:
        if self.importers is None:
            self.importers = defaultdict(set)
            templates = {f"{_folder(path)}{name}" for path, o in self.outlines.items() for name in o.sources}
            for importer, outline in self.outlines.items():
                if importer in templates:  # what runs is the file that was generated from it
                    continue
                for each in outline.imports if outline.used is None else outline.used:
                    for target in self.targets(each.origin, each.name, self.roots.get(importer, "")):
                        self.importers[target].add(importer)
        return self.importers

    def targets(self, origin: str, name: str, root: str) -> list[str]:
        """The files that may define what an import brings, re-exports followed.

        Of files of one name, that below the importer's own `root` counts.
        """
        key = (origin, name, root)
        if key not in self._targets:
            self._targets[key] = list(self._followed(origin, name, root, set()))
        return self._targets[key]

    def _followed(self, origin: str, name: str, root: str, seen: set[tuple[str, str]]) -> Iterator[str]:
        if (origin, name) in seen:
            return
        seen.add((origin, name))
        inner = self._named(f"{origin}.{name}", root) if name else ()
        if inner:
            yield from inner
            return
        for path in self._named(origin, root):
            if not name or name == "*" or name in self.outlines[path].defines:
                yield path
            for each in self._binding(path, name) if name else ():
                yield from self._followed(each.origin, name if each.name == "*" else each.name, root, seen)

    def _named(self, dotted: str, root: str) -> Sequence[str]:
        found = self.files.get(dotted, ())
        own = [path for path in found if _dotted(path, Path(root)) == dotted] if len(found) > 1 else []
        return own or found

    def _binding(self, path: str, name: str) -> list[Import]:
        """The imports of a file that may bind a name."""
        if name == "*":
            return self.outlines[path].imports
        if path not in self._bound:
            bound = self._bound[path] = defaultdict(list)
            for each in self.outlines[path].imports:
                bound[each.bound].append(each)
        return [*self._bound[path].get(name, ()), *self._bound[path].get("*", ())]


@dataclass(slots=True, eq=False)
class Generated:
    """Which files others beside them say that they were generated from.

    Attributes:
        outlines: What is known of files as they are now; others are read.
    """

    outlines: Mapping[str, Outline] = field(default_factory=dict)
    _folders: dict[str, frozenset[str]] = field(default_factory=dict)

    def is_source(self, real: str) -> bool:
        """Whether a file beside the one at a real path was generated from it: what runs is that file."""
        folder, _, name = real.rpartition(os.sep)
        if folder not in self._folders:
            files = Path(folder or os.sep).glob("*.py")
            self._folders[folder] = frozenset(name for file in files for name in self._sources(file))
        return name in self._folders[folder]

    def _sources(self, path: Path) -> list[str]:
        known = self.outlines.get(str(path))
        if known is not None:
            return known.sources
        try:
            return _sources(decoded(content(path)), path.name)
        except (OSError, ValueError, UnreadableError):
            return []


def _sources(text: str, own: str) -> list[str]:
    """The files that a file with classes says it was generated from, each in a line of its own of its first comment."""
    head = _HEAD.match(text.replace("\r\n", "\n") if "\r" in text else text)
    names = _GENERATED.findall(head[0]) if head is not None else []
    return [name for name in names if name != own] if _DERIVES.search(text) else []


def _folder(path: str) -> str:
    """The folder of a file, with the separator at its end."""
    return path[: path.rfind(os.sep) + 1]


def _dotted(path: str, root: Path) -> str:
    """The dotted name of a file, counted from a folder."""
    dotted = path.removeprefix(f"{root}{os.sep}").removesuffix(".py").replace(os.sep, ".")
    return "" if dotted == "__init__" else dotted.removesuffix(".__init__")


def _outline(data: bytes, digest: str, name: str, own: str) -> Outline:
    is_package = own == "__init__.py"
    try:
        text = decoded(data)
    except UnreadableError:
        return Outline(digest, name)
    defined = _DEFINES.findall(text)
    cases = layout.may_declare(text)
    model = cases or _MODEL.search(text) is not None
    imports = list(_imports(text, name if is_package else name.rpartition(".")[0]))
    used = (_used(imports, text) if defined else []) if is_package else None
    return Outline(
        digest,
        name,
        imports,
        frozenset([*defined, *_ASSIGNS.findall(text)]),
        used,
        model,
        not model and _DERIVES.search(text) is not None,
        bool(defined),
        _sources(text, own),
        cases,
    )


def _spread(paths: list[str], most: int) -> list[str]:
    """At most so many of the paths, evenly spaced."""
    if len(paths) <= most:
        return paths
    return [paths[i * len(paths) // most] for i in range(most)]


def _used(imports: list[Import], text: str) -> list[Import]:
    """The imports of names that the file does more with than to hand them on."""
    words = Counter(_WORD.findall(text))
    return [each for each in imports if words[each.bound] > 1]


def _imports(text: str, package: str) -> Iterator[Import]:
    for found in _IMPORT.finditer(text):
        if found["modules"] is not None:
            for part in found["modules"].replace("\\", " ").split(","):
                origin, _, bound = part.strip().partition(" as ")
                yield Import(origin.strip(), "", bound.strip() or origin.partition(".")[0].strip())
            continue
        origin = found["origin"]
        if found["dots"]:
            parts = package.split(".") if package else []
            kept = parts[: len(parts) - len(found["dots"]) + 1]
            origin = ".".join([*kept, origin] if origin else kept)
        for part in _COMMENT.sub("", found["names"]).replace("\\", " ").strip().strip("()").split(","):
            name, _, bound = part.strip().partition(" as ")
            if name:
                yield Import(origin, name.strip(), bound.strip() or name.strip())
