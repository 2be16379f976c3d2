"""What counts for a runtime. Each entry was seen with torch 2.13, onnxscript 0.7, onnxruntime 1.32 and executorch 1.5.

No entry for a kind of fact: the runtime takes it, or nothing is known of it, and it is advice.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exportlint.findings import Result

# What lowers a program for a runtime and runs it there.
NEEDED: Mapping[str, tuple[str, ...]] = {"onnx": ("onnxscript", "onnxruntime"), "executorch": ("executorch",)}

Kind = Literal["operator", "custom", "control", "unbounded", "unbacked", "complex", "number", "text", "input", "buffer"]


@dataclass(frozen=True, slots=True)
class Limit:
    """What a kind of fact does in a runtime.

    Attributes:
        outcome: What happens to the program there.
        words: The same in words, after "in NAME,".
    """

    outcome: Result
    words: str


_LIMITS: Mapping[str, Mapping[Kind, Limit]] = {
    "executorch": {
        "operator": Limit("breaks", "an operator outside core ATen is refused"),
        "custom": Limit(
            "breaks", "an operator needs a variant that writes its result into an argument, and a kernel in C++"
        ),
        "unbounded": Limit("specialises", "sizes above the example's are refused, since memory is planned ahead"),
        "unbacked": Limit("breaks", "no memory can be planned for a size that depends on the data and has no bound"),
        "complex": Limit("breaks", "complex numbers are refused"),
        "text": Limit("breaks", "text cannot be returned"),
        "input": Limit("silent", "the caller's tensor is left as it is, and the new values are one more result"),
    },
    "onnx": {
        "custom": Limit("breaks", "an operator needs a translation of its own"),
        "number": Limit("breaks", "numbers cannot be returned"),
        "text": Limit("breaks", "text cannot be returned"),
        "input": Limit("silent", "the caller's tensor is left as it is"),
        "buffer": Limit("silent", "each call begins with the buffer as it was exported"),
    },
    "aoti": {
        "number": Limit("unportable", "a number comes back as a tensor"),
        "text": Limit("breaks", "text cannot be returned"),
    },
}


def limit(kind: Kind, profiles: tuple[str, ...]) -> tuple[Limit, str] | None:
    """What a kind of fact does in the first of these runtimes that minds it, and its name; ``None`` where none does."""
    for name in profiles:
        found = _LIMITS[name].get(kind)
        if found is not None:
            return found, name
    return None


def version(package: str) -> str:
    """The version of an installed package, in words."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of an unknown version"


def surroundings(profiles: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """The runtimes that are asked for, with the versions of what they need."""
    return [(name, [version(package) for package in NEEDED.get(name, ())]) for name in profiles]
