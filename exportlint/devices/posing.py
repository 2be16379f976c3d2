"""Branches on the device, found without one: runs on the CPU in which tensors say that they are elsewhere.

A posing run computes on the CPU, while ``x.device``, ``x.is_cuda`` and their like answer as they would on another
device, and ``torch.cuda.is_available()`` as on a machine that has it; where the answer is used to make or move a
tensor, the CPU takes its place. In the plain run the machine has no accelerator, whatever it has. When the calls or
the numbers then differ from the plain run's, something was decided by the device. Posing at one line at a time tells
which line it was; where it takes several, the last of them is named.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from exportlint import places
from exportlint.devices import hooks, questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from exportlint.devices.questions import Question
    from exportlint.places import Place

TYPES = ("cuda", "mps")
_NAMED_ONLY = frozenset({"xpu"})  # posed as where the model asks for it by name
_MOST_LINES = 16  # lines to pose at, one by one
_CPU = torch.device("cpu")
_FLAGS = {getattr(torch.Tensor, f"is_{kind}").__get__: kind for kind in ("cuda", "cpu", "mps", "xpu")}
_DEVICE = torch.Tensor.device.__get__
# Calls that move or lay out a tensor, ask about it, or switch a mode, also while an error passes; and compute nothing.
_NEUTRAL = frozenset(
    {
        "requires_grad_",
        "_set_grad_enabled",
        "_enter_autocast",
        "_exit_autocast",
        "_enter_inference_mode",
        "_exit_inference_mode",
    }
    | {"cpu", "cuda", "mps", "xpu", "contiguous", "clone", "detach", "get_device", "is_contiguous", "is_floating_point"}
    | {"size", "dim", "stride", "numel", "element_size", "is_complex", "__format__", "__repr__", "__len__", "__hash__"}
)
# Dtypes that a device type cannot hold.
_LACKING = {"mps": frozenset({torch.float64, torch.complex128})}

Operand = tuple[str, int, bytes]
Call = tuple[str, tuple[str, ...], tuple[tuple[torch.dtype, torch.Size], ...], tuple[Operand, ...]]
_SAMPLE = 64  # numbers at the beginning and at the end by which tensors are told apart


@dataclass(slots=True)
class Run:
    """What a run called, and how it ended.

    Attributes:
        calls: The torch functions: name, Python numbers and texts among the arguments, dtypes and shapes of the results
            and, as `_Tensors` tells, which tensors the arguments are.
        reads: The user's lines that asked for a device, in order.
        questions: Those of them that asked what the machine has.
        at_making: Whether some were asked while the model was made.
        named: Types of devices beside `TYPES` that they asked for by name.
        result: What the model returned.
        error: What it raised instead.
        aside: The same of each branch of ``cond`` that it did not take.
    """

    calls: list[Call] = field(default_factory=list)
    reads: dict[Place, None] = field(default_factory=dict)
    questions: set[Place] = field(default_factory=set)
    at_making: bool = False
    named: set[str] = field(default_factory=set)
    result: Any = None
    error: Exception | None = None
    aside: list[Run] = field(default_factory=list)

    def all_calls(self) -> Iterator[Call]:
        """The calls, of branches that were not taken too."""
        yield from self.calls
        for run in self.aside:
            yield from run.all_calls()


@dataclass(frozen=True, slots=True)
class Branch:
    """A line at which the device decides what is computed.

    Attributes:
        place: The line that asks for the device.
        device_type: The type of device on which another path is taken.
        what: The first thing that differs, in words.
        plain: The run in which tensors told the truth.
        run: The run in which only this line, and those that it takes as well, were told of the other device.
        lacking: The dtype of the plain run's own path that the other device cannot hold, if there is one.
    """

    place: Place
    device_type: str
    what: str
    plain: Run
    run: Run
    lacking: torch.dtype | None

    @property
    def asks_the_machine(self) -> bool:
        """Whether the line asks what the machine has, and not where a tensor is."""
        return self.place in self.run.questions


class _Tensors:
    """Tells which tensor an argument is, so that two runs agree on it.

    The result of a call is that of the call of this number; other tensors are numbered as they are met, and told apart
    by some of their values too. None is kept alive.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], Operand]] = {}
        self._met = 0

    def operands(self, args: Any, kwargs: dict[str, Any]) -> tuple[Operand, ...]:
        """The tensors among the arguments, in order."""
        leaves = pytree.arg_tree_leaves(*args, **dict(sorted(kwargs.items())))
        return tuple(self._operand(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))

    def made(self, result: Any, name: str, number: int) -> None:
        """Note the results of a call."""
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._known[id(leaf)] = weakref.ref(leaf), (f"{name}#{number}", number, b"")

    def moved(self, source: Any, result: Any) -> None:
        """Note that a call only moved or copied a tensor."""
        if isinstance(source, torch.Tensor) and isinstance(result, torch.Tensor) and source is not result:
            self._known[id(result)] = weakref.ref(result), self._operand(source)

    def _operand(self, tensor: torch.Tensor) -> Operand:
        reference, operand = self._known.get(id(tensor), (None, None))
        if reference is None or operand is None or reference() is not tensor:
            self._met += 1
            operand = _made_of(tensor), -self._met, _sample(tensor)
            self._known[id(tensor)] = weakref.ref(tensor), operand
        return operand


def _made_of(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _sample(tensor: torch.Tensor) -> bytes:
    """Some of its values; nothing of tensors that have none at hand."""
    try:
        flat = tensor.detach().view(-1)
        parts = flat[:_SAMPLE], flat[-_SAMPLE:]
        return b"".join(bytes(part.view(torch.uint8).tolist()) for part in parts)
    except Exception:  # no data, another layout, not contiguous
        return b""


class _Posing(TorchFunctionMode):
    """Notes the calls of a run; with a device type, answers questions for the device as tensors there would."""

    def __init__(self, device_type: str | None, only: Iterable[Place] | None) -> None:
        super().__init__()
        self.begin(Run())
        self._device = None if device_type is None else torch.device(device_type, 0)
        self._only = None if only is None else frozenset(only)

    def begin(self, run: Run) -> None:
        """Note what follows in this run."""
        self.run = run
        self._tensors = _Tensors()

    def answer(self, question: Question, place: Place, _: Any) -> Any:
        """Say what the machine has, which is one device of the type, or none."""
        self.run.reads[place] = None
        self.run.questions.add(place)
        self._name(question.device_type)
        return question.on_a_machine_with(self._device.type if self._device is not None and self._told(place) else None)

    def _name(self, device_type: str) -> None:
        if device_type in _NAMED_ONLY:
            self.run.named.add(device_type)

    def _told(self, place: Place) -> bool:
        return self._only is None or place in self._only

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer for the device, or carry the call out on the CPU."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "get_device") or questions.asks_for_type(name, args, kwargs):
            return self._answer(func, name, args)
        inside = hooks.control_flow(func, args, kwargs, self._aside)
        if inside is not None:
            with self:
                return inside()
        if self._device is not None and self._named_in(name, args, kwargs):
            args, kwargs = _without(self._device.type, args, kwargs)
            if name == self._device.type:  # x.cuda()
                func, args, kwargs = torch.Tensor.cpu, args[:1], {}
        operands = self._tensors.operands(args, kwargs)
        result = func(*args, **kwargs)
        if name in _NEUTRAL or _only_moves(name, args, result):
            self._tensors.moved(next(iter(args), None), result)
        else:
            self._tensors.made(result, name, len(self.run.calls))
            self.run.calls.append((name, _constants(args, kwargs), _results(result), operands))
        return result

    def _aside(self, branch: Callable[[], Any]) -> None:
        """Run what the example does not take, as a run of its own."""
        outer = self.run
        self.run = Run(reads=outer.reads, questions=outer.questions, named=outer.named)
        outer.aside.append(self.run)
        try:
            self.run.result = branch()
        except MemoryError:
            raise
        except Exception as error:
            self.run.error = error
        finally:
            self.run = outer

    def _answer(self, func: Any, name: str, args: Any) -> Any:
        value = func(*args)
        if not (func == _DEVICE or func in _FLAGS or name in ("get_device", "type")):
            return value
        place = places.caller(sys._getframe(2))
        if place is None:
            return value
        self.run.reads[place] = None
        self._name(_FLAGS.get(func, ""))
        on_the_cpu = args[0].device.type == "cpu" if self._device is not None else False
        if self._device is None or not on_the_cpu or not self._told(place):
            return value
        if func == _DEVICE:
            return self._device
        if name == "type":
            return value.replace("torch.", f"torch.{self._device.type}.", 1)
        return 0 if name == "get_device" else _FLAGS[func] == self._device.type

    def _named_in(self, name: str, args: Any, kwargs: Any) -> bool:
        wanted = self._device.type if self._device is not None else ""
        leaves = [kwargs.get("device"), *(args[1:] if name in ("to", "type") else ()), *args]
        return name == wanted or any(_is_device(leaf, wanted) for leaf in leaves)


def _is_device(value: Any, device_type: str) -> bool:
    if isinstance(value, torch.device):
        return value.type == device_type
    return isinstance(value, str) and (value.partition(":")[0] == device_type or _is_type_of(value, device_type))


def _is_type_of(value: str, device_type: str) -> bool:
    return value.startswith(f"torch.{device_type}.")


def _without(device_type: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments with the CPU in place of the device type."""

    def on_cpu(leaf: torch.device | str) -> torch.device | str:
        if isinstance(leaf, str) and _is_type_of(leaf, device_type):
            return leaf.replace(f"{device_type}.", "", 1)
        return _CPU if _is_device(leaf, device_type) else leaf

    replaced: tuple[Any, Any] = pytree.tree_map_only((torch.device, str), on_cpu, (tuple(args), dict(kwargs)))
    return replaced


def _constants(args: Any, kwargs: Any) -> tuple[str, ...]:
    """The Python numbers and texts among the arguments, other than names of devices."""
    leaves = pytree.arg_tree_leaves(*args, **kwargs)
    return tuple(repr(leaf) for leaf in leaves if isinstance(leaf, (int, float, str)) and not _names(leaf))


def _names(leaf: Any) -> bool:
    """Whether it is a text that names a device."""
    return isinstance(leaf, str) and leaf.partition(":")[0] in {"cpu", "meta", *TYPES, *_NAMED_ONLY}


def _results(result: Any) -> tuple[tuple[torch.dtype, torch.Size], ...]:
    leaves = [result] if isinstance(result, torch.Tensor) else pytree.tree_leaves(result)
    return tuple((leaf.dtype, leaf.shape) for leaf in leaves if isinstance(leaf, torch.Tensor))


def _only_moves(name: str, args: Any, result: Any) -> bool:
    """Whether the call is a conversion that kept the dtype."""
    if name not in ("to", "type", "type_as"):
        return False
    return not isinstance(result, torch.Tensor) or result.dtype == args[0].dtype


def watch(call: Callable[[], Any], device_type: str | None = None, only: Iterable[Place] | None = None) -> Run:
    """Carry the call out twice and note what the second does: caches by device or length are filled by then.

    Args:
        call: Runs a model, always the same, under `torch.no_grad`.
        device_type: What tensors say their device is; `None` for the truth.
        only: The lines that are told so; `None` for every line.
    """
    return _fresh_run(lambda: call, device_type, only)[0]


def _fresh_run(
    fresh: Callable[[], Callable[[], Any]], device_type: str | None = None, only: Iterable[Place] | None = None
) -> tuple[Run, Callable[[], Any]]:
    """The same for a model that is made first, which is told alike what the machine has; and what runs it."""
    mode = _Posing(device_type, only)
    call: Callable[[], Any] = lambda: None  # noqa: E731 - there is none where making it fails
    try:
        with questions.watched(mode.answer):
            call = fresh()
        made = mode.run
        mode.begin(Run())
        with _posing_autocast(device_type), hooks.uncompiled(), questions.watched(mode.answer), mode:
            call()
            mode.begin(Run(reads=dict(made.reads), questions=set(made.questions), named=set(made.named)))
            mode.run.at_making = bool(made.reads)
            mode.run.result = call()
    except MemoryError:
        raise
    except Exception as error:
        mode.run.error = error
    return mode.run, call


@contextlib.contextmanager
def _posing_autocast(device_type: str | None) -> Iterator[None]:
    """Within it, autocast for the device type that is posed as is the CPU's."""
    init = torch.autocast.__init__

    def posing(self: Any, wanted: str, *args: Any, **kwargs: Any) -> None:
        init(self, "cpu" if wanted == device_type else wanted, *args, **kwargs)

    torch.autocast.__init__ = posing  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        torch.autocast.__init__ = init  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class Stopped:
    """A run that posed as being on a type of device, and raised before anything differed."""

    device_type: str
    error: Exception


def branches(
    fresh: Callable[[], Callable[[], Any]], device_types: Sequence[str] = TYPES
) -> tuple[list[Branch], list[Stopped]]:
    """The lines at which a device of one of these types would change what is computed; and where that is not known.

    Args:
        fresh: Makes a model and returns what runs it, under `torch.no_grad`.
        device_types: Any of `TYPES`; a rarer type is added where the model asks for it by name.
    """
    plain, call = _fresh_run(fresh)
    found: list[Branch] = []
    stopped: list[Stopped] = []
    if plain.error is not None:
        return found, stopped
    for device_type in (*device_types, *(plain.named - set(device_types))):
        full = _fresh_run(fresh, device_type)[0] if plain.at_making else watch(call, device_type)
        if _difference(plain, full) is not None:
            found += _branches_of(fresh, device_type, list(full.reads)[:_MOST_LINES])
        elif full.error is not None:
            stopped.append(Stopped(device_type, full.error))
    return found, stopped


def _branches_of(fresh: Callable[[], Callable[[], Any]], device_type: str, lines: list[Place]) -> list[Branch]:
    """Those of the lines that make the difference alone; a fresh model each, since runs may leave something behind."""
    plain, again = _fresh_run(fresh)[0], _fresh_run(fresh)[0]
    exact = _difference(plain, again) is None
    if not exact and _difference(plain, again, exact=False) is not None:
        return []  # it differs from run to run

    def at(places: Sequence[Place]) -> Iterator[Branch]:
        run = _fresh_run(fresh, device_type, places)[0]
        what = _difference(plain, run, exact=exact)
        if what is not None:
            yield Branch(places[-1], device_type, what, plain, run, _lacking(plain, run, device_type))

    found = [branch for place in lines for branch in at([place])]
    # none alone: the first at which they and those before make the difference together
    together = (branch for end in range(2, len(lines) + 1) for branch in at(lines[:end]))
    return found or list(itertools.islice(together, 1))


def _difference(plain: Run, other: Run, *, exact: bool = True) -> str | None:
    """The first call that differs, in words; an error alone is none, since posing itself may have caused it.

    Args:
        plain: A run.
        other: The run that may differ.
        exact: Whether it matters which tensors the arguments are.
    """
    end = 4 if exact else 3
    pairs = zip(plain.calls, other.calls, strict=False)
    differing = next(((a, b) for a, b in pairs if a[:end] != b[:end]), None)
    if differing is not None:
        a, b = differing
        tell = _words if a[:3] != b[:3] else _words_of_operands
        return f"{tell(a)} on the CPU, {tell(b)} there"
    if other.error is not None or plain.error is not None:
        return None
    if len(plain.calls) == len(other.calls):
        inside = (_difference(a, b, exact=exact) for a, b in zip(plain.aside, other.aside, strict=False))
        return next((what for what in inside if what is not None), None)
    longer = max(plain.calls, other.calls, key=len)
    extra = _words(longer[min(len(plain.calls), len(other.calls))])
    return f"{extra} {'on the CPU' if longer is plain.calls else 'there'} only"


def _words(call: Call) -> str:
    name, constants, results, _ = call
    made = ", ".join(f"{str(dtype).removeprefix('torch.')}{list(shape)}" for dtype, shape in results)
    return f"{name}({', '.join(constants)}) -> {made}" if made else f"{name}({', '.join(constants)})"


def _words_of_operands(call: Call) -> str:
    name, _, _, operands = call
    return f"{name}({', '.join(made_of for made_of, _, _ in operands)})"


def _lacking(plain: Run, other: Run, device_type: str) -> torch.dtype | None:
    """A dtype that the device cannot hold and that only the CPU's path uses."""
    used, avoided = ({dtype for call in run.all_calls() for dtype, _ in call[2]} for run in (plain, other))
    return next(iter((used - avoided) & _LACKING.get(device_type, frozenset())), None)
