"""# parallel-prefix (EXP703)

## What it does
Reports that the state dict of a module in `nn.DataParallel` or `DistributedDataParallel`, or of what `torch.compile`
made of a module, is saved.

## Why it matters
Every key of it begins with `module.`, or with `_orig_mod.`. The file does not load into the model itself:
`load_state_dict` raises, and with `strict=False` it loads nothing without a word. Where the file that saves also takes
the prefix away, nothing is reported.

The check `checkpoint` reports it of a factory that returns such a wrapper, and of one that returns what `torch.compile`
made, whose keys begin with `_orig_mod.`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint.fixes.edits import Unwrapped, fix
from exportlint.rules.base import Match, Near, Rule, outcomes
from exportlint.rules.examples import loaded, saving
from exportlint.source.events import Called
from exportlint.source.saved import is_parallel, written
from exportlint.source.values import COMPILED, Dict, StateDict, TorchModule, Value, options

if TYPE_CHECKING:
    from collections.abc import Iterator

_STRIPPED = re.compile(r"""["']module\.["']|consume_prefix_in_state_dict_if_present""")
_STRIPPED_OF_COMPILED = re.compile(r"""["']_orig_mod\.?["']|consume_prefix_in_state_dict_if_present""")


def match(event: Called) -> Iterator[Match]:
    """The state dict of a wrapper is among what is saved."""
    for value in written(event):
        yield from _saved(event, value)


def _saved(event: Called, value: Value) -> Iterator[Match]:
    for wrapper in _wrappers(value):
        made, compiled = wrapper.site, wrapper.name == COMPILED
        strips = _STRIPPED_OF_COMPILED if compiled else _STRIPPED
        if strips.search(event.site.source.text) or (made and strips.search(made.source.text)):
            continue
        if compiled:
            text = "the state dict of a compiled module is saved here, and each of its keys begins with `_orig_mod.`"
            yield Match(event.site, text, rewrite="Save the state dict of the module that was compiled.", made=made)
            continue
        name = wrapper.name.rpartition(".")[2]
        text = f"the state dict of a `{name}` is saved here, and each of its keys begins with `module.`"
        inner = fix("Save the state dict of the module in it", Unwrapped(event.site.range), unsafe=True)
        yield Match(event.site, text, made=made, fix=inner if event.name == "torch.save" else None)


def _wrappers(value: Value) -> Iterator[TorchModule]:
    for option in options(value):
        if isinstance(option, Dict):
            for _, part in option.items:
                yield from _wrappers(part)
        elif isinstance(option, StateDict) and (is_parallel(option.of) or _is_compiled(option.of)):
            yield option.of  # type: ignore[misc]


def _is_compiled(value: Value) -> bool:
    return isinstance(value, TorchModule) and value.name == COMPILED


_BOTH = "trained = Net()\nwrapped = nn.DataParallel(trained)"
_HELPER = """
def save(model, path):
    torch.save({"weights": model.state_dict()}, path)
"""


def _example(save: str, part: str = "", above: str = "") -> str:
    return saving(save, loaded(part), above)


RULE = Rule(
    code="EXP703",
    name="parallel-prefix",
    summary="A state dict is saved from a wrapper for several devices, with `module.` before every key",
    rewrite="Save the state dict of the wrapped module: `model.module.state_dict()`.",
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="unportable", compiled="unportable"),
    bad=_example("trained = nn.DataParallel(Net())\ntorch.save(trained.state_dict(), path)"),
    good=_example("trained = nn.DataParallel(Net())\ntorch.save(trained.module.state_dict(), path)"),
    fixed=_example("trained = nn.DataParallel(Net())\ntorch.save(trained.module.state_dict(), path)"),
    near=(
        Near(
            bad=_example("trained = Net()\nfast = torch.compile(trained)\ntorch.save(fast.state_dict(), path)"),
            good=_example("trained = Net()\nfast = torch.compile(trained)\ntorch.save(trained.state_dict(), path)"),
        ),
        Near(
            bad=_example(f"{_BOTH}\nsave(wrapped, path)", '["weights"]', _HELPER),
            good=_example(f"{_BOTH}\nsave(trained, path)", '["weights"]', _HELPER),
        ),
        Near(
            bad=_example(f"{_BOTH}\nweights = wrapped.state_dict()\ntorch.save(weights, path)"),
            good=_example(f"{_BOTH}\nweights = trained.state_dict()\ntorch.save(weights, path)"),
        ),
    ),
    proof="build",
    reach="program",
    events=(Called,),
    match=match,
)
