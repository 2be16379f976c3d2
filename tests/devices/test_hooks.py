from __future__ import annotations

import io

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
        hooks.register(lambda *_: None, torch.Tensor, lambda _: None)


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


def drawn(device):
    generator = torch.Generator(device=device).manual_seed(3)
    tensors = [
        torch.randn(2, generator=generator, device=device),
        torch.ones(3, device=device).normal_(generator=generator),
        torch.randperm(4, generator=generator, device=device),
        torch.multinomial(torch.ones(4, device=device), 2, generator=generator),
        torch.rand(2, generator=generator.clone_state(), device=device),
    ]
    assert {tensor.device for tensor in tensors} == {generator.device}
    return [tensor.tolist() for tensor in tensors]


def test_generators_draw_the_numbers_of_the_cpu():
    def draw():
        from exportlint.devices import second_device

        expected = drawn("cpu")
        assert drawn(second_device()) == expected
        assert drawn("cpu") == expected
        for generator in (torch.default_generator, torch.Generator(), torch.Generator(device="second")):
            assert isinstance(generator, torch.Generator)
        assert not isinstance(3, torch.Generator)
        assert str(torch.Generator("second").device) == "second:0"

    in_fork(draw)


@pytest.mark.parametrize("weights_only", [True, False])
def test_checkpoints_are_loaded_there(weights_only):
    def load():
        from exportlint.devices import second_device, to_second

        device = second_device()
        whole = torch.arange(6.0).view(2, 3)
        saved = {"whole": whole, "row": whole[1], "layer": torch.nn.Linear(2, 2).state_dict()}
        there = {
            "parameter": torch.nn.Parameter(to_second(torch.ones(2)), requires_grad=False),
            "row": to_second(whole[1]),
        }
        for location in (device, "second", "second:0", {"cpu": "second"}):
            loaded = of_checkpoint(saved, location, weights_only)
            assert {t.device for t in (loaded["whole"], loaded["row"], *loaded["layer"].values())} == {device}
            loaded["whole"].add_(1)
            assert loaded["row"].tolist() == [4, 5, 6]
            layer = torch.nn.Linear(2, 2).to(device)
            layer.load_state_dict(loaded["layer"])
            assert torch.equal(layer.weight.cpu(), saved["layer"]["weight"])
        for location, expected in ((None, "second"), ("cpu", "cpu")):
            loaded = of_checkpoint(there, location, False)
            assert {t.device.type for t in loaded.values()} == {expected}
            assert isinstance(loaded["parameter"], torch.nn.Parameter)
            assert loaded["row"].tolist() == [3, 4, 5]
        assert of_checkpoint({"row": there["row"]}, device, weights_only)["row"].device == device

    in_fork(load)


def of_checkpoint(saved, location, weights_only):
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    buffer.seek(0)
    return torch.load(buffer, map_location=location, weights_only=weights_only)


def under_autocast(device, dtype):
    """The dtypes of operators of each kind of autocast's, for an argument of this dtype."""
    x = torch.linspace(0.1, 1, 32, dtype=dtype, device=device).view(2, 4, 4)
    single, low = x.float(), x.bfloat16()
    with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
        results = {
            "linear": torch.nn.functional.linear(x, x[0]),
            "conv1d": torch.nn.functional.conv1d(x, x),
            "conv1d, same": torch.nn.functional.conv1d(x, x, padding="same"),
            "bmm": x @ x,
            "attention": torch.nn.functional.scaled_dot_product_attention(x, x, x),
            "prod": x.prod(-1),
            "mse_loss": torch.nn.functional.mse_loss(x, x * 2),
            "cdist": torch.cdist(single, single),
            "trace": x[0].trace(),
            "cat": torch.cat([x, x]),
            "cat, mixed": torch.cat([single, low]),
            "stack": torch.stack([low, low]),
            "softmax": x.softmax(-1),
            "exp": x.exp(),
        }
    return {name: [str(result.dtype), result.float().tolist()] for name, result in results.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_casts_each_operator_as_the_cpu_does(dtype):
    def run():
        from exportlint.devices import second_device

        there, here = under_autocast(second_device(), dtype), under_autocast("cpu", dtype)
        assert {name for name in here if there[name][0] != here[name][0]} == set()
        assert {dtype for dtype, _ in here.values()} == {"torch.float32", "torch.bfloat16"}
        for name, (_, numbers) in here.items():
            # in bfloat16 one device may take another kernel for attention, which rounds otherwise
            rtol, atol = (1.6e-2, 1e-5) if here[name][0] == "torch.bfloat16" else (1.3e-6, 1e-5)
            torch.testing.assert_close(
                torch.tensor(there[name][1]), torch.tensor(numbers), rtol=rtol, atol=atol, msg=name
            )

    in_fork(run)


def test_torchs_accelerator_is_the_second_device_unless_it_is_hidden():
    def asking():
        from exportlint.devices import hooks, second_device

        before = torch.accelerator.is_available(), torch.accelerator.current_accelerator()
        second_device()
        assert torch.accelerator.current_accelerator().type == "second"
        torch.accelerator.synchronize()
        torch.accelerator.empty_cache()
        with hooks.hidden():
            assert (torch.accelerator.is_available(), torch.accelerator.current_accelerator()) == before
            assert torch.ones(2, device="second").sum().item() == 2
        assert torch.accelerator.device_count() == 1

    in_fork(asking)
