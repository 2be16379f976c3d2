"""Statements: one function for each class of node."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exportlint.source import attributes, by_device, conditions, left_out, subscripts, tensors
from exportlint.source.events import Called, Changed, Entered, Indexed, Iterated, Returned
from exportlint.source.facts import facts
from exportlint.source.index import key_of_namespace
from exportlint.source.parameters import Arguments
from exportlint.source.state import CLEARED, Exits, Guard, Slot, State, join_states, place_of
from exportlint.source.tree import FunctionNode, children, same
from exportlint.source.tree import indices as indices_of
from exportlint.source.values import (
    NONE,
    UNKNOWN,
    Array,
    Closure,
    Const,
    Device,
    Dict,
    External,
    Function,
    Instance,
    Sequence,
    Setting,
    Shape,
    Size,
    Static,
    Tensor,
    TorchModule,
    Unknown,
    Value,
    join_all,
    options,
)

if TYPE_CHECKING:
    from exportlint.source.interpreter import Interpreter

Handler = Callable[["Interpreter", Any, "State"], None]
_DEEPEST = 3
_OF_TORCH = frozenset({"Exception", "BaseException", "RuntimeError", "LinAlgError", "_LinAlgError"})
_MENTIONS = 2  # of a list: where it is bound, and where `forward` uses it


def element(it: Interpreter, value: Value) -> Value:
    """What iterating over a value gives."""
    return join_all(tuple(_element(option) for option in options(value)))


def _element(value: Value) -> Value:
    if isinstance(value, Tensor):
        if value.counted:
            return UNKNOWN  # no capture gets so far: what follows from it is not told again
        rest = value.dims[1:] if value.dims else None
        scalar = None if rest is None else not rest
        return replace(value, kept="", dims=rest, counted=False, scalar=scalar, exact=False, full=False)
    if isinstance(value, Sequence):
        return value.any
    if isinstance(value, TorchModule):
        return join_all(value.parts)
    simple = {Array: value, Shape: Size(), Dict: Static("str"), Setting: value}
    return Static(given=value.given) if isinstance(value, Static) else simple.get(type(value), UNKNOWN)


def assign(it: Interpreter, target: ast.AST, value: Value, state: State, how: str = "set") -> None:
    """Bind a target of an assignment, a loop or a ``with``."""
    if isinstance(target, ast.Name):
        _assign_name(it, target, value, state, how)
    elif isinstance(target, ast.Attribute):
        attributes.put(it, it.expression(target.value, state), target, target.attr, value, state, how=how)
    elif isinstance(target, ast.Subscript):
        _assign_item(it, target, value, state, how)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(it, target, value, state)
    elif isinstance(target, ast.Starred):
        assign(it, target.value, value, state)


def _assign_name(it: Interpreter, target: ast.Name, value: Value, state: State, how: str) -> None:
    name = target.id
    state.variables[name] = value
    if name in state.frame.globals:
        old = it.global_value(state.frame.module, name, State(state.frame, {}, state.heap))
        change = Changed(it.site(target, state), None, name, value, old, how)
        it.write((state.frame.module, name), change, state)
    elif name in state.frame.around:
        change = Changed(it.site(target, state), None, name, value, UNKNOWN, how)
        it.write((state.frame.home, name), change, state)


def _assign_item(it: Interpreter, target: ast.Subscript, value: Value, state: State, how: str) -> None:
    base = it.expression(target.value, state)
    indices = tuple(subscripts.index(it, part, state) for part in indices_of(target))
    whole = indices[0] if len(indices) == 1 else Sequence(indices, kind="tuple")
    entry = attributes.entry_of(base, whole)
    if entry is not None:
        attributes.put(it, entry[0], target, entry[1], value, state, how=how)
        return
    guard = state.frame.guards[-1].site if state.frame.guards and isinstance(base, Dict) else it.site(target, state)
    it.emit(Indexed(guard, base, whole, stored=True))
    if isinstance(base, Tensor):
        tensors.written(it, base)
    note_change(it, target, base, value, "item", state)
    if isinstance(base, (Sequence, Dict)) and isinstance(whole, Const):
        state.heap[place_of(base.kept, state), f"[{whole.value!r}]"] = Slot(value)
    if isinstance(base, Tensor) and isinstance(target.value, ast.Name):
        fed = base.fed or any(isinstance(v, Tensor) and v.fed for v in options(value))
        sized = base.sized or any(isinstance(v, Tensor) and v.sized for v in options(value))
        state.variables[target.value.id] = replace(base, fed=fed, sized=sized)
    elif isinstance(base, Dict) and isinstance(target.value, ast.Name):
        known = not base.kept and isinstance(whole, Const)
        filled = _with_item(base, whole, value) if known else Dict(element=UNKNOWN, kept=base.kept)
        state.variables[target.value.id] = filled
    elif isinstance(base, Dict) and isinstance(target.value, ast.Attribute):
        attributes.refill(it, target.value, _with_item(base, whole, value), state)


def _with_item(base: Dict, key: Value, value: Value) -> Dict:
    """The dictionary with one more item; an empty one holds nothing else."""
    if isinstance(key, Const):
        others = tuple((k, v) for k, v in base.items if k != key.value)
        return replace(base, items=(*others, (key.value, value)))
    known = (*(v for _, v in base.items), *((base.element,) if base.element != UNKNOWN else ()))
    return Dict(element=join_all((*known, value)), kept=base.kept)


def note_change(it: Interpreter, node: ast.AST, base: Value, value: Value, how: str, state: State) -> None:
    """Report that a container or tensor which outlives the call was changed in place."""
    kept = getattr(base, "kept", "")
    place, _, name = kept.partition(" ")
    where = place.partition(":")[0]
    if where not in ("attribute", "global", "default", "closure") or not isinstance(base, (Sequence, Dict, Tensor)):
        return
    owner = state.frame.owner if where == "attribute" else None
    guard = state.frame.guards[-1].site if state.frame.guards else None
    if isinstance(owner, Instance):
        slot = state.heap.get((owner.key, name))
        if isinstance(base, (Sequence, Dict)) and slot is not None and slot.sure:
            return  # this call made the container
        _note_content(it, base, how, state)
        origin = it.sites.get(owner.key, {}).get(name)
        it.container(Changed(it.site(node, state), owner, name, value, base, how, origin, guard), kept)
    elif where != "attribute":
        _note_content(it, base, how, state)
        it.container(Changed(it.site(node, state), None, name, value, base, how, None, guard), kept)


def _note_content(it: Interpreter, base: Sequence | Dict | Tensor, how: str, state: State) -> None:
    """Note whether the container is empty now; what was put under a key may be gone, unless another was set."""
    if isinstance(base, Tensor):
        return
    place = place_of(base.kept, state)
    if how != "item":
        for key in [k for k in state.heap if k[0] == place]:
            del state.heap[key]
    state.heap[place, CLEARED] = Slot(Const(how == "clear"))
    it.version += 1


def _unpack(it: Interpreter, target: ast.Tuple | ast.List, value: Value, state: State) -> None:
    names = target.elts
    starred = any(isinstance(e, ast.Starred) for e in names)
    if isinstance(value, Shape):
        items: list[Value] = [value.size(i, None if starred else len(names)) for i in range(len(names))]
    elif isinstance(value, Sequence) and value.items is not None and len(value.items) == len(names) and not starred:
        items = list(value.items)
    else:
        it.emit(Iterated(it.site(target, state), value, "starred" if starred else "unpacking"))
        items = [element(it, value)] * len(names)
    for part, item in zip(names, items, strict=True):
        if isinstance(part, ast.Starred):
            assign(it, part.value, Sequence(None, UNKNOWN if isinstance(value, Shape) else item), state)
        else:
            assign(it, part, item, state)


def _assign(it: Interpreter, node: ast.Assign, state: State) -> None:
    value = it.expression(node.value, state)
    for target in node.targets:
        outlives = isinstance(target, (ast.Attribute, ast.Subscript)) or bool(state.frame.globals or state.frame.around)
        advances = outlives and not it.silent and _follows(it, node.value, target, state)
        if it.constructing and isinstance(target, ast.Attribute):
            value = _unregistered(node.value, value, target.attr, state)
        assign(it, target, value, state, "advance" if advances else "set")


def _unregistered(node: ast.expr, value: Value, name: str, state: State) -> Value:
    """The value of an attribute: what is made inside of a plain list that nothing else mentions is not registered."""
    parts = node.elts if isinstance(node, ast.List) else [node.elt] if isinstance(node, ast.ListComp) else []
    if not parts or not isinstance(value, Sequence) or not all(isinstance(part, ast.Call) for part in parts):
        return value
    text = state.frame.module.source.text
    if len(re.findall(rf"\bself\.{name}\b", text)) > _MENTIONS or re.search(r"def _apply\b|def to\b", text):
        return value
    items = None if value.items is None else tuple(_alone(item, name) for item in value.items)
    return replace(value, items=items, element=_alone(value.element, name))


def _alone(value: Value, name: str) -> Value:
    if isinstance(value, TorchModule) and value.name in facts().modules_with_parameters:
        return replace(value, unknown_to=name)
    if isinstance(value, Tensor) and value.kept == "parameter":
        return replace(value, placement="default", kept="", home=f"list {name}", scalar=value.scalar)
    return value


def _follows(it: Interpreter, node: ast.expr, target: ast.expr, state: State) -> bool:
    """Whether the new value follows from the old one, and is not just the old one."""
    while isinstance(node, ast.IfExp):
        it.silent += 1
        verdict = conditions.truth(it.expression(node.test, state))
        it.silent -= 1
        if verdict is None:
            break
        node = node.body if verdict else node.orelse
    unchanged = isinstance(target, ast.Attribute) and (same(node, target) or _fetches(node, target))
    return not unchanged and _reads(node, target)


def _fetches(node: ast.expr, target: ast.Attribute) -> bool:
    """Whether an expression is ``getattr`` of the attribute itself."""
    is_call = isinstance(node, ast.Call) and bool(node.args) and isinstance(node.func, ast.Name)
    return is_call and same(node.args[0], target.value) and _named(node) == target.attr  # type: ignore[attr-defined]


def _reads(node: ast.AST, target: ast.expr) -> bool:
    """Whether an expression reads the attribute or name that is bound: the new value follows from the old one."""
    if isinstance(target, ast.Name):
        read = isinstance(node, ast.Name) and node.id == target.id
    else:
        read = bool(_named(target)) and _named(node) == _named(target)
    return read or any(_reads(child, target) for child in children(node))


def reads_attribute(node: ast.AST, name: str) -> bool:
    """Whether an expression reads an attribute of that name, of whatever object."""
    return _reads(node, ast.Attribute(ast.Name("self", ast.Load()), name, ast.Store()))


def _named(node: ast.AST) -> str:
    """The name of the attribute that an expression is, however it is spelt."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        key = node.args[1] if len(node.args) > 1 else None
        return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
    return key_of_namespace(node)


def _annotated_assign(it: Interpreter, node: ast.AnnAssign, state: State) -> None:
    if node.value is not None:
        assign(it, node.target, it.expression(node.value, state), state)


def _augmented(it: Interpreter, node: ast.AugAssign, state: State) -> None:
    from exportlint.source.expressions import binary

    old = it.expression(node.target, state)
    if isinstance(node.target, ast.Name) and isinstance(old, Tensor):
        old = tensors.written(it, old)
    other = it.expression(node.value, state)
    value = binary(it, node, old, other, state)
    if isinstance(old, Tensor) and isinstance(value, Tensor):
        tensors.put_into(it, node, old, other, state)
        # In place: the tensor stays where it is.
        note_change(it, node.target, old, value, "item", state)
        value = replace(value, kept=old.kept, placement=old.placement, site=old.site)
        if isinstance(node.target, ast.Name):
            state.variables[node.target.id] = value
        return
    assign(it, node.target, value, state, "advance")


def _expression(it: Interpreter, node: ast.Expr, state: State) -> None:
    it.statement = node.value
    it.expression(node.value, state)


def _return(it: Interpreter, node: ast.Return, state: State) -> None:
    value = NONE if node.value is None else it.expression(node.value, state)
    if it.of_case and len(it.stack) == 1:
        it.emit(Returned(it.site(node, state), value))
    state.frame.returned.append(value)
    state.frame.heaps.append(state.heap)
    state.dead = True


def _raise(it: Interpreter, node: ast.Raise, state: State) -> None:
    it.silent += 1  # what an error message says does not matter
    if node.exc is not None:
        it.expression(node.exc, state)
    it.silent -= 1
    state.dead = True


def _assert(it: Interpreter, node: ast.Assert, state: State) -> None:
    true, _ = conditions.branch(it, node.test, state, "assert")
    if true.dead and not state.dead:
        true = state.copy()
        true.dead = True
    state.become(true)


def _global(it: Interpreter, node: ast.Global, state: State) -> None:
    state.frame.globals.update(node.names)


def _nonlocal(it: Interpreter, node: ast.Nonlocal, state: State) -> None:
    if state.frame.home is not None and state.frame.home.lasting:
        state.frame.around.update(node.names)


def _validates(node: ast.If) -> bool:
    """Whether an ``if`` does nothing, on one of its sides, but raise."""
    return _raises(node.body) or (not _goes_on(node) and _raises(node.orelse))


def _goes_on(node: ast.If) -> bool:
    """Whether an ``elif`` follows, which the tree shows as an ``if`` in the ``else`` that is not indented."""
    inner = node.orelse[0] if len(node.orelse) == 1 else None
    return isinstance(inner, ast.If) and inner.col_offset == node.col_offset


def _raises(body: list[ast.stmt]) -> bool:
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return len(body) == 1 and not last.orelse and _raises(last.body)
    return isinstance(last, ast.Raise)


def _decides(body: list[ast.stmt], state: State) -> bool:
    """Whether statements return something, or bind a variable anew: what comes out may hang on whether they run."""
    for statement in body:
        if isinstance(statement, ast.Return) and statement.value is not None:
            return True
        bound = statement.targets if isinstance(statement, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id in state.variables for target in bound):
            return True
    return False


def _if(it: Interpreter, node: ast.If, state: State) -> None:
    state.frame.validating = _validates(node)
    names = left_out.told(node.test, state)
    by_device.parts(it, node, state)
    true, false = conditions.branch(it, node.test, state, "if")
    state.frame.validating = False
    state.frame.guards.append(Guard(it.site(node.test, state), _decides(node.body, state)))
    if not true.dead:
        it.block(node.body, true)
    if not false.dead:
        it.block(node.orelse, false)
    state.frame.guards.pop()
    if true.dead != false.dead and re.search(r"device|dtype", it.site(node.test, state).text):
        state.frame.guarded = True
    put = left_out.filled(names, true, false)
    state.become(join_states(true, false))
    state.variables.update(put)


def _while(it: Interpreter, node: ast.While, state: State) -> None:
    def once(inner: State) -> State:
        true, false = conditions.branch(it, node.test, inner, "while")
        if not true.dead:
            it.block(node.body, true)
        inner.become(true)
        return false

    _loop(it, state, once)
    it.block(node.orelse, state)


def _for(it: Interpreter, node: ast.For | ast.AsyncFor, state: State) -> None:
    iterable = it.expression(node.iter, state)
    it.emit(Iterated(it.site(node.iter, state), iterable, "for"))

    def once(inner: State) -> State:
        left = inner.copy()
        assign(it, node.target, element(it, iterable), inner)
        it.block(node.body, inner)
        return left

    _loop(it, state, once)
    it.block(node.orelse, state)


def _loop(it: Interpreter, state: State, once: Callable[[State], State]) -> None:
    """Run a body as in the first round, then as in any; `once` returns the state that leaves."""
    frame = state.frame
    start = state.copy()
    if len(frame.loops) < _DEEPEST:
        returned, heaps = len(frame.returned), len(frame.heaps)
        start = _round(start, once)
        del frame.returned[returned:], frame.heaps[heaps:]
        start = join_states(state, start)
    frame.loops.append(Exits())
    inner = start.copy()
    left = once(inner)
    exits = frame.loops.pop().states
    for each in (inner, *exits):
        left = join_states(left, each)
    state.become(left)


def _round(start: State, once: Callable[[State], State]) -> State:
    start.frame.loops.append(Exits())
    inner = start.copy()
    once(inner)
    for each in start.frame.loops.pop().states:
        inner = join_states(inner, each)
    return inner


def _leave_loop(it: Interpreter, node: ast.stmt, state: State) -> None:
    if state.frame.loops:
        state.frame.loops[-1].states.append(state.copy())
    state.dead = True


def _with(it: Interpreter, node: ast.With | ast.AsyncWith, state: State) -> None:
    entered = len(state.frame.devices)
    left: list[tuple[ast.expr, Value]] = []
    for item in node.items:
        value = it.expression(item.context_expr, state)
        it.emit(Entered(it.site(item.context_expr, state), value))
        if isinstance(value, Device):
            state.frame.devices.append(replace(value, site=it.site(item.context_expr, state)))
        given = _ran(it, item.context_expr, value, ("__enter__", 0), state)
        left.append((item.context_expr, value))
        if item.optional_vars is not None:
            given = value if isinstance(given, Unknown) else given
            assign(it, item.optional_vars, given.any if isinstance(given, Sequence) else given, state)
    it.block(node.body, state)
    del state.frame.devices[entered:]
    for place, value in reversed(left):
        _ran(it, place, value, ("__exit__", 3), state)


def _ran(it: Interpreter, node: ast.expr, value: Value, method: tuple[str, int], state: State) -> Value:
    """What a method of a context manager returns, where the project defines the manager's class."""
    if not isinstance(value, Instance) or value.module or state.dead:
        return UNKNOWN
    entry = it.project.method(value.cls, method[0])
    bound = it.function(entry, value) if entry is not None else UNKNOWN
    nothing = Arguments((NONE,) * method[1])
    return it.invoke(bound, nothing, state, it.site(node, state)) if isinstance(bound, Function) else UNKNOWN


def _try(it: Interpreter, node: ast.Try, state: State) -> None:
    before = state.copy()
    catches = any(map(_replaces, node.handlers))
    it.catching += catches
    it.block(node.body, state)
    it.catching -= catches
    it.block(node.orelse, state)
    after = state.copy()
    for handler in node.handlers:
        # The body may fail before or after it bound anything.
        failed = join_states(before.copy(), after.copy())
        if handler.name is not None:
            failed.variables[handler.name] = UNKNOWN
        it.block(handler.body, failed)
        after = join_states(after, failed)
    state.become(after)
    it.block(node.finalbody, state)


def _replaces(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches what torch raises of numbers, and goes on."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {getattr(kind, "attr", getattr(kind, "id", "")) for kind in kinds}
    return bool(names & _OF_TORCH or handler.type is None) and not _raises(handler.body)


def _function(it: Interpreter, node: FunctionNode, state: State) -> None:
    frame = state.frame
    value: Value = Function(node, Closure(frame.module, state.variables, frame.cls, it.lasting))
    for decorator in reversed(node.decorator_list):
        called = it.expression(decorator, state)
        if called == External("torch.jit.script"):
            value = UNKNOWN
    state.variables[node.name] = value


def _class(it: Interpreter, node: ast.ClassDef, state: State) -> None:
    if not it.lasting:
        it.emit(Called(it.site(head(node), state), "builtins.__build_class__", None, (), {}, UNKNOWN))
    state.variables[node.name] = UNKNOWN
    for cls in state.frame.module.all_classes:
        if cls.name == node.name and cls.extent.first <= node.lineno <= cls.extent.last:
            state.variables[node.name] = it.target(cls)


def head(node: ast.ClassDef) -> ast.Name:
    """The words ``class`` and the name, as a node: what a class is told by."""
    end = node.col_offset + len(f"class {node.name}".encode())
    return ast.Name(
        node.name, lineno=node.lineno, col_offset=node.col_offset, end_lineno=node.lineno, end_col_offset=end
    )


def _import(it: Interpreter, node: ast.Import, state: State) -> None:
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        found = it.project.find(alias.name, state.frame.module)
        outside = External(alias.name if alias.asname else name)
        state.variables[name] = outside if found is None else it.target(found)


def _import_from(it: Interpreter, node: ast.ImportFrom, state: State) -> None:
    from exportlint.source.index import absolute

    origin = absolute(state.frame.module, node.module or "", node.level)
    for alias in node.names:
        if alias.name != "*":
            state.variables[alias.asname or alias.name] = it.imported(f"{origin}.{alias.name}", state.frame.module)


def _delete(it: Interpreter, node: ast.Delete, state: State) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            state.variables.pop(target.id, None)


def _match(it: Interpreter, node: ast.Match, state: State) -> None:
    from exportlint.source import patterns

    raises = [_raises(case.body) for case in node.cases]
    decides = [_decides(case.body, state) for case in node.cases]
    patterns.run(it, node, state, raises, decides)


HANDLERS: dict[type[ast.AST], Handler] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated_assign,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.Break: _leave_loop,
    ast.Continue: _leave_loop,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Delete: _delete,
    ast.Match: _match,
}
if sys.version_info >= (3, 11):
    HANDLERS[ast.TryStar] = _try
