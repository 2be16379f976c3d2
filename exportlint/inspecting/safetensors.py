"""Files of safetensors: a JSON header, then the tensors."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, BinaryIO

from exportlint.inspecting import tables
from exportlint.inspecting.archive import as_object
from exportlint.inspecting.description import InspectError, Tensor

if TYPE_CHECKING:
    from exportlint.inspecting.budget import Budget

HEADER = 100_000_000  # bytes; the format's own limit
NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32"}
NAMES |= {"U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
NAMES |= {"F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu", "C64": "complex64"}
LIES = "does not lie where the header says: the file is damaged or cut off"


def looks_so(start: bytes, size: int) -> bool:
    """Whether a file that begins like this may be one."""
    if len(start) < 9:
        return False
    (length,) = struct.unpack_from("<Q", start)
    return 2 <= length <= size - 8 and start[8:9] == b"{"


def tensors(file: BinaryIO, size: int, budget: Budget) -> tuple[Tensor, ...]:
    """The tensors, by the header alone.

    Raises:
        InspectError: When the header is too long, is no JSON, or disagrees with the length of the file.
    """
    file.seek(0)
    (length,) = struct.unpack("<Q", file.read(8))
    if length > min(HEADER, size - 8):
        raise InspectError(f"the header announces {length} bytes, more than there can be")
    header = as_object(file.read(length), "the header", budget, unique=True)
    about = header.pop("__metadata__", {})
    if not isinstance(about, dict) or not all(isinstance(value, str) for value in about.values()):
        raise InspectError("the header's __metadata__ is no mapping of text")
    placed = [_placed(name, entry) for name, entry in header.items()]
    _check_places(placed, size - 8 - length)
    return tuple(tensor for tensor, _, _ in placed)


def _placed(name: str, entry: Any) -> tuple[Tensor, int, int]:
    """A tensor, and where it begins and ends."""
    try:
        kind, sizes, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        usable = isinstance(kind, str) and all(map(_is_size, (*sizes, begin, end)))
    except (KeyError, TypeError, ValueError):
        usable = False
    if not usable:
        raise InspectError(f"the header says nothing usable about the tensor {name[:80]!r}")
    length = tables.width(NAMES.get(kind, "")) * math.prod(sizes)
    if begin > end or (kind in NAMES and length != end - begin):
        raise InspectError(f"the tensor {name[:80]!r} {LIES}")
    tensor = Tensor(name=name[:500], dtype=NAMES.get(kind, kind[:20]), shape=sizes, device="cpu")
    return tensor, begin, end


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _check_places(placed: list[tuple[Tensor, int, int]], room: int) -> None:
    """Tensors follow each other and fill the file, by the format's own rules."""
    before = 0
    for tensor, begin, end in sorted(placed, key=lambda found: found[1:]):
        if end > room:
            raise InspectError(f"the tensor {tensor.name[:80]!r} {LIES}")
        if begin != before:
            words = "lies over another" if begin < before else "does not follow the one before"
            raise InspectError(f"the tensor {tensor.name[:80]!r} {words}: the file is malformed")
        before = end
    if before != room:
        raise InspectError(f"{room - before} bytes belong to no tensor: the file is malformed")
