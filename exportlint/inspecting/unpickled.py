"""Pickles inside of archives and in files of their own, each with what loading it would import."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from exportlint.inspecting import checkpoint, pickles
from exportlint.inspecting.description import InspectError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.inspecting.archive import Archive
    from exportlint.inspecting.budget import Budget, Stream
    from exportlint.inspecting.description import PickleFile

LEGACY = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")  # the pickle that torch.save without an archive begins with
CONFIGS = {"data/weights/": "_weights_config.json", "data/constants/": "_constants_config.json"}
OBJECTS = ("custom_obj_", "opaque_obj_")  # constants that are pickled whatever their entry says
LOADED = (*CONFIGS, "data/sample_inputs/", "serialized_")  # of other members, only what begins like a pickle is one
OLD = ("serialized_state_dict.json", "serialized_constants.json")  # before torch 2.1: pickles under the name of JSON


def of_program(archive: Archive) -> list[str]:
    """Members that ``torch.export.load`` unpickles: by their suffix, or since a list of weights or constants says so.

    Raises:
        InspectError: When a list has another form than torch writes.
    """
    names = archive.names()
    found = {name: None for name in names if name.endswith((".pt", ".pkl")) or name in OLD}
    for folder, suffix in CONFIGS.items():
        for name in names:
            if name.startswith(folder) and name.endswith(suffix):
                found.update(dict.fromkeys(_listed(archive, folder, name)))
    return list(found)


def _listed(archive: Archive, folder: str, config: str) -> Iterator[str]:
    try:
        for entry in archive.json(config)["config"].values():
            name = entry["path_name"]
            if entry.get("use_pickle") or name.startswith(OBJECTS):
                yield posixpath.join(folder, name)
    except (KeyError, TypeError, AttributeError) as error:
        words = f"{type(error).__name__}: {str(error)[:80]}"
        raise InspectError(f"{config} has a form that this release cannot read ({words})") from error


def of_archive(archive: Archive, members: list[str]) -> Iterator[tuple[PickleFile, Any]]:
    """The pickles among the members of an archive, which may be archives of torch themselves, and what each makes.

    Raises:
        InspectError: When one is damaged.
    """
    for member in members:
        start = archive.start(member, 2)
        if start == b"PK":
            inner = archive.inner(member)
            yield _named(pickles.read(inner.stream("data.pkl"), member, archive.budget), member)
        elif start[:1] == b"\x80" or (start and member.startswith(LOADED)):  # without inputs, the member is empty
            stream = archive.stream(member)
            read = legacy(stream, archive.budget) if archive.start(member, len(LEGACY)) == LEGACY else None
            yield _named(read or pickles.read(stream, member, archive.budget), member)


def _named(read: pickles.Read, member: str) -> tuple[PickleFile, Any]:
    return checkpoint.pickle_file(read, member), read.root


def legacy(stream: Stream, budget: Budget) -> pickles.Read:
    """What ``torch.save`` writes without an archive: three small pickles, the object, the list of its storages.

    Raises:
        InspectError: When it is cut off or damaged.
    """
    heads = [pickles.read(stream, "the head of the file", budget) for _ in range(3)]
    read = pickles.read(stream, "the object", budget)
    ends = pickles.read(stream, "the list of storages", budget)
    imports = [name for part in (*heads, read, ends) for name in part.imports]  # each of them is run by loading
    return pickles.Read(read.root, tuple(dict.fromkeys(imports)))
