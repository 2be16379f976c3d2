"""Where the devices and the tensors of an eager run come from.

`Provenance` watches a run of a model. Each call that makes or moves a tensor is labelled *followed* (its device comes
from a tensor of the model or its inputs), *literal* (written down) or *missing* (none given), with the caller's line.
On the second device it also remembers the *origin* of each tensor that stayed on the CPU, through every operator, so
that a mismatch is blamed on the line that made the tensor and not on the one that used it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from exportlint import places
from exportlint.devices import hooks, questions
from exportlint.devices.kept import Kept, KeptTensors
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from exportlint.places import Place

Label = Literal["followed", "literal", "missing"]

# What `Tensor.device` answers in a watched run on the CPU: a literal "cpu" has no index, so the two can be told apart.
FOLLOWED_CPU = torch.device("cpu", 0)

_DATA = frozenset({"tensor", "as_tensor", "asarray"})
_FACTORIES = (
    _DATA
    | {
        "arange",
        "range",
        "linspace",
        "logspace",
        "zeros",
        "ones",
        "full",
        "empty",
        "empty_strided",
        "eye",
        "from_numpy",
    }
    | {"rand", "randn", "randint", "randperm", "normal", "tril_indices", "triu_indices", "scalar_tensor", "fft_fftfreq"}
    | {"fft_rfftfreq", "sparse_coo_tensor", "hann_window", "hamming_window", "blackman_window", "bartlett_window"}
    | {"kaiser_window", "from_numpy", "frombuffer", "from_file"}
)
# What the constructors of tensor types (torch.Tensor(...), torch.FloatTensor(...)) and from_numpy show of themselves.
_BIRTHS = {"lift_fresh": "a tensor constructor", "empty": "a tensor constructor", "lift": "a tensor constructor"}
_MOVES = frozenset({"to", "cpu", "cuda", "xpu", "mps", "type"})
_HOME = frozenset({"cpu", "meta"})
MISMATCH = re.compile(
    r"two different devices|at least two devices|(on|at|have) the same device|on the expected device|device between"
    r"|to have \S+ device",
    re.IGNORECASE,
)
_DEPTH_OF_CHAIN = 16
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Made:
    """A call that made or moved a tensor.

    Attributes:
        label: Where its device comes from.
        call: The function, such as ``torch.arange``.
        device: The device as it was given; `None` when none was.
        place: The innermost line that is the user's.
        chain: The user's lines that led there, innermost first.
        earlier: Whether it was in an earlier run.
    """

    label: Label
    call: str
    device: str | None
    place: Place | None
    chain: tuple[Place, ...] = ()
    earlier: bool = False


Origin = Made | Kept


class Provenance(TorchFunctionMode):
    """Watches a run; use as a context manager around it, under `torch.no_grad`.

    Args:
        home: Device type of the model and its inputs: ``cpu``, or the second device's name. On the CPU `Tensor.device`
            answers with an index while the run is watched, if `marked`.
        kept: Tensors outside the state dict, by `find_kept`.
        births: Whether to see tensors that are made outside torch's functions, and what happens inside ``cond`` and
            ``while_loop``; not possible while tracing.
        earlier: What watched an earlier run in this process, on the CPU: it knows the tensors that caches still hold.
        marked: Whether devices of the CPU are told apart by an index. A model that asks for the name of its device
            takes another path then; without the index, what is on the CPU counts as followed.

    Attributes:
        calls: The labelled calls, in order, each once.
        foreign: Those that wrote down a device that is neither the CPU nor the model's. They are carried out on the
            CPU, so that the run goes on.
        writes: Tensors outside the state dict that were written in place, with the line.
        autocasts: Device types that `torch.autocast` was switched on for and that are not `home`, with the line.
        reads: Lines that read a device, whether a tensor is on one, or which the machine has.
        blamed: Where the CPU tensor came from when a call raised an error of mixed devices.
        refused: What branches of ``cond`` raised that the example does not take, each with what is blamed.
    """

    def __init__(
        self,
        home: str,
        kept: KeptTensors | None = None,
        *,
        births: bool = True,
        earlier: Provenance | None = None,
        marked: bool = True,
    ) -> None:
        super().__init__()
        self.calls: dict[Made, None] = {}
        self.foreign: dict[Made, None] = {}
        self.writes: dict[tuple[Kept, Place | None], None] = {}
        self.autocasts: dict[tuple[str, Place | None], None] = {}
        self.reads: dict[Place, None] = {}
        self.blamed: Origin | None = None
        self.refused: list[tuple[Exception, Origin | None]] = []
        self._home = home
        self._kept = kept if kept is not None else KeptTensors()
        self._origins: Any = WeakTensorKeyDictionary()
        # a parameter made of a tensor is another object with the same memory; held so that no address is used twice
        self._memory: dict[int, tuple[Any, Origin]] = {}
        self._births = births
        self._earlier = earlier
        self._marked = marked and home == "cpu"
        self._in_call = False
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Provenance:
        self._exits.enter_context(_watched_autocast(self._saw_autocast))
        if self._births:
            self._exits.enter_context(hooks.uncompiled())
            self._exits.enter_context(questions.watched(self._saw_question))
        if self._births and self._home != "cpu":
            self._exits.enter_context(_Births(self._saw_birth))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._exits.close()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Label the call, carry it out, and note where its results come from."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__" or questions.asks_for_type(name, args, kwargs):
            return self._read(func, args)
        inside = hooks.control_flow(func, args, kwargs, self._aside) if self._births else None
        if inside is not None:
            return self._see_inside(inside)
        if isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)  # an operator, not a function: `_Births` sees it
        made = self._label(name, args, kwargs)
        if made is not None and made in self.foreign:
            func, args, kwargs = _on_cpu(func, args, kwargs)
        self._note_write(name, args, kwargs)
        before, self._in_call = self._in_call, made is not None
        try:
            result = func(*args, **kwargs)
        except RuntimeError as error:
            if self.blamed is None and MISMATCH.search(said(error)):
                self.blamed = self._origin_of_arguments(args, kwargs) or made
            raise
        finally:
            self._in_call = before
        if self._home != "cpu" or made is not None or len(self._origins):
            self._pass_on(result, args, kwargs, made)
        return result

    def _see_inside(self, inside: Callable[[], Any]) -> Any:
        super().__enter__()  # type: ignore[no-untyped-call]
        try:
            return inside()
        finally:
            super().__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _aside(self, branch: Callable[[], Any]) -> None:
        """Run what the example does not take: the program holds it as well."""
        blamed, self.blamed = self.blamed, None
        try:
            branch()
        except MemoryError:
            raise
        except Exception as error:
            self.refused.append((error, self.blamed))
        finally:
            self.blamed = blamed

    def origin(self, tensor: torch.Tensor) -> Origin | None:
        """Where a CPU tensor came from, as far as the run so far tells."""
        known: Origin | None = self._kept.get(tensor) or self._origins.get(tensor)
        if known is None and self._memory:
            known = self._memory.get(_address(tensor), (None, None))[1]
        if known is None and self._earlier is not None:
            known = self._earlier.origin(tensor)
            known = dataclasses.replace(known, earlier=True) if isinstance(known, Made) else known
        return known

    def alive(self) -> list[torch.Tensor]:
        """The tensors of the run, as far as their origins are known, that something still holds."""
        return list(self._origins)

    def _read(self, func: Any, args: Any) -> Any:
        value = func(*args)
        if func in _READS or func is torch.Tensor.type:
            place = places.caller(sys._getframe(2))
            if place is not None:
                self.reads[place] = None
            if self._marked and isinstance(value, torch.device) and value.type == "cpu":
                return FOLLOWED_CPU
        return value

    def _saw_question(self, _: Any, place: Place, ask: Callable[[], Any]) -> Any:
        self.reads[place] = None
        return ask()

    def _label(self, name: str, args: Any, kwargs: Any) -> Made | None:
        if name in _FACTORIES:
            if name in _DATA and args and isinstance(args[0], torch.Tensor) and kwargs.get("device") is None:
                return None  # keeps the device of its argument
            given = kwargs.get("device", args[2] if name in _DATA and len(args) > 2 else None)
        else:
            # factories that follow a tensor, and moves, count when they name a device
            given = _target(name, args, kwargs) if name in _MOVES else kwargs.get("device")
            if given is None:
                return None
        return self._made(_written(name), given, sys._getframe(2))

    def _made(self, call: str, given: Any, frame: FrameType) -> Made:
        device = None if given is None else torch.device(given)
        chain = tuple(_chain(frame))
        label: Label = "missing" if device is None else "followed" if self._follows(device) else "literal"
        made = Made(label, call, None if device is None else str(device), chain[0] if chain else None, chain)
        self.calls[made] = None
        if label == "literal" and device is not None and device.type not in _HOME | {self._home}:
            self.foreign[made] = None
        return made

    def _follows(self, device: torch.device) -> bool:
        return device == FOLLOWED_CPU if self._marked else device.type == self._home

    def _note_write(self, name: str, args: Any, kwargs: Any) -> None:
        """A write into a tensor outside the state dict; views of it count."""
        in_place = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
        target = args[0] if in_place and args else kwargs.get("out")
        if isinstance(target, torch.Tensor) and len(self._kept):
            kept = self._kept.owner(target)
            if kept is not None:
                self.writes[kept, places.caller(sys._getframe(2))] = None

    def _origin_of_arguments(self, args: Any, kwargs: Any) -> Origin | None:
        leaves = pytree.arg_tree_leaves(*args, **kwargs)
        found = [self.origin(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu"]
        return next((origin for origin in found if origin is not None), None)

    def _pass_on(self, result: Any, args: Any, kwargs: Any, made: Made | None) -> None:
        """Results on the CPU come from where the CPU arguments came from, else from this call."""
        results = [
            leaf
            for leaf in ([result] if isinstance(result, torch.Tensor) else pytree.tree_leaves(result))
            if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu"
        ]
        if not results:
            return
        origin = (None if made in self.foreign else self._origin_of_arguments(args, kwargs)) or made
        if origin is None:
            return
        for leaf in results:
            if made is not None or self.origin(leaf) is None:
                self._origins[leaf] = origin
                address = _address(leaf) if self._births and self._home != "cpu" else 0
                if address and len(self._memory) < _MOST_REMEMBERED:
                    self._memory.setdefault(address, (leaf.untyped_storage(), origin))

    def _saw_birth(self, operator: Any, args: Any, kwargs: Any, result: Any) -> None:
        """An operator below torch's functions made a tensor: a constructor, or code of torch itself."""
        if self._in_call:
            return
        name = operator.name().partition("::")[2].partition(".")[0]
        taken = pytree.arg_tree_leaves(*args, **kwargs)
        born = name in _BIRTHS or not any(isinstance(leaf, torch.Tensor) for leaf in taken)
        made = self._made(_BIRTHS.get(name, name), None, sys._getframe(2)) if born else None
        self._pass_on(result, () if born else args, {} if born else kwargs, made)

    def _saw_autocast(self, device_type: str, frame: FrameType) -> None:
        if device_type != self._home:
            self.autocasts[device_type, places.caller(frame)] = None


_READS = frozenset(
    getattr(torch.Tensor, name).__get__ for name in ("device", "is_cuda", "is_cpu", "is_mps", "is_xpu", "is_meta")
)


class _Births(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells `saw` of every operator and what it returned."""

    supports_higher_order_operators = True

    def __init__(self, saw: Callable[[Any, Any, Any, Any], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._saw = saw

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._saw(func, args, kwargs or {}, result)
        return result


def _address(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0  # no memory of its own: fake, meta, or a wrapper


def _target(name: str, args: Any, kwargs: Any) -> Any:
    """The device that a move names; `None` when it names none, but a dtype or another tensor."""
    if name in ("cpu", "cuda", "xpu", "mps"):
        return name
    second = args[1] if len(args) > 1 else None
    if name == "type":
        second = kwargs.get("dtype", second)
        parts = second.split(".") if isinstance(second, str) else []
        return None if not parts else parts[1] if len(parts) > 2 else "cpu"
    given = kwargs.get("device", second)
    return given if isinstance(given, (str, int, torch.device)) and not isinstance(given, bool) else None


def _written(name: str) -> str:
    """The call as its author writes it."""
    of_tensor = name in _MOVES or name.startswith("new_")
    return f"Tensor.{name}" if of_tensor else f"torch.{name.replace('fft_', 'fft.', 1)}"


def _on_cpu(func: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """The same call with the CPU in place of the device that it names."""
    name = getattr(func, "__name__", "")
    if name in ("cuda", "xpu", "mps", "type"):
        return torch.Tensor.cpu, args[:1], {}
    given = {name: value for name, value in kwargs.items() if name != "device"}
    kept = [arg for arg in args if not isinstance(arg, (str, torch.device))]
    if name == "to" and isinstance(args[1] if len(args) > 1 else None, int):
        kept = [args[0], *args[2:]]
    return func, tuple(kept[:1]) + (("cpu",) if name == "to" else ()) + tuple(kept[1:]), given


def _chain(frame: FrameType | None) -> Iterator[Place]:
    """The user's lines from this frame outwards, the innermost first."""
    found = 0
    while frame is not None and found < _DEPTH_OF_CHAIN:
        place = places.of_frames([(frame.f_code.co_filename, frame.f_lineno)])
        if place is not None:
            found += 1
            yield place
        frame = frame.f_back


@contextlib.contextmanager
def _watched_autocast(saw: Callable[[str, FrameType], None]) -> Iterator[None]:
    """Within it, `saw` is told of each `torch.autocast` that is made to be switched on."""
    init = torch.autocast.__init__

    def watched(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, **kwargs: Any) -> None:
        if enabled and isinstance(device_type, str):
            saw(device_type, sys._getframe(1))
        init(self, device_type, dtype, enabled, **kwargs)

    torch.autocast.__init__ = watched  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        torch.autocast.__init__ = init  # type: ignore[method-assign]
