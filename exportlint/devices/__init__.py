"""The second device that needs no hardware, real devices, and where devices come from.

Importing this package imports no torch and registers nothing; the first use of a name of the second device does.

>>> from exportlint.devices import move_module, second_device, to_cpu, to_second
>>> def test_runs_on_another_device():
...     model = move_module(Model())
...     out = model(torch.zeros(2, 3, device=second_device()))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exportlint.devices.second import (
        DeviceMismatchError,
        Mismatch,
        SecondDeviceUnavailableError,
        move_module,
        policy,
        second_device,
        to_cpu,
        to_second,
    )
    from exportlint.devices.twin import export_on_second

__all__ = [
    "DeviceMismatchError",
    "Mismatch",
    "SecondDeviceUnavailableError",
    "export_on_second",
    "move_module",
    "policy",
    "second_device",
    "to_cpu",
    "to_second",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from exportlint.devices import second, twin

    return getattr(twin if name == "export_on_second" else second, name)
