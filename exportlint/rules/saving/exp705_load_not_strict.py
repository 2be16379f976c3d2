"""# load-not-strict (EXP705)

## What it does
Reports `load_state_dict(..., strict=False)` whose result nobody looks at.

## Why it matters
Keys that do not fit are passed over: the model keeps the random numbers of its constructor there, and is exported with
them. The result names these keys.

The rule is preview, off unless `--preview` is given: what is left out may be meant, as for adapters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Rule, outcomes
from exportlint.rules.examples import loaded, saving
from exportlint.source.events import Called
from exportlint.source.values import Const

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Called) -> Iterator[Match]:
    """A state dict is loaded as far as it fits."""
    strict = event.keywords.get("strict", event.arguments[1] if len(event.arguments) > 1 else None)
    if event.name == ".load_state_dict" and strict == Const(value=False) and not event.used:
        yield Match(event.site, f"`{event.site.text}` passes over keys that do not fit, and nobody learns which")


_SAVED = """
def saved():
    torch.manual_seed(7)
    return Net().eval()
"""
_LOAD = 'model.load_state_dict(torch.load(path, map_location="cpu"), strict=False)'
_CHECKED = """
weights = {key.removeprefix("net."): value for key, value in torch.load(path, map_location="cpu").items()}
model.load_state_dict(weights)
"""
_RETRIED = """
weights = torch.load(path, map_location="cpu")
try:
    model.load_state_dict(weights, strict={})
except RuntimeError:
    model.load_state_dict({{key.removeprefix("net."): value for key, value in weights.items()}})
"""


def _example(load: str, prefix: str = "") -> str:
    save = f'torch.save({{"{prefix}" + key: value for key, value in saved().state_dict().items()}}, path)'
    return saving(save, load, _SAVED)


RULE = Rule(
    code="EXP705",
    name="load-not-strict",
    summary="A state dict is loaded as far as it fits, and the model keeps random numbers where it does not",
    rewrite="Load with strict=True, or look at the keys that the result names.",
    page=__doc__,
    outcomes=outcomes(export="silent", strict="silent", compiled="silent"),
    bad=_example(_LOAD, "net."),
    good=_example(loaded()),
    fixed=_example(_CHECKED, "net."),
    fixed_differs="The bad example computes with the random numbers of its constructor.",
    near=(
        Near(
            bad=_example(_RETRIED.format("False"), "net."),
            good=_example(_RETRIED.format("True"), "net."),
        ),
    ),
    proof="build",
    stage="preview",
    reach="program",
    events=(Called,),
    match=match,
)
