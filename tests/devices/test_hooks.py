from __future__ import annotations

import pytest
import torch
from forking import in_fork


def test_this_torch_has_all_hooks():
    from exportlint.devices import hooks

    assert hooks.unavailable() is None


@pytest.mark.parametrize(("version", "usable"), [("2.9.1+cpu", False), ("2.10.0", True), ("3.0.0a0+git1", True)])
def test_releases(monkeypatch, version, usable):
    from exportlint.devices import hooks

    monkeypatch.setattr(torch, "__version__", version)
    reason = hooks.unavailable()
    assert reason is None if usable else reason == f"the second device needs torch 2.10 or newer, this is {version}"


def test_a_hook_that_this_torch_lacks_is_named(monkeypatch):
    from exportlint.devices import hooks

    monkeypatch.setattr(hooks, "_NEEDED", (*hooks._NEEDED, "_C._gone"))
    assert hooks.unavailable() == f"the second device needs torch._C._gone, which torch {torch.__version__} lacks"
    with pytest.raises(RuntimeError, match=r"torch\._C\._gone"):
        hooks.register(lambda *_: None, torch.Tensor)


def test_a_failing_self_test_leaves_no_device():
    def failing():
        from exportlint.devices import SecondDeviceUnavailableError, second_device
        from exportlint.devices import second as module

        module._look_for_mixed = lambda *_: None
        with pytest.raises(SecondDeviceUnavailableError, match=r"self-test .* let an operator mix devices"):
            second_device()
        with pytest.raises(SecondDeviceUnavailableError):
            second_device()

    in_fork(failing)


def test_kernels_that_torch_has_stay():
    """Some releases refuse to replace one that was registered from Python."""

    def refusing():
        from exportlint.devices import kernels, second_device

        impl = torch.library.Library.impl

        def strict(self, name, function, key="", **kwargs):
            full = f"{self.ns}/{getattr(name, '_name', name).split('::')[-1]}/{key}"
            assert key != "Meta" or full not in torch.library._impls, full
            impl(self, name, function, key, **kwargs)

        torch.library.Library.impl = strict
        device = second_device()
        assert all(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{n}", "Meta") for n in kernels.META_KERNELS)
        x = torch.ones(2, 3, 4)
        with torch.no_grad():
            return [
                torch.allclose(net.to(device)(x.to(device))[0].cpu(), expected)
                for net in (torch.nn.LSTM(4, 5), torch.nn.GRU(4, 5))
                for expected in [net(x)[0]]
            ]

    assert in_fork(refusing) == [True, True]
