"""# reload-needs-source (EXP701)

## What it does
Reports a saved program that a process cannot load, or cannot run with the same result, when the model's own packages
cannot be imported.

## Why it matters
Running without the source is what the export is for.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_OPERATOR = """
@torch.library.custom_op("example_of_reload::custom", mutates_args=())
def custom(x: torch.Tensor) -> torch.Tensor:
    return plain(x)


@custom.register_fake
def fake(x):
    return torch.empty_like(x)


def plain(x):
    return x * 2
"""


def _example(result: str) -> str:
    return example(f"def forward(self, x):\n    return {result}", above=_OPERATOR)


RULE = Rule(
    code="EXP701",
    name="reload-needs-source",
    summary="The saved program cannot be loaded without the model's own Python source",
    rewrite=(
        "Return registered containers of tensors only, and register custom operators in a package that the loader has."
    ),
    page=__doc__,
    outcomes=observed("unportable"),
    bad=_example("custom(x)"),
    good=_example("torch.ops.aten.mul(x, 2)"),
    fixed=_example("plain(x)"),
    near=(Near(bad=_example("custom(x).relu()"), good=_example("plain(x).relu()")),),
    proof="check",
    observed_by=(Observer(check="reload"),),
)
