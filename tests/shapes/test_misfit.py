from __future__ import annotations

import collections
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim, ShapesCollection, export

from exportlint import Method, ModelCase
from exportlint.checks.runner import Options, Runner
from exportlint.shapes.misfit import misfit

X = torch.ones(2, 3)
N = Dim("n")
NESTED = {"a": [torch.ones(2, 3)]}


class One(nn.Module):
    def forward(self, x):
        return x + 1


class Two(One):
    def double(self, x):
        return x * 2


class Some(nn.Module):
    def forward(self, x, n=2, d=None):
        return x + n if d is None else x + n + d["a"][0]


class Variadic(nn.Module):
    def forward(self, *args):
        return args[0] + 1


@pytest.mark.parametrize(
    ("model", "inputs", "shapes", "words"),
    [
        (One, ((X,), {}), {"x": {7: N}}, "names dimension 7 of x, which has 2"),
        (One, ((X,), {}), {"x": {-3: N}}, "names dimension -3 of x, which has 2"),
        (One, ((X,), {}), {"x": {"0": N}}, "names dimension '0' of x, which has 2"),
        (One, ((X,), {}), {"x": (N,)}, "gives 1 dimensions for x, which has 2"),
        (One, ((X,), {}), {"x": (N, None, None)}, "gives 3 dimensions for x, which has 2"),
        (One, ((X,), {}), {"x": (None, None, N)}, "gives 3 dimensions for x, which has 2"),
        (One, ((X,), {}), {"x": "s"}, "gives 's' for x: a mapping"),
        (One, ((X,), {}), {"x": {0: "s"}}, "gives 's' for dimension 0 of x"),
        (One, ((X,), {}), {"zz": {0: N}}, "names 'zz', which is no input of the example call; there are: x"),
        (One, ((X,), {}), {"x": {0: N}, "zz": None}, "names 'zz'"),
        (One, ((X,), {}), ({0: N}, {0: N}), "has 2 entries, and the inputs are: x"),
        (Some, ((X, 3), {}), {"x": {0: N}}, "leaves out n"),
        (Some, ((X, 3), {}), {"x": {0: N}, "n": {0: N}}, "names dimensions of n, which is no tensor"),
        (Some, ((X, 3), {"d": NESTED}), {"x": None, "n": None, "d": {"b": [{0: N}]}}, "names d['b'], which is no"),
        (Some, ((X, 3), {"d": NESTED}), ({}, None, {"a": [{2: N}]}), "names dimension 2 of d['a'][0], which has 2"),
        (Variadic, ((X, X), {}), {"args": ({2: N}, {})}, "names dimension 2 of args[0], which has 2"),
        (
            Some,
            ((X, 3), {}),
            {"x": None, "n": N},
            "gives a Dim for n, a number: Dim.AUTO or Dim.DYNAMIC lets it vary",
        ),
        (Some, ((X, 3), {}), {"x": None, "n": 2 * N}, "gives a Dim for n"),
        (Some, ((X, 3), {}), {"x": None, "n": 3}, "gives 3 for n, a number: "),
        (Some, ((X, 3), {}), {"x": None, "n": {}}, "gives {} for n, a number: "),
        (Some, ((X, 2.5), {}), {"x": None, "n": Dim.AUTO}, "gives DimHint(AUTO) for n, which is a float: "),
        (Some, ((X, True), {}), {"x": None, "n": Dim.AUTO}, "gives DimHint(AUTO) for n, which is a bool: "),
        (Some, ((X, "s"), {}), {"x": None, "n": Dim.STATIC}, "gives DimHint(STATIC) for n, which is a str: "),
        (Some, ((X, None), {}), {"x": None, "n": N}, "gives Dim('n', min=0) for n, which is None: "),
        (Some, ((X, 3, NESTED), {}), {"x": None, "n": None, "d": None}, "gives None for d, which is a dict: the same"),
        (Some, ((X, 3, NESTED), {}), {"x": None, "n": None, "d": [None]}, "gives [None] for d, which is a dict: the"),
        (Some, ((X, 3, NESTED), {}), {"x": None, "n": None, "d": {}}, "leaves out d['a']: the same nesting is"),
        (Some, ((X, 3, NESTED), {}), {"x": None, "n": None, "d": {"a": {0: N}}}, "gives {0: "),
        (Some, ((X, 3, NESTED), {}), {"x": None, "n": None, "d": {"a": []}}, "gives 0 entries for d['a'], which has 1"),
        (One, ((X,), {}), {"x": {0: Dim("n", min=5)}}, "wants dimension 0 of x from 5, and it has 2"),
        (One, ((X,), {}), {"x": (None, Dim("n", max=2))}, "wants dimension 1 of x from 1 to 2, and it has 3"),
        (One, ((X,), {}), {"x": {-1: 2 * N}}, "wants dimension -1 of x to be 2*n, and it has 3"),
        (One, ((X,), {}), {"x": {0: 7}}, "wants dimension 0 of x to be 7, and it has 2"),
        (One, ((X,), {}), {"x": {0: N - 1}}, "gives n - 1 for dimension 0 of x, which may be below 0: n needs min=1"),
        (
            One,
            ((X,), {}),
            {"x": {1: 2 * N - 3}},
            "gives 2*n - 3 for dimension 1 of x, which may be below 0: n needs min=2",
        ),
    ],
)
def test_what_torch_refuses_is_told_in_the_words_of_the_case(model, inputs, shapes, words):
    with pytest.raises(Exception, match=r"."):
        export(model(), *inputs, dynamic_shapes=shapes)
    assert misfit(model(), inputs, shapes).startswith(words)


@pytest.mark.parametrize(
    ("model", "inputs", "shapes"),
    [
        (One, ((X,), {}), {"x": {-1: N}}),
        (One, ((X,), {}), {"x": {0: None, 5: None}}),
        (One, ((X,), {}), {"x": {0: Dim("n", min=1) - 1}}),
        (One, ((X,), {}), {"x": (N, Dim.AUTO)}),
        (One, ((X,), {}), {"x": {0: 2, 1: Dim.STATIC}}),
        (One, ((X,), {}), [{0: N}]),
        (One, ((X,), {}), ()),
        (One, ((X,), {}), {}),
        (Some, ((X, 3), {}), {"x": {0: N}, "n": Dim.DYNAMIC}),
        (Some, ((X, 3), {}), {"x": None, "n": Dim.AUTO(min=7)}),
        (Some, ((X, True), {}), {"x": None, "n": Dim.STATIC}),
        (One, ((torch.ones(4, 7),), {}), {"x": {0: Dim.AUTO(min=5), 1: 2 * N + 1}}),
        (One, ((torch.ones(4, 9),), {}), {"x": {0: Dim("m", max=4), 1: 3 * Dim("n", min=0)}}),
        (Some, ((X, 3), {"d": NESTED}), {"x": {0: N}, "n": None, "d": {"a": [{0: N}]}}),
        (Variadic, ((X, X), {}), {"args": ({0: N}, None)}),
    ],
)
def test_what_torch_takes_is_no_misfit(model, inputs, shapes):
    export(model(), *inputs, dynamic_shapes=shapes)
    assert misfit(model(), inputs, shapes) is None


ONE = "def forward(self, x):"


@pytest.mark.parametrize(
    ("model", "shapes", "message", "source"),
    [
        (One, {"x": {7: N}}, "dynamic_shapes of case 'c' names dimension 7 of x, which has 2", ONE),
        (One, {"zz": {0: N}}, "dynamic_shapes of case 'c' names 'zz', which is no input", ONE),
        (Variadic, {"x": {0: N}}, "dynamic_shapes cannot be matched", "def forward(self, *args):"),
    ],
)
def test_a_misfit_is_placed_where_forward_begins_and_only_one_without_names_is_blamed(model, shapes, message, source):
    with Runner(Options(checks=("capture", "shapes"))) as runner:
        capture, shapes_ = runner.check_object(ModelCase(model, (X,), name="c", dynamic_shapes=shapes), "t").checks
    assert (capture.outcome, shapes_.outcome) == ("failed", "not_checked")
    (finding,) = capture.findings
    assert (finding.rule, finding.source) == ("EXP603", source)
    assert finding.message.startswith(message)


def collected(tensor):
    collection = ShapesCollection()
    collection[tensor] = {0: N}
    return collection


@pytest.mark.parametrize("weights", ["real", "fake"])
def test_a_collection_knows_the_tensors_of_the_case(weights):
    case = ModelCase(One, (X,), name="c", dynamic_shapes=collected(X), weights=weights)
    with Runner(Options(checks=("capture", "shapes", "lint"))) as runner:
        checks = runner.check_object(case, "t").checks
    assert {check.name: check.outcome for check in checks if check.name != "lint"} == {
        "capture": "passed",
        "shapes": "passed",
    }
    assert not any(check.findings for check in checks)


def test_a_collection_of_a_method():
    methods = {"forward": Method((X,), dynamic_shapes=collected(X)), "double": (X,)}
    case, _ = ModelCase(Two, name="c", methods=methods).expand()
    with Runner(Options(checks=("capture", "methods"))) as runner:
        checks = runner.check_object(case, "t").checks
    assert [(check.name, check.outcome) for check in checks] == [("capture", "passed"), ("methods", "passed")]


def test_a_collection_of_other_tensors_is_the_fault_of_the_case():
    case = ModelCase(One, (X,), name="c", dynamic_shapes=collected(torch.ones(2, 3)))
    with Runner(Options(checks=("capture", "lint"))) as runner:
        capture, lint = runner.check_object(case, "t").checks
    assert (capture.outcome, lint.outcome) == ("errored", "not_checked")
    assert capture.reason.startswith("the dynamic_shapes do not fit the example inputs: ")
    assert "that the case itself gives" in capture.findings[0].rewrite
    assert "were not found in args" in capture.reason
    assert [(f.rule, f.source) for f in capture.findings] == [("EXP002", None)]


Point = collections.namedtuple("Point", ["a", "b"])


@dataclass
class Parts:
    a: torch.Tensor
    missing: torch.Tensor | None
    b: torch.Tensor


torch.export.register_dataclass(Parts, serialized_type_name="exportlint_tests.MisfitParts")


class Sum(nn.Module):
    def forward(self, p):
        a, *_, b = p if isinstance(p, (tuple, deque)) else (p.a, p.b)
        return a + b


class Either(nn.Module):
    def forward(self, x, mask=None):
        return x if mask is None else x + mask


class Apart(nn.Module):
    def forward(self, x, y):
        return x.sum() + y.sum()


B = {0: Dim("b", max=64)}
PARTS, POINT = Parts(X, None, X.clone()), Point(X, X)
B_TEXT = "{0: Dim('b', max=64)}"
LIST = "a Parts, which torch takes for a list of 2: a, b (missing is None, and has no entry)"


@pytest.mark.parametrize(
    ("model", "args", "shapes", "words", "code"),
    [
        (Sum, (PARTS,), {"p": [B, None, B]}, f"gives 3 entries for p, {LIST}", f"{{'p': [{B_TEXT}, {B_TEXT}]}}"),
        (Sum, (PARTS,), {"p": Parts(B, None, B)}, LIST, f"{{'p': [{B_TEXT}, {B_TEXT}]}}"),
        (Sum, (PARTS,), {"p": {"a": B, "b": B}}, LIST, f"{{'p': [{B_TEXT}, {B_TEXT}]}}"),
        (Sum, (POINT,), {"p": (B, B)}, "for p: a Point of them is needed", f"{{'p': Point(a={B_TEXT}, b={B_TEXT})}}"),
        (Sum, (deque([X, X]),), {"p": [B, B]}, "for p: a deque of 2 entries", f"{{'p': deque([{B_TEXT}, {B_TEXT}])}}"),
        (Either, (X, None), {"x": B}, "leaves out mask", f"{{'x': {B_TEXT}, 'mask': None}}"),
        (Either, (X, None), {"x": B, "mask": B}, "names dimensions of mask", f"{{'x': {B_TEXT}, 'mask': None}}"),
        (Either, (X,), {"x": B, "mask": None}, "names 'mask', which is no input", f"{{'x': {B_TEXT}}}"),
        (
            Apart,
            (X, torch.ones(5, 2)),
            {"x": B, "y": B},
            "lets x.shape[0] and y.shape[0] follow one b, and they are 2 and 5",
            f"{{'x': {B_TEXT}, 'y': {{0: Dim.DYNAMIC(max=64)}}}}",
        ),
        (
            Apart,
            (X, torch.ones(5, 2)),
            {"x": {0: Dim("b")}, "y": {0: 2 * Dim("b"), 1: Dim("n", max=9)}},
            "wants dimension 0 of y to be 2*b, and it has 5",
            "{'x': {0: Dim('b')}, 'y': {1: Dim('n', max=9)}}",
        ),
    ],
)
def test_a_misfit_is_the_fault_of_the_case_and_is_told_what_fits(model, args, shapes, words, code):
    with Runner(Options(checks=("capture",))) as runner:
        (capture,) = runner.check_object(ModelCase(model, args, name="c", dynamic_shapes=shapes), "t").checks
    (finding,) = capture.findings
    assert (finding.rule, Path(finding.file).name) == ("EXP603", Path(__file__).name)
    assert finding.source.startswith("def forward(")
    assert finding.line is not None
    assert words in finding.message
    note = next(note for note in capture.notes if note.startswith("dynamic_shapes that export (from torch.export"))
    assert note.endswith(f": {code}")
