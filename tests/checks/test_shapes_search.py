"""What the check ``shapes`` looks for, on small models, in this process."""

from __future__ import annotations

import re
import time
import warnings
from pathlib import Path

import pytest
import torch
from commands import marked
from hypothesis import settings
from hypothesis.database import InMemoryExampleDatabase
from torch import nn
from torch.export import Dim

from exportlint import ModelCase
from exportlint.checks import capture
from exportlint.checks.context import Context, Settings
from exportlint.checks.shapes import check as shapes
from exportlint.checks.shapes import search, trials
from exportlint.checks.shapes.search import OfCase
from exportlint.checks.shapes.trials import Subject
from exportlint.shapes import advice, narrowing
from exportlint.torch_hooks.guards import GuardLog

HERE = Path(__file__)
X = torch.randn(4, 6)
FREE = {"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}


def check(forward, args=(X,), examples=12, module=shapes, **settings):
    model = type(forward.__name__.title(), (nn.Module,), {"forward": forward})
    context = Context(ModelCase(model, args, **settings), Settings((), examples), lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module.run(context)


def lines(result):
    return [f.line for f in result.findings if f.counts]


def product(self, x):
    if x.shape[0] * x.shape[1] <= 100:  # at: product
        return x * 2
    return x


def even(self, x):
    if x.shape[0] % 2 == 0:  # at: even
        return x * 2
    return x


def sliced(self, x):
    return x[:, :64] * 2  # at: slice


@pytest.mark.parametrize(
    ("forward", "mark", "change"),
    [(product, "product", "condition on the sizes"), (even, "even", "Pad to a multiple"), (sliced, "slice", "slice")],
)
def test_a_guard_that_narrows_is_found_however_far_away_its_other_side(forward, mark, change):
    found = check(forward, dynamic_shapes=FREE, examples=4)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, mark)])
    assert change in found.findings[0].rewrite


@pytest.mark.parametrize(("forward", "silent"), [(product, True), (even, True), (sliced, False)])
def test_forms_without_guards_that_answer_wrongly_are_named(forward, silent):
    """Ranges are checked in every form; torch drops the other guards where it unflattens, or is told to."""
    evidence = check(forward, dynamic_shapes=FREE).findings[0].evidence
    words = "answered without a word, and wrongly, after module(check_guards=False), torch.export.unflatten: "
    assert (words in evidence) == silent


def budget(self, x):
    rows = x.flatten()
    return (rows[:65] if x.shape[0] * x.shape[1] > 64 else rows).sum()  # the first that is cut is no shorter


def skips_the_last(self, x):
    weights = (torch.arange(x.shape[0]) >= 4).to(x.dtype)
    x = torch.cat([x[:-1], x[-1:] * 0]) if x.shape[0] % 2 else x
    return weights @ x  # what is skipped of three has no weight


@pytest.mark.parametrize("forward", [budget, skips_the_last])
def test_forms_that_answer_wrongly_for_larger_calls_only_are_named(forward):
    found = check(forward, (torch.randn(4, 5),), dynamic_shapes=FREE)
    words = r"wrongly, after module\(check_guards=False\), torch.export.unflatten, for x of shape \[\d+, \d+\] \(\w+"
    assert re.search(words, found.findings[0].evidence)


def fours_doubled(self, x, y):
    z = x + y
    return z * 2 if z.shape[0] % 4 == 0 else z  # at: fours doubled


def test_what_plain_contents_hide_is_not_held_for_torchs_own():
    """All of zero is right twice."""
    auto = {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
    calls = (torch.randn(7, 3), torch.randn(7, 3))
    model = type("FoursDoubled", (nn.Module,), {"forward": fours_doubled})
    context = Context(ModelCase(model, calls, dynamic_shapes=auto), Settings((), 4), lambda _: None)
    subject = shapes.subject_of(context, context.contract()[0], GuardLog(), inferred=False)
    space = subject.space = search.space_of(subject)
    zeros = space.call({0: (8, 3), 1: (8, 3)}, lambda kinds, layouts: (kinds[0], 0, layouts[0]))
    with pytest.raises(trials.FaultError) as caught:
        subject.attempt(trials.Trial.of(zeros))
    assert caught.value.outcome == "specialises"


def test_asked_and_granted_are_told_with_the_line():
    notes = check(sliced, dynamic_shapes={"x": {1: Dim("n", min=2, max=63)}}).notes
    assert not any("granted" in note for note in notes)
    found = check(sliced, dynamic_shapes=FREE)
    rows, cut = found.contract
    line = f"{HERE.name}:{marked(HERE, 'slice')}"
    assert (cut.name, cut.asked, cut.granted, cut.narrower) == ("x.shape[1]", "from 2", "from 2 to 63", True)
    assert cut.place.endswith(line)
    assert (rows.name, rows.granted, rows.narrower, rows.place) == ("x.shape[0]", "as asked", False, "")
    words = "x.shape[1]: asked from 2, granted from 2 to 63 ("
    assert any(note.startswith(words) and line in note for note in found.notes)


def sliced_both(self, x, y):
    return x[:, :64].sum() + y[:, :32].sum()  # at: both slices


def pins_both(self, x, y):
    return x + torch.ones(int(x.shape[0]), int(x.shape[1])) + y.sum()  # at: pins both


def test_every_dimension_that_one_line_narrows_is_named():
    free = {0: Dim.AUTO, 1: Dim.AUTO}
    (found,) = check(sliced_both, (X, X + 1), dynamic_shapes={"x": free, "y": free}).findings
    assert found.line == marked(HERE, "both slices")
    assert "only while x.shape[1] < 64; it holds only while y.shape[1] < 32" in found.message
    assert "x of shape [2, 64] (zeros)" in found.evidence
    assert "y of shape [2, 32] (zeros)" in found.evidence
    (found,) = check(pins_both, (X, X + 1), dynamic_shapes={"x": free, "y": free}).findings
    assert found.line == marked(HERE, "pins both")
    assert found.message == (
        "x.shape[0] should be dynamic and became the constant 4; x.shape[1] should be dynamic and became the constant 6"
    )


def strict_about_length(self, x):
    if x.shape[1] > 32:
        raise ValueError("too long")
    return x * 2


def test_a_bound_that_the_model_has_itself_is_no_finding():
    found = check(strict_about_length, dynamic_shapes=FREE)
    assert (found.outcome, lines(found)) == ("passed", [])
    assert any(
        "granted from 2 to 32" in n and n.endswith("; the model itself refuses other sizes") for n in found.notes
    )


def sixes(self, x):
    return x.reshape(-1, 6, 4).mean(1)  # at: sixes


def test_a_size_that_the_model_takes_is_not_said_to_be_refused_by_it():
    free = {"x": {0: Dim.AUTO, 1: Dim.AUTO}}
    found = check(sixes, (torch.randn(2, 6, 4),), dynamic_shapes=free)
    assert lines(found) == [marked(HERE, "sixes")]
    (note,) = (note for note in found.notes if "asked from" in note)  # with 6 columns any number of rows is granted
    assert "x.shape[1]: asked from 2, granted the constant 6" in note  # eager takes 3 and 9
    assert "refuses" not in note
    assert "x of shape [2, 3, 4]" in found.findings[0].evidence


def truncates_pair(self, x, y):
    z = x * y.unsqueeze(-1)
    return z[:, :9] if z.shape[1] > 9 else z  # at: truncates a pair


def pair_of_fours(self, x, y):
    z = x * y.unsqueeze(-1)
    return z * 2 if z.shape[1] % 4 == 0 else z  # at: pair of fours


def twice_as_many(self, x, y):
    z = x.repeat_interleave(2, 1) * y.unsqueeze(-1)
    return z[:, :20] if z.shape[1] > 20 else z  # at: twice as many


@pytest.mark.parametrize("dim", [Dim.DYNAMIC, Dim.AUTO])
@pytest.mark.parametrize(
    ("forward", "factor", "mark", "failing"),
    [
        (truncates_pair, 1, "truncates a pair", (10, 10)),
        (pair_of_fours, 1, "pair of fours", (4, 4)),
        (twice_as_many, 2, "twice as many", (11, 22)),
    ],
)
def test_a_guard_on_sizes_that_must_fit_each_other_is_no_wish_of_the_model(dim, forward, factor, mark, failing):
    """A call that changes one of them alone is refused by the eager model, whatever the guard says."""
    calls = (torch.randn(2, 7, 3), torch.randn(2, 7 * factor))
    found = check(forward, calls, 4, dynamic_shapes={"x": {0: dim, 1: dim}, "y": {0: dim, 1: dim}})
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, mark)])
    assert "x of shape [2, {}, 3] (zeros), y of shape [2, {}]".format(*failing) in found.findings[0].evidence
    assert not [note for note in found.notes if "from 2 to" in note and "refuses" in note]


def without_imaginary_part(self, x):
    y = x * 2
    return torch.view_as_real(y.real + 0j if torch.compiler.is_exporting() else y)  # at: imaginary part


def test_complex_inputs_are_drawn_with_both_parts():
    real = torch.randn(3, 4).to(torch.complex64)
    found = check(without_imaginary_part, (real,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert [(f.rule, f.line) for f in found.findings] == [("EXP004", marked(HERE, "imaginary part"))]
    assert "(imaginary)" in found.findings[0].evidence


def linear(self, x):
    return x @ torch.ones(6, 2)


def pins(self, x):
    return x + torch.ones(x.shape[0], int(x.shape[1]))  # at: pins


def test_a_hint_at_a_dimension_that_cannot_vary_is_advice():
    auto = {"x": {0: Dim.AUTO, 1: Dim.AUTO}}
    convenient = check(linear, dynamic_shapes=auto)
    assert (convenient.outcome, lines(convenient)) == ("passed", [])
    assert "x.shape[1] should be dynamic and became the constant 6" in [f.message for f in convenient.findings]
    assert lines(check(pins, dynamic_shapes=auto)) == [marked(HERE, "pins")]


def single(self, x):
    if x.shape[0] == 1:  # at: single
        return x * 10
    return x


def test_a_size_of_one_that_torch_assumes_not_to_happen():
    found = check(single, dynamic_shapes=FREE)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "single")])
    assert found.findings[0].severity == "error"
    assert found.findings[0].message.endswith("which it should refuse")
    found = check(single, dynamic_shapes={"x": {0: Dim("n")}})
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "single")])
    assert "which it should refuse" not in found.findings[0].message
    found = check(single, dynamic_shapes={"x": {0: Dim("n", min=2)}})
    assert found.findings[0].message.endswith("which it should refuse")
    found = check(single, (X[:1],), inputs2=(X,), dynamic_shapes={"x": {0: Dim.AUTO}})
    assert "since torch takes a size of 0 or 1 in the example for a constant" in found.findings[0].message
    assert found.findings[0].rewrite == "Export from an example in which the size is 2 or more."


def single_in_a_line(self, x):
    return x - x.mean(0) if x.shape[0] > 1 else x  # at: single in a line


@pytest.mark.parametrize(
    "asked",
    [
        {"dynamic_shapes": {"x": {0: Dim("n", min=1, max=16)}}},
        {"dynamic_shapes": {"x": {0: Dim.DYNAMIC}}},
        {"inputs2": (X[:1],)},
    ],
    ids=["range", "hint", "inputs2"],
)
def test_a_size_of_one_that_is_told_apart_within_a_line(asked):
    found = check(single_in_a_line, **asked)
    told = [(f.rule, f.severity, f.line) for f in found.findings]
    assert told == [("EXP301", "error", marked(HERE, "single in a line"))]


def negative_in_a_line(self, x):
    return x - 1 if not torch.compiler.is_exporting() and x.sum() < 0 else x  # at: negative in a line


def test_a_value_that_decides_within_a_line():
    found = check(negative_in_a_line, (X.abs() + 1,))
    assert [(f.rule, f.line) for f in found.findings] == [("EXP101", marked(HERE, "negative in a line"))]


def squeezed(self, x):
    y = x.mean(-1, keepdim=True).squeeze()
    if y.dim() == 0:  # at: squeezed
        y = y.unsqueeze(0)
    return torch.cat([y, y.cumsum(0)])


@pytest.mark.parametrize(
    "asked",
    [
        {"dynamic_shapes": {"x": {0: Dim("n")}}},
        {"dynamic_shapes": {"x": {0: Dim("n", min=1, max=16)}}},
        {"dynamic_shapes": {"x": {0: Dim.DYNAMIC(min=1, max=8)}}},
        {"inputs2": (X[:1],)},
        {"more_inputs": [(torch.randn(3, 6),), (X[:1],)]},
    ],
    ids=["named", "range", "hint with a range", "inputs2", "more_inputs"],
)
def test_a_program_that_fails_at_a_size_of_one_that_was_asked_for(asked):
    found = check(squeezed, **asked)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "squeezed")])
    assert trials.OF_ONE in found.findings[0].message
    assert "min=2" in found.findings[0].rewrite
    assert "the smallest failing call: model(torch.zeros([1, 6]))" in found.notes


@pytest.mark.parametrize("dim", [Dim("n", min=2), Dim.DYNAMIC, Dim.AUTO])
def test_a_program_that_fails_at_a_size_of_one_that_nobody_asked_for(dim):
    found = check(squeezed, dynamic_shapes={"x": {0: dim}})
    assert (found.outcome, found.findings) == ("passed", ())


def full_mask(self, x, mask):
    if not torch.compiler.is_exporting() and mask.all():  # at: full mask
        return x
    return x * mask + 1


def opposite(self, x):
    if not torch.compiler.is_exporting() and x.sum() < 0:  # at: opposite
        return x - 1
    return x


def some_mask(self, x, mask):
    if torch.compiler.is_exporting() or mask.any():  # at: some mask
        return x * 2
    return x - 1


def test_values_decide_also_where_a_call_without_any_goes_that_way():
    shapes = {"x": {0: Dim.AUTO}, "mask": {0: Dim.AUTO}}
    found = check(some_mask, (X, X > -9), dynamic_shapes=shapes)
    assert [(f.rule, f.line) for f in found.findings] == [("EXP101", marked(HERE, "some mask"))]


def test_values_that_go_another_way():
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[0, 5] = False
    found = check(full_mask, (X, mask))
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "full mask")])
    found = check(opposite, (X.abs() + 1,))
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "opposite")])
    assert [f.rule for f in found.findings] == ["EXP101"]


def config(self, x):
    if self.training:  # at: training
        x = x * 2
    if x.shape[0] > 1:  # at: rows
        x = x + 1
    return x


def test_branches_that_were_never_taken_are_listed():
    found = check(config, dynamic_shapes={"x": {0: Dim("n", min=2)}})
    (note,) = [n for n in found.notes if n.startswith("branches that were taken one way only ")]
    assert 12 <= int(re.search(r"only in (\d+) calls: ", note)[1]) <= 200
    assert f"{HERE.name}:{marked(HERE, 'training')} (always entered)" in note
    assert f"{HERE.name}:{marked(HERE, 'rows')} (always entered)" in note


def by_rows(self, x):
    if torch.compiler.is_exporting() or x.shape[0] > 3:  # at: by rows
        return x * 2
    return x + x


def by_many_rows(self, x):
    if torch.compiler.is_exporting() or x.shape[0] < 50:  # at: by many rows
        return x * 2
    return x + x


@pytest.mark.parametrize("forward", [by_rows, by_many_rows])
def test_a_branch_that_calls_of_other_sizes_take_is_not_listed(forward):
    found = check(forward, dynamic_shapes={"x": {0: Dim("n", max=500)}})
    assert (found.outcome, [n for n in found.notes if "one way only" in n]) == ("passed", [])


def scaled(self, x, scale=2.0, mask=None):
    return x * scale if mask is None else x * scale * mask


def test_a_number_or_an_optional_argument_that_changes_is_refused_by_the_program():
    found = check(
        scaled,
        (X,),
        kwargs={"scale": 3.0, "mask": X > 0},
        dynamic_shapes={"x": {0: Dim.AUTO}, "scale": None, "mask": {0: Dim.AUTO}},
    )
    assert (found.outcome, lines(found)) == ("passed", [])


def held(self, x, scale, options, *, flag=True):
    return x * scale * options["by"][0] if flag else x


def test_numbers_that_are_no_tensors_are_said_to_be_held():
    shapes = {"x": {0: Dim.AUTO}, "scale": None, "options": {"by": [None], "none": []}, "flag": None}
    args = (X, 3.0, {"by": [2], "none": []})
    found = check(held, args, kwargs={"flag": True}, dynamic_shapes=shapes)
    assert (found.outcome, lines(found)) == ("passed", [])
    assert (
        "the program holds what is no tensor, and refuses other values: scale = 3.0, options['by'][0] = 2, flag = True"
        in found.notes
    )
    unused = check(lambda self, x, scale: x * 2, (X, 3.0), dynamic_shapes={"x": {0: Dim.AUTO}, "scale": None})
    assert unused.outcome == "passed"


def unguarded(self, x, scale):
    return x * scale


def test_a_number_that_is_answered_wrongly_is_a_finding(monkeypatch):
    """torch refuses it; a program that does not is made here."""
    run = Subject.run

    def answers(subject, module, inputs):
        return run(subject, module, ((inputs[0][0], 3.0), {}))

    monkeypatch.setattr(Subject, "run", answers)
    found = check(unguarded, (X, 3.0), dynamic_shapes={"x": {0: Dim.AUTO}, "scale": None})
    (finding,) = [f for f in found.findings if f.counts]
    assert finding.severity == "error"
    assert finding.message.endswith("which it should refuse")
    assert "scale = 4.0 instead of 3.0" in finding.evidence


def joins(self, x, y):
    return torch.cat([x, y], 1)


def adds(self, x, y):
    return x + y


@pytest.mark.parametrize("forward", [joins, adds])
def test_a_batch_of_one_in_the_example_is_no_advice_only(forward):
    both = {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
    found = check(forward, (X[:1], X[1:2]), dynamic_shapes=both)
    (finding,) = [f for f in found.findings if f.counts]
    assert (found.outcome, finding.rule, finding.severity) == ("failed", "EXP301", "warning")
    assert "x.shape[0] should be dynamic and became the constant 1" in finding.message
    assert finding.rewrite == narrowing.LARGER


@pytest.mark.parametrize("rows", [(X, X[:1]), (X[:1], X)])
def test_a_size_of_one_that_is_broadcast_is_clean_where_torch_may_choose(rows):
    found = check(adds, rows, dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
    assert (found.outcome, lines(found)) == ("passed", [])


@pytest.mark.parametrize("dim", [Dim("b", min=1), Dim.DYNAMIC])
@pytest.mark.parametrize("rows", [0, 1])
def test_an_example_that_is_too_small_for_what_is_declared_is_named(dim, rows):
    found = check(doubled, (X[:rows],), module=capture, dynamic_shapes={"x": {0: dim}})
    (finding,) = found.findings
    assert finding.message == "torch takes a size of 0 or 1 in the example for a constant: x.shape[0]"
    assert finding.rewrite == narrowing.LARGER
    assert found.notes[0] == "these dynamic_shapes export from an example in which x.shape[0] is 2 or more"


def test_a_larger_example_is_not_proposed_where_it_does_not_help():
    found = check(pins, (X[:1],), module=capture, dynamic_shapes={"x": {0: Dim("b"), 1: Dim("n")}})
    assert not [n for n in found.notes if "2 or more" in n]
    assert {f.line for f in found.findings} >= {marked(HERE, "pins")}


def strided(self, x):
    if not x.is_contiguous():  # at: strided
        return x * 3
    return x * 2


@pytest.mark.parametrize("dynamic_shapes", [FREE, None])
def test_each_layout_is_tried(dynamic_shapes):
    found = check(strided, dynamic_shapes=dynamic_shapes, examples=2)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "strided")])
    assert any("transposed" in f.evidence or "expanded" in f.evidence for f in found.findings)
    assert {f.rule for f in found.findings} == {"EXP004"}
    assert all("in another memory layout" in f.message and "strides" in f.rewrite for f in found.findings)


def viewed(self, x):
    if x.is_contiguous():  # at: viewed
        return x.view(-1)
    return x.reshape(-1)


def test_a_program_that_fails_in_another_layout_is_told_so():
    found = check(viewed, dynamic_shapes=FREE)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "viewed")])
    assert [(f.rule, "for its memory layout" in f.message) for f in found.findings] == [("EXP004", True)]
    assert "use reshape in place of view" in found.findings[0].rewrite


def halves(self, x):
    first, second = x.chunk(2)  # at: halves
    return first.sum() + second.sum() * 2


def thirds(self, x):
    return sum(part.sum() * i for i, part in enumerate(x.chunk(3)))  # at: thirds


def rows(self, x):
    return sum(part.sum() * i for i, part in enumerate(x.split(2)))  # at: rows of two


@pytest.mark.parametrize(
    ("forward", "mark", "change"),
    [(halves, "halves", "apart"), (thirds, "thirds", "counted"), (rows, "rows of two", "counted")],
)
def test_parts_of_a_size_are_no_multiples_of_it(forward, mark, change):
    found = check(forward, (torch.ones(8, 3),), dynamic_shapes={"x": {0: Dim.AUTO(max=100)}})
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, mark)])
    assert [f.rewrite for f in found.findings] == [advice.CHANGES[change]]


def other_sizes(self, x):
    if not torch.compiler.is_exporting() and x.shape[0] != 4:  # at: other sizes
        return x * 2
    return x


def test_a_call_outside_of_the_contract_hides_no_fault_inside():
    found = check(other_sizes, dynamic_shapes={"x": {0: Dim("n", min=3, max=8)}})
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "other sizes")])
    assert "which it should refuse" not in found.findings[0].message


def test_the_smallest_call_is_told_as_code_that_shows_the_failure():
    found = check(product, dynamic_shapes=FREE)
    (note,) = [n for n in found.notes if n.startswith("the smallest failing call: ")]
    code = note.removeprefix("the smallest failing call: ")
    program = torch.export.export(type("P", (nn.Module,), {"forward": product})(), (X,), dynamic_shapes=FREE).module()
    with pytest.raises(AssertionError, match="Guard failed"):
        eval(code, {"torch": torch, "model": program})


def test_a_refused_export_is_told_what_would_be_accepted():
    found = check(sliced, module=capture, dynamic_shapes={"x": {0: Dim("b"), 1: Dim("n")}})
    assert found.outcome == "failed"
    assert found.notes[0] == (
        "dynamic_shapes that export (from torch.export import Dim): {'x': {0: Dim('b'), 1: Dim('n', max=63)}}"
    )


def test_a_maximum_that_costs_too_much_is_lowered_and_said_so(monkeypatch):
    monkeypatch.setattr("exportlint.shapes.cost.memory_left", lambda: 4 * 1000 * 6 * 4 * 3)
    found = check(doubled, dynamic_shapes={"x": {0: Dim("n", max=10_000_000)}}, examples=4)
    (note,) = [n for n in found.notes if "were not tried" in n]
    largest = int(re.match(r"sizes of x.shape\[0\] above (\d+) of the declared 10000000 were not tried: ", note)[1])
    assert 500 < largest <= 1500
    assert note.endswith("larger calls take too much memory")


def clipped(self, x):
    if not torch.compiler.is_exporting() and x.shape[1] >= 100:  # at: clipped
        return x[:, :100] * 2
    return x * 2


def clipped_between(self, x):
    if not torch.compiler.is_exporting() and 90 <= x.shape[1] < 400:  # at: clipped between
        return x + 1
    return x * 2


@pytest.mark.parametrize("dims", [{1: Dim("s", min=1, max=4096)}, {1: Dim("s")}, {0: Dim.AUTO, 1: Dim.DYNAMIC}])
def test_a_program_that_is_wrong_from_some_size_on_is_found_there(dims):
    found = check(clipped, dynamic_shapes={"x": dims}, examples=20)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "clipped")])
    assert ", 101] (zeros)" in found.findings[0].evidence  # the smallest that is clipped


def test_a_program_that_is_wrong_in_the_middle_of_a_declared_range_is_found():
    found = check(clipped_between, dynamic_shapes={"x": {1: Dim("s", min=1, max=4096)}}, examples=20)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "clipped between")])


def short(self, x):
    return x * torch.ones(40).expand(x.shape[0], 40)[:, : x.shape[1]] if x.shape[1] <= 40 else fail()


def fail():
    raise ValueError("too long")


def test_what_was_not_tried_is_said_with_the_reason():
    told = [n for n in check(doubled, dynamic_shapes={"x": {0: Dim("n", max=50), 1: Dim("m")}}).notes if "tried" in n]
    assert told == ["no maximum is declared of some sizes, which were tried so far: x.shape[1] up to 128"]
    (note,) = [n for n in check(short, dynamic_shapes={"x": {1: Dim.AUTO(max=900)}}).notes if "were not tried" in n]
    assert note == (
        "sizes of x.shape[1] above 40 of the declared 900 were not tried: the eager model refuses larger calls"
    )


def roomless(self, x):
    torch.empty(2**50 if not torch.compiler.is_exporting() and x.shape[1] > 40 else 1)
    return x * 2


def test_a_call_that_finds_no_memory_is_not_said_to_be_refused_by_the_model():
    found = check(roomless, dynamic_shapes={"x": {1: Dim("s", max=900)}})
    (note,) = [n for n in found.notes if "were not tried" in n]
    assert note.endswith("of the declared 900 were not tried: larger calls take more memory than there is")
    assert not [n for n in found.notes if "refused" in n]


def test_fixed_shapes_are_tried_with_other_values_but_are_not_checked():
    found = check(doubled, (X,))
    assert found.outcome == "not_checked"
    assert found.reason == "no dimension is dynamic: dynamic_shapes and inputs2 are missing"


def doubled(self, x):
    return x * 2


def at_few_sizes(self, x):
    if torch.compiler.is_exporting() or x.shape[0] not in (5, 7, 11) or x.shape[1] % 3:
        return x * 2
    return x * 3


def test_a_failing_draw_is_tried_first_the_next_time(monkeypatch):
    """About one pair of sizes in twenty fails."""
    monkeypatch.delenv("CI", raising=False)
    profile = settings.get_current_profile_name()
    settings.register_profile("remembers", derandomize=False, database=InMemoryExampleDatabase())
    settings.load_profile("remembers")
    model = type("AtFewSizes", (nn.Module,), {"forward": at_few_sizes})
    context = Context(ModelCase(model, (X,), dynamic_shapes=FREE), Settings(()), lambda _: None)
    try:
        found = []
        for examples in (400, 1):
            subject = shapes.subject_of(context, context.contract()[0], GuardLog(), inferred=False)
            looking = search.Search(subject, examples)
            looking._deadline = time.monotonic() + 60
            looking._draw(search.space_of(subject), examples)
            found.append([fault.trial.words for fault in subject.faults.values()])
        assert found[0] == found[1] != []
    finally:
        settings.load_profile(profile)


def two_lines(self, x):
    if torch.compiler.is_exporting():
        return x * 2
    if x.shape[0] >= 5 and x.shape[1] >= 4 and x.min() < -0.001:  # at: first line
        return x * 3
    if x.shape[1] >= 8 and x.abs().max() > 0:  # at: second line
        return x * 4
    return x * 2


def test_all_drawn_faults_shrink(monkeypatch):
    """One that hypothesis comes upon while it shrinks another is not left as it was found."""
    monkeypatch.setenv("CI", "true")  # the same draws each time
    model = type("TwoLines", (nn.Module,), {"forward": two_lines})
    context = Context(ModelCase(model, (X,), dynamic_shapes=FREE), Settings(()), lambda _: None)
    subject = shapes.subject_of(context, context.contract()[0], GuardLog(), inferred=False)
    looking = search.Search(subject, 400)  # which numbers are drawn depends on the modules that other tests imported
    looking._deadline = time.monotonic() + 600
    looking._draw(search.space_of(subject), 400)
    found = {fault.place.line: fault.trial.code for fault in subject.faults.values()}
    assert found == {
        marked(HERE, "first line"): found[marked(HERE, "first line")],
        marked(HERE, "second line"): "model(torch.ones([2, 8]))",
    }
    assert found[marked(HERE, "first line")].startswith(("model(torch.randn([5, 4], ", "model(-torch.randn([5, 4], "))


def test_failing_draws_are_remembered_for_their_case():
    whole = InMemoryExampleDatabase()
    one, other = OfCase(whole, "one"), OfCase(whole, "other")
    one.save(b"key", b"value")
    assert list(one.fetch(b"key")) == [b"value"]
    assert list(other.fetch(b"key")) == []
    one.delete(b"key", b"value")
    assert list(one.fetch(b"key")) == []


def test_draws_are_the_same_each_time_in_ci(monkeypatch):
    profile = settings.get_current_profile_name()
    settings.register_profile("with database", derandomize=False, database=InMemoryExampleDatabase())
    settings.load_profile("with database")
    try:
        monkeypatch.delenv("CI", raising=False)
        assert isinstance(search._memory("case")["database"], OfCase)
        monkeypatch.setenv("CI", "true")
        assert search._memory("case") == {"derandomize": True, "database": None}
    finally:
        settings.load_profile(profile)


def rows_of_four(self, x):
    return x[:4] * 2 if x.shape[0] == 4 else x  # at: rows of four


def test_what_varies_between_any_of_several_calls_is_dynamic_and_each_is_tried():
    more = [(torch.randn(4, 9),), (torch.randn(5, 6),)]
    found = check(sliced, more_inputs=more, examples=0)
    assert (found.outcome, found.reason) == ("passed", "2 calls")
    assert check(sliced, more_inputs=more[:1], examples=0).reason == "1 call"
    found = check(rows_of_four, more_inputs=more, examples=0)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "rows of four")])
    assert "[5, 6] (more_inputs[1])" in found.findings[0].evidence or "constant" in found.findings[0].message


def test_calls_of_another_structure_are_left_out_of_what_is_inferred():
    more = [(torch.randn(4, 9),), (X, X), (torch.randn(4, 6, 2),)]
    found = check(lambda self, x, y=None: x * 2, more_inputs=more, examples=0)
    assert (found.outcome, found.findings) == ("passed", ())


@pytest.mark.parametrize(
    ("more", "words"),
    [(3, "must be a list of calls, not int"), (lambda: 3, "must be a list of calls"), ([3], "more_inputs[0] of case")],
)
def test_more_inputs_of_another_kind_are_refused(more, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        ModelCase(nn.Identity, (X,), more_inputs=more).further_examples()


class OfEqualRows(nn.Module):
    """The eager model never looks at what the program looks at: the rows of the mask, where all of it is true."""

    def forward(self, x, mask):
        if not torch.compiler.is_exporting() and bool(mask.all()):
            return x * 2
        return torch.where(mask[torch.arange(x.shape[0])][:, None], x * 2, x)


def test_sizes_that_were_equal_in_every_call_may_be_refused_where_they_differ():
    calls = [(torch.randn(n, 3), torch.tensor([True] * (n - 1) + [False])) for n in (4, 6)]
    case = ModelCase(OfEqualRows, calls[0], inputs2=calls[1])
    found = shapes.run(Context(case, Settings((), 40), lambda _: None))
    assert (found.outcome, found.findings) == ("passed", ())


class Halved(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        return self.pool(self.conv(x).relu()).flatten(1)


@pytest.mark.parametrize(
    ("asked", "severities"),
    [
        ({"inputs2": (torch.ones(3, 3, 20, 24),)}, {"info"}),
        ({"dynamic_shapes": {"x": {2: Dim.DYNAMIC, 3: Dim.DYNAMIC}}}, {"info"}),
        ({"dynamic_shapes": {"x": {2: Dim.AUTO, 3: Dim.AUTO}}}, {"info"}),
        ({"dynamic_shapes": {"x": {2: Dim.AUTO(max=64), 3: Dim.AUTO(max=64)}}}, {"warning"}),
    ],
    ids=["inferred", "dynamic", "auto", "range"],
)
def test_where_torch_tells_a_part_of_one_apart_is_advice_unless_a_range_was_declared(asked, severities):
    case = ModelCase(Halved, (torch.ones(2, 3, 16, 16),), **asked)
    result = shapes.run(Context(case, Settings((), 12), lambda _: None))
    found = [f for f in result.findings if "// 2) + 1 != 1" in f.message]
    assert {f.severity for f in found} == severities
    assert all("Dim('n', min=" in f.rewrite for f in found)
    assert result.outcome == ("passed" if severities == {"info"} else "failed")


def pairs(self, x):
    if x.shape[0] // 2 == 1:  # at: pairs
        return x * 10
    return x


@pytest.mark.parametrize("asked", [{"dynamic_shapes": FREE}, {"inputs2": (torch.randn(6, 6),)}])
def test_a_part_of_one_that_the_model_itself_tells_apart_is_no_advice_only(asked):
    found = check(pairs, **asked)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "pairs")])


def grouped(self, x):
    groups = x.view(x.shape[0], -1, 24)
    if groups.shape[1] > 3:  # at: grouped
        return groups.sum(1) * 2
    return groups.sum(1)


def other_groups(self, x):
    groups = x.view(x.shape[0], -1, 24)
    if not torch.compiler.is_exporting() and groups.shape[1] > 20:  # at: other groups
        return groups.sum(1) * 2
    return groups.sum(1)


@pytest.mark.parametrize(
    ("forward", "mark", "call"),
    [
        (grouped, "grouped", "model(torch.zeros([2, 96]))"),
        (other_groups, "other groups", "model(torch.ones([2, 504]))"),
    ],
)
def test_a_fault_behind_a_divisibility_that_the_model_wants_is_found_and_shrinks(forward, mark, call):
    found = check(forward, (torch.randn(2, 48),), examples=20, dynamic_shapes=FREE)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, mark)])
    assert f"the smallest failing call: {call}" in found.notes
    assert not any("the eager model refused" in note for note in found.notes)


def windows(self, x):
    return x.unflatten(1, (-1, 4)).transpose(1, 2).reshape(4, -1)  # at: windows


@pytest.mark.parametrize("shape", [(3, 8), (3, 8, 5)], ids=["range", "strides"])
def test_a_size_that_torch_tells_apart_for_its_own_sake_is_advice(shape):
    found = check(windows, (torch.randn(shape),), 20, dynamic_shapes={"x": dict.fromkeys(range(len(shape)), Dim.AUTO)})
    assert (found.outcome, lines(found)) == ("passed", [])
    assert {(f.severity, f.line) for f in found.findings} == {("info", marked(HERE, "windows"))}
    assert "x.shape[0] != 4" in found.findings[0].message


def causal(self, x):
    mask = torch.ones(12, 12, dtype=torch.bool).tril()
    scores = x @ x.transpose(1, 2)
    return scores.masked_fill(~mask[: x.shape[1], : x.shape[1]], -1e9)  # at: causal


@pytest.mark.parametrize("dim", [Dim.DYNAMIC, Dim.AUTO])
def test_the_largest_size_that_a_buffer_has_room_for_is_told_as_refused(dim):
    found = check(causal, (torch.randn(2, 7, 4),), dynamic_shapes={"x": {0: dim, 1: dim}})
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "causal")])
    assert "x of shape [2, 12, 4]" in found.findings[0].evidence
    assert "make the buffer larger" in found.findings[0].rewrite
    assert "Dim('n', max=11)" in found.findings[0].rewrite
    assert [term.granted for term in found.contract] == ["as asked", "from 2 to 11"]


def flat_loss(self, x, y):
    return nn.functional.cross_entropy(x.flatten(0, 1), y.flatten())


def test_equations_that_the_model_wants_between_sizes_are_kept():
    both = {0: Dim.AUTO, 1: Dim.AUTO}
    found = check(flat_loss, (torch.randn(2, 4, 3), torch.ones(2, 4).long()), 20, dynamic_shapes={"x": both, "y": both})
    assert (found.outcome, found.findings) == ("passed", ())
    assert int(found.reason.split()[0]) >= 20
    assert not any("the eager model refused" in note for note in found.notes)


def test_a_second_call_that_takes_long_to_make_is_told_as_such():
    stages, seen = [], []

    def second():
        seen.append(stages[-1])
        return (torch.randn(5, 6),)

    model = type("Model", (nn.Module,), {"forward": lambda _, x: x * 2})
    result = shapes.run(Context(ModelCase(model, (X,), inputs2=second), Settings((), 2), stages.append))
    assert (result.outcome, seen[0]) == ("passed", "inputs2")


class Stream(nn.Module):
    """Keeps the end of the last call; after a batch of none, no other is taken."""

    def __init__(self):
        super().__init__()
        self.past = torch.zeros(1, 6)

    def forward(self, x):
        y = torch.cat([self.past.expand(x.shape[0], -1), x], 1)
        self.past = x[:1].detach()
        return y * 2


class Narrow(Stream):
    def forward(self, x):
        return super().forward(x) * (2 if x.shape[0] > 8 else 1)  # at: narrow


@pytest.mark.parametrize(("model", "outcome"), [(Stream, "passed"), (Narrow, "failed")])
def test_what_an_eager_model_keeps_from_a_call_spoils_no_other(model, outcome):
    case = ModelCase(model, (X,), dynamic_shapes={"x": {0: Dim.DYNAMIC(min=1, max=64)}})
    result = shapes.run(Context(case, Settings((), 12), lambda _: None))
    assert result.outcome == outcome
    assert [n for n in result.notes if "refused" in n and int(re.search(r"refused (\d+)", n)[1]) > 9] == []
    assert lines(result) == [line for line in [marked(HERE, "narrow")] if model is Narrow]
