from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
from torch import nn

from exportlint.devices.kept import Kept, find_kept, tensors_in
from exportlint.devices.provenance import Provenance


def line_of(marker):
    """The line of this file that ends with the marker, a comment."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))


def watch(function, *args, model=None):
    """The labelled calls of a run on the CPU as (label, call, device)."""
    provenance = Provenance("cpu", find_kept(model or nn.Identity()))
    with torch.no_grad(), provenance:
        function(*args)
    return provenance


def labels(provenance):
    return [(made.label, made.call, made.device) for made in provenance.calls]


X = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("function", "label"),
    [
        (lambda x: torch.arange(3, device=x.device), ("followed", "torch.arange", "cpu:0")),
        (lambda x: torch.arange(3, device=torch.device(x.device)), ("followed", "torch.arange", "cpu:0")),
        (lambda x: torch.zeros(3, device="cpu"), ("literal", "torch.zeros", "cpu")),
        (lambda x: torch.zeros(3), ("missing", "torch.zeros", None)),
        (lambda x: torch.eye(3), ("missing", "torch.eye", None)),
        (lambda x: torch.tril_indices(3, 3), ("missing", "torch.tril_indices", None)),
        (lambda x: torch.tensor([1.0]), ("missing", "torch.tensor", None)),
        (lambda x: torch.as_tensor([1.0], device=x.device), ("followed", "torch.as_tensor", "cpu:0")),
        (lambda x: torch.fft.fftfreq(4), ("missing", "torch.fft.fftfreq", None)),
        (lambda x: torch.zeros_like(x, device="cpu"), ("literal", "torch.zeros_like", "cpu")),
        (lambda x: x.new_zeros(3, device="cpu"), ("literal", "Tensor.new_zeros", "cpu")),
        (lambda x: x.to("cpu"), ("literal", "Tensor.to", "cpu")),
        (lambda x: x.to(device=x.device), ("followed", "Tensor.to", "cpu:0")),
        (lambda x: x.cpu(), ("literal", "Tensor.cpu", "cpu")),
        (lambda x: x.type("torch.FloatTensor"), ("literal", "Tensor.type", "cpu")),
    ],
)
def test_labels(function, label):
    assert labels(watch(function, X)) == [label]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.to(torch.float64),
        lambda x: x.to(x),
        lambda x: x.type(torch.float64),
        lambda x: x.new_zeros(3),
        torch.zeros_like,
        torch.as_tensor,
        lambda x: x + 1,
    ],
)
def test_what_follows_a_tensor_by_itself_is_not_labelled(function):
    assert labels(watch(function, X)) == []


@pytest.mark.parametrize(
    ("function", "device"),
    [
        (lambda x: torch.zeros(2, 3, device="cuda:0") + x, "cuda:0"),
        (lambda x: x.cuda() + x, "cuda"),
        (lambda x: x.to("cuda", torch.float64) + x, "cuda"),
        (lambda x: x.to(device=torch.device("mps")) + x, "mps"),
        (lambda x: x.type("torch.cuda.FloatTensor") + x, "cuda"),
    ],
)
def test_a_device_that_is_not_there_is_noted_and_the_run_goes_on(function, device):
    (made,) = watch(function, X).foreign
    assert (made.label, made.device) == ("literal", device)
    assert made.place.file == __file__


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = torch.zeros(2, 3)  # cache
        self.register_buffer("steps", torch.zeros(3))

    def forward(self, x):
        self.steps.add_(1)
        self.cache[:1] = x[:1]  # write
        return x.clone().mul_(2)


def test_writes_into_tensors_outside_the_state_dict():
    model = Writes()
    ((kept, place),) = watch(model, X, model=model).writes
    assert kept.where == "the attribute `cache` of Writes"
    assert kept.place.line == line_of("cache")
    assert place.line == line_of("write")


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_autocast_for_another_device_is_noted():
    def run(x):
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast("cuda", enabled=False):
            return x @ x.t()

    def run_cuda(x):
        with torch.autocast("cuda"):  # autocast
            return x @ x.t()

    before = torch.autocast.__init__
    assert not watch(run, X).autocasts
    ((device, place),) = watch(run_cuda, X).autocasts
    assert device == "cuda"
    assert place.line == line_of("autocast")
    assert torch.autocast.__init__ is before


TABLE = torch.arange(3.0)  # global
LATE = [torch.ones(1)]


def helper():
    return TABLE


def wrapped(function):
    scale = torch.ones(3)

    def call(self, x):
        return function(self, x) * scale

    return call


class Keeps(nn.Module):
    shared = torch.ones(3)  # class

    def __init__(self):
        super().__init__()
        self.mask = None
        self.lists = {"a": [torch.ones(1), torch.ones(2)]}  # lists
        self.mask = torch.ones(3)  # mask
        self.layers = [nn.Linear(3, 3)]  # layers
        self.fine = nn.Linear(3, 3)
        self.weight = self.fine.weight
        self.register_buffer("table", torch.ones(3), persistent=False)

    @wrapped
    def forward(self, x):
        return self.shift(x) + helper()

    def shift(
        self,
        x,
        offset=torch.ones(3),  # noqa: B008  # default
    ):
        return x + offset


def test_tensors_outside_the_state_dict_are_found_with_their_line():
    model = Keeps()
    kept = find_kept(model)
    expected = [
        (model.mask, "the attribute `mask` of Keeps", "mask"),
        (model.lists["a"][1], "the attribute `lists` of Keeps", "lists"),
        (model.layers[0].weight, "the attribute `layers` of Keeps", "layers"),
        (Keeps.shared, "the class attribute `shared` of Keeps", "class"),
        (Keeps.shift.__defaults__[0], "the default of the argument `offset` of Keeps.shift", "default"),
    ]
    for tensor, where, marker in expected:
        found = kept.get(tensor)
        assert (found.where, found.place.line) == (where, line_of(marker))
    for tensor in (model.fine.weight, model.weight, model.table, LATE[0]):
        assert kept.get(tensor) is None


def test_globals_of_helpers_are_found():
    class Uses(nn.Module):
        def forward(self, x):
            return x + helper()

    found = find_kept(Uses()).get(TABLE)
    assert (found.where, found.place.line) == ("the global `TABLE`", line_of("global"))


class Scale:
    def __init__(self):
        self.factor = torch.ones(3)

    def __call__(self, x):
        return x * self.factor

    def halved(self, x):
        return self(x) / 2


OFFSET = functools.partial(torch.add, torch.ones(3))  # partial
DEEPER = functools.partial(helper, table=torch.ones(3))  # keyword
HALVED = Scale().halved  # method
CALLED = Scale()  # callable


def test_tensors_that_are_bound_to_what_is_called_are_found():
    class Uses(nn.Module):
        def forward(self, x):
            return CALLED(HALVED(OFFSET(x))) + DEEPER()

    kept = find_kept(Uses())
    expected = {
        "partial": ("OFFSET", OFFSET.args[0]),
        "keyword": ("DEEPER", DEEPER.keywords["table"]),
        "method": ("HALVED", HALVED.__self__.factor),
        "callable": ("CALLED", CALLED.factor),
    }
    for marker, (name, tensor) in expected.items():
        found = kept.get(tensor)
        assert (found.where, found.place.line) == (f"the global `{name}`", line_of(marker))
    assert kept.get(TABLE).where == "the global `TABLE`"


def test_closures_are_found():
    scale = torch.ones(3)

    class Uses(nn.Module):
        def forward(self, x):
            return x * scale

    assert find_kept(Uses()).get(scale) == Kept(
        "the closure variable `scale` of " + Uses.forward.__qualname__.replace(".<locals>", ""), None
    )


def test_views_belong_to_what_keeps_their_memory():
    model = Writes()
    kept = find_kept(model)
    assert kept.owner(model.cache[0]).where == "the attribute `cache` of Writes"
    assert kept.owner(model.cache.clone()) is None
    assert len(kept) == 1


def test_tensors_in_objects():
    class Cache:
        def __init__(self):
            self.layers = [{"k": torch.ones(1)}, torch.ones(2)]

    assert [t.numel() for t in tensors_in((Cache(), torch.ones(3), "x", len))] == [1, 2, 3]


def test_tensors_of_an_earlier_run_are_known():
    kept = []

    def fill(x):
        kept.append(torch.ones(3).cumsum(0))  # earlier
        return x + kept[0]

    earlier = watch(fill, X)
    assert [tensor is kept[0] for tensor in earlier.alive()] == [True]
    later = Provenance("second", earlier=earlier)
    origin = later.origin(kept[0])
    assert (origin.label, origin.earlier, origin.place.line) == ("missing", True, line_of("earlier"))
    assert earlier.origin(kept[0]).earlier is False
    assert later.origin(torch.ones(3)) is None
    kept.clear()
    assert earlier.alive() == []


def both_ways(x):
    def other(t):
        return t + torch.rand(3) + torch.zeros(3, device="cpu")  # other

    return torch.cond(x.sum() > 1e6, other, lambda t: t * torch.rand(3), (x,))


def never(x):
    from torch._higher_order_ops import while_loop

    def body(i, t):
        return i + 1, t + torch.eye(3)[0]

    return while_loop(lambda i, _: i < 0, body, (torch.zeros((), dtype=torch.int64, device=x.device), x))[1]


def raises(x):
    return torch.cond(x.sum() > 1e6, lambda t: t @ torch.full((5, 5), 1.0), lambda t: t.clone(), (x,))


def test_what_the_example_does_not_take_is_seen_and_changes_nothing():
    torch.manual_seed(1)
    expected = X * torch.rand(3)
    torch.manual_seed(1)
    results = []
    provenance = watch(lambda x: results.append((both_ways(x), torch.rand(2))), X)
    assert torch.equal(results[0][0], expected)
    torch.manual_seed(1)
    torch.rand(3)
    assert torch.equal(results[0][1], torch.rand(2))
    assert ("literal", "torch.zeros", "cpu") in labels(provenance)
    assert line_of("other") in {made.place.line for made in provenance.calls}
    assert ("missing", "torch.eye", None) in labels(watch(never, X))
    provenance = watch(raises, X)
    assert ("missing", "torch.full", None) in labels(provenance)
    ((error, origin),) = provenance.refused
    assert "mat1 and mat2 shapes" in str(error)
    assert (origin, provenance.blamed) == (None, None)
