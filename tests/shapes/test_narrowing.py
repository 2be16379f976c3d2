from __future__ import annotations

import re
from pathlib import Path

import pytest
import sympy
import torch
from commands import marked
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import FloorDiv, Max, Mod

from exportlint.findings import Finding
from exportlint.places import Place
from exportlint.shapes import advice, narrowing
from exportlint.shapes.contract import declared
from exportlint.shapes.kinds import kind_of
from exportlint.torch_hooks.guards import Guard, GuardLog

HERE = Path(__file__)
A, B = sympy.symbols("s0 s1", integer=True, positive=True)


def guard(expression):
    return Guard(expression, False, Place(str(HERE), 1), {"s0": "L['x'].size()[0]", "s1": "L['x'].size()[1]"})


@pytest.mark.parametrize(
    ("expression", "kind", "words"),
    [
        (sympy.Eq(A, 4), "pinned", "this line pins a dynamic size to a constant: x.shape[0] == 4"),
        (sympy.Eq(2 * A, 8, evaluate=False), "pinned", "this line pins a dynamic size to a constant"),
        (A <= 8, "bounded", "this line bounds a dynamic size: x.shape[0] <= 8"),
        (sympy.Eq(A, B), "equal", "this line makes two sizes equal: x.shape[0] == x.shape[1]"),
        (sympy.Eq(A * B, 12), "bound", "this line binds dynamic sizes"),
        (sympy.Eq(A, 2 * B), "bound", "this line binds dynamic sizes"),
        (A < B, "bound", "this line binds dynamic sizes: x.shape[0] < x.shape[1]"),
        (sympy.Eq(sympy.Mod(A, 4), 0), "divisible", "this line binds dynamic sizes"),
        (sympy.Eq(FloorDiv(A + 3, 4), 2), "counted", "this line fixes the number of parts of a dynamic size"),
        (sympy.Eq(A, 3 * FloorDiv(A, 3)), "divisible", "this line binds dynamic sizes: x.shape[0] is divisible by 3"),
        (sympy.Eq(Mod(A * B, 12), 0), "divisible", "this line binds dynamic sizes: x.shape[0]*x.shape[1] is divisible"),
        (sympy.Eq(Max(1, FloorDiv(A, 3)), FloorDiv(A, 3)), "bounded", "this line bounds a dynamic size"),
        (sympy.Ne(FloorDiv(A, 2), 1), "apart", "this line tells one size apart"),
        (sympy.Ne(A, 4), "unequal", ""),
        (sympy.Ne(Mod(A, 7), 0), "unequal", "this line tells one size apart: x.shape[0] % 7 != 0"),
        (sympy.Ne(3 * A * FloorDiv(B, 16), 0), "apart", ""),
    ],
)
def test_kinds_of_guards(expression, kind, words):
    assert kind_of(guard(expression)) == kind
    if words:
        assert narrowing.say(guard(expression)).startswith(words)


class Pinning(nn.Module):
    def forward(self, x):
        return x + torch.arange(int(x.shape[1]))  # at: pin


class Equal(nn.Module):
    def forward(self, x):
        return x + x.T  # at: equal


class Divided(nn.Module):
    def forward(self, x):
        return x.view(x.shape[0], -1, 4).sum(-1)  # at: divide


class Bounded(nn.Module):
    def forward(self, x):
        if x.shape[1] > 6:  # at: bound
            return x[:, :6]
        return x


class Several(nn.Module):
    def forward(self, x):
        x = x + torch.ones(4, 1)  # at: rows
        return x.view(-1, int(x.shape[1]))  # at: columns


B4 = torch.ones(4, 4)


@pytest.mark.parametrize(
    ("model", "example", "marks"),
    [
        (Pinning, B4, {"pin"}),
        (Equal, B4, {"equal"}),
        (Divided, torch.ones(3, 8), {"divide"}),
        (Bounded, B4, {"bound"}),
        (Several, B4, {"rows", "columns"}),
    ],
)
def test_an_export_that_is_refused_is_blamed_on_the_lines_that_narrow(model, example, marks):
    with GuardLog() as log, pytest.raises(Exception) as caught:  # noqa: PT011
        torch.export.export(model(), (example,), dynamic_shapes={"x": {0: Dim("a"), 1: Dim("b")}}, strict=False)
    findings = narrowing.of_refusal(log.guards, caught.value, "breaks")
    assert {f.line for f in findings} == {marked(HERE, mark) for mark in marks}
    assert {(f.rule, f.severity) for f in findings} == {("EXP301", "error")}
    assert all(f.evidence and "\n" not in f.evidence for f in findings)


@pytest.mark.parametrize(
    ("model", "example", "change"),
    [
        (Pinning, B4, "constant"),
        (Equal, B4, "equal"),
        (Divided, torch.ones(3, 8), "divisible"),
        (Bounded, B4, "range"),
        (Several, B4, "constant"),
    ],
)
def test_what_to_change_follows_from_what_is_refused(model, example, change):
    with GuardLog() as log, pytest.raises(Exception) as caught:  # noqa: PT011
        torch.export.export(model(), (example,), dynamic_shapes={"x": {0: Dim("a"), 1: Dim("b")}}, strict=False)
    findings = narrowing.of_refusal(log.guards, caught.value, "breaks")
    assert {f.rewrite for f in findings} == {advice.CHANGES[change]}
    assert not any(re.search(r"\bs\d+\b", f"{f.message} {f.evidence}") for f in findings)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (sympy.Eq(A, 2 * B), "Declare the relation, as in 2 * Dim('n')"),
        (sympy.Eq(Mod(A, 6), 0), "Pad to a multiple with tensor operators, or declare a multiple, as in 6 * Dim('n')."),
        (sympy.Eq(A * B, 36 * FloorDiv(A, 6) * FloorDiv(B, 6)), "declare a multiple, as in 6 * Dim('n')."),
        (sympy.Ne(Mod(A, 7), 0), "Replace the condition on the sizes"),
        (sympy.Eq(Mod(A, 6), 5), "declare a multiple, as in 6 * Dim('n') + 5."),
        (sympy.Eq(sympy.Symbol("u0", integer=True), A), "torch._check"),
        (sympy.Eq(A * B, 12), "Replace the condition on the sizes"),
    ],
)
def test_what_to_change_names_the_number(expression, words):
    assert words in advice.of_guard(guard(expression))


class Both(nn.Module):
    def forward(self, x):
        return x + torch.ones(int(x.shape[0]), int(x.shape[1]))  # at: both


class Twice(nn.Module):
    def forward(self, x, y):
        return torch.cat([x, x]) + y  # at: twice


class Pooled(nn.Module):
    def forward(self, x):
        return nn.functional.avg_pool1d(x, 2)  # at: pooled


class Pins(nn.Module):
    def forward(self, x, y):
        x = x + torch.ones(int(x.shape[0]), 1)  # at: pins x
        return x.sum() + y[: int(y.shape[0])]  # at: pins y


class Free(nn.Module):
    def forward(self, x):
        return x * 2


def refused(model, args, shapes):
    with GuardLog() as log, pytest.raises(Exception) as caught:  # noqa: PT011
        torch.export.export(model(), args, dynamic_shapes=shapes, strict=False)
    contract, head = declared(model(), (args, {}), shapes), Place(str(HERE), 1)
    return narrowing.of_refusal(log.guards, caught.value, "breaks", contract=contract, head=head)


@pytest.mark.parametrize(
    ("model", "args", "shapes", "marks", "words"),
    [
        (Twice, (B4, torch.ones(8, 4)), {"x": {0: Dim("a")}, "y": {0: Dim("b")}}, ["twice"], "by b = 2*a"),
        (Pooled, (torch.ones(2, 3, 8),), {"x": {2: Dim("t")}}, ["pooled"], "(x.shape[2] // 2) != 1"),
        (
            Pins,
            (B4, torch.ones(5)),
            {"x": {0: Dim("a")}, "y": {0: Dim("b")}},
            ["pins x", "pins y"],
            "You marked a as dynamic but your code specialized it to be a constant (4).",
        ),
        (
            Free,
            (torch.ones(1, 4),),
            {"x": {0: Dim.DYNAMIC}},
            [],
            "export 0/1 specialized due to hint of 1 for dimension x",
        ),
        (Free, (torch.ones(1, 4),), {"x": {0: Dim("b")}}, [], "You marked b as dynamic"),
    ],
)
def test_each_violation_is_at_its_line_or_at_the_head(model, args, shapes, marks, words):
    findings = refused(model, args, shapes)
    assert [f.line for f in findings] == ([marked(HERE, mark) for mark in marks] or [1])
    assert words in findings[0].evidence
    assert not any("mark_dynamic" in f.evidence or "L[" in f.evidence for f in findings)
    assert len({f.evidence for f in findings}) == len(findings)
    if not marks:
        assert (findings[0].message, findings[0].rewrite[:6]) == (f"{narrowing.SMALL}: x.shape[0]", "Export")


class Fused(nn.Module):
    def __init__(self, condition):
        super().__init__()
        self.condition = condition

    def forward(self, x, y):
        h = x + y
        return h * 2 if self.condition(h.shape[0]) else h  # at: decides


@pytest.mark.parametrize(
    "condition",
    [
        lambda n: n % 3 == 0,
        lambda n: n % 3 == 1,
        lambda n: n % 3 < 2,
        lambda n: n // 2 > 3,
        lambda n: n == 9,
        lambda n: n == 7,
        lambda n: int(n**0.5) == 2,
    ],
)
def test_lines_that_make_equal_what_is_declared_equal_are_innocent(condition):
    shapes = {"x": {0: Dim("b", max=24)}, "y": {0: Dim("b", max=24)}}
    (found,) = refused(lambda: Fused(condition), (torch.ones(7), torch.ones(7)), shapes)
    assert found.line in (marked(HERE, "decides"), condition.__code__.co_firstlineno)


def test_all_guards_of_one_size_are_quoted():
    class Guards(nn.Module):
        def forward(self, x):
            return (x[:8] if x.shape[0] % 3 == 0 else x) * 2

    (found,) = refused(Guards, (torch.ones(6, 4),), {"x": {0: Dim("b")}})
    assert "satisfy the generated guards (x.shape[0] % 3) == 0; " in found.evidence
    assert "x.shape[0] <= 7" in found.evidence


def test_all_dimensions_that_one_line_narrows_are_named():
    with GuardLog() as log, pytest.raises(Exception) as caught:  # noqa: PT011
        torch.export.export(Both(), (torch.ones(4, 5),), dynamic_shapes={"x": {0: Dim("a"), 1: Dim("b")}}, strict=False)
    (found,) = narrowing.of_refusal(log.guards, caught.value, "breaks")
    assert found.line == marked(HERE, "both")
    pins = "this line pins a dynamic size to a constant: "
    assert found.message == f"{pins}x.shape[0] == 4; {pins}x.shape[1] == 5"


def test_what_many_findings_of_one_line_say_is_cut():
    made = (Finding(rule="EXP301", severity="warning", message=f"dimension {i}", line=3) for i in range(9))
    found = [(finding, frozenset({finding.message})) for finding in made]
    (one,) = narrowing.joined(found)
    assert one.message == "dimension 0; dimension 1; dimension 2; dimension 3; and 5 more"
    assert len(narrowing.joined([(f, frozenset({"x"})) for f, _ in found])[0].message.split("; ")) == 1


def test_an_error_of_another_kind_is_not_about_narrowing():
    assert narrowing.of_refusal([guard(sympy.Eq(A, 4))], ValueError("something else"), "breaks") == ()


def test_a_size_that_follows_one_that_is_pinned_is_pinned_there():
    class Pooled(nn.Module):
        def forward(self, x, y):
            n = len(y)  # at: len
            return x.view(2, n, -1).mean(0) + y  # at: view

    rows = Dim("rows", min=2, max=10)
    args, shapes = (torch.ones(8, 3), torch.ones(4, 3)), ({0: 2 * rows}, {0: rows})
    with GuardLog() as log, pytest.raises(Exception) as caught:  # noqa: PT011
        torch.export.export(Pooled(), args, dynamic_shapes=shapes, strict=False)
    guards = [g for g in log.guards if g.place.line in (marked(HERE, "len"), marked(HERE, "view"))]  # else torch's own
    assert len({g.place for g in guards}) == 2
    contract = declared(Pooled(), (args, {}), shapes)
    (found,) = narrowing.of_refusal(guards, caught.value, "breaks", contract=contract)
    assert found.line == marked(HERE, "len")
    assert "marked rows as dynamic" in found.evidence
    assert "marked 2*rows as dynamic" in found.evidence


def test_what_holds_for_every_size_is_not_to_be_padded():
    class Padded(nn.Module):
        def forward(self, x):
            x = nn.functional.pad(x, (0, 0, 0, -x.shape[1] % 4))
            return x.view(x.shape[0], x.shape[1] // 4, 4, x.shape[2]).mean(2)

    example = (torch.ones(2, 8, 3),)
    (found,) = refused(Padded, example, {"x": {1: Dim("n", max=64)}})
    assert found.message.startswith(f"this line {narrowing.UNSEEN}")
    assert found.rewrite == advice.CHANGES["always"]
    torch.export.export(Padded(), example, dynamic_shapes={"x": {1: Dim.DYNAMIC(max=64)}})  # as it says
