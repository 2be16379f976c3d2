"""All places where ``torch.compile`` breaks a graph, which a capture as one graph tells the first of.

``torch._dynamo.explain`` is documented, and private by its name.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Break(NamedTuple):
    """Why a graph ends: torch's words, and the frames around, outermost first, as file and line."""

    words: str
    frames: tuple[tuple[str, int], ...]


class Explained(NamedTuple):
    """How many graphs there are, and why all but the last end; a break before the first operator is not among these."""

    graphs: int
    breaks: tuple[Break, ...]


def explain(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explained:
    """Call a function as ``torch.compile`` runs it, and see where graphs end.

    Numbers out of tensors, and sizes that depend on data, are captured, as they are with ``fullgraph=True``.

    Raises:
        Exception: What the function, or torch, raises.
    """
    import torch

    whole = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with warnings.catch_warnings(), torch._dynamo.config.patch(whole):
        warnings.simplefilter("ignore")
        found: Any = torch._dynamo.explain(function)(*args, **kwargs)
    breaks = (
        Break(reason.reason, tuple((frame.filename, int(frame.lineno or 0)) for frame in reason.user_stack))
        for reason in found.break_reasons
        if reason.graph_break
    )
    return Explained(found.graph_count, tuple(breaks))


@functools.cache
def why_not() -> str | None:
    """Why breaks cannot be listed with this torch, or ``None``; a function that breaks twice is explained to see."""
    import torch

    try:
        found = explain(_broken, (torch.ones(1),), {})
        if len(found.breaks) == 2 and all(found.frames and found.frames[-1][0] == __file__ for found in found.breaks):
            return None
    except Exception:
        return f"torch {torch.__version__} explains graph breaks in another way than exportlint knows"
    return f"torch {torch.__version__} does not name the lines of graph breaks as exportlint knows"


def _broken(x: Any) -> Any:
    import torch

    y = x + 1
    torch._dynamo.graph_break()
    y = y * 2
    torch._dynamo.graph_break()
    return y - 1
