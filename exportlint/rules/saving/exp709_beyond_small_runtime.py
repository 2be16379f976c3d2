"""# beyond-small-runtime (EXP709)

## What it does
Reports what a program holds, after `run_decompositions`, that not every runtime takes: operators outside core ATen,
operators of your own, sizes without a bound or that depend on the data, complex numbers, arguments and buffers that a
call changes, numbers and text that it returns. Without `--profile` all of it is advice.

## Why it matters
ExecuTorch, ONNX and AOTInductor each refuse some of these, and lose others without a word: an ONNX model begins each
call with its buffers as they were exported, ExecuTorch takes no size above the example's where a dimension has no
maximum. With `--profile executorch`, `onnx` or `aoti` what the runtime minds counts. Where the runtime is installed,
the program is lowered and run, and that decides.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example


def _example(result: str) -> str:
    return example(f"def forward(self, x):\n    return {result}")


RULE = Rule(
    code="EXP709",
    name="beyond-small-runtime",
    summary="The program holds what runtimes with a small set of operators lack",
    rewrite="Compute it from operators of core ATen, bound it, or leave it outside of the model.",
    page=__doc__,
    outcomes=observed("fine"),
    bad=_example("torch.special.erfcx(x)"),
    good=_example("torch.erf(x)"),
    fixed=_example("torch.exp(x * x) * (1 - torch.erf(x))"),
    near=(Near(bad=_example("torch.special.erfcx(x)"), good=_example("torch.special.erf(x)")),),
    proof="check",
    advice=True,
    observed_by=(Observer(check="opset"),),
)
