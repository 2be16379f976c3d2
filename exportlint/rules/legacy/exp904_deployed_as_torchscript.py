"""# deployed-as-torchscript (EXP904)

## What it does
Reports, as advice, a model that is saved by TorchScript, with `torch.jit.save` or by the method `save` of what
`torch.jit.script`, `trace`, `freeze` or `optimize_for_inference` made, and a file that `torch.jit.load` loads.

## Why it matters
Nothing fails. But torch says since 2.10 that TorchScript is deprecated, and names `torch.export` instead, whose program
keeps its guards and dynamic shapes, and needs no compiler of its own to be loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Rule, outcomes
from exportlint.rules.examples import saving
from exportlint.source.events import Called
from exportlint.source.saved import is_scripted

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Called) -> Iterator[Match]:
    """A model of TorchScript goes to a file, or comes from one."""
    scripted = event.receiver is not None and is_scripted(event.receiver) and event.name == ".save"
    if scripted or event.name in ("torch.jit.save", "torch.jit.load"):
        yield Match(event.site, f"`{event.site.text}` deploys a model by TorchScript, which torch deprecates")


_LOAD = "model = Net()\nmodel.load_state_dict(saved.state_dict())"


def _example(save: str, load: str = "saved = torch.jit.load(path)") -> str:
    return saving(f"trained = Net().eval()\nexample = (torch.ones(2, 4),)\n{save}", f"{load}\n{_LOAD}")


_TRACED, _SAVED = "traced = torch.jit.trace(trained, example)\ntraced.{}(path)", "saved = trained"
_EXPORT = "torch.export.save(torch.export.export(trained, example), path)"
_PROGRAM = "saved = torch.export.load(path).module()"

RULE = Rule(
    code="EXP904",
    name="deployed-as-torchscript",
    summary="A model is deployed by TorchScript, which torch deprecates",
    rewrite="Save an exported program: torch.export.save(torch.export.export(model, example), path).",
    page=__doc__,
    outcomes=outcomes(export="fine", strict="fine", compiled="fine"),
    bad=_example("torch.jit.save(torch.jit.trace(trained, example), path)"),
    good=_example(_EXPORT, _PROGRAM),
    fixed=_example(_EXPORT, _PROGRAM),
    near=(Near(bad=_example(_TRACED.format("save"), _SAVED), good=_example(_TRACED.format("__eq__"), _SAVED)),),
    proof="build",
    advice=True,
    reach="program",
    events=(Called,),
    match=match,
)
