"""TorchScript programs: their code is text in the archive, and only looked at."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from exportlint.inspecting.description import Method

if TYPE_CHECKING:
    from exportlint.inspecting.archive import Archive

TORCH = re.compile(r"\btorch\.([A-Za-z_]\w*)\(")
CUSTOM = re.compile(r"\bops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)\(")
CONSTANT_DEVICE = re.compile(r'torch\.device\("([^"]{1,40})"\)')
FILES = 10_000


def is_script(names: list[str]) -> bool:
    """Whether the members of an archive are those of a TorchScript program."""
    return "constants.pkl" in names and any(name.startswith("code/") for name in names)


def method(archive: Archive) -> Method:
    """Operators that the code calls, and devices that it names.

    Raises:
        InspectError: When a file of code cannot be read.
    """
    operators: Counter[str] = Counter()
    devices: set[str] = set()
    names = [name for name in archive.names() if name.startswith("code/") and name.endswith(".py")]
    for name in names[:FILES]:
        code = archive.read(name).decode("utf-8", "replace")
        operators.update(f"aten::{found}" for found in TORCH.findall(code) if found != "device")
        operators.update(f"{namespace}::{found}" for namespace, found in CUSTOM.findall(code))
        devices.update(CONSTANT_DEVICE.findall(code))
    ordered = tuple(sorted(operators.items(), key=lambda item: (-item[1], item[0])))
    return Method(name="forward", operators=ordered, devices=tuple(sorted(devices)))
