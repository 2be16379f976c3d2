"""# pickled-module (EXP702)

## What it does
Reports `torch.save` of a whole module, alone or in a dictionary or list, and `dump` or `dumps` of one by `pickle`,
`joblib`, `cloudpickle` or `dill`.

## Why it matters
The file holds a pickle that names the model's class. `torch.load` refuses it unless it is called with
`weights_only=False`, and then it loads only where that class can be imported under the same name, from source that
still fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Rule, outcomes
from exportlint.rules.examples import loaded, saving
from exportlint.source.events import Called
from exportlint.source.saved import is_scripted, written
from exportlint.source.values import Dict, Sequence, Value, is_module, options

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Called) -> Iterator[Match]:
    """A module is among what is saved."""
    if any(_holds_module(option) for value in written(event) for option in options(value)):
        yield Match(event.site, f"`{event.site.text}` pickles a whole module, which needs its source to be loaded")


def _holds_module(value: Value) -> bool:
    if isinstance(value, Dict):
        return any(_holds_module(part) for _, part in value.items)
    if isinstance(value, Sequence):
        return any(_holds_module(part) for part in value.items or ())
    return is_module(value) and not is_scripted(value)


def _example(saved: str, part: str = "", above: str = "trained = Net()") -> str:
    return saving(f"{above}\ntorch.save({saved}, path)", loaded(part))


# What another program finds, where no class is defined under that name.
_ELSEWHERE = """
model = Net()
del globals()["Net"]
with open(path, "rb") as file:
    pickle.load(file)
"""


def _pickled(saved: str) -> str:
    save = f"{_BOTH}\nwith open(path, 'wb') as file:\n    pickle.dump({saved}, file)"
    return saving(save, _ELSEWHERE, "import pickle")


_BOTH = "trained = Net()\nweights = trained.state_dict()"

RULE = Rule(
    code="EXP702",
    name="pickled-module",
    summary="A whole module is pickled, which loads only where its source can be imported",
    rewrite="Save `model.state_dict()`, and make the model from its class before loading; or save an exported program.",
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="unportable", compiled="unportable"),
    bad=_example("trained"),
    good=_example("trained.state_dict()"),
    fixed=_example("trained.state_dict()"),
    near=(
        Near(bad=_pickled("trained"), good=_pickled("weights")),
        Near(
            bad=_example('{"model": trained, "epoch": weights}', '["model"]', _BOTH),
            good=_example('{"model": weights, "epoch": weights}', '["model"]', _BOTH),
        ),
    ),
    proof="build",
    reach="program",
    events=(Called,),
    match=match,
)
