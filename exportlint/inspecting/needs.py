"""What loading a file needs, and what is wrong with it, by the rules that the checks use."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from exportlint.findings import Finding
from exportlint.inspecting import tables
from exportlint.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.inspecting.description import Description

SHOWN = 5
RELOAD = "EXP701"
SCRIPT_CLASS = "__torch__.torch.classes."  # resolved by TorchScript, not imported
OWN = ("torch._export.serde.serialize._reconstruct_fake_tensor",)


def added(found: Description) -> Description:
    """The description with its needs and findings."""
    return dataclasses.replace(found, needs=tuple(_needs(found)), findings=tuple(_findings(found)))


def custom_operators(found: Description) -> tuple[str, ...]:
    """Operators that do not come with torch."""
    names = {name for method in found.methods for name, _ in method.operators if tables.is_custom(name)}
    return tuple(sorted(names))


def _needs(found: Description) -> Iterator[str]:
    operators = custom_operators(found)
    if operators:
        yield f"whoever registers the operators {listed(operators, SHOWN)}"
    containers = _containers(found)
    if containers:
        yield f"whoever registers the classes {listed(containers, SHOWN)} with torch.utils._pytree"
    classes = _script_classes(found)
    if classes:
        yield f"whoever registers the classes {listed(classes, SHOWN)} with torch.classes"
    refused = _refused(found)
    if refused:
        names = listed(refused, SHOWN)
        loader = "torch.export.load" if found.kind == "program" else "torch.load(weights_only=False)"
        yield f"{loader}, which imports and calls {names}: only from who you trust"
    devices = _accelerators(found)
    if devices and found.kind not in ("program", "aoti"):
        yield f"map_location where there is no {listed(devices, SHOWN)}"
    if found.kind == "aoti":
        yield "the machine that it was compiled for: it holds native code, which runs when it is loaded"


def _findings(found: Description) -> Iterator[Finding]:
    refused = _refused(found)
    if found.kind == "module" and refused:
        rewrite = "Save model.state_dict(), or an exported program."
        yield _finding(
            found, "a whole module is pickled: loading imports its classes and runs their code", rewrite, refused
        )
    if found.kind == "program" and (imported := _imported(found)):
        rewrite = (
            "Where torch alone is to load it, keep tensors of classes of your own out of the state and the inputs."
        )
        yield _finding(found, "the program holds pickles: loading imports and calls what they name", rewrite, imported)
    rewrite = (
        "Return registered containers of tensors only, and register custom operators in a package that the loader has."
    )
    operators, containers = custom_operators(found), _containers(found)
    if operators:
        yield _finding(found, "the program calls operators that do not come with torch", rewrite, operators)
    if containers:
        yield _finding(found, "the program takes or returns classes that the loader must know", rewrite, containers)


def _finding(found: Description, message: str, rewrite: str, names: tuple[str, ...]) -> Finding:
    return Finding(
        rule=RELOAD,
        severity="warning",
        message=message,
        file=found.file,
        rewrite=rewrite,
        evidence=listed(names, SHOWN),
        outcomes={"export": "unportable"},
    )


def _containers(found: Description) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for method in found.methods for name in method.containers))


def _refused(found: Description) -> tuple[str, ...]:
    names = dict.fromkeys(name for pickle in found.pickles for name in pickle.refused)
    return tuple(name for name in names if not name.startswith(SCRIPT_CLASS))


def _imported(found: Description) -> tuple[str, ...]:
    """What loading a program imports beyond torch's own way to write it and the classes that it tells of itself."""
    told = {*_containers(found), *OWN}
    return tuple(name for name in _refused(found) if name not in told)


def _script_classes(found: Description) -> tuple[str, ...]:
    names = dict.fromkeys(name for pickle in found.pickles for name in pickle.imports)
    return tuple(name.removeprefix(SCRIPT_CLASS) for name in names if name.startswith(SCRIPT_CLASS))


def _accelerators(found: Description) -> tuple[str, ...]:
    devices = {tensor.device.partition(":")[0] for tensor in found.tensors}
    return tuple(sorted(devices - {"cpu", "meta", "?"}))
