"""What a pickle of torch holds: a state dict, a checkpoint, a whole module, or something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exportlint.inspecting import tables
from exportlint.inspecting.description import InspectError, PickleFile, Tensor
from exportlint.inspecting.pickles import Made, Name, Pairs, Persistent, Read

if TYPE_CHECKING:
    from collections.abc import Iterator

VISITED = 2_000_000  # objects
TENSORS = 200_000
MOST = 1 << 63  # sizes are smaller
INSIDE = ("", "_modules", "_parameters", "_buffers")
REBUILD = "torch._utils._rebuild_"
MAPPINGS = ("collections.OrderedDict", "collections.defaultdict", "builtins.dict", "collections.Counter")


def pickle_file(read: Read, name: str = "") -> PickleFile:
    """What loading the pickle would import."""
    imports = tuple(map(str, read.imports))
    return PickleFile(name=name, imports=imports, refused=tables.refused(imports))


def name_of(function: Any) -> str:
    """What would be called; empty where it is no import. The text of anything else may have no end."""
    return str(function) if isinstance(function, Name) else ""


def kind_of(root: Any) -> str:
    """One of ``state-dict``, ``checkpoint``, ``module`` and ``pickle``."""
    if isinstance(root, Made) and name_of(root.function) not in MAPPINGS:
        holder = root.state.items if isinstance(root.state, Pairs) else ()
        return "module" if "_modules" in holder[::2] else "pickle"
    values = [value for _, value in _entries(root)]
    if not values:
        return "pickle"
    if all(tensor_of("", value) is not None for value in values):
        return "state-dict"
    return "checkpoint" if any(True for _ in tensors(root)) else "pickle"


def tensors(root: Any) -> Iterator[Tensor]:
    """The tensors under an object, each once, named by the keys that lead to it; at most `TENSORS`."""
    stack: list[tuple[str, Any]] = [("", root)]
    seen: set[int] = set()
    found = 0
    while stack and len(seen) < VISITED and found < TENSORS:
        name, value = stack.pop()
        if id(value) in seen or not isinstance(value, (Made, Pairs, list, tuple)):
            continue
        seen.add(id(value))
        tensor = tensor_of(name, value)
        if tensor is not None:
            found += 1
            yield tensor
            continue
        stack.extend(reversed([(_joined(name, key), item) for key, item in _children(value)]))


def tensor_of(name: str, value: Any) -> Tensor | None:
    """The tensor that a call would rebuild; ``None`` where it would not rebuild one."""
    role = "tensor"
    for _ in range(4):  # a parameter around a subclass around a tensor
        if not isinstance(value, Made):
            return None
        function, arguments = name_of(value.function), value.arguments
        if not isinstance(arguments, tuple) or not arguments:
            return None
        if function.startswith(f"{REBUILD}parameter"):
            role, value = "parameter", arguments[0]
        elif function == "torch._tensor._rebuild_from_type_v2" and len(arguments) > 2:
            value = Made(arguments[0], arguments[2])
        else:
            return _rebuilt(name, role, function, arguments)
    return None


def stored_bytes(root: Any) -> int:
    """Bytes that the storages of an object take in a file without an archive, where their dtype is known."""
    lengths: dict[str, int] = {}
    for value in _walk(root):
        if isinstance(value, Persistent) and isinstance(value.key, tuple) and len(value.key) > 4:
            _, kind, key, _, length = value.key[:5]
            width = tables.width(tables.storage_dtype(kind.name)) if isinstance(kind, Name) else 0
            if isinstance(length, int) and isinstance(key, str):
                lengths[key] = 8 + length * width
    return sum(lengths.values())


def _walk(root: Any) -> Iterator[Any]:
    stack, seen = [root], set[int]()
    while stack and len(seen) < VISITED:
        value = stack.pop()
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            if isinstance(value, (Made, Pairs, list, tuple)):
                stack.extend(item for _, item in _children(value))


def _rebuilt(name: str, role: str, function: str, arguments: tuple[Any, ...]) -> Tensor | None:
    if not function.startswith(REBUILD):
        return None
    storage, shape = arguments[0], arguments[2] if len(arguments) > 2 else ()
    if not isinstance(storage, Persistent):  # quantised, sparse and other kinds say less
        return Tensor(name=name, dtype="?", shape=(), device="?", role=role)
    key = storage.key
    if not isinstance(key, tuple) or len(key) < 4:
        return None
    dtype = tables.storage_dtype(key[1].name) if isinstance(key[1], Name) else "?"
    if dtype == "?":  # the class of storage has no dtype: the call names it
        said = [a.name for a in arguments[3:] if isinstance(a, Name) and a.module == "torch"]
        dtype = said[0] if said else "?"
    sizes = tuple(size for size in shape if isinstance(size, int)) if isinstance(shape, tuple) else ()
    if any(not 0 <= size < MOST for size in sizes):
        raise InspectError("a tensor has a size that no tensor can have: the file is malformed")
    device = key[3][:40] if isinstance(key[3], str) else "?"
    return Tensor(name=name, dtype=dtype, shape=sizes, device=device, role=role)


def _children(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, (list, tuple)):
        yield from enumerate(value)
        return
    yield from _entries(value)
    if isinstance(value, Made):
        yield "", value.state
        yield "", value.arguments


def _entries(value: Any) -> list[tuple[Any, Any]]:
    """Keys and values of what is a mapping; none of anything else."""
    items = value.items if isinstance(value, (Made, Pairs)) else []
    return list(zip(items[::2], items[1::2], strict=False))


def _joined(name: str, key: Any) -> str:
    """A key added to a name; the dicts inside a module are not shown."""
    if not isinstance(key, (str, int)) or key in INSIDE:
        return name
    shown = key if isinstance(key, str) else str(key) if abs(key) < MOST else "a large integer"
    return f"{name}.{shown}"[:500] if name else shown[:500]
