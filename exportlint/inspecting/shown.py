"""A description as text, and two of them beside each other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from exportlint.inspecting.description import KINDS
from exportlint.inspecting.needs import custom_operators
from exportlint.text import counted, listed, size, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.inspecting.description import Argument, Description, Method, PickleFile, Tensor

FEW = 8


def lines(found: Description, everything: bool = False) -> Iterator[str]:
    """The description, a line each.

    Args:
        found: The description.
        everything: All tensors, operators and imports instead of the first few.
    """
    yield from map(_alone, _lines(found, everything))


def _alone(line: str) -> str:
    """The line as it is printed: names of files, tensors and classes may hold anything, further lines too."""
    return visible(line).replace("\n", " ")


def _lines(found: Description, everything: bool) -> Iterator[str]:
    about = [KINDS[found.kind], size(found.size), f"torch {found.torch}" if found.torch else "", found.layout]
    yield f"{found.file}: {', '.join(word for word in about if word)}"
    for method in found.methods:
        yield from _method(method, found.kind, everything)
    custom = custom_operators(found)
    if custom:
        yield _row("custom", _few(custom, True))
    if found.tensors:
        yield _row("tensors", _summary(found.tensors))
        if everything:
            yield from (f"    {described(tensor)}" for tensor in found.tensors)
    for pickle in found.pickles:
        yield _row("pickle", _imports(pickle, everything))
    yield from (_row("needs", need) for need in found.needs)
    for finding in found.findings:
        yield f"  {finding.severity}: {finding.rule} {finding.message}: {finding.evidence}"
        yield f"    rewrite: {finding.rewrite}"


def described(tensor: Tensor) -> str:
    """``parameter l.weight: float32 [3, 4] on cpu``."""
    shape = ", ".join(map(str, tensor.shape))
    return f"{tensor.role} {tensor.name}: {tensor.dtype} [{shape}] on {tensor.device}"


def differences(old: Description, new: Description) -> list[str]:
    """What differs, a line each: ``-`` of the old file, ``+`` of the new one; names and sizes of the files aside."""
    before, after = list(_facts(old)), list(_facts(new))
    gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
    found = [f"- {line}" for line in before if _take(gone, line)]
    found += [f"+ {line}" for line in after if _take(come, line)]
    return [_alone(line) for line in found]


def _take(left: Counter[str], line: str) -> bool:
    left[line] -= 1
    return left[line] >= 0


def _facts(found: Description) -> Iterator[str]:
    yield f"kind: {KINDS[found.kind]}"
    yield f"torch: {found.torch or 'not recorded'}"
    yield f"layout: {found.layout or 'not recorded'}"
    for method in found.methods:
        yield from (f"{method.name} input {_argument(given)}" for given in method.inputs)
        yield from (f"{method.name} size {line}" for line in _ranges(method))
        yield from (f"{method.name} operator {name} ({count})" for name, count in method.operators)
        yield from (f"{method.name} device {device}" for device in method.devices)
        yield from (f"{method.name} class {name}" for name in method.containers)
    yield from map(described, found.tensors)
    yield from (f"pickle {p.name or 'file'} imports {name}" for p in found.pickles for name in p.imports)
    yield from (f"needs {need}" for need in found.needs)


def _row(head: str, words: str) -> str:
    return f"  {head:<10} {words}"


def _method(method: Method, kind: str, everything: bool) -> Iterator[str]:
    yield f"  method {method.name}"
    if kind == "program":
        yield _row("  inputs", "; ".join(map(_argument, method.inputs)) or "none")
    for line in _ranges(method):
        yield _row("  size", line)
    calls = sum(count for _, count in method.operators)
    names = tuple(f"{name} {count}" for name, count in method.operators)
    yield _row("  operators", f"{counted(calls, 'call')}: {_few(names, everything)}" if names else "none")
    for head, words in (("  devices", method.devices), ("  classes", method.containers), ("  sources", method.sources)):
        if words:
            yield _row(head, _few(words, everything))


def _argument(given: Argument) -> str:
    return f"{given.name}: {given.what}"


def _ranges(method: Method) -> Iterator[str]:
    for symbol, least, most in method.ranges:
        yield f"{symbol} from {'any' if least is None else least} to {'any' if most is None else most}"


def _few(words: tuple[str, ...], everything: bool) -> str:
    return listed(words, len(words) if everything else FEW)


def _summary(tensors: tuple[Tensor, ...]) -> str:
    roles = ", ".join(counted(count, role) for role, count in Counter(tensor.role for tensor in tensors).items())
    kinds = Counter(tensor.dtype for tensor in tensors)
    devices = Counter(tensor.device for tensor in tensors)
    return f"{roles}; {_few(tuple(kinds), False)}; on {_few(tuple(devices), False)}"


def _imports(pickle: PickleFile, everything: bool) -> str:
    where = f"{pickle.name}: " if pickle.name else ""
    refused = f"; refused by weights_only: {_few(pickle.refused, everything)}" if pickle.refused else ""
    return f"{where}imports {_few(pickle.imports, everything) or 'nothing'}{refused}"
