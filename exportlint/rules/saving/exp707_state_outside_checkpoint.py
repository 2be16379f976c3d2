"""# state-outside-checkpoint (EXP707)

## What it does
Reports what decides a model's results, or the next steps of its training, and is not in the state dict: a tensor in a
plain attribute, a buffer that is not persistent, modules in a plain list, a Python number that training changes. A
model is made with other random numbers and given the state dict; the name is blamed with whose value it does the same.

## Why it matters
The state dict loads without a complaint, and the model computes something else.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example


def _example(init: str) -> str:
    return example(
        "def forward(self, x):\n    return self.fc(x) * self.scale", init=f"self.fc = nn.Linear(4, 3)\n{init}"
    )


RULE = Rule(
    code="EXP707",
    name="state-outside-checkpoint",
    summary="What decides the results is not in the state dict, so that a model that loads it computes something else",
    rewrite="Keep what is not made anew without random numbers in parameters or persistent buffers.",
    page=__doc__,
    outcomes=observed("silent"),
    bad=_example("self.scale = torch.rand(3)"),
    good=_example("self.scale = 2"),
    fixed=_example('self.register_buffer("scale", torch.rand(3))'),
    near=(
        Near(
            bad=_example('self.register_buffer("scale", torch.rand(3), persistent=False)'),
            good=_example('self.register_buffer("scale", torch.rand(3), persistent=True)'),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="checkpoint"),),
)
