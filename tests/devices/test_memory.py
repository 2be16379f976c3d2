from __future__ import annotations

import copy

import pytest
import torch
from forking import forked
from torch import nn


@forked
def test_views_share_their_memory():
    from exportlint.devices import move_module, second_device

    device = second_device()
    base, other = torch.arange(6.0, device=device), torch.arange(6.0, device=device)
    row = base[2:4]
    assert 0 != base.data_ptr() != other.data_ptr()
    assert row.data_ptr() == base.data_ptr() + 8
    memory = base.untyped_storage()
    assert memory.data_ptr() == row.untyped_storage().data_ptr() == row.storage().data_ptr() == base.data_ptr()
    assert memory.data_ptr() != other.untyped_storage().data_ptr()
    assert memory is base.untyped_storage()
    assert memory is row.untyped_storage()
    assert memory._cdata != other.untyped_storage()._cdata
    assert memory.nbytes() == memory.size() == len(memory) == row.untyped_storage().nbytes() == 24
    assert memory.device == device
    assert isinstance(memory, torch.UntypedStorage)
    assert memory.cpu().device.type == "cpu"
    assert row._base is base
    assert base.is_set_to(base.view(6))
    assert not base.is_set_to(other)
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    move_module(tied)
    assert tied[0].weight.data_ptr() == tied[1].weight.data_ptr() != tied[0].bias.data_ptr()
    assert torch.ones(2).untyped_storage().device.type == "cpu"


@forked
def test_memory_that_is_moved_is_still_the_cpus_for_the_cpu():
    from exportlint.devices import to_second

    before = torch.ones(2)
    there = to_second(before)
    assert there.untyped_storage().device == there.device
    assert before.untyped_storage().device.type == "cpu"
    assert there.untyped_storage().data_ptr() == before.untyped_storage().data_ptr()


@forked
def test_memory_that_lies_there_can_be_set():
    from exportlint.devices import second_device

    there = torch.ones(2, device=second_device())
    other = torch.empty(0, device=second_device()).set_(there.untyped_storage(), 0, (2,))
    other.fill_(7)
    assert there.tolist() == [7, 7]
    with pytest.raises(RuntimeError, match="device"):
        torch.empty(0).set_(there.untyped_storage())
    there.untyped_storage().resize_(0)
    assert other.untyped_storage().nbytes() == 0


@forked
def test_copies_of_views_share_their_memory():
    from exportlint.devices import to_second

    base = to_second(torch.arange(4.0))
    copied, row = copy.deepcopy([base, base[1:3]])
    row.add_(1)
    assert copied.tolist() == [0, 2, 3, 3]
    assert base.tolist() == [0, 1, 2, 3]
    assert copied.device == row.device == base.device
