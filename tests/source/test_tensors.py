"""What is known of tensors: those of which a capture knows the content, and arguments that nothing is computed with."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

NET = """
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.size = dim
        self.limit = torch.tensor(3.0)
        self.scale = torch.tensor(3.0, device=dim)

    def forward(self, x: torch.Tensor):
"""


def codes(tmp_path: Path, body: str) -> list[str]:
    """The rules that hold in a forward with these statements."""
    file = tmp_path / "net.py"
    file.write_text(NET + textwrap.indent(textwrap.dedent(body), " " * 8), encoding="utf-8")
    return [p.rule.code for p in lint([file], Options())]


def places(tmp_path: Path, body: str) -> list[tuple[int, str]]:
    """The lines of these statements at which rules hold, counted from 1, and the rules."""
    file = tmp_path / "net.py"
    file.write_text(NET + textwrap.indent(textwrap.dedent(body).strip(), " " * 8), encoding="utf-8")
    before = NET.count("\n")
    return [(p.range.line - before, p.rule.code) for p in lint([file], Options())]


@pytest.mark.parametrize(
    ("first", "code"), [('torch.zeros(3, device="cpu")', "EXP201"), ("torch.zeros(3)", "EXP202"), ("x.cpu()", "EXP201")]
)
@pytest.mark.parametrize(
    "together",
    ["x + (a + b)", "x + torch.stack([a, b])", "x + torch.add(a, b)", "torch.cat([a * b, x])"],
)
def test_each_of_two_tensors_elsewhere_that_meet_first_is_named(
    tmp_path: Path, first: str, code: str, together: str
) -> None:
    assert places(tmp_path, f"a = {first}\nb = {first}\nreturn {together}") == [(1, code), (2, code)]
    assert places(tmp_path, f"a = {first}\nb = {first}.to(x)\nreturn {together}") == [(1, code)]


@pytest.mark.parametrize("made", ['torch.zeros(3, device="cpu")', "torch.zeros(3)"])
def test_each_side_of_a_branch_is_named(tmp_path: Path, made: str) -> None:
    code = "EXP201" if "cpu" in made else "EXP202"
    branch = f"if self.size:\n    a = {made}\nelse:\n    a = {made} + 1\n"
    assert places(tmp_path, branch + "return x + a") == [(2, code), (4, code)]
    assert places(tmp_path, branch + "a = a.to(x.device)\nreturn x + a") == []


def test_tensors_elsewhere_that_are_moved_together_meet_nothing(tmp_path: Path) -> None:
    made = "a = torch.zeros(3)\nb = torch.zeros(3)\n"
    assert places(tmp_path, made + "return x + (a + b).to(x.device)") == []
    moved = made + 'c = (a + b).to("cpu")\nreturn x + c'
    assert places(tmp_path, moved) == [(3, "EXP201")]
    assert places(tmp_path, made + "a += b\nreturn x + a") == [(1, "EXP202"), (2, "EXP202")]


def test_an_attribute_made_of_two_is_one(tmp_path: Path) -> None:
    init = NET.replace("torch.tensor(3.0)", "torch.ones(3) + torch.zeros(3)")
    file = tmp_path / "net.py"
    file.write_text(init + "        return x * self.limit\n", encoding="utf-8")
    assert [p.rule.code for p in lint([file], Options())] == ["EXP203"]


@pytest.mark.parametrize(
    "number",
    [
        "int(torch.tensor(0.25))",
        "int(-torch.log2(torch.tensor(0.25)).item())",
        "2 ** float(torch.tensor(0.3).log2().round())",
        "float(torch.tensor(2.0) * 3 + 1)",
        "int(torch.tensor(float(3)).ceil())",
        "float(torch.tensor(float(self.size) / 8.0).log2())",
    ],
)
def test_a_tensor_made_of_a_python_number_is_known(tmp_path: Path, number: str) -> None:
    assert codes(tmp_path, f"n = {number}\nif n > 2:\n    return x * 2\nreturn x") == []
    assert codes(tmp_path, f"return x * {number}") == []


@pytest.mark.parametrize(
    "number",
    [
        "int(torch.tensor(2.0) * x.sum())",
        "int(torch.tensor([1.0, 2.0]).sum())",
        "int(torch.zeros(()).add(1))",
        "int(self.limit)",
        "int(self.scale.ceil())",
        "int(torch.tensor(2.0) + self.limit)",
    ],
)
def test_other_tensors_are_not(tmp_path: Path, number: str) -> None:
    assert codes(tmp_path, f"return x * {number}") == ["EXP102"]


@pytest.mark.parametrize(("separate", "found"), [("True", []), ("False", ["EXP202"])])
def test_a_place_holder_of_attention_meets_nothing(tmp_path: Path, separate: str, found: list[str]) -> None:
    call = f"F.multi_head_attention_forward(x, x, x, 4, 2, torch.empty([0]), use_separate_proj_weight={separate})"
    assert codes(tmp_path, f"return {call}") == found


@pytest.mark.parametrize(("kind", "found"), [("type", []), ("tuple", ["EXP101"])])
def test_a_predicate_or_a_class(tmp_path: Path, kind: str, found: list[str]) -> None:
    body = f"""
    def plain(value):
        return isinstance(value, int)

    for check in (plain, torch.Tensor):
        if isinstance(x, check) if isinstance(check, {kind}) else check(x):
            return x * 2
    return -x
    """
    assert codes(tmp_path, body) == found


@pytest.mark.parametrize(
    ("dim", "test", "found"),
    [
        (2, "size != self.num_channels", []),
        (3, "self.head_dim != size", []),
        (2, "size != self.max_length", ["EXP301"]),
        (2, "size != self.channels.height", ["EXP301"]),
    ],
)
def test_a_size_that_the_code_calls_one_of_features_is_not_said_to_vary(
    tmp_path: Path, dim: int, test: str, found: list[str]
) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self, given):\n"
        "        super().__init__()\n        self.num_channels = self.head_dim = self.max_length = given.size\n"
        "        self.channels = given\n\n"
        "    def forward(self, x: torch.Tensor):\n        sizes = a, b, c, d = x.shape\n"
        f"        size = sizes[{dim}]\n        if {test}:\n            raise ValueError(size)\n        return x\n",
        encoding="utf-8",
    )
    assert [p.rule.code for p in lint([file], Options())] == found


@pytest.mark.parametrize(
    ("variable", "found"), [("codebook", []), ("head", []), ("step", ["EXP301"]), ("i", ["EXP301"])]
)
@pytest.mark.parametrize(
    "loop", ["for {} in range(x.shape[1]):\n        y = y * 2", "y = [y for {} in range(x.shape[1])][0]"]
)
def test_an_index_that_the_code_calls_one_of_a_feature_runs_over_a_size_that_does_not_vary(
    tmp_path: Path, loop: str, variable: str, found: list[str]
) -> None:
    assert codes(tmp_path, f"\n    y = x.sum()\n    {loop.format(variable)}\n    return y + x.relu()") == found


@pytest.mark.parametrize(
    "body",
    [
        "return x + x.cpu()",
        "return x + x.to('cpu')",
        "return x.type('torch.FloatTensor') * x",
        "return torch.cat([x, (x * 2).cpu()])",
        "return x + x[:, 0].relu().cpu()",
        "return torch.where(x.cpu() > 0, x, -x)",
        "y = x.to(torch.device('cpu'))\nif x.dim() == 2:\n    y = y * 2\nreturn y + x",
        "return nn.functional.linear(x, (x + 1).cpu())",
    ],
)
def test_an_input_that_was_moved_is_taken_to_have_dimensions(tmp_path: Path, body: str) -> None:
    assert codes(tmp_path, body) == ["EXP201"]


@pytest.mark.parametrize(
    "body",
    [
        "return x + x[0, 0].cpu()",
        "return x + x.mean(-1)[0].cpu()",
        "return x * x.norm().cpu()",
        "return x * x.max(-1).values.cpu()",
        "return F.mse_loss(x, -x).cpu() + x",
        "return nn.MSELoss()(x, -x).cpu() + x",
        "return F.ctc_loss(x, x.long(), x.long().cpu(), (x + 1).cpu())",
        "return nn.CTCLoss()(x, x.long(), x.long().cpu(), (x + 1).cpu())",
        "return torch.tensor_split(x, x.long().cpu())",
        "return x.index_put((x.long().cpu(),), x)",
        "y = x.clone()\ny[:, 0] = x.cpu()\ny[x.long().cpu()] = x\ny.copy_(x.cpu())\nreturn y[x.long().cpu()]",
        "y = x.cpu()\nprint(y)\nreturn x, y * 2, y + y",
        "y = x.cpu().relu()\nreturn y.to(x) + x, y.type_as(x) + x",
        "for row in x.cpu():\n    x = x * row.mean()\nreturn x",
        "if x.dim() > 2:\n    y = x.cpu()\nelse:\n    y = x\nreturn x + y",
    ],
)
def test_what_was_moved_and_may_have_none_or_meets_nothing_is_not_told(tmp_path: Path, body: str) -> None:
    assert codes(tmp_path, body) == []


def test_lengths_on_the_cpu_are_what_packing_wants(tmp_path: Path) -> None:
    packing = "torch.nn.utils.rnn.pack_padded_sequence(x, (x != 0).sum(1).cpu(), batch_first=True)"
    assert codes(tmp_path, f"return {packing}.data") == ["EXP102"]


GUARDS = [
    "x.is_cuda",
    'x.device.type == "cuda"',
    '"cuda" == x.device.type',
    'x.device == torch.device("cuda")',
    "x.dim() > 1 and x.is_cuda",
    "not not x.is_cuda",
]


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize(
    "body",
    [
        "h = x.sin()\nif {}:\n    h = h.cuda()\nreturn x + h",
        'h = x.sin()\nif {}:\n    h = torch.ones(4, device="cuda:0")\nreturn x + h',
        "h = x.sin().cuda() if {} else x.sin()\nreturn x + h",
        'if not ({}):\n    return x\nh = torch.ones(4).to("cuda")\nreturn x + h',
        'def move(t):\n    return t.to("cuda")\n\nif {}:\n    return x + move(torch.ones(4))\nreturn x',
        'if {}:\n    d = "cuda"\nelse:\n    d = "cpu"\nreturn x + torch.ones(4, device=d)',
    ],
)
def test_a_move_to_the_device_that_the_inputs_are_on_is_none(tmp_path: Path, guard: str, body: str) -> None:
    assert "EXP201" not in codes(tmp_path, body.format(guard))


@pytest.mark.parametrize(
    "body",
    [
        "h = x.sin()\nif not x.is_cuda:\n    h = h.cuda()\nreturn x + h",
        "h = x.sin()\nif x.is_cuda or self.size:\n    h = h.cuda()\nreturn x + h",
        "h = x.sin()\nif self.size:\n    h = h.cuda()\nreturn x + h",
        'h = x.sin()\nif x.device.type != "cuda":\n    h = h.to("cuda")\nreturn x + h',
        'h = x.sin()\nif x.device.type == "mps":\n    h = h.to("cuda")\nreturn x + h',
        "h = x.sin()\nif x.is_cuda:\n    h = h * 2\nreturn x + h.cuda()",
        "if x.is_cuda:\n    return x + torch.ones(4).cpu()\nreturn x",
    ],
)
def test_a_move_elsewhere_is_one(tmp_path: Path, body: str) -> None:
    assert "EXP201" in codes(tmp_path, body)
