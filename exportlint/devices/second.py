"""A second device that needs no hardware: real numbers, its own device type, and CUDA's rules for mixed devices.

A tensor of the second device is a wrapper without storage around a CPU tensor, so every operator computes on the CPU.
What may meet what is what CUDA allows: a 0-dim CPU tensor joins pointwise operators, a CPU tensor may index, a copy may
cross; everything else that mixes devices is a mismatch, which is raised or, on request, recorded and repaired.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import torch
from torch.utils import _pytree as pytree

from exportlint import places
from exportlint.devices import hooks, kernels
from exportlint.devices.memory import Memory
from exportlint.devices.moving import moving_modules
from exportlint.torch_hooks import generators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exportlint.places import Place

M = TypeVar("M", bound="torch.nn.Module")

CPU = torch.device("cpu")
# Operators that copy from one device to another.
_CROSSING = frozenset({"_to_copy", "copy_", "copy", "_copy_from", "_copy_from_and_resize", "to"})
# Operators that take index tensors of the CPU; their first and third argument are data.
_INDEXING = frozenset({"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"})
# Operators that are not pointwise, so that CUDA does not let 0-dim CPU tensors join them.
_REFUSING_0_DIM = frozenset(
    {"cat", "stack", "index_select", "embedding", "gather", "mm", "bmm", "addmm", "baddbmm", "mv", "dot"}
    | {"index_copy", "index_copy_", "scatter", "scatter_", "scatter_add", "scatter_add_"}
    | {"convolution", "native_layer_norm", "native_batch_norm", "native_group_norm"}
)


# Arguments and results that are on the CPU, by position: lengths, sizes of the steps, split points.
_HOST_ARGUMENTS = {"_pack_padded_sequence": 1, "_pad_packed_sequence": 1, "tensor_split": 1}
# Arguments that the operator moves itself, wherever they are.
_EITHER_ARGUMENTS = {"_ctc_loss": (2, 3), "ctc_loss": (1, 2, 3)}
# Operators that read the number of a 0-dim tensor first, so that it may be written to a tensor of the CPU.
_READING_ITEMS = frozenset({"fill", "fill_"})
_LAYOUTS = (torch.strided, torch.sparse_coo)
_HOST_RESULTS = {"_pack_padded_sequence": 1}


class SecondDeviceUnavailableError(RuntimeError):
    """The second device cannot be had in this process; the message says why."""


class DeviceMismatchError(RuntimeError):
    """An operator met tensors of the second device and of the CPU."""


class UnsupportedOperatorError(NotImplementedError):
    """The second device cannot do this operator, or hold this tensor."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An operator that met something that is on the wrong device, mostly tensors of both devices.

    Attributes:
        operator: The operator, such as ``aten::add.Tensor``.
        shape: Shape of the CPU tensor.
        dtype: Dtype of the CPU tensor, such as ``float32``.
        place: The innermost line that is the user's.
        origin: Where the CPU tensor came from, as far as the caller of `policy` can tell.
        kind: ``tensor``; ``generator`` for a generator of the CPU, ``generator there`` for one of the second device
            that is to draw numbers for the CPU, and ``host argument NAME`` for a tensor of the second device that has
            to be on the CPU. The shape and the dtype are empty for all three.
    """

    operator: str
    shape: tuple[int, ...]
    dtype: str
    place: Place | None
    origin: object | None
    kind: str = "tensor"


class _Policy:
    """What to do about a mismatch: raise, or append it to `record`."""

    record: list[Mismatch] | None = None
    origin_of: Callable[[torch.Tensor], object] | None = None


_policy = _Policy()
_device: torch.device | None = None


class SecondTensor(torch.Tensor):
    """A tensor of the second device; `raw` is the CPU tensor that holds its numbers."""

    raw: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> SecondTensor:
        """Wrap a CPU tensor without copying it.

        Raises:
            UnsupportedOperatorError: When its layout has no sizes and strides, as compressed and nested tensors.
        """
        if raw.layout not in _LAYOUTS or raw.is_nested:
            what = "nested tensors" if raw.is_nested else f"tensors of the layout {raw.layout}"
            raise UnsupportedOperatorError(f"the second device holds no {what}")
        wrapper: SecondTensor = hooks.make_wrapper(cls, raw, second_device())
        wrapper.raw = raw
        return wrapper

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"{self.raw!r} on {self.device}"

    def _refuse_numpy(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    numpy = _refuse_numpy
    __array__ = _refuse_numpy

    @property
    def data(self) -> Any:
        """The tensor without its history, sharing its numbers' memory; may be set to another of the device."""
        return SecondTensor(self.raw.data)

    @data.setter
    def data(self, other: torch.Tensor) -> None:
        if not isinstance(other, SecondTensor):
            raise RuntimeError(
                "Could not set tensor of type SecondTensor to a tensor of another device: incompatible tensor type"
            )
        hooks.take_over(self, other)
        self.raw = other.raw.detach()

    def untyped_storage(self) -> Any:
        """The memory that holds its numbers; the same object for its views, as long as one of them is there."""
        memory = Memory.of(self.raw.untyped_storage(), super().untyped_storage())
        self._memory = memory
        return memory

    def data_ptr(self) -> int:
        """The address of its first number."""
        return self.raw.data_ptr()

    def tolist(self) -> Any:
        """The numbers as nested lists."""
        return self.raw.tolist()

    def __format__(self, spec: str) -> str:
        # torch.Tensor.__format__ reads the number of exact tensors only
        return format(self.raw.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def __copy__(self) -> SecondTensor:
        return SecondTensor(self.raw)

    def __deepcopy__(self, memo: dict[int, Any]) -> SecondTensor:
        new = SecondTensor(copy.deepcopy(self.raw.detach(), memo))  # which copies memory that is shared once
        if isinstance(self, torch.nn.Parameter):
            new._is_param = True
        memo[id(self)] = new
        return new

    def __reduce_ex__(self, protocol: object) -> Any:
        # what torch does for devices whose memory it cannot write: the numbers, and the device to load them on
        if isinstance(self, torch.nn.Parameter):
            return torch._utils._rebuild_parameter, (SecondTensor(self.raw), self.requires_grad, OrderedDict())
        rebuild = torch._utils._rebuild_device_tensor_from_cpu_tensor
        return rebuild, (self.raw, self.dtype, str(self.device), self.requires_grad)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return run(func, args, kwargs or {})


def second_device() -> torch.device:
    """The second device, registered in this process on first use and tested once.

    Registration cannot be undone: use it in a process of its own where that matters.

    Raises:
        SecondDeviceUnavailableError: When torch is too old, another backend owns PrivateUse1, or the self-test fails.
    """
    global _device  # noqa: PLW0603 - the registration is process-wide too
    if _device is None:
        try:
            _device = hooks.register(run, SecondTensor, _refuse_generator, kernels.META_KERNELS)
            _self_test(_device)
        except Exception as error:
            _device = None
            raise SecondDeviceUnavailableError(" ".join(str(error).split())) from error
    return _device


def _self_test(device: torch.device) -> None:
    """Make, compute, move, copy and mix, and see that each does what it should."""
    with torch.no_grad():
        made = torch.arange(3, device=device)
        moved = torch.ones(3).to(device)
        total = (made + moved).mul_(2)
        if total.device != device or total.cpu().tolist() != [2.0, 4.0, 6.0]:
            raise RuntimeError(f"the self-test of the second device failed: {total!r} should be [2, 4, 6] there")
        try:
            torch.add(moved, torch.ones(3))
        except DeviceMismatchError:
            return
    raise RuntimeError("the self-test of the second device failed: it let an operator mix devices")


@contextlib.contextmanager
def policy(
    what: Literal["raise", "record"], origin_of: Callable[[torch.Tensor], object] | None = None
) -> Iterator[list[Mismatch]]:
    """What to do about mixed devices in this context. `torch.cond` and ``while_loop`` run in it without compiling.

    Args:
        what: ``raise``, as everywhere else, or ``record``: append the mismatch to the list that the context yields,
            take the CPU tensor as if it had been moved, and go on.
        origin_of: Says where a CPU tensor came from, for `Mismatch.origin`.

    Raises:
        ValueError: When `what` is neither.
    """
    if what not in ("raise", "record"):
        raise ValueError(f"{what!r} is no policy: raise or record")
    before = _policy.record, _policy.origin_of
    record: list[Mismatch] = []
    _policy.record, _policy.origin_of = (record if what == "record" else None), origin_of
    try:
        # the compiler behind control flow takes only the tensor subclasses that it knows
        with hooks.uncompiled():
            yield record
    finally:
        _policy.record, _policy.origin_of = before


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute an operator in which the second device takes part, as a tensor or as the wanted device."""
    base = _base(func)
    if base.startswith("_nested_"):
        raise UnsupportedOperatorError("the second device holds no nested tensors")
    if base == "copy_" and not isinstance(args[0], SecondTensor) and args[0].device.type == hooks.NAME:
        return args[0]  # a fake tensor of the second device, met below the Python key: there is nothing to copy
    leaves, spec = pytree.tree_flatten((args, kwargs))
    seconds = [leaf for leaf in leaves if isinstance(leaf, SecondTensor)]
    wanted = next((leaf for leaf in leaves if isinstance(leaf, torch.device)), None)
    there = bool(seconds) if wanted is None else _is_second(wanted)
    _look_for_mixed(func, args, kwargs, leaves)
    _look_for_host_argument(func, base, args)
    if there:
        _look_for_generator(func, leaves)
    raw_args, raw_kwargs = pytree.tree_unflatten([_raw(leaf) for leaf in leaves], spec)
    with hooks.plain_tensors(), hooks.autocast_below(), generators.drawing_there():
        result = kernels.SUBSTITUTES.get(base, func)(*raw_args, **raw_kwargs)
    known = {id(_raw(leaf)): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)} if _mutates(func) else {}
    for second in seconds if known else ():
        _follow_raw(second)
    host = result[_HOST_RESULTS[base]] if base in _HOST_RESULTS else None
    return pytree.tree_map_only(
        torch.Tensor, lambda t: known.get(id(t), SecondTensor(t) if there and t is not host else t), result
    )


def _is_second(device: torch.device) -> bool:
    """Whether it is the second device; there is one of its kind."""
    if device.type == hooks.NAME and device.index not in (None, 0):
        raise RuntimeError(f"invalid device ordinal: there is no {device}, only {second_device()}")
    return device.type == hooks.NAME


def _base(func: Any) -> str:
    name: str = func.name()
    return name.partition("::")[2].partition(".")[0]


def _mutates(func: Any) -> bool:
    return bool(func._schema.is_mutable)


def _raw(leaf: Any) -> Any:
    if isinstance(leaf, (SecondTensor, Memory)):
        return leaf.raw
    return CPU if isinstance(leaf, torch.device) and leaf.type == hooks.NAME else leaf


def _look_for_mixed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> None:
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    others = [tensor for tensor in tensors if not isinstance(tensor, SecondTensor)]
    written = _written(func, args, kwargs) if others else set()
    for other in others:
        if other.device.type == hooks.NAME:
            raise UnsupportedOperatorError(f"a tensor without data (fake or meta) reached the kernel of {func.name()}")
        if len(others) < len(tensors) and not _may_join(_base(func), args, other, written):
            _mismatch(func.name(), other)


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[int]:
    """The ids of the tensors that the operator writes to."""
    given = [args[at] if at < len(args) else kwargs.get(known.name) for at, known in enumerate(func._schema.arguments)]
    writes = [known.alias_info is not None and known.alias_info.is_write for known in func._schema.arguments]
    return {id(leaf) for value, write in zip(given, writes, strict=True) if write for leaf in pytree.tree_leaves(value)}


def _look_for_generator(func: Any, leaves: list[Any]) -> None:
    """A generator of the CPU that is to draw numbers on the second device, which CUDA refuses."""
    if any(isinstance(leaf, torch.Generator) and generators.draws_on_cpu(leaf) for leaf in leaves):
        words = f"Expected a '{hooks.NAME}' device type for generator but found 'cpu' (when computing {func.name()})"
        _misplaced(func.name(), "generator", words)


def _refuse_generator(operator: str) -> None:
    """A generator of the second device that is to draw numbers for the CPU, which refuses cuda's."""
    words = f"Expected a 'cpu' device type for generator but found '{hooks.NAME}' (when computing {operator})"
    _misplaced(operator, "generator there", words)


def _look_for_host_argument(func: Any, base: str, args: tuple[Any, ...]) -> None:
    """A tensor of the second device that has to be on the CPU: the kernel asks where it is, and is given the CPU's."""
    at = _HOST_ARGUMENTS.get(base)
    if at is not None and isinstance(args[at], SecondTensor):
        name = func._schema.arguments[at].name
        words = f"'{name}' of {func.name()} has to be on the CPU, but it is on {second_device()}"
        _misplaced(func.name(), f"host argument {name}", words)


def _misplaced(operator: str, kind: str, words: str) -> None:
    if _policy.record is None:
        raise DeviceMismatchError(words)
    _policy.record.append(Mismatch(operator, (), "", places.caller(sys._getframe(1)), None, kind))


def _may_join(base: str, args: tuple[Any, ...], cpu: torch.Tensor, written: set[int]) -> bool:
    """Whether CUDA lets this CPU tensor join an operator on the device; it writes results to no tensor of the CPU."""
    if base in _CROSSING:
        return True
    if id(cpu) in written:
        return base in _READING_ITEMS
    if cpu.dim() == 0:
        return base not in _REFUSING_0_DIM
    host = (_HOST_ARGUMENTS[base],) if base in _HOST_ARGUMENTS else _EITHER_ARGUMENTS.get(base, ())
    if host:
        return any(args[at] is cpu for at in host)
    return base in _INDEXING and not any(cpu is data for data in (args[0], *args[2:3]))


def _mismatch(operator: str, cpu: torch.Tensor) -> None:
    if _policy.record is None:
        raise DeviceMismatchError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{second_device()} and cpu! (when computing {operator} with a tensor of shape {tuple(cpu.shape)})"
        )
    origin = _policy.origin_of(cpu) if _policy.origin_of is not None else None
    dtype = str(cpu.dtype).removeprefix("torch.")
    place = places.caller(sys._getframe(1))
    _policy.record.append(Mismatch(operator, tuple(cpu.shape), dtype, place, origin))


def _follow_raw(second: SecondTensor) -> None:
    """An in-place operator may have changed the sizes of the CPU tensor: the wrapper takes them over."""
    raw = second.raw
    same = raw.shape == second.shape and raw.stride() == second.stride()
    if not (same and raw.storage_offset() == second.storage_offset()):
        hooks.take_over(second, SecondTensor(raw))


def _wrap(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if isinstance(tensor, SecondTensor) else SecondTensor(tensor.detach())


def to_second(tree: Any) -> Any:
    """The same nested structure with its tensors on the second device, sharing their numbers' memory.

    Objects that are no containers of torch's pytree are copied with the tensors in their attributes moved. Equal
    objects stay equal: a tensor that stands in two places is wrapped once.
    """
    second_device()
    memo: dict[int, Any] = {}

    def move(leaf: Any) -> Any:
        if id(leaf) not in memo:
            memo[id(leaf)] = _wrap(leaf) if isinstance(leaf, torch.Tensor) else _moved_object(leaf, move)
        return memo[id(leaf)]

    return pytree.tree_map(move, tree)


def _moved_object(leaf: Any, move: Callable[[Any], Any]) -> Any:
    """A shallow copy with the tensors in its attributes moved; the object itself where there are none."""
    state = getattr(leaf, "__dict__", None)
    if not state or isinstance(leaf, (type, torch.nn.Module)) or callable(leaf):
        return leaf
    if not any(isinstance(value, torch.Tensor) for value in pytree.tree_leaves(state)):
        return leaf
    new = copy.copy(leaf)
    for name, value in state.items():
        object.__setattr__(new, name, pytree.tree_map_only(torch.Tensor, move, value))
    return new


def to_cpu(tree: Any) -> Any:
    """The same nested structure with its tensors on the CPU, sharing their numbers' memory."""
    return pytree.tree_map_only(SecondTensor, lambda tensor: tensor.raw, tree)


def move_module(module: M) -> M:
    """Move what ``module.to(device)`` would, in place. Tied parameters and buffers stay tied.

    That is the registered parameters and buffers, and whatever else a module's own ``to`` or ``_apply`` moves.
    Parameters no longer require a gradient afterwards.

    Returns:
        The module itself.

    Raises:
        SecondDeviceUnavailableError: See `second_device`.
        TypeError: When it is no module.
        Exception: What the module's own ``to`` or ``_apply`` raises.
    """
    if not isinstance(module, torch.nn.Module):
        kind = f"the class {module.__name__}" if isinstance(module, type) else type(module).__name__
        raise TypeError(f"a module is moved, not {kind}")
    device = second_device()
    moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # holds the original too, so that no id is used twice

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, SecondTensor):
            return tensor
        if id(tensor) not in moved:
            new = _wrap(tensor)
            if isinstance(tensor, torch.nn.Parameter):
                new = torch.nn.Parameter(new, requires_grad=False)
            moved[id(tensor)] = new, tensor
        return moved[id(tensor)][0]

    with moving_modules(move):
        module.to(device)
    return module
