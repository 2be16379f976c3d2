"""Fake tensors of a device that the build lacks: an index gives the sizes and strides that it gives on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from exportlint.devices import indexing

CUDA = torch.device("cuda", 0)
X = torch.arange(120.0).view(4, 5, 6)
NAMES = {
    "x": X,
    "i": torch.tensor([0, 2, 1]),
    "one": torch.tensor(1),
    "mask": torch.tensor([True, False, True, True]),
}
INDICES = [
    "0", "-1", "1:3", "::2", "...", "..., 0", "0, ..., 1", "0, 1, 2", "None", "None, 0", "None, 1:, ..., ::3", "True",
    "i", "i, i", "i, :, i", ":, i", "i[:, None], i", "..., i", "1:, i, 0", "i, 1:2, i", "0, i", "None, i", "i, None",
    "[0, 1]", "range(2), 0", "one", "one, 1", "False, 0",
]  # fmt: skip


def fakes(names):
    """Fake tensors on cuda in place of these, and their mode."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    metas = {name: torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="meta") for name, t in names.items()}
    return {name: FakeTensor(mode, meta, CUDA) for name, meta in metas.items()}, mode


@pytest.fixture(params=[True, False], ids=["patched", "as needed"])
def context(request):
    """What the fake tensors need on this build, and what they would need on one that lacks the device."""
    mode = fakes({})[1]
    return indexing.Indexing(CUDA) if request.param else indexing.on_any_build(mode, CUDA)


def run(code, given, mode, context):
    """The value of the code, or nothing, if it is a statement; under the modes that the check enters."""
    with torch.no_grad(), context, mode:
        if " = " in code:
            exec(code, given)
            return None
        return eval(code, given)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("here", [True, False], ids=["cpu index", "cuda index"])
def test_an_index_gives_the_sizes_of_the_cpu(context, index, here):
    given, mode = fakes(NAMES)
    if here:
        given |= {name: tensor for name, tensor in NAMES.items() if name != "x"}
    found = run(f"x[{index}]", given, mode, context)
    expected = eval(f"x[{index}]", dict(NAMES))
    assert (found.shape, found.stride(), found.device) == (expected.shape, expected.stride(), CUDA)


def test_a_mask_gives_a_size_that_is_not_known(context):
    given, mode = fakes(NAMES)
    for index in ("mask", "x > 3", "mask, :, 0"):
        assert isinstance(run(f"x[{index}]", given, mode, context).shape[0], torch.SymInt)
    assert run("x.nonzero()", given, mode, context).shape[1] == 3


@pytest.mark.parametrize(
    "statement",
    ["x[i] = 1.0", "x[0] = 2", "x[mask] = 0", "x[:, 0] = one", "x[1:] = x[:3]", "x[2] = here", "y = x.copy_(x)"],
)
def test_writes(context, statement):
    given, mode = fakes(NAMES)
    assert run(statement, {**given, "here": torch.ones(5, 6)}, mode, context) is None


def test_a_value_of_another_device_is_refused(context):
    given, mode = fakes(NAMES)
    with pytest.raises(RuntimeError, match=r"cuda:0.*cpu"):
        run("x[i] = here", {**given, "here": torch.ones(3, 5, 6)}, mode, context)


@pytest.mark.parametrize("move", ["here.cuda()", "here.to('cuda')", "x.to('cuda')", "x.cuda()", "here.to(x.device)"])
def test_moves(context, move):
    given, mode = fakes(NAMES)
    assert run(move, {**given, "here": torch.ones(3)}, mode, context).device == CUDA
