"""Questions for what devices the machine has, such as ``torch.cuda.is_available()``, asked by the user's code.

They have no tensor among their arguments, so that no mode of torch sees them: while they are watched, other functions
stand in their place, wherever a module holds them by name.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from exportlint import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exportlint.places import Place

ANY = "accelerator"
_MODULES = {
    "cuda": ("cuda", "backends.cuda"),
    "mps": ("mps", "backends.mps"),
    "xpu": ("xpu",),
    ANY: ("accelerator",),
}
# What is asked about one card, and the answer of an H100; it is an error where there is none.
_CARD: dict[str, Any] = {
    "current_device": 0,
    "get_device_capability": (9, 0),
    "get_device_name": "NVIDIA H100 80GB HBM3",
    "get_device_properties": types.SimpleNamespace(
        name="NVIDIA H100 80GB HBM3", major=9, minor=0, multi_processor_count=132, total_memory=80 << 30
    ),
}
_NAMES = frozenset({"is_available", "device_count", "is_built", "is_bf16_supported", "current_accelerator", *_CARD})


@dataclass(frozen=True, slots=True)
class Question:
    """A function that says something about the devices of this machine.

    Attributes:
        device_type: The type of device that is asked for; `ANY` for whichever there is.
        name: The function's name.
    """

    device_type: str
    name: str

    def on_a_machine_with(self, device_type: str | None) -> Any:
        """The answer on a machine with one device of this type; `None` for a machine without any.

        Raises:
            RuntimeError: When it is about a card that is not there.
        """
        there = device_type is not None and self.device_type in (device_type, ANY)
        if self.name in _CARD:
            if not there:
                raise RuntimeError(f"there is no device of the type {self.device_type}")
            return _CARD[self.name]
        if self.name == "device_count":
            return int(there)
        if self.name == "current_accelerator":
            return torch.device(device_type) if there and device_type is not None else None
        return there


@contextlib.contextmanager
def watched(answer: Callable[[Question, Place, Callable[[], Any]], Any]) -> Iterator[None]:
    """Within it, `answer` says what the user's code is told: given each question, its line, and what asks torch.

    What torch asks itself is answered with the truth.
    """
    substitutes = {id(function): _asked(function, question, answer) for question, function in _functions()}
    originals = {id(substitute): substitute.__wrapped__ for substitute in substitutes.values()}
    try:
        _replace(substitutes)
        yield
    finally:
        _replace(originals)  # in modules that were imported meanwhile as well


def _replace(by_id: dict[int, Any]) -> None:
    """Put other functions in the place of those with these ids, wherever a module holds them by name."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict):
            for name in names.keys() & _NAMES:
                names[name] = by_id.get(id(names[name]), names[name])


def _functions() -> Iterator[tuple[Question, Any]]:
    """The questions, with torch's functions, as far as this torch has them."""
    for device_type, modules in _MODULES.items():
        for path in modules:
            with contextlib.suppress(AttributeError):
                names = vars(operator.attrgetter(path)(torch))
                yield from ((Question(device_type, name), names[name]) for name in _NAMES & names.keys())


def _asked(function: Any, question: Question, answer: Callable[[Question, Place, Callable[[], Any]], Any]) -> Any:
    @functools.wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        code, frame = sys._getframe(0).f_code, sys._getframe(1)
        while (outer := frame.f_back) is not None and outer.f_code is code and outer.f_back is not None:
            frame = outer.f_back  # asked by the answer of one that watches within
        place = places.of_frames([(frame.f_code.co_filename, frame.f_lineno)])
        if place is None:
            return function(*args, **kwargs)
        return answer(question, place, functools.partial(function, *args, **kwargs))

    return asked


def asks_for_type(name: str, args: Any, kwargs: Any) -> bool:
    """Whether the call is ``x.type()``, which names the device: ``torch.cuda.FloatTensor``."""
    return name == "type" and len(args) == 1 and not kwargs
