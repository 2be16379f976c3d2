"""Reading members of a zip archive whose author is not trusted: bounded memory, and nothing is written."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any, BinaryIO, cast

from exportlint.inspecting.budget import Budget, Stream, Window
from exportlint.inspecting.description import InspectError

MEMBERS = 65_536  # a model of that many tensors would be the largest by far
DIRECTORY = 16 << 20  # bytes of the list of members: `zipfile` reads it whole
MEMBER = 64 << 20  # bytes of a member that is read; tensors are never read
COMPRESSED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others, `zipfile` makes gigabytes of a few bytes at once
END, END_LENGTH = b"PK\x05\x06", 22
END64, END64_LENGTH = b"PK\x06\x06", 56
LOCATOR, LOCATOR_LENGTH = b"PK\x06\x07", 20
LOCAL = struct.Struct("<4s22xHH")  # what stands before a member; the lengths of its name and of what is added


class Archive:
    """An open archive. Members are named without the folder that torch puts around all of them.

    Args:
        file: The archive, open for reading.
        size: Its length in bytes.
        budget: What may be read of it, and of the archives inside of it.

    Raises:
        InspectError: When it is no whole archive, or has too many members.
    """

    def __init__(self, file: BinaryIO, size: int, budget: Budget) -> None:
        self.budget = budget
        window = Window(file, 0, size, DIRECTORY)  # whatever `zipfile` takes for the list of members
        self._file = cast("BinaryIO", window)
        _bounded(self._file, size)
        try:
            self._zip = zipfile.ZipFile(self._file)
        except InspectError:
            raise
        except Exception as error:
            raise InspectError(f"the archive is damaged or cut off ({error})") from error
        window.most = MEMBER + 1
        infos = self._zip.infolist()
        if len(infos) > MEMBERS:
            raise InspectError(f"the archive has {len(infos)} members; at most {MEMBERS} are read")
        roots = {info.filename.partition("/")[0] for info in infos if "/" in info.filename}
        alone = all("/" in info.filename for info in infos)
        self.root = f"{roots.pop()}/" if alone and len(roots) == 1 else ""
        self._infos = {info.filename.removeprefix(self.root): info for info in infos}
        self._folded: dict[str, list[zipfile.ZipInfo]] = {}  # by names without case, as torch finds members
        for info in infos:
            self._folded.setdefault(info.filename.removeprefix(self.root).lower(), []).append(info)

    def names(self) -> list[str]:
        """Names of all members."""
        return list(self._infos)

    def read(self, name: str) -> bytes:
        """A member, whole.

        Raises:
            InspectError: When it is missing, damaged, encrypted, or longer than `MEMBER`, whatever it declares.
        """
        info = self._info(name)
        if info.file_size > MEMBER:
            raise InspectError(f"{name} declares {info.file_size} bytes; at most {MEMBER} are read")
        try:
            with self._zip.open(info) as member:
                content = member.read(min(MEMBER, self.budget.bytes) + 1)
        except Exception as error:  # whatever a member makes `zipfile` raise
            raise InspectError(f"{name} cannot be read ({error or type(error).__name__})") from error
        self.budget.take_bytes(len(content))
        if len(content) > MEMBER:
            raise InspectError(f"{name} holds more than {MEMBER} bytes")
        return content

    def start(self, name: str, length: int) -> bytes:
        """The first bytes of a member.

        Raises:
            InspectError: When it is missing, damaged or encrypted.
        """
        try:
            with self._zip.open(self._info(name)) as member:
                return member.read(length)
        except InspectError:
            raise
        except Exception as error:
            raise InspectError(f"{name} cannot be read ({error or type(error).__name__})") from error

    def stream(self, name: str) -> Stream:
        """A member as a stream of pickles.

        Raises:
            InspectError: When it is missing, damaged or encrypted.
        """
        return Stream(io.BytesIO(self.read(name)), self.budget)

    def inner(self, name: str) -> Archive:
        """A member that is an archive; one that is not compressed may be long, since it is read in parts.

        Raises:
            InspectError: When it is missing, damaged or encrypted.
        """
        info = self._info(name)
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            content = self.read(name)
            return Archive(io.BytesIO(content), len(content), self.budget)
        self._file.seek(info.header_offset)
        head = self._file.read(LOCAL.size)
        if len(head) < LOCAL.size:
            raise InspectError(f"{name} cannot be read (its header is cut off)")
        _, named, added = LOCAL.unpack(head)
        window = Window(self._file, info.header_offset + LOCAL.size + named + added, info.file_size, DIRECTORY)
        return Archive(cast("BinaryIO", window), info.file_size, self.budget)

    def text(self, name: str) -> str:
        """A short member as text, stripped; empty where it is missing."""
        return self.read(name).decode("utf-8", "replace").strip() if name in self._infos else ""

    def json(self, name: str) -> dict[str, Any]:
        """A member that is a JSON object.

        Raises:
            InspectError: When it cannot be read, or is none.
        """
        return as_object(self.read(name), name, self.budget)

    def _info(self, name: str) -> zipfile.ZipInfo:
        found = self._folded.get(name.lower(), [])
        if not found:
            raise InspectError(f"{name} is missing in the archive")
        if len(found) > 1:
            raise InspectError(f"{name} is there {len(found)} times, and torch may read any of them")
        (info,) = found
        if info.compress_type not in COMPRESSED:
            raise InspectError(f"{name} is compressed in a way that torch neither writes nor reads")
        return info


def as_object(content: bytes, name: str, budget: Budget, *, unique: bool = False) -> dict[str, Any]:
    """A JSON object.

    Args:
        content: Its text.
        name: What it is called.
        budget: Takes the values.
        unique: Whether a key must not come twice.

    Raises:
        InspectError: When it is none, or has too many values.
    """
    budget.take_values(content.count(b",") + content.count(b"[") + content.count(b"{"))
    try:
        found = json.loads(content, object_pairs_hook=_unique if unique else None)
    except (ValueError, RecursionError) as error:
        raise InspectError(f"{name} is no JSON ({type(error).__name__}: {str(error)[:80]})") from error
    if not isinstance(found, dict):
        raise InspectError(f"{name} is no JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name[:40]!r} comes twice")
        found[name] = value
    return found


def _bounded(file: BinaryIO, size: int) -> None:
    """Look at the end of the archive before `zipfile` reads the list that it announces."""
    file.seek(max(0, size - 65_536 - END_LENGTH))
    tail = file.read(65_536 + END_LENGTH)
    place = tail.rfind(END)
    if place < 0 or len(tail) < place + END_LENGTH:
        raise InspectError("the archive is cut off: its list of members is missing")
    members, length, _, comment = struct.unpack_from("<HIIH", tail, place + 10)
    if place + END_LENGTH + comment != len(tail):  # what was found is the end of an archive inside of this one
        raise InspectError("the archive is cut off, or something was written behind it")
    members, length = _announced64(file, size - len(tail) + place) or (members, length)
    if members > MEMBERS or length > DIRECTORY:
        raise InspectError(
            f"the archive announces {members} members in a list of {length} bytes; that is too much to read"
        )


def _announced64(file: BinaryIO, end: int) -> tuple[int, int] | None:
    """Number of members and length of their list, where a record of large archives stands before the end record."""
    begin = end - LOCATOR_LENGTH - END64_LENGTH
    if begin < 0:
        return None
    file.seek(begin)
    record = file.read(END64_LENGTH + LOCATOR_LENGTH)
    if not (record.startswith(END64) and record.startswith(LOCATOR, END64_LENGTH)):
        return None
    members, length = struct.unpack_from("<QQ", record, 32)
    return members, length
