from __future__ import annotations

import torch
from torch import nn

from exportlint.checks import capture, steps
from exportlint.checks.case import Method, ModelCase, Step
from exportlint.checks.context import Context, Settings


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, index):
        return self.linear(x)[index]

    def double(self, x):
        return self.linear(x) * 2


ARGUMENTS = (torch.ones(2, 4), torch.tensor([1]))
ALL = ("bfloat16", "float16", "autocast")


def dtypes(case):
    ctx = Context(case, Settings(("capture",)), lambda _: None)
    result = capture.run(ctx)
    assert result.outcome == "passed"
    model, (args, _) = ctx.build(), ctx.example()
    targets = {str(node.target) for node in ctx.program().graph.nodes}
    return model.linear.weight.dtype, [arg.dtype for arg in args], ctx.expected().dtype, targets


def test_one_flag_makes_cases():
    cases = ModelCase(Net, ARGUMENTS, inputs2=ARGUMENTS, variants=ALL).expand()
    assert [case.name for case in cases] == ["Net", "Net[bfloat16]", "Net[float16]", "Net[autocast]"]
    single, half, autocast = torch.float32, torch.bfloat16, "wrap_with_autocast"
    assert dtypes(cases[0])[:3] == (single, [single, torch.int64], single)
    assert dtypes(cases[1])[:3] == (half, [half, torch.int64], half)
    assert dtypes(cases[2])[:3] == (torch.float16, [torch.float16, torch.int64], torch.float16)
    weight, args, result, targets = dtypes(cases[3])
    assert (weight, args, result) == (single, [single, torch.int64], half)
    assert any(autocast in target for target in targets)
    assert cases[1].further_examples()[0][0][0].dtype == half


def test_methods_have_variants_too():
    cases = ModelCase(Net, methods={"double": Method((ARGUMENTS[0],))}, variants=("bfloat16",)).expand()
    assert [case.name for case in cases] == ["Net.double", "Net.double[bfloat16]"]
    result = Context(cases[1], Settings(()), lambda _: None).expected()
    assert (result.dtype, cases[1].whole) == (torch.bfloat16, None)


def test_steps_are_cast_too():
    case = ModelCase(
        Net, ARGUMENTS, steps={"go": Step(lambda moment: ARGUMENTS), "reset": None}, variants=("bfloat16",)
    )
    result = steps.run(Context(case.expand()[1], Settings(("steps",), examples=2), lambda _: None))
    assert (result.outcome, result.findings) == ("passed", ())


def test_a_module_that_exists_once_stays_as_it_is():
    model = Net()
    (_, half) = ModelCase(model, ARGUMENTS, variants=("bfloat16",)).expand()
    assert Context(half, Settings(()), lambda _: None).build().linear.weight.dtype == torch.bfloat16
    assert model.linear.weight.dtype == torch.float32
