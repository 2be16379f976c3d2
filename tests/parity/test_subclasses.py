from __future__ import annotations

import pytest
import torch
from torch.distributed.tensor import DeviceMesh, DTensor, Replicate

from exportlint.parity.compare import compare
from exportlint.parity.subclasses import unsupported


class Named(torch.Tensor):
    """Holds its own data."""


class Scaled(torch.Tensor):
    """Holds two tensors, as quantised weights do."""

    @staticmethod
    def __new__(cls, codes, scale):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype)

    def __init__(self, codes, scale):
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self):
        return ["codes", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Scaled(inner["codes"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return args[0]
        raise NotImplementedError(func)

    __torch_function__ = torch._C._disabled_torch_function_impl


class Opaque(torch.Tensor):
    """Holds nothing that anybody could see."""

    @staticmethod
    def __new__(cls):
        return torch.Tensor._make_wrapper_subclass(cls, (2,), dtype=torch.float32)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(func)


def scaled(first, scale=0.5):
    return Scaled(torch.tensor([first, 2], dtype=torch.int8), torch.tensor(scale))


def test_wrappers_are_compared_tensor_by_tensor():
    assert compare(scaled(1), scaled(1)) is None
    assert str(compare(scaled(1), scaled(3))).startswith("output.codes: 1 of 2 values differ")
    assert str(compare(scaled(1), scaled(1, 0.25))).startswith("output.scale: 1 of 1 values differ")


def test_classes_must_be_the_same():
    plain = torch.ones(2)
    named = plain.as_subclass(Named)
    assert compare(named, plain.clone().as_subclass(Named)) is None
    assert "a Named in eager, a Tensor in the program" in str(compare(named, plain))
    assert compare(torch.nn.Parameter(plain), plain) is None


def test_those_that_hold_nothing_are_named():
    names = unsupported([torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.ones(2).as_subclass(Named), scaled(1)])
    assert names == []
    assert [name.rpartition(".")[2] for name in unsupported([Opaque()])] == ["Opaque"]


@pytest.fixture
def mesh(tmp_path):
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    yield DeviceMesh("cpu", [0])
    torch.distributed.destroy_process_group()


def test_distributed_tensors(mesh):
    one, same, other = (DTensor.from_local(torch.tensor(v), mesh, [Replicate()]) for v in ([1.0], [1.0], [2.0]))
    assert unsupported([one]) == []
    assert compare(one, same) is None
    assert "values differ" in str(compare(one, other))
    assert "a DTensor in eager, a Tensor in the program" in str(compare(one, torch.tensor([1.0])))
