"""The words of an export that refuses its dynamic shapes, where torch itself fails while it looks for better ones.

Of what the guards leave of each `Dim` torch proposes another. Where they leave a single size, or none, it raises for
its own proposal, and what it refuses, and why, is lost.
"""

from __future__ import annotations

import functools
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOOK = "prettify_results"
PARAMETERS = ["self", "original_signature", "dynamic_shapes", "constraint_violation_error", "forced_specializations"]


@contextmanager
def told() -> Iterator[None]:
    """A context in which an export that refuses its dynamic shapes says so, also where torch cannot propose others."""
    if why_not() is not None:
        yield
        return
    from torch.fx.experimental.symbolic_shapes import DimConstraints

    original = getattr(DimConstraints, HOOK)
    setattr(DimConstraints, HOOK, _hook(original))
    try:
        yield
    finally:
        setattr(DimConstraints, HOOK, original)


def _hook(original: Any) -> Any:
    @functools.wraps(original)  # with its signature, which `why_not` looks at while the context is entered again
    def prettify_results(constraints: Any, signature: Any, shapes: Any, violation: Any, forced: Any) -> str:
        try:
            return str(original(constraints, signature, shapes, violation, forced))
        except Exception:
            if violation is None and not forced:  # nothing is refused
                raise
            return _words(forced)

    return prettify_results


def _words(forced: Mapping[str, Any]) -> str:
    """What torch says of sizes for which one value is left."""
    if not forced:
        return ""
    lines = (f"  - {size}: your code specialized it to be a constant ({value})." for size, value in forced.items())
    return "\n".join(["Specializations unexpectedly required!", *lines])


def why_not() -> str | None:
    """Why the words cannot be kept with this torch, or ``None``."""
    from torch.fx.experimental.symbolic_shapes import DimConstraints

    hook = getattr(DimConstraints, HOOK, None)
    if hook is None or list(inspect.signature(hook).parameters) != PARAMETERS:
        import torch

        return f"torch {torch.__version__} words what it refuses in another way than exportlint knows"
    return None
