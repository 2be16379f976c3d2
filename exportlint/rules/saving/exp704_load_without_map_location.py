"""# load-without-map-location (EXP704)

## What it does
Reports a `torch.load` without `map_location` whose result is given to `load_state_dict`. Of other files that are loaded
so, and of what the same function saved before, nothing is said.

## Why it matters
The file says on which device each tensor was, and `torch.load` puts it there. A checkpoint that was saved on a GPU does
not load where there is none, or fewer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint.fixes.edits import Keyword, fix
from exportlint.rules.base import Match, Near, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called
from exportlint.source.saved import restored

if TYPE_CHECKING:
    from collections.abc import Iterator


# The states of schedulers and scalers hold Python numbers, which are on no device.
_OF_NUMBERS = re.compile(r"sched|scaler", re.IGNORECASE)


def match(event: Called) -> Iterator[Match]:
    """What was loaded without a word on devices is given to a model or an optimizer."""
    if _OF_NUMBERS.search(event.site.text.partition(".load_state_dict")[0]):
        return
    for value in restored(event):
        if not value.mapped:
            text = f"`{value.site.text}` puts tensors on the devices that they were saved from"
            mapped = Keyword(value.site.range, "map_location", '"cpu"', 1)
            yield Match(value.site, text, fix=fix("Load it on the CPU", mapped, unsafe=True))


# A file as a machine with a hundred GPUs writes it.
_ELSEWHERE = """
def saved_elsewhere(model):
    path = os.path.join(tempfile.mkdtemp(), "model.pt")
    torch.save({"weights": model.state_dict()}, path)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part.replace(b"\\x03\\0\\0\\0cpu", b"\\x07\\0\\0\\0cuda:99") if "pkl" in name else part)
    return path
"""


def _example(load: str) -> str:
    return example(
        "def forward(self, x):\n    return self.fc(x)",
        init="self.fc = nn.Linear(4, 3)",
        imports="import os\nimport tempfile\nimport zipfile",
        above=_ELSEWHERE,
        build=f'path = saved_elsewhere(Net())\nmodel = Net()\ncpu = torch.device("cpu")\n{load}\nreturn model.eval()',
    )


RULE = Rule(
    code="EXP704",
    name="load-without-map-location",
    summary="A checkpoint is loaded onto the devices that it was saved from",
    rewrite='Pass map_location="cpu", and move the model afterwards.',
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="unportable", compiled="unportable"),
    bad=_example('model.load_state_dict(torch.load(path)["weights"])'),
    good=_example('model.load_state_dict(torch.load(path, "cpu")["weights"])'),
    fixed=_example('model.load_state_dict(torch.load(path, map_location="cpu")["weights"])'),
    near=(
        Near(
            bad=_example('found = torch.load(path, mmap=cpu)\nmodel.load_state_dict(found.get("weights"))'),
            good=_example('found = torch.load(path, map_location=cpu)\nmodel.load_state_dict(found.get("weights"))'),
        ),
    ),
    proof="build",
    reach="program",
    events=(Called,),
    match=match,
)
