"""Looking into saved models without loading them: nothing is unpickled, imported or run, and torch is not needed.

`inspect` reads the structure of a file as JSON, zip and pickle opcodes, within bounds of memory, whoever wrote it.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.inspecting import checkpoint, needs, pickles, program, safetensors, script
from exportlint.inspecting.archive import MEMBER, Archive
from exportlint.inspecting.description import Description, InspectError, PickleFile

if TYPE_CHECKING:
    from typing import BinaryIO

LEGACY = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")  # the pickle that torch.save without an archive begins with
__all__ = ["Description", "InspectError", "inspect"]


def inspect(path: str | Path) -> Description:
    """What a file holds.

    Args:
        path: A ``.pt2``, ``.pt``, ``.pth``, ``.bin`` or ``.safetensors`` file; what it is, its content decides.

    Raises:
        InspectError: When it cannot be read, is damaged, or is of no known kind.
    """
    place = Path(path)
    try:
        if not place.is_file():
            raise InspectError("is no file" if place.exists() else "does not exist")
        size = place.stat().st_size
        with place.open("rb") as file:
            found = _inspect(str(path), file, size)
    except OSError as error:
        raise InspectError(f"cannot be read ({error.strerror or error})") from error
    except (RecursionError, MemoryError) as error:
        raise InspectError(f"is nested too deeply, or too large, to be read ({type(error).__name__})") from error
    return needs.added(found)


def _inspect(name: str, file: BinaryIO, size: int) -> Description:
    start = file.read(len(LEGACY))
    if start.startswith(b"PK"):
        return _archive(name, Archive(file, size), size)
    if start == LEGACY:
        return _legacy(name, file, size)
    if safetensors.looks_so(start, size):
        return Description(file=name, kind="safetensors", size=size, tensors=safetensors.tensors(file, size))
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return _pickle(name, file, size)
    raise InspectError("is neither a zip archive of torch, nor a pickle, nor safetensors")


def _archive(name: str, archive: Archive, size: int) -> Description:
    names = archive.names()
    programs = program.programs(archive)
    if programs:
        return _programs(name, archive, programs, size)
    if any(".so" in Path(member).suffixes for member in names):
        inside = _pickles(archive, [member for member in names if member.endswith((".pt", ".pkl"))])
        return Description(file=name, kind="aoti", size=size, pickles=tuple(p for p, _ in inside))
    if script.is_script(names):
        members = [member for member in names if "/" not in member and member.endswith(".pkl")]
        inside = _pickles(archive, members)
        tensors = tuple(tensor for _, root in inside for tensor in checkpoint.tensors(root))
        return Description(
            file=name,
            kind="torchscript",
            size=size,
            layout=f"format {archive.text('version') or '?'}",
            methods=(script.method(archive),),
            tensors=tensors,
        )
    if "data.pkl" in names:
        read = pickles.read(archive.read("data.pkl"), "data.pkl")
        return _checkpoint(name, size, read, "data.pkl", f"format {archive.text('version') or '?'}")
    if archive.text("archive_format") == "pt2":
        raise InspectError("holds no program: whatever saved it did not come to its end")
    raise InspectError("is a zip archive, but none that torch writes")


def _programs(name: str, archive: Archive, programs: dict[str, dict[str, object]], size: int) -> Description:
    torch, layout = program.version(next(iter(programs.values())))
    contents = [program.contents(key, value) for key, value in programs.items()]
    members = [member for member in archive.names() if member.endswith((".pt", ".pkl"))]
    return Description(
        file=name,
        kind="program",
        size=size,
        torch=torch,
        layout=layout,
        methods=tuple(method for method, _ in contents),
        tensors=tuple(dict.fromkeys(tensor for _, tensors in contents for tensor in tensors)),
        pickles=tuple(found for found, _ in _pickles(archive, members)),
    )


def _pickles(archive: Archive, members: list[str]) -> list[tuple[PickleFile, object]]:
    """Pickles of an archive, which may be archives of torch themselves."""
    found = []
    for member in members:
        content = archive.read(member)
        if content.startswith(b"PK"):
            inner = Archive(io.BytesIO(content), len(content))
            content = inner.read("data.pkl")
        if content.startswith(b"\x80"):
            read = pickles.read(content, member)
            found.append((checkpoint.pickle_file(read, member), read.root))
    return found


def _legacy(name: str, file: BinaryIO, size: int) -> Description:
    """A file of ``torch.save`` without an archive: three small pickles, then the object."""
    file.seek(0)
    stream = _Bounded(file)
    for _ in range(3):  # magic number, version, what the machine is like
        pickles.read(stream, "the head of the file")
    read = pickles.read(stream, "the object")
    pickles.read(stream, "the list of storages")
    if size - stream.tell() < checkpoint.stored_bytes(read.root):
        raise InspectError("is cut off: tensors are missing")
    return _checkpoint(name, size, read, "", "not zipped")


def _pickle(name: str, file: BinaryIO, size: int) -> Description:
    file.seek(0)
    return _checkpoint(name, size, pickles.read(_Bounded(file), "the file"), "", "plain pickle")


def _checkpoint(name: str, size: int, read: pickles.Read, member: str, layout: str) -> Description:
    return Description(
        file=name,
        kind=checkpoint.kind_of(read.root),
        size=size,
        layout=layout,
        tensors=tuple(checkpoint.tensors(read.root)),
        pickles=(checkpoint.pickle_file(read, member),),
    )


class _Bounded:
    """A stream that gives up after `MEMBER` bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left = file, MEMBER

    def read(self, size: int = -1) -> bytes:
        """Bytes, within the bound.

        Raises:
            InspectError: When the pickle goes beyond it.
        """
        if size < 0 or size > self._left:
            raise InspectError(f"the pickle is longer than {MEMBER} bytes")
        self._left -= size
        return self._file.read(size)

    def readline(self, _size: int = -1) -> bytes:
        """A line, within the bound."""
        line = self._file.readline(min(self._left, 1 << 20))
        self._left -= len(line)
        return line

    def tell(self) -> int:
        """Where the stream is."""
        return self._file.tell()
