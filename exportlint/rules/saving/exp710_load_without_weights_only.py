"""# load-without-weights-only (EXP710)

## What it does
Reports a `torch.load` without `weights_only` whose result is given to `load_state_dict`, in a project that is known to
run with a torch older than 2.6: by `torch-version`, or by the bound in `dependencies` of its `pyproject.toml`.

## Why it matters
Before 2.6 such a call unpickles whatever the file holds, and runs the code that it names. From 2.6 on it refuses all
but tensors and plain containers. The same line runs code from a file in one environment, and does not load the file
in another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import Fix, Keyword
from exportlint.rules.base import Match, Near, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called
from exportlint.source.saved import restored

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Called) -> Iterator[Match]:
    """What was loaded as the release of torch pleases is given to a model or an optimizer."""
    for value in restored(event):
        if not value.restricted:
            text = f"what `{value.site.text}` accepts depends on the release of torch: before 2.6 it runs any pickle"
            # A file that holds more than tensors does not load with it, so it is shown and never applied.
            told = Keyword(value.site.range, "weights_only", "True")
            yield Match(value.site, text, fix=Fix("Load tensors and plain containers only", (told,), "display"))


_SAVED = """
def saved_by_trainer(model):
    path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
    torch.save({{"args": {}, "weights": model.state_dict()}}, path)
    return path
"""
_OBJECT, _PLAIN = "argparse.Namespace(width=3)", "dict(width=3)"


def _example(load: str, args: str = _OBJECT) -> str:
    return example(
        "def forward(self, x):\n    return self.fc(x)",
        init="self.fc = nn.Linear(4, 3)",
        imports="import argparse\nimport os\nimport tempfile",
        above=_SAVED.format(args),
        build=f"path = saved_by_trainer(Net())\nmodel = Net()\n{load}\nreturn model.eval()",
    )


RULE = Rule(
    code="EXP710",
    name="load-without-weights-only",
    summary="What a checkpoint may hold is left to the release of torch",
    rewrite="Save plain content, and pass weights_only=True; a file that you trust and cannot change, False.",
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="unportable", compiled="unportable"),
    bad=_example('model.load_state_dict(torch.load(path, map_location="cpu")["weights"])'),
    good=_example('model.load_state_dict(torch.load(path, map_location="cpu", weights_only=False)["weights"])'),
    fixed=_example('model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["weights"])', _PLAIN),
    near=(
        Near(
            bad=_example('found = torch.load(path, "cpu", mmap=False)\nmodel.load_state_dict(found.get("weights"))'),
            good=_example(
                'found = torch.load(path, "cpu", weights_only=False)\nmodel.load_state_dict(found.get("weights"))'
            ),
        ),
    ),
    proof="build",
    until="2.6",
    reach="program",
    events=(Called,),
    match=match,
)
