"""Generators of random numbers that say that they are on a device which torch's C++ cannot make one for.

`Generator` stands in for `torch.Generator`. Those of the device draw the CPU's numbers, and C++ takes them for the
CPU's. So that the CPU refuses them as it refuses cuda's, the kernels that draw its numbers are told of each draw, from
the first such generator on.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import TYPE_CHECKING, Any, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The generators of the device by their address, since operators and programs hold other objects around the same one;
# kept alive, so that no address is used twice.
_generators: dict[int, Any] = {}
_kept: list[Any] = []  # torch does not own what is registered from Python


class _Stand:
    """What `stand_in` was told, and whether the device draws at the moment, through the kernels of the CPU."""

    device: torch.device
    refuse: Callable[[str], None]
    drawing = False


class _GeneratorType(type(torch._C.Generator)):  # type: ignore[misc]
    """Makes every generator an instance of the class that stands in for `torch.Generator`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch._C.Generator)


class Generator(torch._C.Generator, metaclass=_GeneratorType):
    """`torch.Generator` for every device; those of the stand-in's device draw the numbers of the CPU's."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """Make a generator of this device."""
        if torch.device(device).type != _Stand.device.type:
            return torch._C.Generator(device)
        _watch_the_cpu()
        made: Any = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        _generators[made._cdata] = made
        return made

    def __init__(self, *_: object, **__: object) -> None:
        """All is done when it is made."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that it was made for."""
        return _Stand.device

    def clone_state(self) -> torch.Generator:
        """Another generator of the device, in the same state."""
        return Generator(_Stand.device).set_state(self.get_state())


def stand_in(device: torch.device, refuse: Callable[[str], None]) -> None:
    """Let ``torch.Generator(device=...)`` make one for this device: torch asks C++ alone for that.

    Args:
        device: The device.
        refuse: Called with the operator that is to draw numbers for the CPU with a generator of the device.
    """
    _Stand.device, _Stand.refuse = device, refuse
    torch.Generator = Generator  # type: ignore[misc]


def draws_on_cpu(generator: Any) -> bool:
    """Whether it is a generator of the CPU."""
    return generator.device.type == "cpu" and not _draws_there(generator)


def _draws_there(argument: Any) -> bool:
    return isinstance(argument, torch._C.Generator) and cast("Any", argument)._cdata in _generators


@contextlib.contextmanager
def drawing_there() -> Iterator[None]:
    """Within it, the kernels of the CPU compute for the device, with generators of the device."""
    before, _Stand.drawing = _Stand.drawing, True
    try:
        yield
    finally:
        _Stand.drawing = before


def _watch_the_cpu() -> None:
    """Put a look at the generator before each kernel that draws numbers for the CPU, once."""
    if _kept:
        return
    make_library: Any = torch.library.Library
    library = make_library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*[Oo]verriding a previously registered kernel")
        for op in _drawing_operators():
            kernel = torch.library.get_kernel(op, "CPU")
            library.impl(op, functools.partial(_draw, kernel, op.name()), "CPU", with_keyset=True)
    _kept.append(library)


def _drawing_operators() -> Iterator[Any]:
    """The operators that take a generator and have a kernel of the CPU."""
    ours = frozenset(torch._C._dispatch_get_registrations_for_dispatch_key("CPU"))
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "aten" and any("Generator" in str(argument.type) for argument in schema.arguments):
            op = getattr(getattr(torch.ops.aten, name, None), schema.overload_name or "default", None)
            if op is not None and op.name() in ours:
                yield op


def _draw(kernel: Any, name: str, keys: Any, *args: Any, **kwargs: Any) -> Any:
    if not _Stand.drawing and any(map(_draws_there, (*args, *kwargs.values()))):
        _Stand.refuse(name)
    return kernel.call_boxed(keys, *args, **kwargs)
