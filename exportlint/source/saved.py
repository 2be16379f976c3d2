"""What code that saves, loads and scripts models makes: state dicts, what a file held, wrappers, TorchScript."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from exportlint.source.values import (
    COMPILED,
    NONE,
    PARALLEL,
    SCRIPTED,
    TRACED,
    UNKNOWN,
    External,
    Function,
    Loaded,
    TorchModule,
    Value,
    is_module,
    options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

    from exportlint.source.events import Called
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.parameters import Arguments
    from exportlint.source.state import State

_SCRIPTING = frozenset({"torch.jit.script", "torch.jit.trace", "torch.jit.load"})
_REFINED = frozenset({"torch.jit.freeze", "torch.jit.optimize_for_inference"})
_WRITING = frozenset({
    "torch.save", "pickle.dump", "pickle.dumps", "cloudpickle.dump", "cloudpickle.dumps", "dill.dump", "dill.dumps",
    "joblib.dump",
})  # fmt: skip
PARTS = frozenset({"get", "pop", "copy"})
"""Methods that hand on what was loaded, or a part of it."""


def made(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value | None:
    """The result of a function of torch that saves, loads, wraps or scripts a module; ``None`` for others."""
    if name in PARALLEL:
        return TorchModule(name, given.positional[:1], site=it.site(node, state))
    if name == "torch.compile" and is_module(given.get(0)):
        return TorchModule(COMPILED, given.positional[:1], site=it.site(node, state))
    function = it.stack[-1] if it.stack else None
    if name == "torch.save":
        it.saved.update((function, ast.dump(place)) for place in node.args[1:2])
        return NONE
    if name == "torch.load":
        here = any((function, ast.dump(place)) in it.saved for place in node.args[:1])
        known = here or given.open
        mapped = known or len(given.positional) > 1 or "map_location" in given.keywords
        return Loaded(it.site(node, state), mapped, known or "weights_only" in given.keywords)
    if name in _REFINED and given.positional and is_scripted(given.positional[0]):
        return given.positional[0]
    return _scripted(name, given.get(0)) if name in _SCRIPTING else None


def _scripted(name: str, first: Value | None) -> Value:
    """What TorchScript makes of a module or function; of what is not known, something unknown."""
    if name == "torch.jit.load" or is_module(first):
        return TorchModule(TRACED if name == "torch.jit.trace" else SCRIPTED)
    return External("torch.jit.scripted") if isinstance(first, Function) and name == "torch.jit.script" else UNKNOWN


def written(event: Called) -> tuple[Value, ...]:
    """What the call writes to a file or to bytes, by ``torch.save`` or by a pickle."""
    if event.name not in _WRITING:
        return ()
    named = event.keywords.get("obj", event.keywords.get("value"))
    return event.arguments[:1] or (() if named is None else (named,))


def restored(event: Called) -> Iterator[Loaded]:
    """What ``torch.load`` returned and the call gives to ``load_state_dict``."""
    if event.name.endswith("load_state_dict") and event.arguments:
        yield from (value for value in options(event.arguments[0]) if isinstance(value, Loaded))


def sure(callees: tuple[Value, ...]) -> tuple[Value, ...]:
    """What may be called, without modules of TorchScript that stand there only where a setting asks for them."""
    if len(callees) == 1:
        return callees
    return tuple(v for v in callees if not is_scripted(v))


def is_scripted(value: Value) -> bool:
    """Whether the value is a module of TorchScript."""
    return isinstance(value, TorchModule) and value.name in (SCRIPTED, TRACED)


def is_parallel(value: Value | None) -> TypeGuard[TorchModule]:
    """Whether the value is a module in a wrapper that runs it on several devices."""
    return isinstance(value, TorchModule) and value.name in PARALLEL
