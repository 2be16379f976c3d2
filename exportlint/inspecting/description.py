"""What a file holds, as `exportlint.inspecting.inspect` found it: frozen dataclasses without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exportlint.findings import Finding

KINDS = {
    "program": "saved program of torch.export",
    "aoti": "package of AOTInductor",
    "torchscript": "TorchScript program",
    "state-dict": "state dict",
    "checkpoint": "checkpoint",
    "module": "pickle of a whole module",
    "pickle": "pickle",
    "safetensors": "safetensors",
}


class InspectError(Exception):
    """A file cannot be inspected; the message is one line without the file's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor that the file holds.

    Attributes:
        name: Its key in the state dict, or its name in the program.
        dtype: Such as ``float32``; ``?`` where the file does not say.
        shape: Sizes; a string stands for a size that the program leaves open.
        device: Where it was when it was saved, such as ``cpu`` or ``cuda:0``.
        role: ``parameter``, ``buffer``, ``constant`` or ``tensor``.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    device: str
    role: str = "tensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An input of a method: a tensor, a number that stays open, or a constant.

    Attributes:
        name: Name of the parameter, or of its part.
        what: ``float32 [s0, 4] on cpu``, ``integer s1``, or ``constant 3``.
    """

    name: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A program in the file.

    Attributes:
        name: Name of the method; ``model`` where the program was saved without one.
        inputs: What the user passes.
        ranges: Smallest and largest value of each size that is open, by its symbol; ``None`` where there is no bound.
        operators: How often each operator is called, by name; those of nested graphs too.
        devices: Devices of the values in the graph.
        containers: Classes in the inputs and outputs that are not Python's own.
        sources: Source files that the graph was captured from, by what torch recorded.
    """

    name: str
    inputs: tuple[Argument, ...] = ()
    ranges: tuple[tuple[str, int | None, int | None], ...] = ()
    operators: tuple[tuple[str, int], ...] = ()
    devices: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PickleFile:
    """A pickle inside the file, read without running it.

    Attributes:
        name: Its place in the archive; empty where the file itself is the pickle.
        imports: What loading would import, as ``module.name``.
        refused: Those that ``torch.load(weights_only=True)`` refuses.
    """

    name: str
    imports: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a file holds.

    Attributes:
        file: The path as it was given.
        kind: A key of `KINDS`.
        size: Bytes.
        torch: Version of torch that wrote it; ``None`` where the format does not record it.
        layout: Version of the format, in the format's own words.
        methods: Programs.
        tensors: Tensors, in the order of the file.
        pickles: Pickles.
        needs: What must be at hand to load it, a sentence each.
        findings: By the rules of the checks.
    """

    file: str
    kind: str
    size: int
    torch: str | None = None
    layout: str = ""
    methods: tuple[Method, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    pickles: tuple[PickleFile, ...] = ()
    needs: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
