"""The same call in float64: what eager and program both approximate, and so the yardstick for their difference.

Casts to a smaller floating-point type inside the model, and factories that ask for one, give float64 as well. What is
still computed in less is noted: such a reference is only partly one. The types that are lifted are noted too, since a
float32 result of bfloat16 steps is as far from float64 as those make it.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from exportlint import places
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from exportlint.parity.tolerance import Allowance

SMALLER = frozenset({torch.float32, torch.float16, torch.bfloat16})
WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128, **dict.fromkeys(SMALLER, torch.float64)}
MAX_PLACES = 3

_lifted: contextvars.ContextVar[set[torch.dtype]] = contextvars.ContextVar("lifted")  # by what is prepared now


@dataclass
class Reference:
    """A result in float64 that is computed when it is first asked for, once.

    Attributes:
        prepare: Makes a model with `in_double` and arguments with `widened`, and returns the call of both.
        why_not: Why there is no result, once it was asked for and there is none.
        partly: Operators that returned less than float64, with their lines.
        notes: What was judged by this reference, in words for a reader.
        left: What the call left in its arguments and in buffers, by name, once there is a result; see `of_left`.
        name: What is judged, for the notes.
        lifted: The types that stand for float64 here, and that the model itself computes in.
    """

    prepare: Callable[[], Callable[[], Any]]
    why_not: str | None = None
    partly: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    left: dict[str, Any] = field(default_factory=dict)
    name: str = "output"
    lifted: set[torch.dtype] = field(default_factory=set)
    _made: bool = False
    _result: Any = None

    def result(self) -> Any:
        """The result, or ``None``."""
        if not self._made:
            self._made = True
            mode = _InDouble(self.lifted)
            try:
                with torch.no_grad():
                    call = self._prepared()
                    # Compiled under a mode, branches could be captured no more in this process.
                    with torch.compiler.set_stance("force_eager"), _default_dtype(), _Autocast(self.lifted), mode:
                        self._result = call()
            except MemoryError:
                raise
            except Exception as error:
                self.why_not = f"{type(error).__name__}: {said(error)}".splitlines()[0][:200]
            self.partly = tuple(mode.smaller)[:MAX_PLACES]
        return self._result

    def _prepared(self) -> Callable[[], Any]:
        token = _lifted.set(self.lifted)
        try:
            return self.prepare()
        finally:
            _lifted.reset(token)

    def coarsest(self, eps: float) -> float:
        """The largest epsilon of the types that the model computes in, at least this one; known once it was run."""
        return max([eps, *(torch.finfo(dtype).eps for dtype in self.lifted)])

    def of_left(self, name: str) -> Reference:
        """A reference for what the call left in an argument or a buffer; the model is not run again."""

        def prepare() -> Callable[[], Any]:
            self.result()
            if self.why_not is not None:
                raise RuntimeError(self.why_not)
            return lambda: self.left[name]

        return Reference(prepare, notes=self.notes, name=name, lifted=self.lifted)

    def tell(self, where: str, allowed: Allowance, error: float) -> None:
        """Note that an output was judged by its distance from float64, and by what eager's own distance is."""
        where = where.replace("output", self.name, 1)
        words = f"{where} is not equal bit for bit: {error:.2g} (rms) from float64, and eager {allowed.own:.2g}"
        if self.partly:
            words += f"; {self.reservation()}"
        self.notes[:] = [*(note for note in self.notes if not note.startswith(f"{where} ")), words]

    def reservation(self) -> str:
        """What a reader must know of the reference where something was judged by it; empty for nothing."""
        if self.why_not is not None:
            return f"there is no float64 reference: {self.why_not}"
        if self.partly:
            return f"the float64 run is only partly float64, since it computes in less in {', '.join(self.partly)}"
        return ""

    def useless(self, where: str) -> None:
        """Note that eager is nowhere near float64, so that the dtype alone decided what is allowed."""
        where = where.replace("output", self.name, 1)
        words = "the model takes another way in float64, so the tolerance follows from the dtype"
        self.notes[:] = [
            *(note for note in self.notes if not note.startswith(f"{where} ")),
            f"{where} differs: {words}",
        ]

    def leaf(self, index: int, number: int, like: torch.Tensor) -> torch.Tensor | None:
        """The tensor at this place among so many leaves; ``None`` where there is none of this shape."""
        leaves = pytree.tree_leaves(self.result())
        if self.why_not is None and len(leaves) != number:
            self.why_not = f"it returns {len(leaves)} values in float64, and {number} in its own precision"
        if self.why_not is not None:
            self.notes[:] = [f"no float64 reference, so the tolerance follows from the dtype: {self.why_not}"]
        found = leaves[index] if self.why_not is None else None
        return found if isinstance(found, torch.Tensor) and found.shape == like.shape else None


class _InDouble(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lifts what asks for a smaller floating-point type to float64, and notes what returns one all the same."""

    supports_higher_order_operators = True  # branches and loops are run as they are: what is inside is not lifted

    def __init__(self, lifted: set[torch.dtype]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lifted = lifted
        self.smaller: dict[str, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in WIDE:
            self.lifted.add(kwargs["dtype"])
            kwargs["dtype"] = WIDE[kwargs["dtype"]]
        result = func(*args, **kwargs)
        if any(isinstance(leaf, torch.Tensor) and leaf.dtype in WIDE for leaf in pytree.tree_leaves(result)):
            place = places.caller(sys._getframe(1))
            where = f" at {places.display_path(place.file)}:{place.line}" if place is not None else ""
            self.smaller[f"{func}{where}"] = None
        return result


class _Autocast(TorchFunctionMode):
    """Notes the type of autocast, which leaves float64 as it is."""

    def __init__(self, lifted: set[torch.dtype]) -> None:
        super().__init__()
        self.lifted = lifted

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in args:
            if isinstance(leaf, torch.Tensor) and torch.is_autocast_enabled(leaf.device.type):
                self.lifted.add(torch.get_autocast_dtype(leaf.device.type))
        return func(*args, **(kwargs or {}))


def _note(tensor: torch.Tensor) -> None:
    if tensor.dtype in WIDE:
        _lifted.get(set()).add(tensor.dtype)


@contextlib.contextmanager
def _default_dtype() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def in_double(model: nn.Module) -> nn.Module:
    """The model itself, with parameters, buffers and tensors kept as attributes in float64."""
    for tensor in (*model.parameters(), *model.buffers()):
        _note(tensor)
    model.double()
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and value.dtype in WIDE:
                vars(module)[name] = value.to(WIDE[value.dtype])
    return model


def widened(tree: Any) -> Any:
    """A copy of nested arguments with floating-point tensors in float64 and complex ones in complex128."""

    def wide(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            _note(leaf)
            return leaf.detach().to(WIDE.get(leaf.dtype, leaf.dtype), copy=True)
        return copy.deepcopy(leaf)

    return pytree.tree_map(wide, tree)
