"""Reading members of a zip archive whose author is not trusted: bounded memory, and nothing is written."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

from exportlint.inspecting.description import InspectError

MEMBERS = 65_536  # a model of that many tensors would be the largest by far
DIRECTORY = 16 << 20  # bytes of the list of members: `zipfile` reads it whole
MEMBER = 64 << 20  # bytes of a member that is read; tensors are never read
END = b"PK\x05\x06"
END64 = b"PK\x06\x06"


class Archive:
    """An open archive. Members are named without the folder that torch puts around all of them.

    Args:
        file: The archive, open for reading.
        size: Its length in bytes.

    Raises:
        InspectError: When it is no whole archive, or has too many members.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        _bounded(file, size)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OverflowError, struct.error, UnicodeDecodeError, OSError) as error:
            raise InspectError(f"the archive is damaged or cut off ({error})") from error
        infos = self._zip.infolist()
        if len(infos) > MEMBERS:
            raise InspectError(f"the archive has {len(infos)} members; at most {MEMBERS} are read")
        roots = {info.filename.partition("/")[0] for info in infos if "/" in info.filename}
        alone = all("/" in info.filename for info in infos)
        self.root = f"{roots.pop()}/" if alone and len(roots) == 1 else ""
        self._infos = {info.filename.removeprefix(self.root): info for info in infos}

    def names(self) -> list[str]:
        """Names of all members."""
        return list(self._infos)

    def read(self, name: str) -> bytes:
        """A member, whole.

        Raises:
            InspectError: When it is missing, damaged, encrypted, or longer than `MEMBER`, whatever it declares.
        """
        info = self._infos.get(name)
        if info is None:
            raise InspectError(f"{name} is missing in the archive")
        if info.file_size > MEMBER:
            raise InspectError(f"{name} declares {info.file_size} bytes; at most {MEMBER} are read")
        try:
            with self._zip.open(info) as member:
                content = member.read(MEMBER + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, struct.error) as error:
            raise InspectError(f"{name} cannot be read ({error})") from error
        if len(content) > MEMBER:
            raise InspectError(f"{name} holds more than {MEMBER} bytes")
        return content

    def text(self, name: str) -> str:
        """A short member as text, stripped; empty where it is missing."""
        return self.read(name).decode("utf-8", "replace").strip() if name in self._infos else ""

    def json(self, name: str) -> dict[str, Any]:
        """A member that is a JSON object.

        Raises:
            InspectError: When it cannot be read, or is none.
        """
        return as_object(self.read(name), name)


def as_object(content: bytes, name: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        InspectError: When it is none.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InspectError(f"{name} is no JSON ({type(error).__name__}: {str(error)[:80]})") from error
    if not isinstance(found, dict):
        raise InspectError(f"{name} is no JSON object")
    return found


def _bounded(file: BinaryIO, size: int) -> None:
    """Look at the end of the archive before `zipfile` reads the list that it announces."""
    file.seek(max(0, size - 65_536 - 22))
    tail = file.read(65_536 + 22)
    place = tail.rfind(END)
    if place < 0 or len(tail) < place + 22:
        raise InspectError("the archive is cut off: its list of members is missing")
    members, length, _, comment = struct.unpack_from("<HIIH", tail, place + 10)
    if place + 22 + comment != len(tail):  # what was found is the end of an archive inside of this one
        raise InspectError("the archive is cut off, or something was written behind it")
    place64 = tail.rfind(END64, 0, place)
    if place64 >= 0 and place64 + 56 <= len(tail):
        members, length = struct.unpack_from("<QQ", tail, place64 + 32)
    if members > MEMBERS or length > DIRECTORY:
        raise InspectError(
            f"the archive announces {members} members in a list of {length} bytes; that is too much to read"
        )
