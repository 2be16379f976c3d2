"""Files of safetensors: a JSON header, then the tensors."""

from __future__ import annotations

import math
import struct
from typing import Any, BinaryIO

from exportlint.inspecting import tables
from exportlint.inspecting.archive import as_object
from exportlint.inspecting.description import InspectError, Tensor

HEADER = 100_000_000  # bytes; the format's own limit
NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32"}
NAMES |= {"U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
NAMES |= {"F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu", "C64": "complex64"}


def looks_so(start: bytes, size: int) -> bool:
    """Whether a file that begins like this may be one."""
    if len(start) < 9:
        return False
    (length,) = struct.unpack_from("<Q", start)
    return 2 <= length <= size - 8 and start[8:9] == b"{"


def tensors(file: BinaryIO, size: int) -> tuple[Tensor, ...]:
    """The tensors, by the header alone.

    Raises:
        InspectError: When the header is too long, is no JSON, or disagrees with the length of the file.
    """
    file.seek(0)
    (length,) = struct.unpack("<Q", file.read(8))
    if length > min(HEADER, size - 8):
        raise InspectError(f"the header announces {length} bytes, more than there can be")
    header = as_object(file.read(length), "the header")
    return tuple(_tensor(name, entry, size - 8 - length) for name, entry in header.items() if name != "__metadata__")


def _tensor(name: str, entry: Any, room: int) -> Tensor:
    try:
        kind, shape, (begin, end) = str(entry["dtype"]), entry["shape"], entry["data_offsets"]
        sizes = tuple(map(int, shape))
        length = tables.width(NAMES.get(kind, "")) * math.prod(sizes)
        valid = 0 <= begin <= end <= room and (kind not in NAMES or length == end - begin)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InspectError(f"the header says nothing usable about the tensor {name[:80]!r}") from error
    if not valid:
        raise InspectError(
            f"the tensor {name[:80]!r} does not lie where the header says: the file is damaged or cut off"
        )
    return Tensor(name=name[:500], dtype=NAMES.get(kind, kind[:20]), shape=sizes, device="cpu")
