from __future__ import annotations

import pytest
import torch
from forking import forked
from torch import nn


@forked
def test_a_generator_that_lies_there_draws_no_numbers_for_the_cpu():
    from exportlint.devices import DeviceMismatchError, policy, second_device

    device = second_device()
    generator = torch.Generator(device=device)
    draws = [
        lambda: torch.randn(2, generator=generator),
        lambda: torch.rand(2, generator=generator),
        lambda: torch.randint(3, (2,), generator=generator),
        lambda: torch.randperm(2, generator=generator),
        lambda: torch.normal(torch.ones(2), 1.0, generator=generator),
        lambda: torch.ones(2).uniform_(generator=generator),
        lambda: torch.ones(2).bernoulli_(generator=generator),
        lambda: torch.bernoulli(torch.ones(2), generator=generator),
        lambda: torch.multinomial(torch.ones(2), 1, generator=generator),
        lambda: torch.poisson(torch.ones(2), generator=generator),
        lambda: torch.ones(2).exponential_(generator=generator),
        lambda: nn.init.trunc_normal_(torch.ones(2), generator=generator),
    ]
    for draw in draws:
        with pytest.raises(DeviceMismatchError, match="Expected a 'cpu' device type for generator but found 'second'"):
            draw()
    with policy("record") as found:
        assert torch.randn(2, generator=generator.manual_seed(3)).device.type == "cpu"
    assert [(m.operator, m.kind, m.place.file) for m in found] == [("aten::normal_", "generator there", __file__)]
    expected = torch.randn(2, device=device, generator=generator.manual_seed(3)).tolist()
    assert torch.randn(2, generator=torch.Generator().manual_seed(3)).tolist() == expected
    assert torch.manual_seed(3).device.type == "cpu"
    assert torch.randn(2).tolist() == expected
