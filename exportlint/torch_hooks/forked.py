"""Accelerators that a forked process has lost: a driver that was asked in the parent does not answer in the child.

torch goes on to say that such a device is available, so strict export and the compiler ask for the state of its random
numbers and fail. Hidden, the device is one that the machine lacks, and everything else goes on.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("cuda", "xpu", "mtia")
_hidden: set[str] = set()


def hide_lost() -> None:
    """Hide the accelerators that the parent had in use; for a forked child, before it does anything with torch."""
    import torch

    for kind in KINDS:
        module = getattr(torch, kind, None)
        if module is not None and kind not in _hidden and getattr(module, "_is_in_bad_fork", bool)():
            _hidden.add(kind)
            _answers(module).update(_of_hidden(kind))


def lost(kind: str) -> bool:
    """Whether a device of this type was hidden in this process."""
    return kind in _hidden


def why_not() -> str | None:
    """Why accelerators cannot be hidden from this torch, or ``None``: one is hidden for a moment, and asked for."""
    import torch

    try:
        with _hidden_for_a_moment(torch.cuda):
            seen = torch.cuda.is_available() or torch.cuda.device_count() or torch.cuda.get_rng_state_all()
            found = torch.accelerator.current_accelerator(check_available=True)
            if not seen and (found is None or found.type != "cuda"):
                return None
    except (AttributeError, TypeError, KeyError, RuntimeError):
        pass
    return f"torch {torch.__version__} asks for accelerators in another way than exportlint knows"


@contextlib.contextmanager
def _hidden_for_a_moment(module: Any) -> Iterator[None]:
    answers, hidden = _answers(module), _of_hidden("cuda")
    before = {name: answers[name] for name in hidden}
    answers.update(hidden)
    try:
        yield
    finally:
        answers.update(before)


def _answers(module: Any) -> dict[str, Any]:
    names: dict[str, Any] = vars(module)
    return names


def _of_hidden(kind: str) -> dict[str, Any]:
    """What a device's module says on a machine without one, by name; the compiler's tables want a function for each."""

    def is_available() -> bool:
        return False

    def device_count() -> int:
        return 0

    def get_rng_state_all() -> list[Any]:
        return []

    def refuse() -> NoReturn:
        raise RuntimeError(
            f"No {kind.upper()} devices are available: the process that was forked for this one had them in use"
        )

    return {
        "is_available": is_available,
        "device_count": device_count,
        "get_rng_state_all": get_rng_state_all,
        "_lazy_init": refuse,
    }
