"""Blame, tried on failures that torch itself raises."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from commands import marked
from torch import nn
from torch.export import Dim

from exportlint import blame
from exportlint.places import Place
from exportlint.rules import catalogue

HERE = Path(__file__)
X = torch.ones(4, 3)
IDS = torch.tensor([1, 2, 3])


def at(mark: str) -> int:
    """The line of this file with this mark."""
    return marked(HERE, mark)


def export(model: nn.Module, *args, **options) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        torch.export.export(model, args, strict=False, **options)
    return caught.value.with_traceback(caught.tb.tb_next)  # without this frame, as in a worker


def module(forward):
    """A module with this function as its forward."""
    return type(forward.__name__.title(), (nn.Module,), {"forward": forward})()


def if_on_tensor(self, x):
    return x if x.sum() > 0 else -x  # at: if


def while_on_tensor(self, x):
    while (x > 0).all():  # at: while
        x = x - 1
    return x


def assert_on_tensor(self, x):
    assert (x > 0).all()  # at: assert
    return x


def branch_on_item(self, ids):
    if ids[0].item() > 3:  # at: item
        return ids * 2
    return ids


def int_of_tensor(self, ids):
    return ids * int(ids[0])  # at: int


def range_of_item(self, ids):
    return sum(ids * i for i in range(ids[0].item()))  # at: range


def formatted(self, x):
    name = f"{x.mean():.3f}"  # at: format
    return x if name else -x


def to_numpy(self, x):
    return x + torch.as_tensor(x.numpy().max())  # at: numpy


def to_cuda(self, x):
    return x + torch.ones(3, device="cuda")  # at: cuda


def to_cuda_by_method(self, x):
    return x + torch.ones(3).cuda()  # at: cuda method


def data_pointer(self, x):
    return x if x.data_ptr() else -x  # at: pointer


class Opaque:
    def __init__(self, tensor):
        self.tensor = tensor


def opaque_result(self, x):
    return Opaque(x)


def opaque_argument(self, box):
    return box.tensor * 2


@torch.library.custom_op("exportlint_tests::unfaked", mutates_args=())
def unfaked(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def calls_unfaked(self, x):
    return unfaked(x) * 2  # at: unfaked


def splits(self, ids):
    parts = torch.arange(10).split(ids.tolist())
    return parts[0] if parts[0].sum() > 0 else parts[1]  # at: split


def by_helper(self, x):
    return decide(x)


def decide(x):
    if x.sum() > 0:  # at: helper
        return x
    return -x


def raises(self, x):
    if torch.compiler.is_exporting():
        raise NotImplementedError("not while exporting")  # at: raise
    return x


EXPECTED = [
    (if_on_tensor, X, "EXP101", "if"),
    (while_on_tensor, X, "EXP101", "while"),
    (assert_on_tensor, X, "EXP101", "assert"),
    (branch_on_item, IDS, "EXP102", "item"),
    (int_of_tensor, IDS, "EXP102", "int"),
    (range_of_item, IDS, "EXP102", "range"),
    (formatted, X, "EXP102", "format"),
    (to_numpy, X, "EXP401", "numpy"),
    (data_pointer, X, "EXP402", "pointer"),
    (calls_unfaked, X, "EXP801", "unfaked"),
    (splits, torch.tensor([4, 6]), "EXP101", "split"),
    (by_helper, X, "EXP101", "helper"),
    (raises, X, "EXP003", "raise"),
]


@pytest.mark.parametrize(("forward", "example", "rule", "mark"), EXPECTED)
def test_what_torch_refuses_is_blamed_on_its_line_and_rule(forward, example, rule, mark):
    model = module(forward)
    found = blame.of_failure(export(model, example), blame.forward_of(model))
    assert (found.rule, Path(found.file).name, found.line) == (rule, HERE.name, at(mark)), found.evidence
    assert (found.severity, found.outcomes) == ("error", {"export": "breaks"})
    assert found.rewrite == catalogue()[rule].rewrite
    assert found.evidence
    assert "\n" not in found.evidence


def test_a_size_as_a_key_is_blamed_on_the_cache_that_it_is_a_key_of():
    class Memory(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = {}

        def forward(self, x):
            if x.shape[0] not in self.seen:  # at: looked up
                self.seen[x.shape[0]] = torch.ones(2)
            return x.sum() + self.seen[x.shape[0]]

    with pytest.raises(TypeError) as caught:
        torch.export.export(Memory(), (torch.ones(3, 4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    assert blame.classify(caught.value)[0] == "EXP302"
    assert blame.place_of(caught.value).line == at("looked up")


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
@pytest.mark.parametrize(("forward", "mark"), [(to_cuda, "cuda"), (to_cuda_by_method, "cuda method")])
def test_a_device_that_is_not_there(forward, mark):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        module(forward)(X)
    assert blame.classify(caught.value)[0] == "EXP201"
    place = blame.place_of(caught.value)
    assert (place.file, place.line) == (str(HERE), at(mark))


@pytest.mark.parametrize("forward", [opaque_result, opaque_argument])
def test_a_class_that_torch_does_not_know_is_blamed_on_forward(forward):
    model = module(forward)
    found = blame.of_failure(export(model, X if forward is opaque_result else Opaque(X)), blame.forward_of(model))
    assert found.rule == "EXP601"
    assert found.source == f"def {forward.__name__}(self, {'x' if forward is opaque_result else 'box'}):"


class Variadic(nn.Module):
    def forward(self, *args):
        return args[0] * 2


def test_a_signature_without_names():
    found = blame.of_failure(export(Variadic(), X, dynamic_shapes={"x": {0: Dim("n")}}), blame.forward_of(Variadic()))
    assert found.rule == "EXP603"
    assert found.source == "def forward(self, *args):"


def test_dynamic_shapes_that_fit_no_input_are_the_callers_fault():
    found = blame.of_failure(export(nn.ReLU(), X, dynamic_shapes={"inptu": {0: Dim("n")}}))
    assert (found.rule, found.file) == ("EXP603", None)
    assert "inptu" in found.evidence


def test_a_size_that_is_narrowed():
    def forward(self, x):
        return x + torch.ones(int(x.shape[0]), 1)

    assert blame.classify(export(module(forward), X, dynamic_shapes={"x": {0: Dim("n")}}))[0] == "EXP301"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("the configuration file is broken"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x3 and 7x7)"),
        KeyError("x"),
        TypeError("forward() got an unexpected keyword argument 'y'"),
        RuntimeError(""),
    ],
)
def test_failures_that_say_nothing_known_are_named_as_no_more_than_that(error):
    assert blame.classify(error) == ("EXP003", "torch.export cannot capture this line")


def test_the_cause_is_looked_at_too():
    def fails():
        try:
            raise RuntimeError("Could not guard on data-dependent expression Eq(u0, 1). (Size-like symbols: none)")
        except RuntimeError as inner:
            raise KeyError("outer") from inner

    with pytest.raises(KeyError) as caught:
        fails()
    assert blame.classify(caught.value)[0] == "EXP101"


def test_chains_that_go_round_in_a_circle_end():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert blame.classify(one)[0] == "EXP003"
    assert blame.is_out_of_memory(one) is False


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried"),
            True,
        ),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("std::bad_alloc"), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"), True),
        (RuntimeError("the memory of the tensor is shared"), False),
        (ValueError("memory"), False),
    ],
)
def test_out_of_memory(error, expected):
    assert blame.is_out_of_memory(error) is expected


def test_out_of_memory_as_torch_says_it():
    with pytest.raises(RuntimeError) as caught:
        torch.ones(1 << 50)
    assert blame.is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "ValueError: one"),
        (ValueError("\n\n  three \n"), "ValueError: three"),
        (ValueError(), "ValueError"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 285 + "..."),
    ],
)
def test_words(error, line):
    assert blame.words(error) == line


class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.ones(3)  # at: table
        self.register_buffer("meta", torch.ones(3))  # at: buffer
        self.typed: torch.Tensor = torch.ones(3)  # at: typed

    def forward(self, x):  # at: forward
        if self.table == x:
            self.tables = 1
        return x


class Child(Parent):
    pass


def test_forward_and_assignments():
    assert blame.forward_of(Child()) == Place(str(HERE), at("forward"))
    assert blame.assignment_of(Child, "table") == Place(str(HERE), at("table"))
    assert blame.assignment_of(Child, "meta") == Place(str(HERE), at("buffer"))
    assert blame.assignment_of(Child, "typed") == Place(str(HERE), at("typed"))
    assert blame.assignment_of(Child, "nothing") is None
    assert blame.assignment_of(nn.Linear, "nothing") is None


def test_forward_of_a_model_without_source():
    scope: dict = {"nn": nn}
    exec("class Made(nn.Module):\n    def forward(self, x):\n        return x\n", scope)
    assert blame.forward_of(scope["Made"]()) is None


CACHES = """
class A:
    def forward(self, x):
        if x.shape[1] > self.length:
            self.table = make(x.shape[1])
        if x.shape[1] > 8:
            x = x[:, :8]
        if (x.shape[0]
                not in self.tables):
            self.tables[x.shape[0]] = 1
        if x.shape[0] > 1:
            y[0] = 1
        return x

@functools.lru_cache
def table(length):
    return torch.arange(int(length))

@renamed("past", new_name="cache")
def rows(x, cache=None):
    return list(x)

@memo.cached_method(ttl=3)
def positions(length):
    return torch.arange(int(length))

@keys[cache]
@clear_cache
def items(x):
    return list(x)

class Table:
    @cached_property
    def sizes(self):
        return list(self.x)
"""


@pytest.mark.parametrize(
    ("line", "rule"),
    [(4, "EXP302"), (5, "EXP301"), (6, "EXP301"), (7, "EXP301"), (8, "EXP302"), (9, "EXP302"), (11, "EXP301"),
     (13, "EXP301"), (17, "EXP302"), (21, "EXP301"), (25, "EXP302"), (30, "EXP301"), (35, "EXP302")],
)  # fmt: skip
def test_the_rule_for_a_size_that_is_narrowed(tmp_path, line, rule):
    file = tmp_path / "caches.py"
    file.write_text(CACHES)
    assert blame.size_rule(Place(str(file), line)) == rule
    assert blame.size_rule(None) == "EXP301"


def test_every_rule_that_blame_names_is_in_the_catalogue():
    assert {symptom.rule for symptom in blame.SYMPTOMS} <= set(catalogue())
