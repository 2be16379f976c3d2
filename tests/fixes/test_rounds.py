"""Fixes in texts: what is outside of them stays, they settle, and none is written that mends nothing."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mending import EVERY, found, mended

from exportlint.fixes.edits import Behind, Fix, Keyword
from exportlint.fixes.rounds import applied, fixed
from exportlint.fixes.texts import fitting
from exportlint.fixes.tree import Tree
from exportlint.rules.examples import example
from exportlint.source.sites import Range

if TYPE_CHECKING:
    import random

    from exportlint.source.engine import Prediction

# Bodies of methods, each with something to mend.
PARTS = {
    "ramp": "y = x * torch.arange(x.size(1))  # a ramp",
    "lines": "y = x + torch.zeros(\n    4,  # four\n    device='cpu',\n)",
    "where": "y = (\n    x * 2\n    if x.sum() > 0\n    else (\n        x - 1\n    )\n)",
    "full": "y = x + torch.ones(\n    x.size(0),\n    4,  # rows\n)",
    "moved": "y = x + x.sum(0).cpu(  )",
    "branch": "if x.sum() > 0:\n    x = x * 2\ny = x",
    "chosen": "y = x * 2 if x.max() > 4 else x - 1",
    "numbers": "y = x.reshape(int(x.shape[0]), -1)",
    "kept": "y = x * self.scale",
    "array": "y = torch.from_numpy(x.detach().numpy())",
    "print": "y = x\nprint(x.shape)  # told",
    "ways": "y = x + 1\nif x.sum() > 0:\n    x = x * 2  # twice\n    y = y - x\ny = y + x",
    "nothing": "y = x.clone()\nlow = y < 2\nif low.any():\n    y[low] = 0  # none",
    "number": "y = x\nif x.max().item() > 3:\n    y = x - 1",
    "finite": "y = x\nif torch.isinf(x).any():\n    raise ValueError('finite')",
    "fine": "y = x.relu()  # déjà vu",
}
SCALE = "self.scale = torch.arange(4.0)  # kept"


def module(names: list[str], line: str = "\n") -> str:
    """A module whose methods are these parts."""
    methods = [
        f"def part_{i}(self, x):\n" + "".join(f"    {text}\n" for text in PARTS[name].splitlines()) + "    return y\n"
        for i, name in enumerate(names)
    ]
    calls = "".join(f"    x = x + self.part_{i}(x)\n" for i in range(len(names)))
    forward = f"def forward(self, x):\n{calls}    return x\n\n" + "\n".join(methods)
    return example(forward, init=SCALE, inputs2="torch.ones(3, 4)").replace("\n", line)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_what_is_outside_of_the_fixes_stays_and_a_second_time_changes_nothing(names: list[str], line: str) -> None:
    source = module(names, line)
    result = mended(source)
    text = result.data.decode()
    ast.parse(text)
    again = fixed(result.data, found(result.data), found, EVERY)
    assert again.data == result.data
    assert not again.mended
    assert not result.unmended
    assert bool(result.mended) == (set(names) != {"fine"})
    assert text.count("\r\n") == text.count("\n") or line == "\n"
    before, after = source.split(line), text.split(line)
    kept = [line for line in before if "déjà" in line or "return" in line or line.strip().startswith("def ")]
    assert [line for line in kept if line not in after] == []
    assert [
        c
        for c in ("# a ramp", "# four", "# rows", "# told", "# kept", "# twice", "# none")
        if c in source and c not in text
    ] == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_texts_say_all_that_changes(names: list[str], chance: random.Random) -> None:
    """Any choice of fixes that do not overlap: the characters between them are the same, one by one."""
    source = module(names)
    tree = Tree(source)
    made = [fitting(tree, p.fix)[1] for p in found(source.encode()) if p.fix is not None]
    chosen = sorted({text for each in made if chance.random() < 0.6 for text in each})
    apart = [t for i, t in enumerate(chosen) if i == 0 or chosen[i - 1].end < t.start]
    result = applied(source, apart)
    ends = [0, *(t.end for t in apart)]
    gaps = [source[end : t.start] for end, t in zip(ends, [*apart, None], strict=True) if t] + [source[ends[-1] :]]
    rebuilt = "".join(gap + content for gap, content in zip(gaps, [*(t.content for t in apart), ""], strict=True))
    assert rebuilt == result
    ast.parse(result)


def test_comments_and_layout_of_a_call_stay() -> None:
    source = module(["full", "lines"])
    text = mended(source).data.decode()
    inner, outer = " " * 12, " " * 8
    assert f"torch.ones(\n{inner}x.size(0),\n{inner}4,  # rows\n{inner}device=x.device,\n{outer})" in text
    assert f"torch.zeros(\n{inner}4,  # four\n{inner}device=x.device,\n{outer})" in text
    assert [line for line in source.splitlines() if line not in text.splitlines()] == [f"{inner}device='cpu',"]


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("torch.ones(4)", "torch.ones(4, device=x.device)"),
        ("torch.ones(4,)", "torch.ones(4, device=x.device,)"),
        ("torch.ones( 4 )", "torch.ones( 4, device=x.device )"),
        ("torch.ones(4, dtype=x.dtype)", "torch.ones(4, dtype=x.dtype, device=x.device)"),
        ("torch.ones(4, device=None)", "torch.ones(4, device=x.device)"),
        ("torch.ones(*x.shape[1:])", "torch.ones(*x.shape[1:], device=x.device)"),
        ("torch.tensor([1.0, 2.0, 3.0, 4.0])", "torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device)"),
        ("(torch.ones)(4)", "(torch.ones)(4, device=x.device)"),
        ("torch.ones(\n        4\n    )", "torch.ones(\n            4,\n            device=x.device\n        )"),
        (
            "torch.ones(\n        4  # four\n    )",
            "torch.ones(\n            4,  # four\n            device=x.device\n        )",
        ),
        ("torch.ones(4,  # four\n    )", "torch.ones(4,  # four\n        device=x.device,)"),
    ],
)
def test_a_keyword_is_written_in_the_style_of_the_call(call: str, wanted: str) -> None:
    source = example(f"def forward(self, x):\n    return x * {call}")
    assert wanted in mended(source).data.decode()


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ('y.to("cpu")', "y.to(x.device)"),
        ('y.to("cpu", torch.float64)', "y.to(x.device, torch.float64)"),
        ('y.to(dtype=torch.float64, device="cpu")', "y.to(dtype=torch.float64, device=x.device)"),
        ("y.cpu()", "y.to(x.device)"),
        ("y.cuda(non_blocking=True)", "y.to(x.device, non_blocking=True)"),
        ("y.cuda(0)", "y.to(x.device)"),
        ("x.cuda() + y", "x + y"),
    ],
)
def test_a_move_goes_to_the_device_of_a_tensor_at_hand(call: str, wanted: str) -> None:
    source = example(f"def forward(self, x):\n    y = x[:1]\n    return x + ({call})")
    assert wanted in mended(source).data.decode().replace("y.device", "x.device")


def test_the_tensor_at_hand_is_surely_bound_and_surely_a_tensor() -> None:
    """Not one that some paths do not bind, nor one that may be left out."""
    source = example("""
        def forward(self, x, mask=None):
            return self.helper(mask, x)

        def helper(self, mask, x):
            if x.dim() > 4:
                y = x * 2
            return (torch.ones(4) + x[0]).sum()
    """)
    assert "torch.ones(4, device=x.device)" in mended(source).data.decode()
    alone = example("""
        def forward(self, x=None):
            return self.part(n=4) + x

        def part(self, n):
            return torch.ones(n)
    """)
    assert [p.rule.code for p in found(alone.encode())] == ["EXP202"]
    assert mended(alone).data.decode() == alone


def test_the_device_of_a_parameter_serves_where_no_tensor_is_at_hand() -> None:
    source = example(
        """
        def forward(self, x):
            return self.part(4) + x

        def part(self, n):
            return torch.ones(n)
        """,
        init="self.weight = nn.Parameter(torch.ones(4))",
    )
    assert "torch.ones(n, device=self.weight.device)" in mended(source).data.decode()


def test_a_name_is_not_taken_where_a_comprehension_binds_it() -> None:
    source = example("def forward(self, x):\n    return sum(torch.ones(4) + row for row in x)")
    assert "device=row.device" not in mended(source).data.decode()


def test_a_buffer_is_registered_only_where_the_module_can_take_it() -> None:
    before = "class Net(nn.Module):\n    def __init__(self):\n        self.scale = torch.arange(4.0)\n"
    source = example("def forward(self, x):\n    return x * self.scale", init="self.scale = torch.arange(4.0)")
    late = source.replace(
        "        super().__init__()\n        self.scale = torch.arange(4.0)\n",
        "        self.scale = torch.arange(4.0)\n        super().__init__()\n",
    )
    assert before in late
    assert mended(late).data.decode() == late
    twice = source.replace(
        "self.scale = torch.arange(4.0)", "self.scale = torch.zeros(4)\n        self.scale = torch.arange(4.0)"
    )
    assert mended(twice).data.decode() == twice
    assert mended(source).data.decode() != source


FORWARD = "\n    def forward(self, x):\n        return x * self.scale\n"
INIT = "    def __init__(self):\n        super().__init__()\n        self.scale = torch.arange(4.0)\n"
NET = f"class Net({{base}}):\n{{body}}{INIT}{FORWARD}"
IMPORTS = "import torch\nfrom torch import nn\nfrom elsewhere import Other\n\n\n"


@pytest.mark.parametrize(
    "source",
    [
        NET.format(base="nn.Module", body="    scale = None\n\n"),
        NET.format(base="nn.Module", body="    scale: torch.Tensor = None\n\n"),
        NET.format(base="nn.Module", body="    @property\n    def scale(self): ...\n\n"),
        NET.format(base="Other, nn.Module", body=""),
        "class Mixin:\n    scale = None\n\n\n" + NET.format(base="Mixin, nn.Module", body=""),
        f"class Base(nn.Module):\n{INIT.replace('arange(4.0)', 'stack([a, b])')}\n\n"
        + NET.format(base="Base", body=""),
        f"class First(nn.Module):\n{INIT}\n\nclass Base(First): ...\n\n\n" + NET.format(base="Base", body=""),
    ],
)
def test_a_name_that_torch_would_refuse_is_not_registered(source: str) -> None:
    assert "class Net" in source
    result = mended(IMPORTS + source).data.decode()
    assert "register_buffer" not in result.partition("class Net")[2]


def test_comments_are_never_lost() -> None:
    source = example("""
        def forward(self, x):
            if x.sum() > 0:  # warm
                return x * 2
            return x
    """)
    assert "# warm\n        return torch.where(x.sum() > 0, x * 2, x)\n" in mended(source).data.decode()
    between = source.replace("        return x\n", "        # cold\n        return x\n")
    assert "# cold" in between
    assert mended(between).data.decode() == between


def test_an_import_is_written_where_torch_has_no_name() -> None:
    source = "from __future__ import annotations\n" + example(
        "def forward(self, x):\n    return x * int(x.shape[0] * 2)", inputs2="torch.ones(3, 4)"
    )
    source = source.replace("import torch\nfrom torch import nn\n", "from torch import nn, manual_seed, ones\n")
    source = source.replace("torch.manual_seed", "manual_seed").replace("torch.ones", "ones")
    text = mended(source).data.decode()
    assert text.startswith(
        "from __future__ import annotations\nimport torch\nfrom torch import nn, manual_seed, ones\n"
    )
    assert "torch.sym_int(x.shape[0] * 2)" in text


def test_a_fix_that_does_not_mend_is_not_written() -> None:
    """The fix of one finding is put in the place of another's, so that the finding is still there afterwards."""
    source = example("def forward(self, x):\n    return x * torch.arange(x.size(1))")

    def tampered(data: bytes) -> list[Prediction]:
        wrong = Fix("Nothing", (Behind(Range(1, 1, 1, 1), ""),))
        return [_with_fix(p, wrong) for p in found(data)]

    (finding,) = found(source.encode())
    place = finding.range
    useless = Fix("Name the kind", (Keyword(place, "dtype", "x.dtype"),))
    result = fixed(source.encode(), [_with_fix(finding, useless)], tampered, EVERY)
    assert result.data == source.encode()
    assert [p.rule.code for p in result.unmended] == ["EXP202"]
    assert not result.mended


def test_a_fix_that_does_not_parse_is_not_written() -> None:
    source = example("def forward(self, x):\n    return x * torch.arange(x.size(1))")
    (finding,) = found(source.encode())
    broken = Fix("Break it", (Behind(finding.range, " )"),))
    result = fixed(source.encode(), [_with_fix(finding, broken)], found, EVERY)
    assert result.data == source.encode()
    assert result.unmended


def _with_fix(finding: Prediction, fix: Fix) -> Prediction:
    return dataclasses.replace(finding, fix=fix)


def test_only_the_fixes_that_are_wanted_are_written() -> None:
    source = module(["ramp", "branch"])
    safe = mended(source, ("safe",)).data.decode()
    assert "torch.where" not in safe
    assert "device=x.device" in safe


def test_records_of_fixes_survive_the_cache() -> None:
    fixes = [p.fix for name in PARTS for p in found(module([name]).encode()) if p.fix is not None]
    assert len({type(edit) for fix in fixes for edit in fix.edits}) >= 7
    for fix in fixes:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(fix), type=Fix) == fix


def test_one_fix_that_fails_keeps_no_other_from_being_written() -> None:
    source = module(["ramp", "full", "lines"])
    findings = found(source.encode())
    assert len(findings) == 3
    broken = Fix("Break it", (Behind(findings[1].range, " )"),))
    useless = Fix("Name the kind", (Keyword(findings[1].range, "dtype", "x.dtype"),))
    for wrong in (broken, useless):

        def tampered(data: bytes, wrong: Fix = wrong) -> list[Prediction]:
            return [_with_fix(p, wrong) if "torch.ones" in p.message else p for p in found(data)]

        result = fixed(source.encode(), tampered(source.encode()), tampered, EVERY)
        text = result.data.decode()
        assert len(result.mended) == 2
        assert [p.message for p in result.unmended] == [findings[1].message]
        assert "torch.arange(x.size(1), device=x.device)" in text
        assert "dtype" not in text


def test_a_decision_in_a_decision_is_mended_in_a_second_round() -> None:
    source = example("def forward(self, x):\n    return x * 2 if x.sum() > 0 else (x + 1 if x.max() > 3 else x)")
    result = mended(source)
    assert "torch.where(x.sum() > 0, x * 2, (torch.where(x.max() > 3, x + 1, x)))" in result.data.decode()
    assert [p.rule.code for p in result.mended] == ["EXP101", "EXP101"]
    assert not result.unmended
