"""What a model computes in eager, written into a file, and compared with what a patched copy of its project computes.

Each project is imported by a process of its own: ``python -m exportlint.checks.eager_results TARGET CASE FILE`` writes
the results; with the names of variants and the file of another project behind it, the answer of the comparison as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context

    Leaves = dict[str, Any]
    Results = dict[str, Leaves | str]  # by call; a text is what the call raised

STATE = "the state after it"


def main(target: str, name: str, file: str, variants: str = "", beside: str = "") -> None:
    """Write the results of a case, or compare them with those in the file `beside`."""
    import torch

    from exportlint.checks import loading
    from exportlint.checks.context import Context, Settings

    warnings.simplefilter("ignore")
    case = next(case for case in loading.cases_of(target, tuple(variants.split())) if case.name == name)
    if case.weights != "real":
        _answer(file, {"why": "the case has no weights"})
        return
    ctx = Context(case, Settings(()), announce=lambda _: None)
    found = _results(ctx)
    if beside:
        _answer(file, compared(torch.load(beside, weights_only=True), found, **ctx.tolerance))
    else:
        torch.save(found, file)


def _answer(file: str, answer: dict[str, str]) -> None:
    Path(file).write_text(json.dumps(answer), encoding="utf-8")


def _results(ctx: Context) -> Results:
    """What the calls of one model return, and leave in their arguments and in the model.

    The example call is made twice, which shows what the first one leaves behind. Calls with other values follow: a
    branch that no example takes is compared, too.
    """
    calls = [ctx.example(), *ctx.further_examples(), ctx.example()]
    model = ctx.build()
    found: Results = {}
    for number, inputs in enumerate(calls, 1):
        found["the example call" if number == 1 else f"call {number}"] = _call(model, inputs)
    found[STATE] = leaves(dict(model.named_buffers()))
    for words, change in _OTHER_VALUES.items():
        found[f"the example call with {words}"] = _call(ctx.build(), _changed(ctx.example(), change))
    return found


def _call(model: torch.nn.Module, inputs: Inputs) -> Leaves | str:
    from exportlint import blame
    from exportlint.checks.context import call

    try:
        result = call(model, inputs)
    except Exception as error:
        blame.pass_on_memory_error(error)
        return blame.words(error)
    return {**leaves(result, "output"), **leaves(inputs, "input")}


def _negated(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return ~tensor if tensor.dtype is torch.bool else -tensor


def _scaled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 100 if tensor.is_floating_point() else tensor


_OTHER_VALUES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "its values negated": _negated,
    "zeros": lambda tensor: tensor * 0,
    "its values times 100": _scaled,
}


def _changed(inputs: Inputs, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    import torch
    from torch.utils import _pytree as pytree

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return change(tensor).to(tensor.dtype).requires_grad_(tensor.requires_grad)

    made: Inputs = pytree.tree_map_only(torch.Tensor, changed, inputs)
    return made


def leaves(value: Any, where: str = "") -> Leaves:
    """The tensors and plain values in nested containers and objects, by their paths; tensors are copied.

    Classes count by what they hold: one that a fix registers with torch is the same before and after.
    """
    return dict(_leaves(value, where, ()))


def _leaves(value: Any, where: str, around: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    import torch

    parts = None if isinstance(value, torch.Tensor) or id(value) in around else _parts(value)
    if isinstance(value, torch.Tensor):
        yield where, value.detach().clone()
    elif parts is None:
        plain = value is None or isinstance(value, (bool, int, float, complex, str))
        yield where, value if plain else f"a {type(value).__name__}"
    else:
        for key, part in parts.items():
            yield from _leaves(part, f"{where}[{key!r}]" if where else str(key), (*around, id(value)))


def _parts(value: Any) -> dict[Any, Any] | None:
    """What a container or an object of a class holds; ``None`` for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(vars(value)) if hasattr(value, "__dict__") and not callable(value) else None


def compared(before: Results, after: Results, **tolerance: Any) -> dict[str, str]:
    """How the results of a patched copy differ from those of the project, in words.

    Args:
        before: The results of the project.
        after: Those of the copy.
        **tolerance: As `exportlint.parity.compare.compare` takes it.

    Returns:
        With the key ``differs``, the first difference, empty where there is none; with ``why``, why none can be told.
    """
    ran = [words for words, found in before.items() if not isinstance(found, str) and words != STATE]
    if not ran:
        return {"why": f"the model itself raises {next(iter(before.values()))}"}
    for words in before:
        old, new = before[words], after[words]
        if isinstance(old, str):  # what it refuses may be refused otherwise, or be computed
            continue
        if isinstance(new, str):
            return {"differs": f"{words} raises {new}"}
        found = _difference(old, new, words == STATE, tolerance)
        if found:
            return {"differs": f"{words}: {found}"}
    return {"differs": ""}


def _difference(old: Leaves, new: Leaves, is_state: bool, tolerance: dict[str, Any]) -> str:
    from exportlint.parity.compare import compare

    both = [path for path in old if path in new]
    if not is_state and (len(both) < len(old) or len(both) < len(new)):
        path = next(path for path in (*old, *new) if path not in both)
        return f"{path} is there {'before' if path in old else 'after'} only"
    for path in both:
        found = compare(old[path], new[path], **tolerance)
        if found is not None:
            words = found.what.replace(" in eager", " before").replace(" in the program", " after")
            return f"{path}: {words}"
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
