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
    refused = _refused(found)
    if refused:
        names = listed(refused, SHOWN)
        yield f"torch.load(weights_only=False), which imports and calls {names}: only from who you trust"
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
    return tuple(dict.fromkeys(name for pickle in found.pickles for name in pickle.refused))


def _accelerators(found: Description) -> tuple[str, ...]:
    devices = {tensor.device.partition(":")[0] for tensor in found.tensors}
    return tuple(sorted(devices - {"cpu", "meta", "?"}))
