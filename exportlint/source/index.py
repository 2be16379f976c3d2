"""The index of a file: what it imports and defines, and where, read from Python's own syntax tree.

The index is all that is needed to resolve names and to say which definitions can be reached. The tree is kept beside
it until it is let go, and read anew where the analysis enters the file after that.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exportlint.source.files import TOO_DEEP, SourceFile, TooDeepError, UnreadableError, holding, read
from exportlint.source.tree import bound_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exportlint.source.tree import FunctionNode

Place = tuple[int, int]
"""Where a statement begins, decorators apart: its line, and the offset in it."""

_ONLY_BIND = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """An arm of an ``if``: it runs where the test has this answer, and where the arm around it runs."""

    statement: Extent
    answer: bool
    within: Arm | None


@dataclass(frozen=True, slots=True, eq=False)
class Extent:
    """The lines of a statement, both included, counted from 1, where it begins among them, and the arm it stands in."""

    module: ModuleIndex = field(repr=False)
    first: int
    last: int
    place: Place
    arm: Arm | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines themselves."""
        return self.module.source.lines[self.first - 1 : self.last]

    @property
    def statement(self) -> ast.stmt:
        """The statement's tree."""
        return self.module.statements[self.place]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionEntry:
    """A function or method; `decorators` are dotted names, without their arguments."""

    name: str
    extent: Extent
    decorators: tuple[str, ...]
    parent: ClassEntry | None = None

    @property
    def module(self) -> ModuleIndex:
        """The file that holds the function."""
        return self.extent.module

    @property
    def node(self) -> FunctionNode:
        """Its tree."""
        return self.extent.statement  # type: ignore[return-value]


@dataclass(slots=True, eq=False)
class ClassEntry:
    """A class: the dotted names of its bases, its methods and the statements that bind its attributes."""

    name: str
    extent: Extent
    bases: tuple[str, ...]
    decorators: tuple[str, ...]
    methods: dict[str, FunctionEntry] = field(default_factory=dict)
    attributes: dict[str, Extent] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    written: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def module(self) -> ModuleIndex:
        """The file that holds the class."""
        return self.extent.module


@dataclass(slots=True, eq=False)
class ModuleIndex:
    """What a file imports and defines at its top level (in both arms of an `if` or `try`), and all of its classes.

    Attributes:
        source: The text.
        name: Dotted name inside its package.
        imports: Dotted name of the target by local name; relative imports are made absolute.
        stars: Modules of which all names are imported.
        functions: Top-level functions by name; of several with one name, the last.
        classes: Top-level classes by name.
        assigned: Statements that bind a top-level name.
        all_classes: Every class, nested ones included, in order.
    """

    source: SourceFile
    name: str
    imports: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    functions: dict[str, FunctionEntry] = field(default_factory=dict)
    classes: dict[str, ClassEntry] = field(default_factory=dict)
    assigned: dict[str, list[Extent]] = field(default_factory=dict)
    all_classes: list[ClassEntry] = field(default_factory=list)
    _statements: dict[Place, ast.stmt] = field(default_factory=dict)

    @property
    def statements(self) -> dict[Place, ast.stmt]:
        """The trees of the statements that extents point to."""
        if not self._statements:
            self._statements = {_place(s): _as_function(s) for s in _all(_parsed(self.source.text).body)}
        return self._statements

    @property
    def body(self) -> list[ast.stmt]:
        """The trees of the statements that run when the file does, definitions and imports apart."""
        tree = _parsed(self.source.text)
        return [s for s in tree.body if not isinstance(s, _ONLY_BIND)]

    @property
    def held(self) -> int:
        """How many lines there are whose trees are in memory."""
        return self.source.length if self._statements else 0

    def let_go(self) -> None:
        """Forget the trees, and the text, until they are asked for again."""
        self._statements = {}
        self.source.let_go()

    @property
    def package(self) -> str:
        """The dotted name that a relative import of one dot starts from."""
        return self.name if self.source.path.name == "__init__.py" else self.name.rpartition(".")[0]


def index(path: Path, name: str, data: bytes | None = None) -> ModuleIndex:
    """The index of a file, or of one that would hold these bytes.

    Raises:
        UnreadableError: When the file cannot be read, or is not Python.
    """
    source = read(path) if data is None else holding(path, data)
    module = ModuleIndex(source, name)
    try:
        tree = _parsed(source.text)
        for statement, arm in _top_level(module, tree.body):
            _add(module, statement, arm)
        module.all_classes = sorted(_classes(module, tree.body), key=lambda c: c.extent.first)
    except SyntaxError as error:
        message = error.msg or "invalid syntax"
        raise UnreadableError(message, error.lineno or 1, error.offset or 1, source.digest) from error
    except ValueError as error:
        raise UnreadableError(str(error), digest=source.digest) from error
    except (RecursionError, MemoryError) as error:
        raise TooDeepError(TOO_DEEP, digest=source.digest) from error
    return module


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are not ours to report
        return ast.parse(text)


def _place(node: ast.stmt) -> Place:
    return node.lineno, node.col_offset


def _all(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement; without recursion, since an ``elif`` is nested in the ``if`` before it."""
    waiting = list(body)
    while waiting:
        statement = waiting.pop()
        yield statement
        waiting += _inner(statement)


def _inner(statement: ast.stmt) -> list[ast.stmt]:
    """The statements directly inside of one."""
    found: list[ast.stmt] = []
    for arm in ("body", "orelse", "finalbody"):
        found += getattr(statement, arm, ())
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        found += part.body
    return found


def _top_level(
    module: ModuleIndex, body: list[ast.stmt], arm: Arm | None = None
) -> Iterator[tuple[ast.stmt, Arm | None]]:
    """Statements that run when the module is imported, those in arms included, with the arm of an ``if``.

    What stands in for a name that could not be imported is left out: the import is what runs where torch is.
    """
    for first in body:
        statement, within = first, arm
        while isinstance(statement, ast.If) and len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If):
            test = _extent(module, statement)
            yield from _top_level(module, statement.body, Arm(test, True, within))
            within = Arm(test, False, within)
            statement = statement.orelse[0]  # an `elif`, of which there may be more than Python recurses
        if isinstance(statement, ast.If):
            test = _extent(module, statement)
            yield from _top_level(module, statement.body, Arm(test, True, within))
            yield from _top_level(module, statement.orelse, Arm(test, False, within))
        elif isinstance(statement, (ast.Try, ast.With, ast.For, ast.While)):
            for part in ("body", "orelse", "finalbody"):
                yield from _top_level(module, getattr(statement, part, []), within)
            imported = _imports(statement.body) if isinstance(statement, ast.Try) else set()
            for handler in getattr(statement, "handlers", []):
                found = _top_level(module, handler.body, within)
                yield from (each for each in found if getattr(each[0], "name", None) not in imported)
        else:
            yield statement, within


def _imports(body: list[ast.stmt]) -> set[str]:
    """The names that import statements bind."""
    return {
        alias.asname or alias.name for s in body if isinstance(s, (ast.Import, ast.ImportFrom)) for alias in s.names
    }


def _add(module: ModuleIndex, statement: ast.stmt, arm: Arm | None) -> None:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        module.functions[statement.name] = _function(module, statement, None)
    elif isinstance(statement, ast.ClassDef):
        module.classes[statement.name] = _class(module, statement)
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            top = alias.name.partition(".")[0]
            module.imports[alias.asname or top] = alias.name if alias.asname else top
    elif isinstance(statement, ast.ImportFrom):
        _add_import_from(module, statement)
    else:
        for name in _bound(statement):
            module.assigned.setdefault(name, []).append(_extent(module, statement, arm))


def _add_import_from(module: ModuleIndex, statement: ast.ImportFrom) -> None:
    origin = absolute(module, statement.module or "", statement.level)
    for alias in statement.names:
        if alias.name == "*":
            module.stars.append(origin)
        else:
            module.imports.setdefault(alias.asname or alias.name, f"{origin}.{alias.name}".strip("."))


def absolute(module: ModuleIndex, target: str, level: int) -> str:
    """The dotted name that an import of so many dots means in this module."""
    if not level:
        return target
    parts = module.package.split(".") if module.package else []
    kept = parts[: len(parts) - level + 1]
    return ".".join([*kept, target] if target else kept)


def _bound(statement: ast.stmt) -> Iterator[str]:
    for target in _targets(statement):
        yield from bound_in(target)


def _extent(module: ModuleIndex, node: ast.stmt, arm: Arm | None = None) -> Extent:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    module._statements.setdefault(_place(node), _as_function(node))
    return Extent(module, first, node.end_lineno or node.lineno, _place(node), arm)


def dotted(node: ast.expr) -> str:
    """The dotted name of an expression; of a call or subscript, what is called; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    if isinstance(node, ast.Call):
        return dotted(node.func)
    return dotted(node.value) if isinstance(node, ast.Subscript) else ""


def _function(module: ModuleIndex, node: FunctionNode, parent: ClassEntry | None) -> FunctionEntry:
    return FunctionEntry(node.name, _extent(module, node), tuple(dotted(d) or "?" for d in node.decorator_list), parent)


def _class(module: ModuleIndex, node: ast.ClassDef) -> ClassEntry:
    decorators = tuple(dotted(d) or "?" for d in node.decorator_list)
    entry = ClassEntry(node.name, _extent(module, node), tuple(dotted(b) or "?" for b in node.bases), decorators)
    names: list[str] = []
    written: dict[str, set[str]] = {}
    for statement, _ in _top_level(module, node.body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            method = _function(module, statement, entry)
            if not any(d.endswith((".setter", ".deleter", "overload")) for d in method.decorators):
                entry.methods[statement.name] = method
            for name in _written(statement):
                written.setdefault(name, set()).add(statement.name)
        elif (renamed := _renamed(entry, statement)) is not None:
            entry.methods[renamed.name] = renamed
        else:
            for name in _bound(statement):
                entry.attributes[name] = _extent(module, statement)
                if isinstance(statement, ast.AnnAssign):
                    names.append(name)
    entry.fields = tuple(names)
    entry.written = {name: frozenset(methods) for name, methods in written.items()}
    return entry


def _as_function(statement: ast.stmt) -> ast.stmt:
    """The statement; of one that gives a lambda a name, the definition of a function that says the same."""
    made = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(made, ast.Lambda) or not isinstance(target, ast.Name):
        return statement
    body = ast.copy_location(ast.Return(made.body), made.body)
    function = ast.FunctionDef(target.id, made.args, [body], [], None, None)
    function.__dict__.setdefault("type_params", [])  # Python 3.12 and later have them
    return ast.copy_location(function, statement)


def _renamed(entry: ClassEntry, statement: ast.stmt) -> FunctionEntry | None:
    """The method that a class binds with ``name = lambda self: ...``, or with ``name = other`` to another one."""
    plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    target = statement.targets[0] if plain else None  # type: ignore[attr-defined]
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
        return None
    if isinstance(statement.value, ast.Lambda):
        return FunctionEntry(target.id, _extent(entry.module, statement), (), entry)
    other = entry.methods.get(statement.value.id) if isinstance(statement.value, ast.Name) else None
    return None if other is None else FunctionEntry(target.id, other.extent, other.decorators, entry)


def _written(function: FunctionNode) -> Iterator[str]:
    """Attributes of the first parameter that the function assigns."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    first = arguments[0].arg if arguments else ""
    for statement in _all(function.body):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and dotted(call).rpartition(".")[2] in ("setattr", "__setattr__"):
            yield from (a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
        for target in _targets(statement):
            for node in ast.walk(target) if not isinstance(target, ast.Name) else ():
                name = attribute_of(node, first)
                if name and isinstance(getattr(node, "ctx", None), ast.Store):
                    yield name


def attribute_of(node: ast.AST, owner: str) -> str:
    """The attribute of a variable that an expression is, as ``x.name`` or an entry of ``x.__dict__``; or nothing."""
    if isinstance(node, ast.Attribute):
        return node.attr if isinstance(node.value, ast.Name) and node.value.id == owner else ""
    key = key_of_namespace(node)
    return key if isinstance(node, ast.Subscript) and owner in names(node.value) else ""


def key_of_namespace(node: ast.AST) -> str:
    """The name of the attribute that ``x.__dict__[name]`` or ``vars(x)[name]`` is; empty for others."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return ""
    base = node.value
    held = isinstance(base, ast.Attribute) and base.attr == "__dict__"
    held = held or (isinstance(base, ast.Call) and dotted(base) == "vars")
    return node.slice.value if held and isinstance(node.slice.value, str) else ""


def names(node: ast.AST) -> set[str]:
    """The variables that an expression mentions."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _targets(statement: ast.stmt) -> Iterator[ast.expr]:
    """What a statement assigns to."""
    yield from getattr(statement, "targets", ())
    target = getattr(statement, "target", None)
    if target is not None:
        yield target
    yield from (item.optional_vars for item in getattr(statement, "items", ()) if item.optional_vars is not None)


def _classes(module: ModuleIndex, body: list[ast.stmt]) -> Iterator[ClassEntry]:
    """Every class below the statements."""
    for statement in _all(body):
        if isinstance(statement, ast.ClassDef):
            known = module.classes.get(statement.name)
            same = known is not None and known.extent.last == (statement.end_lineno or 0)
            yield known if known is not None and same else _class(module, statement)
