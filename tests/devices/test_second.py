from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest
import torch
from forking import forked, in_fork
from torch import nn


def on_second(*tensors):
    from exportlint.devices import to_second

    return to_second(tensors)


def same(model, *inputs, rtol=0.0, atol=0.0):
    """The model gives the CPU's numbers on the second device, and its result lives there."""
    from exportlint.devices import move_module, second_device, to_cpu

    with torch.no_grad():
        torch.manual_seed(3)
        expected = model(*inputs)
        torch.manual_seed(3)
        actual = move_module(model)(*on_second(*inputs))
    flat = torch.utils._pytree.tree_leaves(actual)
    assert flat
    assert all(tensor.device == second_device() for tensor in flat)
    torch.testing.assert_close(to_cpu(actual), expected, rtol=rtol, atol=atol)


def test_importing_registers_nothing():
    code = "import exportlint.devices as d, sys; assert 'torch' not in sys.modules; import torch; \
import exportlint.devices.second; assert torch._C._get_privateuse1_backend_name() == 'privateuseone'; \
d.second_device(); assert str(torch.ones(1, device=d.second_device()).device) == 'second:0'"
    subprocess.run([sys.executable, "-c", code], check=True)


@forked
def test_tensors_live_there_and_copies_cross():
    from exportlint.devices import second_device

    device = second_device()
    there = torch.arange(4.0).to(device)
    assert there.device == device
    assert there.device.type == "second"
    assert not there.is_cpu
    assert there.cpu().tolist() == [0, 1, 2, 3]
    back = torch.zeros(4)
    back.copy_(there)
    assert back.tolist() == [0, 1, 2, 3]
    with torch.device(device):
        assert torch.ones(2).device == device
    assert there.new_zeros(3).device == device
    assert torch.zeros_like(there, device="cpu").device.type == "cpu"


@forked
def test_there_is_one_of_its_kind():
    from exportlint.devices import second_device

    second_device()
    for make in (lambda: torch.zeros(2, device="second:1"), lambda: torch.ones(2).to("second:1")):
        with pytest.raises(RuntimeError, match="invalid device ordinal: there is no second:1, only second:0"):
            make()


@forked
def test_mixed_devices_follow_the_rules_of_cuda():
    from exportlint.devices import DeviceMismatchError, second_device

    there, index = torch.arange(6.0, device=second_device()).view(2, 3), torch.tensor([1, 0])
    assert (there + torch.tensor(1.0)).cpu().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert there[index].cpu().tolist() == [[3, 4, 5], [0, 1, 2]]
    refused = [
        lambda: there + torch.ones(3),
        lambda: torch.cat([there, torch.ones(2, 3)]),
        lambda: torch.stack([there.sum(), torch.tensor(1.0)]),
        lambda: there @ torch.ones(3, 2),
        lambda: torch.ones(2, 3)[on_second(index)[0]] + there,
        lambda: there.index_select(0, index),
        lambda: there.masked_fill(torch.tensor([True, False, True]), 0.0),
        lambda: torch.ones(3).add_(there[0]),
        lambda: there.__setitem__(index, torch.zeros(2, 3)),
    ]
    for attempt in refused:
        with pytest.raises(DeviceMismatchError, match="second:0 and cpu"):
            attempt()
    with pytest.raises(TypeError, match="to numpy"):
        there.numpy()


@forked
def test_nothing_is_written_to_the_cpu_however_small():
    from exportlint.devices import DeviceMismatchError, second_device

    there, zero = torch.arange(1.0, 4.0, device=second_device()), torch.tensor(0.0)
    number = there.sum()
    writes = [
        lambda here: here.add_(number),
        lambda here: here.mul_(number),
        lambda here: here.copysign_(number),
        lambda here: here.clamp_(min=number),
        lambda here: here.lerp_(number, 0.5),
        lambda here: here.addcmul_(number, number),
        lambda here: torch.add(number, 1, out=here),
        lambda here: torch.maximum(number, zero, out=here),
        lambda here: torch.sum(there, 0, out=here),
        lambda here: torch.amax(there, 0, out=here),
        lambda here: torch._foreach_add_([here], [number]),
    ]
    for write in writes:
        with pytest.raises(DeviceMismatchError, match=r"second:0 and cpu.* with a tensor of shape \(\)"):
            write(torch.tensor(0.0))
    reads = [
        lambda: zero + number,
        lambda: number.clone().add_(zero),
        lambda: there.clone().lerp_(there, zero),
        lambda: torch.add(zero, there, out=there.clone()),
        lambda: torch.where(there > 0, there, zero),
        lambda: there.clone().masked_fill_(there > 1, zero),
        lambda: there.clone().fill_(zero),
        lambda: torch.tensor(0.0).fill_(number),
        lambda: torch.zeros(3).fill_(number),
        lambda: torch.tensor(0.0).copy_(number),
    ]
    assert [str(read().device) for read in reads] == ["second:0"] * 7 + ["cpu"] * 3


@forked
def test_the_targets_and_lengths_of_ctc_loss_may_be_anywhere():
    from exportlint.devices import to_cpu

    inputs, targets = torch.randn(6, 2, 3).log_softmax(-1), torch.tensor([[1, 2], [2, 1]])
    lengths = torch.full((2,), 6), torch.full((2,), 2)
    expected = nn.functional.ctc_loss(inputs, targets, *lengths)
    there, targets_there = on_second(inputs, targets)
    for given in (lengths, on_second(*lengths), ((6, 6), (2, 2))):
        for its in (targets, targets_there):
            torch.testing.assert_close(to_cpu(nn.functional.ctc_loss(there, its, *given)), expected)


@forked
def test_record_repairs_and_goes_on():
    from exportlint.devices import DeviceMismatchError, policy, second_device

    there = torch.ones(3, device=second_device())
    with policy("record", origin_of=lambda cpu: f"of {cpu.numel()}") as found:
        total = there + torch.ones(3)
        joined = torch.cat([total, torch.zeros(2)])
    assert joined.cpu().tolist() == [2, 2, 2, 0, 0]
    assert [(m.operator, m.shape, m.dtype, m.origin) for m in found] == [
        ("aten::add.Tensor", (3,), "float32", "of 3"),
        ("aten::cat", (2,), "float32", "of 2"),
    ]
    assert found[0].place.file == __file__
    assert found[1].place.line == found[0].place.line + 1
    with pytest.raises(DeviceMismatchError):
        there + torch.ones(3)


@forked
def test_views_in_place_and_out():
    from exportlint.devices import second_device

    base = torch.zeros(2, 3, device=second_device())
    base[:, 1] = 5
    base.t()[0].add_(1)
    base.view(-1)[-1] = 7
    assert base.cpu().tolist() == [[1, 5, 0], [1, 5, 7]]
    base.t_()
    assert base.shape == (3, 2)
    base.unsqueeze_(0)
    assert base.shape == (1, 3, 2)
    out = torch.empty(1, 3, 2, device=second_device())
    assert torch.mul(base, 2, out=out) is out
    assert out.cpu().flatten().tolist() == [2, 2, 10, 10, 0, 14]


@forked
def test_copies_and_text():
    there = on_second(torch.tensor([1.5]))[0]
    for other in (copy.copy(there), copy.deepcopy(there)):
        assert other.device == there.device
        assert other.tolist() == [1.5]
    copy.copy(there).add_(1)
    copy.deepcopy(there).add_(1)
    assert there.tolist() == [2.5]
    assert f"{there.sum():.2f}" == "2.50"
    assert "second:0" in repr(there)


@forked
def test_tied_parameters_stay_tied():
    from exportlint.devices import move_module

    model = nn.ModuleDict({"in": nn.Embedding(5, 4), "out": nn.Linear(4, 5, bias=False)})
    model["out"].weight = model["in"].weight
    assert move_module(model) is model
    assert model["out"].weight is model["in"].weight
    assert isinstance(model["in"].weight, nn.Parameter)
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"second"}


@forked
def test_inputs_in_objects_move_and_stay_the_same_object():
    from exportlint.devices import to_second

    class Batch:
        def __init__(self, ids):
            self.ids, self.name = ids, "b"

    ids = torch.ones(2)
    (batch, again), kwargs = to_second(((Batch(ids), ids), {"also": ids}))
    assert batch.ids.device.type == "second"
    assert batch.name == "b"
    assert again is kwargs["also"]
    assert again is batch.ids


@forked
def test_recurrent_nets():
    torch.manual_seed(0)
    steps = torch.randn(2, 5, 3)
    same(nn.LSTM(3, 4, batch_first=True, bidirectional=True).eval(), steps, atol=1e-6)
    same(nn.GRU(3, 4, batch_first=True).eval(), steps, atol=1e-6)
    same(nn.LSTMCell(3, 4).eval(), steps[:, 0], atol=1e-6)
    same(nn.GRUCell(3, 4).eval(), steps[:, 0], atol=1e-6)


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True)

    def forward(self, steps, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(steps, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


@forked
def test_packed_sequences_keep_their_lengths_on_the_cpu():
    torch.manual_seed(0)
    same(Packed().eval(), torch.randn(2, 5, 3), torch.tensor([3, 5]), atol=1e-6)


@forked
def test_lengths_and_split_points_that_are_not_on_the_cpu_are_refused():
    """As on CUDA; the kernels ask where they are, and are given the CPU tensors that hold the numbers."""
    from exportlint.devices import DeviceMismatchError, policy

    steps, lengths = on_second(torch.randn(2, 5, 3), torch.tensor([5, 3]))
    pack = torch.nn.utils.rnn.pack_padded_sequence
    with pytest.raises(DeviceMismatchError, match="'lengths' of aten::_pack_padded_sequence has to be on the CPU, but"):
        pack(steps, lengths, batch_first=True)
    with pytest.raises(RuntimeError, match="1D CPU int64 tensor"):
        torch._VF._pad_packed_sequence(steps[0], lengths, True, 0.0, 5)
    with pytest.raises(RuntimeError, match="to be on cpu"):
        torch.tensor_split(steps, lengths, dim=1)
    with policy("record") as found:
        packed = pack(steps, lengths, batch_first=True)
    assert packed.batch_sizes.tolist() == [2, 2, 2, 1, 1]
    assert [(m.operator, m.kind, m.place.file) for m in found] == [
        ("aten::_pack_padded_sequence", "host argument lengths", __file__)
    ]


class Attention(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)


@forked
def test_attention():
    torch.manual_seed(0)
    same(Attention(), torch.randn(1, 2, 6, 8), atol=1e-6)
    same(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(2, 5, 8), atol=1e-5)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            low = self.fc(x) @ x.t()
        with torch.autocast(x.device.type, enabled=False):
            return low, self.fc(x)


@forked
def test_autocast_casts_as_the_cpu_does():
    torch.manual_seed(0)
    model, x = Mixed(), torch.randn(3, 4)
    assert [t.dtype for t in model(x)] == [torch.bfloat16, torch.float32]
    same(model, x)


class Noisy(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, training=True) + torch.rand(3, device=x.device) + torch.randn_like(x)


@forked
def test_random_numbers_are_those_of_the_cpu():
    same(Noisy(), torch.ones(2, 3))


class Loops(nn.Module):
    def forward(self, x):
        x = torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))
        return torch._higher_order_ops.while_loop(lambda t: t.sum() < 50, lambda t: (t * 2,), (x,))[0]


@forked
def test_control_flow_operators():
    import torch._higher_order_ops

    from exportlint.devices import policy

    with policy("raise"):
        same(Loops(), torch.ones(3))


@forked
def test_tensors_grow_in_place():
    from exportlint.devices import second_device

    device = second_device()
    base = torch.arange(4.0, device=device)
    assert base.resize_(6).shape == (6,)
    assert base[:4].tolist() == [0, 1, 2, 3]
    view = base[1:3]
    view.resize_(2, 2).add_(1)
    # `view` wrote the fifth as well, into memory that nothing had filled: any number, nan among them.
    assert base[:4].tolist() == [0, 2, 3, 4]
    other = torch.empty(0, device=device)
    assert other.resize_as_(base).shape == (6,)
    assert other.set_(base).data_ptr() == base.data_ptr()
    other.fill_(7)
    assert base.tolist() == [7] * 6
    assert other.set_(torch.ones(2, 3, device=device)).tolist() == [[1, 1, 1], [1, 1, 1]]
    out = torch.empty(0, device=device)
    assert torch.add(base, 1, out=out) is out
    assert out.tolist() == [8] * 6


@forked
def test_a_generator_of_the_cpu_draws_no_numbers_there():
    from exportlint.devices import DeviceMismatchError, policy, second_device

    device = second_device()
    with pytest.raises(DeviceMismatchError, match="Expected a 'second' device type for generator but found 'cpu'"):
        torch.randn(2, device=device, generator=torch.Generator())
    with policy("record") as found:
        torch.zeros(2, device=device).uniform_(generator=torch.Generator())
    assert [(m.operator, m.kind, m.place.file) for m in found] == [("aten::uniform_", "generator", __file__)]
    assert torch.randn(2, generator=torch.Generator()).device.type == "cpu"


def test_another_owner_is_named():
    def other_owner():
        from exportlint.devices import SecondDeviceUnavailableError, second_device

        torch.utils.rename_privateuse1_backend("npu")
        with pytest.raises(SecondDeviceUnavailableError, match="another backend, npu, owns"):
            second_device()

    in_fork(other_owner)


BACKWARD = """
import json
import torch
from exportlint.devices import second_device

device = second_device()
here = torch.ones(3, requires_grad=True)
there = torch.ones(3, device=device).requires_grad_()
said = []
for backward in (
    lambda: (there * 2).sum().backward(),
    lambda: (there * 2).sum().cpu().backward(),
    lambda: torch.autograd.grad((here.to(device) * 2).sum(), here),
    lambda: torch.func.grad(lambda t: (t * t).sum())(torch.ones(3, device=device)),
):
    try:
        backward()
    except NotImplementedError as error:
        said.append(f"{type(error).__name__}: {error}")
(here * 2).sum().backward()
print(json.dumps([said, here.grad.tolist()]))
"""


def test_a_backward_pass_is_refused_before_the_engine_begins_it():
    """Beside another accelerator the engine ends the process; after a fork it would not begin at all."""
    ran = subprocess.run([sys.executable, "-c", BACKWARD], check=True, capture_output=True, text=True)
    said, gradient = json.loads(ran.stdout)
    assert said == ["BackwardError: the second device has no backward pass"] * 4
    assert gradient == [2.0, 2.0, 2.0]


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.is_second = nn.Linear(3, 4), nn.Linear(4, 2), True

    def forward(self, x):
        return self.second(self.first(x).relu()) if self.is_second else x


@forked
def test_layers_may_have_the_name_of_the_device():
    same(Pair(), torch.ones(5, 3))


@forked
def test_data_is_read_and_replaced():
    from exportlint.devices import second_device, to_second

    there = torch.zeros(2, 3, device=second_device())
    view = there.data
    view[0] = 1
    assert there.cpu().tolist() == [[1, 1, 1], [0, 0, 0]]
    there.data = to_second(torch.arange(8.0)).view(4, 2)
    assert there.cpu().tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    there.add_(1)
    assert (there.shape, there[3, 1].item()) == ((4, 2), 8)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        there.data = torch.ones(2)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        torch.ones(2).data = there


@forked
def test_parameters_take_the_numbers_of_a_vector():
    from exportlint.devices import move_module, to_cpu, to_second

    model = move_module(nn.Linear(2, 2))
    nn.utils.vector_to_parameters(to_second(torch.arange(6.0)), model.parameters())
    assert (to_cpu(model.weight).tolist(), to_cpu(model.bias).tolist()) == ([[0, 1], [2, 3]], [4, 5])
    assert isinstance(model.weight, nn.Parameter)


@forked
def test_tied_parameters_stay_tied_by_to():
    from exportlint.devices import second_device, to_cpu

    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3)), nn.Linear(3, 3))
    model[1][0].weight = model[0].weight
    other = model[2].weight
    model.to(second_device())
    assert model[0].weight is model[1][0].weight
    assert model[0].weight.device == second_device()
    assert torch.equal(to_cpu(model[2].weight), other)
    model.cpu()
    assert model[0].weight is model[1][0].weight
    assert model[0].weight.device.type == "cpu"
    assert model[0].weight is not model[2].weight


@forked
def test_layers_of_a_transformer_follow_autocast():
    from exportlint.devices import move_module, second_device, to_cpu, to_second

    model, x = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.rand(2, 3, 8)
    with torch.autocast(second_device().type, dtype=torch.bfloat16):
        # without a type that is the accelerator's autocast in newer releases: a layer then is not computed as one
        fused = not torch.is_autocast_enabled()
    torch.backends.mha.set_fastpath_enabled(fused)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        expected = model(x)
    torch.backends.mha.set_fastpath_enabled(True)
    x = to_second(x)
    with torch.no_grad(), torch.autocast(second_device().type, dtype=torch.bfloat16):
        actual = to_cpu(move_module(model)(x))
    assert (actual.dtype, expected.dtype) == ((torch.bfloat16,) * 2 if fused else (torch.float32,) * 2)
    bound = 0.0 if fused else 0.05  # attention is computed by another kernel there
    torch.testing.assert_close(actual, expected, rtol=bound, atol=bound)
    with torch.no_grad():
        assert model(x).dtype == torch.float32


def test_what_is_no_module_and_no_policy_is_refused():
    from exportlint.devices import move_module, policy

    with pytest.raises(TypeError, match="a module is moved, not int"):
        move_module(3)
    with pytest.raises(TypeError, match="a module is moved, not the class ReLU"):
        move_module(nn.ReLU)
    with pytest.raises(ValueError, match="'ignore' is no policy: raise or record"), policy("ignore"):
        pass


class MovesItself(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.table = torch.nn.Linear(3, 3), torch.arange(3.0)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.table = fn(self.table)
        return self


class MovesByTo(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.table = MovesItself(), torch.arange(3.0)

    def to(self, *args, **kwargs):
        super().to(*args, **kwargs)
        self.table = self.table.to(*args, **kwargs)
        return self


@forked
def test_what_a_module_moves_itself_is_moved():
    from exportlint.devices import move_module

    model = move_module(torch.nn.Sequential(MovesItself()))
    assert model[0].table.device.type == "second"
    assert model[0].fc.weight.device.type == "second"
    model = move_module(MovesByTo())
    assert model.table.device.type == "second"
    assert model.inner.table.device.type == "second"
    assert torch.nn.Linear(2, 2).to(torch.float64).weight.dtype == torch.float64  # modules move as before afterwards
