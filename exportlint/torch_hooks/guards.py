"""The guards that a capture adds to its shape environment, each with the line that asked for it.

torch keeps the guards of a program, but not their lines, and drops them when the export is refused.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exportlint import places

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from exportlint.places import Place

HOOK = "_log_guard"


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that the program holds for: a boolean sympy expression over size symbols.

    Attributes:
        expression: The condition.
        deferred: Whether it became an assertion inside the program instead of a guard on its inputs.
        place: The innermost line outside of torch that asked for it.
        sources: For each symbol in it, by name, torch's words for the size, such as ``L['x'].size()[0]``.
    """

    expression: Any
    deferred: bool
    place: Place | None
    sources: Mapping[str, str]

    @property
    def text(self) -> str:
        """The condition in the user's names, such as ``x.shape[1] <= 8``."""
        words = {symbol: user_words(source) for symbol, source in self.sources.items()}
        return re.sub(r"[A-Za-z_]\w*", lambda name: words.get(name[0], name[0]), str(self.expression))


def user_words(source: str) -> str:
    """``x.shape[0]`` for torch's ``L['x'].size()[0]``."""
    return re.sub(r"L\['(\w+)'\]", r"\1", source).replace(".size()", ".shape")


@dataclass
class GuardLog:
    """A context in which the guards of every capture are collected in `guards`."""

    guards: list[Guard] = field(default_factory=list)
    _original: Any = None

    def __enter__(self) -> GuardLog:
        if why_not() is None:
            from torch.fx.experimental.symbolic_shapes import ShapeEnv

            self._original = getattr(ShapeEnv, HOOK)
            setattr(ShapeEnv, HOOK, self._hook())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._original is not None:
            from torch.fx.experimental.symbolic_shapes import ShapeEnv

            setattr(ShapeEnv, HOOK, self._original)
            self._original = None

    def _hook(self) -> Any:
        original, guards = self._original, self.guards

        @functools.wraps(original)  # with its signature, which `why_not` looks at while a log is open
        def log_guard(env: Any, prefix: str, g: Any, forcing_spec: bool) -> None:
            symbols = {str(symbol) for symbol in getattr(g, "free_symbols", ())}
            sources = {str(v): k for k, v in env.source_to_var.items() if str(v) in symbols}
            guards.append(Guard(g, prefix.startswith("runtime_assert"), _place(), sources))
            original(env, prefix, g, forcing_spec)

        return log_guard


def _place() -> Place | None:
    return places.caller(sys._getframe(2))


def why_not() -> str | None:
    """Why the lines of guards cannot be known with this torch, or ``None``."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    hook = getattr(ShapeEnv, HOOK, None)
    if hook is None or list(inspect.signature(hook).parameters) != ["self", "prefix", "g", "forcing_spec"]:
        import torch

        return f"torch {torch.__version__} keeps guards in another way than exportlint knows"
    return None
