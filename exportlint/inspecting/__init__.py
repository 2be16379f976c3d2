"""Looking into saved models without loading them: nothing is unpickled, imported or run, and torch is not needed.

`inspect` reads the structure of a file as JSON, zip and pickle opcodes, within bounds of memory, whoever wrote it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.inspecting import checkpoint, needs, pickles, program, safetensors, script, unpickled
from exportlint.inspecting.archive import Archive
from exportlint.inspecting.budget import Budget, Stream
from exportlint.inspecting.description import Description, InspectError

if TYPE_CHECKING:
    from typing import BinaryIO

    from exportlint.inspecting.description import Method, Tensor

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
            found = needs.added(_inspect(str(path), file, size, Budget()))
    except OSError as error:
        raise InspectError(f"cannot be read ({error.strerror or error})") from error
    except (RecursionError, MemoryError) as error:
        raise InspectError(f"is nested too deeply, or too large, to be read ({type(error).__name__})") from error
    except InspectError:
        raise
    except Exception as error:  # whoever wrote the file finds what no reader foresaw
        raise InspectError(f"is malformed in a way that is not known ({type(error).__name__}: {error})") from error
    return found


def _inspect(name: str, file: BinaryIO, size: int, budget: Budget) -> Description:
    start = file.read(len(unpickled.LEGACY))
    if start.startswith(b"PK"):
        return _archive(name, Archive(file, size, budget), size)
    if start == unpickled.LEGACY:
        return _legacy(name, file, size, budget)
    if safetensors.looks_so(start, size):
        return Description(file=name, kind="safetensors", size=size, tensors=safetensors.tensors(file, size, budget))
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return _pickle(name, file, size, budget)
    raise InspectError("is neither a zip archive of torch, nor a pickle, nor safetensors")


def _archive(name: str, archive: Archive, size: int) -> Description:
    names = archive.names()
    programs = program.programs(archive)
    if programs:
        return _programs(name, archive, programs, size)
    if any(".so" in Path(member).suffixes for member in names):
        found = unpickled.of_archive(archive, [member for member in names if member.endswith((".pt", ".pkl"))])
        return Description(file=name, kind="aoti", size=size, pickles=tuple(pickle for pickle, _ in found))
    if script.is_script(names):
        return _script(name, archive, size)
    if "data.pkl" in names:
        read = pickles.read(archive.stream("data.pkl"), "data.pkl", archive.budget)
        return _checkpoint(name, size, read, "data.pkl", f"format {archive.text('version') or '?'}")
    if archive.text("archive_format") == "pt2":
        raise InspectError("holds no program: whatever saved it did not come to its end")
    raise InspectError("is a zip archive, but none that torch writes")


def _programs(name: str, archive: Archive, programs: dict[str, str], size: int) -> Description:
    versions: list[tuple[str | None, str]] = []
    methods: list[Method] = []
    tensors: dict[Tensor, None] = {}
    for key, member in programs.items():  # one after the other, since what is read takes far more room than is kept
        content = archive.json(member)
        versions.append(program.version(content))
        method, held = program.contents(key, content)
        methods.append(method)
        tensors.update(dict.fromkeys(held))
        del content
    torch, layout = versions[0]
    return Description(
        file=name,
        kind="program",
        size=size,
        torch=torch,
        layout=layout,
        methods=tuple(methods),
        tensors=tuple(tensors),
        pickles=tuple(found for found, _ in unpickled.of_archive(archive, unpickled.of_program(archive))),
    )


def _script(name: str, archive: Archive, size: int) -> Description:
    members = [member for member in archive.names() if "/" not in member and member.endswith(".pkl")]
    tensors: list[Tensor] = []
    for _, root in unpickled.of_archive(archive, members):
        tensors.extend(checkpoint.tensors(root))
    return Description(
        file=name,
        kind="torchscript",
        size=size,
        layout=f"format {archive.text('version') or '?'}",
        methods=(script.method(archive),),
        tensors=tuple(tensors),
    )


def _legacy(name: str, file: BinaryIO, size: int, budget: Budget) -> Description:
    file.seek(0)
    stream = Stream(file, budget)
    read = unpickled.legacy(stream, budget)
    if size - stream.tell() < checkpoint.stored_bytes(read.root):
        raise InspectError("is cut off: tensors are missing")
    return _checkpoint(name, size, read, "", "not zipped")


def _pickle(name: str, file: BinaryIO, size: int, budget: Budget) -> Description:
    file.seek(0)
    read = pickles.read(Stream(file, budget), "the file", budget)
    return _checkpoint(name, size, read, "", "plain pickle")


def _checkpoint(name: str, size: int, read: pickles.Read, member: str, layout: str) -> Description:
    return Description(
        file=name,
        kind=checkpoint.kind_of(read.root),
        size=size,
        layout=layout,
        tensors=tuple(checkpoint.tensors(read.root)),
        pickles=(checkpoint.pickle_file(read, member),),
    )
