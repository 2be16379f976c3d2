"""Runs in which tensors say that they are elsewhere: what decides by the device is found at the line that asks."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.cuda import is_available

from exportlint.devices import questions
from exportlint.devices.posing import TYPES, branches, watch


def line_of(marker):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))


class Fast(nn.Module):
    def forward(self, x):
        y = x.to(x.device)
        return y.exp() if x.is_cuda else y * 2  # fast


class Narrow(nn.Module):
    def forward(self, x):
        dtype = torch.float32 if x.device.type == "mps" else torch.float64  # narrow
        return x.to(dtype).cumsum(0).to(x.dtype)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls + torch.zeros(3, device=x.device)


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {}

    def forward(self, x):
        if x.device not in self.kept:
            self.kept[x.device] = torch.ones(3, device=x.device).cumsum(0)
        return x + self.kept[x.device]


class Wonders(nn.Module):
    """Asks what the machine has."""

    def __init__(self, question):
        super().__init__()
        self.question = question

    def forward(self, x):
        return x * (2 if self.question(x) else 3)


class TakesBoth(nn.Module):
    def forward(self, x):
        has = torch.cuda.is_available()
        there = x.is_cuda  # both
        return x * 2 if has and there else x


TICKS = itertools.count()


class Ticks(nn.Module):
    def forward(self, x):
        return (x + next(TICKS)).to(x.device)


class Kernel(nn.Module):
    def forward(self, x):
        if x.device.type == "cuda":
            raise RuntimeError("no kernel in this build")
        return x


class Everywhere(nn.Module):
    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            y = x @ x.t()
        made = [
            torch.ones(2, 2, device=x.device),
            torch.ones(2, 2).to(x.device),
            torch.ones(2, 2, device=x.device.type),
            torch.ones(2, 2).to(x.device.type, torch.float32),
            x.new_ones(2, 2, device=x.device),
            torch.empty_like(x[:, :2], device=x.device).fill_(x.get_device()),
        ]
        with torch.device(x.device):
            made.append(torch.ones(2, 2))
        return y + sum(made)


X = torch.linspace(0.1, 1, 6).view(2, 3)


def found(kind, device_type):
    def fresh():
        model = kind()
        return lambda: model(X)

    with torch.no_grad():
        return branches(fresh, [device_type])[0]


def test_another_path_is_found_at_the_line_that_asks():
    (branch,) = found(Fast, "cuda")
    assert (branch.place.line, branch.what) == (
        line_of("fast"),
        "mul(2) -> float32[2, 3] on the CPU, exp() -> float32[2, 3] there",
    )
    assert not torch.equal(branch.plain.result, branch.run.result)
    assert found(Fast, "mps") == []


def test_a_dtype_that_the_device_lacks_is_named():
    (branch,) = found(Narrow, "mps")
    assert (branch.place.line, branch.lacking) == (line_of("narrow"), torch.float64)
    assert found(Narrow, "cuda") == []


@pytest.mark.parametrize("device_type", TYPES)
@pytest.mark.parametrize("kind", [Counts, Keeps, Ticks])
def test_what_does_not_depend_on_the_device_is_silent(kind, device_type):
    assert found(kind, device_type) == []


def test_an_error_alone_is_no_branch():
    assert found(Kernel, "cuda") == []
    with torch.no_grad():
        assert str(watch(lambda: Kernel()(X), "cuda").error) == "no kernel in this build"


@pytest.mark.parametrize("device_type", TYPES)
def test_the_cpu_takes_the_place_of_the_device(device_type):
    with torch.no_grad():
        run = watch(lambda: Everywhere()(X), device_type)
    assert run.error is None
    assert run.result.device == torch.device("cpu")
    assert len(run.reads) == 8


def test_one_line_alone_can_be_told():
    with torch.no_grad():
        plain = watch(lambda: Fast()(X))
        place = next(place for place in plain.reads if place.line == line_of("fast"))
        other = next(place for place in plain.reads if place != place.__class__(place.file, line_of("fast")))
        assert watch(lambda: Fast()(X), "cuda", [other]).calls == plain.calls
        assert watch(lambda: Fast()(X), "cuda", [place]).calls != plain.calls


class Asks(nn.Module):
    def forward(self, x):
        if torch.cuda.is_available() and x.is_cuda:  # asks
            return x.exp()
        return x * 2


def test_where_the_device_is_there_the_cpu_still_takes_its_place(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    (branch,) = found(Asks, "cuda")
    assert branch.place.line == line_of("asks")
    with torch.no_grad():
        run = watch(lambda: Everywhere()(X), "cuda")
    assert (run.error, run.result.device.type) == (None, "cpu")


QUESTIONS = {
    "cuda": lambda _: torch.cuda.is_available(),
    "cuda, by name": lambda _: is_available(),
    "cuda, counted": lambda _: torch.cuda.device_count(),
    "cuda's bfloat16": lambda _: torch.cuda.is_bf16_supported(),
    "built for cuda": lambda _: torch.backends.cuda.is_built(),
    "mps": lambda _: torch.backends.mps.is_available(),
    "mps, counted": lambda _: torch.mps.device_count(),
    "xpu": lambda _: torch.xpu.is_available(),
    "xpu of a tensor": lambda x: x.is_xpu,
    "any": lambda _: torch.accelerator.is_available(),
    "any, counted": lambda _: torch.accelerator.device_count(),
    "which": lambda _: torch.accelerator.current_accelerator() is not None,
    "type": lambda x: "cuda" in x.type(),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_for_what_the_machine_has(name):
    def fresh():
        model = Wonders(QUESTIONS[name])
        return lambda: model(X)

    with torch.no_grad():
        found = {branch.device_type: branch for branch in branches(fresh)[0]}
    line = QUESTIONS[name].__code__.co_firstlineno
    expected = {"cuda", "mps"} if name in ("any", "any, counted", "which") else {name.split(",")[0].split(" ")[0]}
    if name in ("cuda's bfloat16", "built for cuda", "type"):
        expected = {"cuda"}
    assert set(found) == expected
    assert {branch.place.line for branch in found.values()} == {line}
    assert all(branch.asks_the_machine == (name not in ("xpu of a tensor", "type")) for branch in found.values())


def test_what_takes_two_answers_is_found_at_the_last():
    (branch,) = found(TakesBoth, "cuda")
    assert branch.place.line == line_of("both")


def test_torchs_own_questions_are_answered_with_the_truth():
    """Here ``is_available`` asks for ``device_count``. And what was replaced is put back."""
    before = torch.xpu.device_count
    seen = []

    def answer(question, place, ask):
        seen.append(question.name)
        return ask()

    with questions.watched(answer):
        assert torch.xpu.device_count is not before
        assert torch.xpu.is_available() is False
    assert seen == ["is_available"]
    assert torch.xpu.device_count is before


class Inside(nn.Module):
    """Asks in a branch that the example does not take; `odd` makes that branch fail wherever it is."""

    def __init__(self, odd=False):
        super().__init__()
        self.odd = odd

    def forward(self, x):
        def other(t):
            t = t @ t if self.odd else t
            return t * 2 if t.is_cuda else t * 3  # inside

        return torch.cond(x.sum() > 1e6, other, lambda t: t.clone(), (x,))


def test_branches_of_cond_that_are_not_taken_are_posed_too():
    (branch,) = found(Inside, "cuda")
    assert branch.place.line == line_of("inside")
    (plain,), (posed,) = branch.plain.aside, branch.run.aside
    assert not torch.equal(plain.result, posed.result)
    assert torch.equal(branch.plain.result, branch.run.result)
    assert found(lambda: Inside(odd=True), "cuda") == []


class Chooses(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2 if torch.cuda.is_available() else 3  # chooses

    def forward(self, x):
        return x * self.scale


def test_questions_while_the_model_is_made():
    """One that cannot be made as it would be elsewhere tells nothing."""
    (branch,) = found(Chooses, "cuda")
    assert (branch.place.line, branch.asks_the_machine) == (line_of("chooses"), True)
    assert branch.what == "mul(3) -> float32[2, 3] on the CPU, mul(2) -> float32[2, 3] there"
    assert found(Chooses, "mps") == []

    class Moves(Chooses):
        def __init__(self):
            super().__init__()
            torch.zeros(1, device="cuda" if self.scale == 2 else "cpu")

    assert found(Moves, "cuda") == []


class Same(nn.Module):
    """The same operators with the same sizes everywhere; only their arguments differ."""

    def __init__(self, body):
        super().__init__()
        self.body = body
        self.one, self.two = torch.ones(3), torch.full((3,), 2.0)

    def forward(self, x):
        return self.body(self, x)


def attends(net, x):
    q = x[None]
    mask = None if x.is_cuda else torch.eye(2, dtype=torch.bool)
    return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def resizes(net, x):
    return nn.functional.interpolate(x[None], scale_factor=2.0, mode="linear" if x.is_cuda else "nearest")


OPERANDS = {
    "a text": (
        lambda net, x: nn.functional.gelu(x, approximate="tanh" if x.is_cuda else "none"),
        "gelu('none') -> float32[2, 3] on the CPU, gelu('tanh') -> float32[2, 3] there",
    ),
    "another result": (
        lambda net, x: (y := x.exp()) + (x if x.is_cuda else y),
        "add(exp#0, exp#0) on the CPU, add(exp#0, float32[2, 3]) there",
    ),
    "another order": (
        lambda net, x: (x.exp() - x) if x.is_cuda else (x - x.exp()),
        None,
    ),
    "another tensor of the model": (lambda net, x: x * (net.one if x.is_cuda else net.two), None),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_the_same_operators_with_other_arguments(name):
    body, what = OPERANDS[name]
    (branch,) = found(lambda: Same(body), "cuda")
    assert (branch.place.file, branch.what) == (__file__, what or branch.what)
    assert not torch.equal(branch.plain.result, branch.run.result)
    assert found(lambda: Same(body), "mps") == []


def test_arguments_that_are_missing_or_named_there():
    attends_there, resizes_there = (found(lambda body=body: Same(body), "cuda") for body in (attends, resizes))
    assert [branch.place.line for branch in attends_there] == [attends.__code__.co_firstlineno + 2]
    assert [branch.place.line for branch in resizes_there] == [resizes.__code__.co_firstlineno + 1]


def moves(net, x):
    """Tensors that are only moved or copied are the same as before."""
    y = x.exp()
    if x.is_cuda:
        y = y.to(x.device).contiguous().clone().detach()
    return (y + x) * net.one.to(x.device.type) + torch.zeros(3, device=x.device).to(dtype=torch.float32)


@pytest.mark.parametrize("device_type", TYPES)
def test_moves_make_no_other_tensor(device_type):
    assert found(lambda: Same(moves), device_type) == []
