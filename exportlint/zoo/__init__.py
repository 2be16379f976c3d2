"""Model cases of well-known model libraries: small configs, random weights, never a download.

Each source is one module with ``names()``, ``known(name)``, ``model(name)``, ``example(name)`` (`EXAMPLE` says as which
arguments) and ``about(name)``. A specification reads ``source:name``; the name may hold wildcards. Importing this
package imports no torch and no model library.
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import functools
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from exportlint.text import said

if TYPE_CHECKING:
    from exportlint.checks.case import ModelCase

# The sources, each with the package that it takes its models from.
SOURCES = {"hf": "transformers", "timm": "timm", "torchvision": "torchvision"}
# What nearly all models of a source import.
SHARED = {
    "hf": ("transformers.modeling_utils", "transformers.masking_utils", "transformers.generation"),
    "timm": ("timm",),
    "torchvision": ("torchvision.models",),
}
WILDCARDS = frozenset("*?[")


class ZooError(Exception):
    """A specification names nothing that can be built here; the message is one line, fit for a user."""


def is_specification(target: str) -> bool:
    """Whether a TARGET names models of a library, by its look."""
    return target.partition(":")[0] in SOURCES and ":" in target


def require(target: str) -> None:
    """Look whether the library of a specification is there, without importing it.

    Raises:
        ZooError: When it is not installed, or no name is given.
    """
    source, _, name = target.partition(":")
    if not name.strip():
        raise ZooError(f"{target!r} names no model: write {source}:NAME, or {source}:* for all")
    try:
        found = importlib.util.find_spec(SOURCES[source]) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise ZooError(f"{target} needs {SOURCES[source]}, which is not installed: pip install {SOURCES[source]}")


def source_of(target: str) -> str | None:
    """The source of a specification, as a TARGET that `import_shared` takes; ``None`` for a TARGET of another kind."""
    return f"{target.partition(':')[0]}:" if is_specification(target) else None


def import_shared(source: str) -> None:
    """Import what the models of a source share.

    Raises:
        ImportError: When something of it is not installed.
    """
    name = source.rstrip(":")
    _source(name)
    for module in SHARED[name]:
        importlib.import_module(module)


def names(target: str) -> list[str]:
    """The names, with their source, that a specification stands for; the library is imported.

    Raises:
        ZooError: When there is none, with the nearest names.
    """
    require(target)
    source, _, pattern = target.partition(":")
    module = _source(source)
    if WILDCARDS.isdisjoint(pattern):
        if not module.known(pattern):
            near = difflib.get_close_matches(pattern, module.names(), n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise ZooError(f"{SOURCES[source]} has no model {pattern!r}{hint}")
        return [target]
    found = [name for name in module.names() if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise ZooError(f"{SOURCES[source]} has no model that matches {pattern!r}")
    return [f"{source}:{name}" for name in found]


def cases(target: str) -> list[ModelCase]:
    """The model cases that a specification stands for; no model is built yet.

    Raises:
        ZooError: When there is none.
    """
    return [case(name) for name in names(target)]


def case(target: str) -> ModelCase:
    """The model case of one model, ``source:name``; neither the model nor its example is made yet.

    Raises:
        ZooError: When its library cannot be imported.
    """
    from exportlint.checks.case import ModelCase
    from exportlint.checks.second_call import SecondCall

    source, _, name = target.partition(":")
    module = _source(source)
    model, example, about = (functools.partial(make, name) for make in (module.model, module.example, module.about))
    given: dict[str, Any] = {module.EXAMPLE: example}
    one_call = ModelCase(model, name=target, **given)
    second = SecondCall(model, one_call.example)
    return dataclasses.replace(
        one_call, inputs2=lambda: second.inputs, about=lambda: f"{about()}; {second.words}", inferred=True
    )


@functools.cache
def _source(source: str) -> Any:
    """The module of a source.

    Raises:
        ZooError: When its library cannot be imported.
    """
    try:
        return importlib.import_module(f"exportlint.zoo.{source}")
    except Exception as error:
        words = f"{type(error).__name__}: {said(error)}".splitlines()[0]
        raise ZooError(f"{SOURCES[source]} cannot be imported: {words}") from error
