"""Model cases made of calls that somebody else's code makes: the existing tests of a repository, for example.

Each outermost call of a module is noted: a copy of the module at its first call, and copies of the arguments. What is
called must not notice: nothing is drawn, no mode sees the copies, and calls under a transform, a trace or a capture are
left alone.
"""

from __future__ import annotations

import copy
import fnmatch
import functools
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exportlint.checks.case import ModelCase
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from exportlint.checks.case import Inputs

MOST_CALLS = 16  # of one case whose arguments are kept
MOST_BYTES = 2**28  # of the arguments of one call


@dataclass
class Observed:
    """One class in one configuration, called with arguments of one structure.

    Attributes:
        name: What the case is called.
        where: Who made the first call.
        model: A copy of the module as it was at the first call.
        calls: Copies of the arguments, of calls with different sizes.
        number: How many calls there were.
        callers: Who made the calls that are kept, the first first.
    """

    name: str
    where: str
    model: torch.nn.Module
    calls: list[Inputs] = field(default_factory=list)
    shapes: set[tuple[tuple[int, ...], ...]] = field(default_factory=set)
    number: int = 0
    callers: dict[str, None] = field(default_factory=dict)

    def case(self) -> ModelCase:
        """The case: dimensions that varied between the calls are dynamic.

        The call with the fewest sizes of 1 among these is the example, since an export takes 1 for a constant.
        """
        sizes = [_sizes(inputs) for inputs in self.calls]
        varied = _varied(sizes)
        order = sorted(range(len(sizes)), key=lambda i: sum(sizes[i][leaf][d] == 1 for leaf, d in varied))
        example = order[0]
        others = sorted(order[1:], key=lambda i: -len(_varied([sizes[example], sizes[i]])))
        return ModelCase(
            self.model,
            *self.calls[example],
            name=self.name,
            more_inputs=[self.calls[i] for i in others],
            about=functools.partial(str, self.words(varied)),
        )

    def words(self, varied: set[tuple[int, int]]) -> str:
        """How the case was made, in one line."""
        calls = "1 call" if self.number == 1 else f"{self.number} calls"
        dims = f"{len(varied)} dimensions varied" if len(varied) != 1 else "1 dimension varied"
        return f"observed in {calls}, the first by {self.where}; {dims}"


class Observation:
    """Notes outermost calls from `start` to `stop`.

    Args:
        classes: Names, also with module and wildcards, of the classes to observe; empty for all but torch's own.
        limit: Most cases of one class.
    """

    def __init__(self, classes: tuple[str, ...] = (), limit: int = 3) -> None:
        self.classes = classes
        self.limit = limit
        self.where = ""
        self.left_out: dict[str, int] = {}
        self.called: dict[str, str] = {}  # classes of which modules were called, with and without their modules
        self._cases: dict[Any, Observed] = {}
        self._of_class: dict[type, int] = {}
        self._configurations: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._local = threading.local()
        self._original: Callable[..., Any] | None = None

    @property
    def started(self) -> bool:
        """Whether calls are noted."""
        return self._original is not None

    def start(self) -> None:
        """Begin; torch must have been imported."""
        import torch
        from torch import nn

        self._original = original = nn.Module.__call__
        local, note = self._local, self._note
        compiling: Callable[[], bool] = torch.compiler.is_compiling
        tracing: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]

        @functools.wraps(original)
        def observed(module: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling() or tracing() or getattr(local, "inside", False):
                return original(module, *args, **kwargs)
            local.inside = True
            try:
                take = note(module, args, kwargs)
                result = original(module, *args, **kwargs)
                take()  # what raises is no example
                return result
            finally:
                local.inside = False

        nn.Module.__call__ = observed  # type: ignore[method-assign]

    def stop(self) -> None:
        """End."""
        if self._original is not None:
            from torch import nn

            nn.Module.__call__ = self._original  # type: ignore[method-assign]
            self._original = None

    def cases(self) -> Iterator[tuple[tuple[str, ...], ModelCase]]:
        """Who made the calls, the first first, and the case, for each that was observed."""
        for found in self._cases.values():
            yield tuple(dict.fromkeys((found.where, *found.callers))), found.case()

    def _note(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None]:
        """Copy what a call is made with; returns what takes it in. What goes wrong here is not the caller's concern."""
        name = type(module).__qualname__
        try:
            if self._concerns(module) and not _watched():
                return self._copied(module, name, args, kwargs)
        except Exception as error:
            self._leave_out(f"{name}: {type(error).__name__}: {said(error)}".splitlines()[0])
        return _nothing

    def _copied(self, module: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None]:
        import torch

        structure = _structure((args, kwargs))
        if structure is None:
            self._leave_out(f"{name}: called with arguments that are neither tensors nor plain values")
            return _nothing
        key, sizes = (self._configuration(module), structure), _sizes((args, kwargs))
        with torch.no_grad():
            known = self._cases.get(key)
            found = known or self._new(module, name)
            if found is None:
                return _nothing
            new = sizes not in found.shapes and len(found.calls) < MOST_CALLS
            inputs = _copied((args, kwargs)) if new else None
        return functools.partial(self._take, key, type(module), found, sizes, inputs)

    def _new(self, module: Any, name: str) -> Observed | None:
        number = self._of_class.get(type(module), 0)
        if number >= self.limit:
            self._leave_out(f"{name}: more than {self.limit} configurations")
            return None
        return Observed(name if not number else f"{name}-{number + 1}", self.where, copy.deepcopy(module))

    def _take(
        self, key: Any, cls: type, found: Observed, sizes: tuple[tuple[int, ...], ...], inputs: Inputs | None
    ) -> None:
        """Take in a call that returned."""
        if key not in self._cases:
            self._cases[key] = found
            self._of_class[cls] = self._of_class.get(cls, 0) + 1
        found.number += 1
        if inputs is not None:
            found.calls.append(inputs)
            found.shapes.add(sizes)
            found.callers[self.where] = None

    def _concerns(self, module: Any) -> bool:
        cls = type(module)
        full = f"{cls.__module__}.{cls.__qualname__}"
        if not self.classes and cls.__module__.partition(".")[0] == "torch":
            return False
        self.called[full] = cls.__qualname__
        return not self.classes or any(is_called_so(full, cls.__qualname__, asked) for asked in self.classes)

    def _configuration(self, module: Any) -> Any:
        """What tells apart two modules of a class: what they print, and the shapes and dtypes of their state."""
        known = self._configurations.get(module)
        if known is None or known[0] != module.training:
            cls = type(module)
            state = tuple((key, tuple(t.shape), str(t.dtype)) for key, t in module.state_dict(keep_vars=True).items())
            config = getattr(module, "config", None)
            known = (module.training, cls, repr(module), state, repr(config) if config is not None else "")
            self._configurations[module] = known
        return known

    def _leave_out(self, words: str) -> None:
        self.left_out[words] = self.left_out.get(words, 0) + 1


def is_called_so(full: str, short: str, asked: str) -> bool:
    """Whether a class is meant that is called so with its module, and so without; the name may hold wildcards."""
    return fnmatch.fnmatchcase(full, asked) or fnmatch.fnmatchcase(short, asked)


def _nothing() -> None:
    """Take nothing in."""


def _watched() -> bool:
    from exportlint.torch_hooks import modes

    return modes.active()


def _is_tensor(leaf: Any) -> bool:
    import torch

    return type(leaf) in (torch.Tensor, torch.nn.Parameter)


def _structure(inputs: Inputs) -> Any:
    """What calls of one case have in common: structure, ranks, dtypes, devices, plain values; ``None`` for others."""
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten(inputs)
    common: list[Any] = []
    size = 0
    for leaf in leaves:
        if _is_tensor(leaf):
            common.append((leaf.dim(), str(leaf.dtype), str(leaf.device)))
            size += leaf.numel() * leaf.element_size()
        elif leaf is None or isinstance(leaf, (bool, int, float, str)):
            common.append((type(leaf).__name__, leaf))
        else:
            return None
    return None if size > MOST_BYTES else (str(spec), tuple(common))


def _sizes(inputs: Inputs) -> tuple[tuple[int, ...], ...]:
    """The shapes of all tensors."""
    from torch.utils import _pytree as pytree

    return tuple(tuple(leaf.shape) for leaf in pytree.tree_leaves(inputs) if _is_tensor(leaf))


def _varied(sizes: list[tuple[tuple[int, ...], ...]]) -> set[tuple[int, int]]:
    """The dimensions, by tensor and number, that are not the same in all calls."""
    first = sizes[0]
    return {
        (leaf, d)
        for leaf, shape in enumerate(first)
        for d in range(len(shape))
        if len({other[leaf][d] for other in sizes}) > 1
    }


def _copied(inputs: Inputs) -> Inputs:
    from torch.utils import _pytree as pytree

    copied: Inputs = pytree.tree_map(lambda leaf: leaf.detach().clone() if _is_tensor(leaf) else leaf, inputs)
    return copied
