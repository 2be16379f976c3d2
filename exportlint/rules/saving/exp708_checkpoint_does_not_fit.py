"""# checkpoint-does-not-fit (EXP708)

## What it does
Reports a state dict that does not load strictly into a fresh model of the same factory, or the file that a case names
with `checkpoint=`, and says which keys do not fit.
Where renaming mends them, the line that does it is the rewrite.

## Why it matters
What a call adds to a model, such as a buffer that is registered when it is first needed, no fresh model has. Its
checkpoint cannot be loaded, or only with `strict=False`, which passes over what else does not fit.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example


def _example(how: str, init: str = "") -> str:
    forward = f"""
def forward(self, x):
    if not hasattr(self, "seen"):
        self.register_buffer("seen", torch.zeros(3), persistent={how})
    return self.fc(x) + self.seen
"""
    return example(forward, init=f"self.fc = nn.Linear(4, 3)\n{init}")


RULE = Rule(
    code="EXP708",
    name="checkpoint-does-not-fit",
    summary="A state dict does not load strictly into a fresh model of the same factory",
    rewrite="Register all parameters and buffers in the constructor, with sizes that no call changes.",
    page=__doc__,
    outcomes=observed("unportable"),
    bad=_example("True"),
    good=_example("True", 'self.register_buffer("seen", torch.zeros(3))'),
    fixed=_example("True", 'self.register_buffer("seen", torch.zeros(3))'),
    near=(Near(bad=_example("True"), good=_example("False")),),
    proof="check",
    observed_by=(Observer(check="checkpoint"),),
)
