from __future__ import annotations

import pytest
import torch
from forking import in_fork

from exportlint.checks import device_names

KNOWN = "known: second, meta, fake-cuda, cuda, mps, xpu"


def test_own_names_come_in_their_order_then_others():
    assert device_names.select(["hpu", "cuda", "second", "hpu"]) == ("second", "cuda", "hpu")


def test_a_registered_backend_is_taken_by_its_name():
    with pytest.raises(ValueError, match="'npu' is no device"):
        device_names.select(["npu"])

    def child():
        torch.utils.rename_privateuse1_backend("npu")
        return device_names.select(["npu"])

    assert in_fork(child) == ["npu"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("cuda:7", "cuda"), ("xpus", "xpu"), ("fake_cuda", "fake-cuda"), ("secnd", "second"), ("hpus", "hpu")],
)
def test_an_unknown_name_is_refused_with_the_likeliest(name, meant):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        device_names.select([name])
    assert str(error.value) == f"{name!r} is no device; {KNOWN}; did you mean {meant}?"


@pytest.mark.parametrize("name", ["cpu", "privateuseone", "meta device", "zzz"])
def test_what_is_nowhere_else_is_refused(name):
    with pytest.raises(ValueError, match="is no device"):
        device_names.select([name])


def test_no_name_is_refused():
    with pytest.raises(ValueError, match=f"names no device; {KNOWN}"):
        device_names.select([])
