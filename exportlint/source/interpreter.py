"""The abstract interpreter: it runs `forward` on values of which only the kind is known, and tells what happened.

What is analysed is what runs: methods, helpers and nested modules are entered by the calls that reach them. Each
function body is walked by direct dispatch on the class of its nodes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from exportlint.source import attributes, calls, conditions, decorators, expressions, statements
from exportlint.source.events import Called, Carried, Changed, Converted, Defined, Event, Indexed, Iterated
from exportlint.source.index import ClassEntry, FunctionEntry, ModuleIndex
from exportlint.source.parameters import Arguments, bind
from exportlint.source.project import Assigned, Outside, Project
from exportlint.source.sites import Site
from exportlint.source.state import CLEARED, Frame, Key, Slot, State, join_heaps
from exportlint.source.values import (
    LATER,
    NONE,
    NOTHING,
    UNKNOWN,
    Array,
    Class,
    Closure,
    Const,
    Dict,
    External,
    Function,
    Instance,
    Module,
    Number,
    Sequence,
    Static,
    Tensor,
    Truth,
    Unknown,
    Value,
    join,
    join_all,
    options,
    settled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exportlint.source.at_hand import AtHand
    from exportlint.source.decorators import Decorator
    from exportlint.source.index import Extent
    from exportlint.source.project import Target
    from exportlint.source.provenance import Binding
    from exportlint.source.tree import FunctionNode

_STEPS = 400_000
_DEPTH = 24
# Methods of containers that look at what is in them.
_READING = frozenset({".get", ".pop", ".values", ".items", ".keys", ".count", ".index", ".copy"})


class BudgetError(Exception):
    """The analysis of one class took more steps than it may."""


@dataclass(slots=True, eq=False)
class Interpreter:
    """Runs functions of a project abstractly and hands each event to `listener`.

    Attributes:
        project: Where names are resolved.
        listener: Called with each event while events are recorded.
        steps: How many expressions may still be evaluated.
        calls: Where each function that is being run was called, outermost first; ``None`` where no call is written.
        optional: Inside of how many parts of a line that nothing says are evaluated, such as what follows an ``and``.
        catching: Inside of how many blocks whose handlers put something in the place of what torch raised.
        at_hand: At each call that makes a tensor on a device of its own, the tensors that follow the inputs.
        calling: The state in which a call is told.
        statement: The expression that is a statement, so that its value is dropped.
        here: The state in which something happened last.
        saved: Where functions saved something: the function, and the expression that names the file.
        bindings: What binds variables in functions that were asked for it.
        running: Whether a call is run that others follow, of which `finish` tells what it leaves for them.
        decorators: Those of torch around each function that was called.
        passing: The keys of objects that such a call made: the next call makes others, unless something keeps them.
    """

    project: Project
    listener: Callable[[Event], None]
    steps: int = _STEPS
    silent: int = 0
    optional: int = 0
    catching: int = 0
    stack: list[ast.AST] = field(default_factory=list)
    calls: list[Site | None] = field(default_factory=list)
    attributes: dict[int, dict[str, Value]] = field(default_factory=dict)
    sites: dict[int, dict[str, Site]] = field(default_factory=dict)
    instances: dict[tuple[int, int], Instance] = field(default_factory=dict)
    globals: dict[tuple[int, str], Value] = field(default_factory=dict)
    functions: dict[int, Value] = field(default_factory=dict)
    memo: dict[object, Value] = field(default_factory=dict)
    later: dict[tuple[int, str], frozenset[str]] = field(default_factory=dict)
    version: int = 0
    changes: dict[Key, list[Changed]] = field(default_factory=dict)
    reads: dict[Key, bool] = field(default_factory=dict)
    entered: set[ClassEntry] = field(default_factory=set)
    constructing: list[ClassEntry] = field(default_factory=list)
    importing: int = 0
    used: set[str] = field(default_factory=set)
    containers: dict[str, Changed] = field(default_factory=dict)
    registered: dict[Key, str] = field(default_factory=dict)
    of_case: bool = False
    at_hand: dict[ast.AST, AtHand] = field(default_factory=dict)
    calling: State | None = None
    statement: ast.AST | None = None
    here: State | None = None
    saved: set[tuple[ast.AST | None, str]] = field(default_factory=set)
    bindings: dict[ast.AST, dict[str, list[Binding]]] = field(default_factory=dict)
    running: bool = False
    passing: set[object] = field(default_factory=set)
    decorators: dict[int, tuple[Decorator, ...]] = field(default_factory=dict)

    @property
    def lasting(self) -> bool:
        """Whether what is made now is there before the first call: in a constructor, or when a file is imported."""
        return bool(self.constructing or self.importing)

    def reset(self) -> None:
        """Begin anew with another class; what is known of definitions stays."""
        self.steps, self.silent, self.optional, self.importing, self.running = _STEPS, 0, 0, 0, False
        self.catching = 0
        self.stack.clear()
        self.calls.clear()
        self.constructing.clear()
        self.memo.clear()
        self.containers.clear()
        self.used.clear()
        self.changes.clear()
        self.reads.clear()
        self.at_hand.clear()

    def defined(self, made: Instance) -> None:
        """Report what the ``__init__`` of a model, and of the modules in it, left on them."""
        for owner in (made, *(i for i in self.instances.values() if i is not made and i.module)):
            sites = self.sites[owner.key]
            if sites and owner.cls not in self.entered:
                first = next(iter(sites.values()))
                self.emit(Defined(first, owner.cls, self.attributes[owner.key], sites, owner is made))

    # Events

    def emit(self, event: Event) -> None:
        """Hand an event to the listener, unless the code is only read for its values."""
        if self.silent:
            return
        if isinstance(event, (Converted, Iterated)) or (isinstance(event, Indexed) and not event.stored):
            self.used.add(getattr(event.value, "kept", ""))
        elif isinstance(event, Called):
            reads = (event.receiver,) if event.name in _READING else ()
            self.used.update(getattr(value, "kept", "") for value in (*event.arguments, *reads))
        self.listener(event)

    def site(self, node: ast.AST, state: State) -> Site:
        """Where a node stands."""
        self.here = state
        return Site(state.frame.module.source, node)

    # Expressions and statements

    def expression(self, node: ast.expr, state: State) -> Value:
        """The value of an expression.

        Raises:
            BudgetError: When too many expressions were evaluated.
        """
        self.steps -= 1
        if self.steps < 0:
            raise BudgetError
        handler = expressions.HANDLERS.get(type(node))
        return UNKNOWN if handler is None else handler(self, node, state)

    def block(self, body: Iterable[ast.stmt], state: State) -> None:
        """Run statements; the state becomes what it is after them."""
        for statement in body:
            if state.dead:
                return
            handler = statements.HANDLERS.get(type(statement))
            if handler is not None:
                handler(self, statement, state)

    # Functions

    def function(self, entry: FunctionEntry, owner: Value | None = None) -> Value:
        """The function or method as a value, its decorators applied, bound to its owner."""
        key = id(entry)
        if key not in self.functions:
            self.functions[key] = UNKNOWN  # cuts circles
            constructing, self.constructing = self.constructing, []
            self.functions[key] = UNKNOWN if self.project.is_replaced(entry) else self._defined(entry)
            self.constructing = constructing
        found = self.functions[key]
        if not isinstance(found, Function) or entry.parent is None or "staticmethod" in entry.decorators:
            return found
        if "classmethod" in entry.decorators:
            owner = Class(owner.cls) if isinstance(owner, Instance) else owner
        return Function(found.node, found.closure, owner, found.entry)

    def _defined(self, entry: FunctionEntry) -> Value:
        plain = Function(entry.node, Closure(entry.module, {}, entry.parent), None, entry)
        return self._decorated(plain, entry.node, State(Frame(entry.module)))

    def _decorated(self, plain: Function, node: FunctionNode, state: State) -> Value:
        """The function that the project's own decorators make of it; those of others are taken to change nothing."""
        value: Value = plain
        for decorator in reversed(node.decorator_list):
            self.silent += 1
            callee = self.expression(decorator, state)
            if isinstance(callee, Function):
                value = self.invoke(callee, Arguments((value,)), state)
            elif callee == External("torch.jit.script"):
                value = External("torch.jit.scripted")
            self.silent -= 1
        if isinstance(value, Function):
            return Function(value.node, value.closure, value.owner, plain.entry)
        return value if isinstance(value, External) else plain

    def invoke(self, function: Function, arguments: Arguments, state: State, at: Site | None = None) -> Value:
        """The result of a call, written at a place or nowhere; changes of the heap are carried back into the state."""
        node = function.node
        if node in self.stack:
            return NOTHING  # what a recursion adds to the result is what the other paths return
        if len(self.stack) >= _DEPTH or self._is_far(function, state):
            return UNKNOWN
        key = (function, arguments.key, self.version, bool(self.silent), function.closure, state.there)
        if arguments.key is not None and key in self.memo:
            return self.memo[key]
        opaque = decorators.called(self, function, arguments, state, at)
        if opaque is not None:
            return opaque
        closure = function.closure
        forward = function.entry is not None and function.entry.name == "forward"
        if forward and isinstance(function.owner, Instance):
            self.entered.add(function.owner.cls)
        frame = Frame(closure.module, closure.cls, function.owner, home=closure)
        frame.guarded = bool(state.frame.guards or state.frame.guarded or self.optional)
        inner = State(frame, _around(closure), state.heap, there=state.there)
        bind(self, function, arguments, inner)
        self.stack.append(node)
        self.calls.append(at)
        optional, self.optional = self.optional, 0
        try:
            result = self._run(node, inner)
        finally:
            self.stack.pop()
            self.calls.pop()
            self.optional = optional
        state.heap = inner.heap
        if arguments.key is not None:
            self.memo[key] = result
        return result

    def _is_far(self, function: Function, state: State) -> bool:
        """Whether a constructor reached this through another file's code, where little is said about attributes."""
        if not self.constructing or function.entry is None or function.entry.name == "__init__":
            return False
        home = self.constructing[-1].module
        return function.entry.module is not home and state.frame.module is not home

    def _run(self, node: FunctionNode | ast.Lambda, inner: State) -> Value:
        if isinstance(node, ast.Lambda):
            return self.expression(node.body, inner)
        frame = inner.frame
        self.block(node.body, inner)
        if not inner.dead:
            frame.returned.append(NONE)
            frame.heaps.append(inner.heap)
        if frame.heaps:
            inner.heap = frame.heaps[0]
            for heap in frame.heaps[1:]:
                inner.heap = join_heaps(inner.heap, heap)
        if frame.yielded:
            return Sequence(None, join_all(tuple(frame.yielded)), "iterator")
        result = join_all(tuple(frame.returned))
        return calls.annotated(self, node.returns, inner) if isinstance(result, Unknown) and node.returns else result

    # Objects

    def instance(self, cls: ClassEntry, node: ast.AST | None, arguments: Arguments, state: State) -> Instance:
        """An object of the class, its ``__init__`` read for what the attributes are; one object for each call site."""
        place = (id(cls), id(node))
        if place not in self.instances:
            made = Instance(cls, len(self.instances) + 1, self.project.is_module(cls))
            self.instances[place] = made
            if self.running and not self.lasting:
                self.passing.add(made.key)
            self.attributes[made.key] = {}
            self.sites[made.key] = {}
            self._construct(made, arguments, state)
        return self.instances[place]

    def _construct(self, made: Instance, arguments: Arguments, state: State) -> None:
        entry = self.project.method(made.cls, "__init__")
        if entry is None:
            self.attributes[made.key] = attributes.fields(self, made.cls, arguments)
            return
        inner = State(state.frame)
        before = bool(self.constructing or self.silent or arguments.open)  # not by a call of `forward`
        self.silent += 1
        version = self.version
        self.constructing.append(made.cls)
        try:
            function = self.function(entry, made)
            if isinstance(function, Function):
                self.invoke(function, arguments, inner)
        finally:
            self.constructing.pop()
            self.silent -= 1
            self.version = version
        moved = attributes.moved_by_its_class(self, made.cls)
        for (key, name), slot in inner.heap.items():
            if isinstance(key, int) and key in self.attributes:
                value = decided(slot.value) if before else slot.value
                if key == made.key and name in moved and isinstance(value, Tensor):
                    value = replace(value, placement="follows", site=None)
                self.attributes[key].setdefault(name, settled(value, f"attribute {name}", slot.site))
                if slot.site is not None:
                    self.sites[key].setdefault(name, slot.site)

    def forward(self, owner: Instance) -> Function | None:
        """The ``forward`` of an object: the one that ``__init__`` binds, or that of its class."""
        held = self.initial(owner, "forward")
        if held is None:
            entry = self.project.method(owner.cls, "forward")
            held = self.function(entry, owner) if entry is not None else UNKNOWN
        return held if isinstance(held, Function) else None

    def initial(self, owner: Instance, name: str) -> Value | None:
        """What an attribute is when a call begins; ``None`` if ``__init__`` does not bind it."""
        value = self.attributes.get(owner.key, {}).get(name)
        if value is None:
            return None
        elsewhere = self.writers(owner.cls, name)
        if elsewhere and value == NONE:
            return self.left_behind(owner, name)
        if elsewhere and isinstance(value, Const):
            return Static(type(value.value).__name__, given=True)
        return value

    def left_behind(self, owner: Instance, name: str) -> Value:
        """What earlier calls may have left in an attribute."""
        return LATER if len(self.writers(owner.cls, name)) == 1 else UNKNOWN

    def writers(self, cls: ClassEntry, name: str) -> frozenset[str]:
        """The methods other than ``__init__`` that bind an attribute."""
        key = (id(cls), name)
        if key not in self.later:
            inside, _ = self.project.lineage(cls)
            found = (c.written.get(name, frozenset()) for c in inside)
            self.later[key] = frozenset().union(*found) - {"__init__"}
        return self.later[key]

    def read(self, key: Key, initial: Value, state: State) -> Value:
        """An attribute or global as it is now; notes that the call saw what an earlier one left."""
        slot = state.heap.get(key)
        if slot is not None and slot.sure:
            return slot.value
        if not self.silent:
            self.reads[key] = True
        return initial if slot is None else join(slot.value, initial)

    def write(self, key: Key, change: Changed, state: State) -> None:
        """Bind an attribute or global."""
        state.heap[key] = Slot(change.value, change.site)
        self.version += 1
        if not self.silent:
            self.changes.setdefault(key, []).append(change)
            self.emit(change)

    def container(self, change: Changed, kept_at: str) -> None:
        """Note that a container, or a tensor, which outlives the call was changed in place."""
        if not self.silent:
            self.containers.setdefault(kept_at, change)
            self.emit(change)
            if change.how == "next":
                self.used.add(kept_at)

    def finish(self, state: State) -> None:
        """Report the state that the run changed and that its next run would see."""
        passing = self._passing(state)
        for key, changes in self.changes.items():
            for change in changes if key in self.reads and key[0] not in passing else ():
                cls = key[0] if change.owner is None else change.owner.cls
                classes = self.project.lineage(cls)[0] if isinstance(cls, ClassEntry) else ()
                self.emit(Carried(change.site, change, tuple(classes)))
        for kept_at, change in self.containers.items():
            gone = change.owner is not None and change.owner.key in passing
            if kept_at in self.used and not (gone or isinstance(change.old, Tensor) or _is_emptied(change, state)):
                self.emit(Carried(change.site, change))
        self.containers.clear()
        self.used.clear()
        self.changes.clear()
        self.reads.clear()
        self.running = False

    def _passing(self, state: State) -> set[object]:
        """The objects that end with the run: it made them, and nothing that outlives it holds them."""
        passing = set(self.passing)
        held = [(key[0], slot.value) for key, slot in state.heap.items()]
        held += [(key[0], change.value) for key, changes in self.changes.items() for change in changes]
        held += [(change.owner and change.owner.key, change.value) for change in self.containers.values()]
        while kept := {made for owner, value in held if owner not in passing for made in _objects(value) & passing}:
            passing -= kept
        return passing

    # Globals

    def name(self, name: str, state: State) -> Value:
        """The value of a name."""
        if name in state.frame.around:
            return self.read((state.frame.home, name), state.variables.get(name, UNKNOWN), state)
        if name in state.variables and name not in state.frame.globals:
            return state.variables[name]
        return self.global_value(state.frame.module, name, state)

    def global_value(self, module: ModuleIndex, name: str, state: State) -> Value:
        """The value of a name of a module, at its top level or dotted."""
        return self.meant(self.project.resolve(module, name), state)

    def meant(self, target: Target | None, state: State) -> Value:
        """The value of what a name was resolved to, as it is now."""
        if isinstance(target, Assigned):
            return self.read((target.module, target.name), self._assigned(target), state)
        return self.target(target)

    def target(self, target: object) -> Value:
        """The value of what a name was resolved to."""
        if isinstance(target, ClassEntry):
            return Class(target)
        if isinstance(target, FunctionEntry):
            return self.function(target)
        if isinstance(target, ModuleIndex):
            return Module(target)
        return External(target.dotted) if isinstance(target, Outside) else UNKNOWN

    def _assigned(self, target: Assigned) -> Value:
        key = (id(target.module), target.name)
        if key not in self.globals:
            self.globals[key] = UNKNOWN  # cuts circles
            extents = target.module.assigned[target.name]
            running = [extent for extent in extents if self._may_run(extent)] or extents
            self.globals[key] = join_all(tuple(self.statement_value(extent, target.name) for extent in running))
        return self.globals[key]

    def _may_run(self, extent: Extent) -> bool:
        """Whether no test of an ``if`` around a statement outside of functions has surely another answer."""
        arm = extent.arm
        while arm is not None:
            branch = arm.statement.statement
            answer = self._answer(branch.test, extent.module) if isinstance(branch, ast.If) else None
            if answer is not None and answer is not arm.answer:
                return False
            arm = arm.within
        return True

    def _answer(self, test: ast.expr, module: ModuleIndex) -> bool | None:
        """The answer of a test outside of functions, where it is certain."""
        self.silent += 1
        try:
            return conditions.truth(self.expression(test, State(Frame(module))))
        finally:
            self.silent -= 1

    def statement_value(self, extent: Extent, name: str, known: dict[str, Value] | None = None) -> Value:
        """What a statement outside of functions binds a name to; `known` are other names of a class."""
        state = State(Frame(extent.module), dict(known or {}))
        self.silent += 1
        constructing, self.constructing = self.constructing, []  # what it is hangs on nobody who asks
        self.importing += 1
        try:
            self.block((extent.statement,), state)
        finally:
            self.importing -= 1
            self.silent -= 1
            self.constructing = constructing
        value = settled(state.variables.get(name, UNKNOWN), f"global {name}")
        return kept(value, f"global {name}")

    def imported(self, dotted: str, module: ModuleIndex) -> Value:
        """The value of a name that a statement inside of a function imports."""
        return self.target(self.project.imported(module, dotted))


def _around(closure: Closure) -> dict[str, Value]:
    """The variables around a function; a container there outlives the call where the function does."""
    if not closure.lasting:
        return dict(closure.variables)
    where = f"closure:{id(closure.variables)}"
    return {
        name: replace(value, kept=f"{where} {name}")
        if isinstance(value, (Sequence, Dict)) and not value.kept and getattr(value, "kind", "") != "tuple"
        else value
        for name, value in closure.variables.items()
    }


def _objects(value: Value) -> set[object]:
    """The keys of the objects that this may be, or may hold."""
    found: set[object] = set()
    for option in options(value):
        if isinstance(option, Instance):
            found.add(option.key)
        elif isinstance(option, Sequence):
            found.update(*(_objects(item) for item in (*(option.items or ()), option.element)))
        elif isinstance(option, Dict):
            found.update(*(_objects(item) for item in (*(item for _, item in option.items), option.element)))
    return found


def _is_emptied(change: Changed, state: State) -> bool:
    """Whether the container is empty whenever the call ends."""
    owner: object = "global" if change.owner is None else change.owner.key
    cleared = state.heap.get(((owner, change.name), CLEARED))
    return cleared is not None and cleared.sure and cleared.value == Const(value=True)


def decided(value: Value) -> Value:
    """What a constructor computed: a number that it read out of a tensor is a constant for every call."""
    if isinstance(value, (Number, Truth)):
        return Static("bool" if isinstance(value, Truth) else "float" if value.real else "")
    if len(options(value)) > 1:
        return join_all(tuple(decided(v) for v in options(value)))
    if isinstance(value, Sequence) and value.items is None:
        return replace(value, element=decided(value.element))
    if isinstance(value, Sequence) and value.items is not None:
        return replace(value, items=tuple(decided(v) for v in value.items))
    return value


def kept(value: Value, where: str) -> Value:
    """The value as one that lives between calls."""
    if isinstance(value, Tensor) and not value.kept:
        return replace(value, kept=where)
    if isinstance(value, (Dict, Array)) or (isinstance(value, Sequence) and value.kind in ("list", "set", "iterator")):
        return replace(value, kept=where)
    if len(options(value)) > 1:
        return join_all(tuple(kept(v, where) for v in options(value)))
    return value
