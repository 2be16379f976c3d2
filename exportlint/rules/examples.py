"""Runnable examples, written short: a file after the model-case convention around a few lines that matter."""

from __future__ import annotations

from textwrap import dedent, indent

_FILE = """\
import torch
from torch import nn
{imports}
{above}
class Net(nn.Module):
{init}
{forward}

def build():
    torch.manual_seed(0)
    {build}


def inputs():
    return ({inputs},)


def inputs2():
    return ({inputs2},)
{shapes}"""


_SAVING = """
path = os.path.join(tempfile.mkdtemp(), "model.pt")
{save}
model = Net()
{load}
return model.eval()
"""


def example(
    forward: str,
    *,
    init: str = "",
    inputs: str = "torch.ones(2, 4)",
    inputs2: str = "",
    imports: str = "",
    above: str = "",
    build: str = "return Net().eval()",
    shapes: str = "",
) -> str:
    """The text of a file whose module ``Net`` has this forward.

    Args:
        forward: The method, from its ``def`` on; further methods may follow.
        init: Statements of ``__init__``, after the call of the base class.
        inputs: The arguments of the example call, separated by commas.
        inputs2: Those of a second call; the same where empty.
        imports: Further import lines.
        above: Definitions above the class.
        build: Statements of ``build``.
        shapes: The value of ``DYNAMIC_SHAPES``; none where empty.
    """
    body = indent(dedent(init).strip(), "        ")
    method = f"    def __init__(self):\n        super().__init__()\n{body}\n" if body else ""
    text = _FILE.format(
        imports=dedent(imports).strip(),
        above=f"\n{dedent(above).strip()}\n\n" if above else "",
        init=method,
        forward=indent(dedent(forward).strip(), "    ") + "\n",
        inputs=inputs,
        inputs2=inputs2 or inputs,
        build=indent(dedent(build).strip(), "    ").strip(),
        shapes=f"\n\nDYNAMIC_SHAPES = {shapes}\n" if shapes else "",
    )
    return text.replace("\n\n\n\n", "\n\n\n").replace("class Net(nn.Module):\n\n", "class Net(nn.Module):\n")


def saving(save: str, load: str, above: str = "") -> str:
    """The text of a file whose ``build`` saves something of ``Net``, a single layer ``fc``, and loads it again.

    Args:
        save: Statements that save to ``path``.
        load: Statements that load from there into ``model``.
        above: Definitions above the class.
    """
    return example(
        "def forward(self, x):\n    return self.fc(x)",
        init="self.fc = nn.Linear(4, 3)",
        imports="import os\nimport tempfile",
        above=above,
        build=_SAVING.format(save=save.strip(), load=load.strip()),
    )


def loaded(part: str = "") -> str:
    """A statement that loads the state dict at ``path``, or this part of what is there, into ``model``."""
    return f'model.load_state_dict(torch.load(path, map_location="cpu"){part})'
