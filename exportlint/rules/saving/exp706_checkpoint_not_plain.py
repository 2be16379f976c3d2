"""# checkpoint-not-plain (EXP706)

## What it does
Reports a state dict, or a training checkpoint, that `torch.save` does not write, that `torch.load` refuses with
`weights_only=True`, or that is another after it was saved and loaded.

## Why it matters
`weights_only=True` is the default of `torch.load`, and what services that take files of others insist on. It knows
tensors, numbers, text and containers of them, and no classes. With `weights_only=False` the file runs whatever code its
pickle names, and loads only where that code can be imported.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_ABOVE = """
class Vocabulary:
    size = 4
"""


def _example(state: str) -> str:
    forward = f"""
def forward(self, x):
    return self.fc(x)

def get_extra_state(self):
    return {state}

def set_extra_state(self, state):
    pass
"""
    return example(forward, init="self.fc = nn.Linear(4, 3)", above=_ABOVE)


RULE = Rule(
    code="EXP706",
    name="checkpoint-not-plain",
    summary="A checkpoint holds what `torch.load` refuses with weights_only=True",
    rewrite="Let get_extra_state, and hooks of the state dict, return tensors, numbers and text in dicts and lists.",
    page=__doc__,
    outcomes=observed("unportable"),
    bad=_example("Vocabulary()"),
    good=_example('{"size": Vocabulary.size}'),
    fixed=_example("vars(Vocabulary)['size']"),
    near=(Near(bad=_example("[Vocabulary]"), good=_example("[None]")),),
    proof="check",
    observed_by=(Observer(check="checkpoint"),),
)
