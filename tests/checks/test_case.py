from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from exportlint import Method, ModelCase, Step, Tolerance, export_case
from exportlint.checks.case import CASES_ATTRIBUTE

X = torch.ones(2, 3)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def encode(self, x):
        return self.linear(x)

    def decode(self, z, scale=1.0):
        return z.sum() * scale

    def forward(self, x):
        return self.decode(self.encode(x))


def test_importing_it_imports_no_torch():
    code = "import sys, exportlint; exportlint.ModelCase(print); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def ranges(value):
    return ModelCase(nn.ReLU, (X,), value_ranges=value)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: ModelCase(3), TypeError, "model must be an nn.Module or a factory of one, not int"),
        (lambda: ModelCase(lambda: nn.ReLU(inplace=True)), ValueError, "a case whose model is a lambda needs a name"),
        (lambda: ModelCase(nn.ReLU, name=" "), ValueError, "name must be a non-empty string"),
        (lambda: ModelCase(nn.ReLU, name="a\nb"), ValueError, "name must be a non-empty string in one line"),
        (
            lambda: ModelCase(nn.ReLU, (X,), inputs2=3),
            TypeError,
            "inputs2 of case 'ReLU' must be a call, as a tuple, or",
        ),
        (
            lambda: ModelCase(nn.ReLU, (X,), more_inputs=(1, 2)),
            TypeError,
            "more_inputs[0] of case 'ReLU' must be a call, as a tuple, not int",
        ),
        (lambda: ModelCase(Two, methods={"": (X,)}), ValueError, "methods of case 'Two': '' is no name of a method"),
        (lambda: ModelCase(Two, methods={3: (X,)}), ValueError, "methods of case 'Two': 3 is no name of a method"),
        (
            lambda: ModelCase(Two, methods={"encode": 3}),
            TypeError,
            "'encode' must have a Method, or a tuple of arguments, not int",
        ),
        (lambda: Method(3), TypeError, "args of a Method must be a tuple or a function, not int"),
        (lambda: Method(X), TypeError, "args of a Method must be a tuple or a function, not Tensor; for one argument"),
        (lambda: Method((X,), 3), TypeError, "kwargs of a Method must be a mapping or a function, not int"),
        (lambda: Method((X,), inputs2=3), TypeError, "inputs2 of a Method must be a call"),
        (lambda: Step(print, 3), TypeError, "method of a Step must be the name of a method, not int"),
        (lambda: Tolerance(rtol=10**400), ValueError, "a tolerance needs finite rtol and atol"),
        (lambda: ModelCase(nn.ReLU, name=7), ValueError, "name must be a non-empty string"),
        (lambda: ModelCase(nn.ReLU, 7), TypeError, "args of case 'ReLU' must be a tuple or a function, not int"),
        (lambda: ModelCase(nn.ReLU, X), TypeError, "a function, not Tensor; for one argument write (x,)"),
        (lambda: export_case(nn.ReLU), TypeError, "@export_case needs the example call in parentheses"),
        (
            lambda: export_case((X,), dynamic_shape={}),
            TypeError,
            "takes no 'dynamic_shape'; did you mean 'dynamic_shapes'",
        ),
        (lambda: export_case(inputs=(X,)), TypeError, "takes no 'inputs'; did you mean 'args'"),
        (
            lambda: export_case((X,), nonsense=1),
            TypeError,
            "takes no 'nonsense'; it takes: args, kwargs, name, dynamic_sh",
        ),
        (lambda: export_case((X,), whole=1), TypeError, "a model case takes no 'whole'"),
        (lambda: ModelCase(nn.ReLU, (X,), [1]), TypeError, "kwargs of case 'ReLU' must be a mapping or a function"),
        (lambda: ModelCase(nn.ReLU, (X,), methods=["a"]), TypeError, "methods of case 'ReLU' must be a mapping"),
        (lambda: ModelCase(nn.ReLU, (X,), value_ranges=3), TypeError, "value_ranges of case 'ReLU' must be a mapping"),
        (lambda: ModelCase(nn.ReLU, (X,), expected_failures=("capture",)), TypeError, "expected_failures of case"),
        (lambda: ModelCase(nn.ReLU, (X,), expected_failures={"capture": ""}), ValueError, "needs a reason"),
        (lambda: ModelCase(nn.ReLU, (X,), tolerance=1e-3), TypeError, "tolerance of case 'ReLU' must be a Tolerance"),
        (lambda: ModelCase(nn.ReLU, (X,), dynamic_shapes="x"), TypeError, "dynamic_shapes of case 'ReLU' must be a"),
        (lambda: Method((X,), dynamic_shapes=7), TypeError, "dynamic_shapes of a Method must be a mapping"),
        (lambda: ranges({"x": 3}), TypeError, "value_ranges['x'] of case 'ReLU' must be a pair of integers, not int"),
        (lambda: ranges({"x": (1,)}), TypeError, "must be a pair of integers, not (1,)"),
        (lambda: ranges({"x": (0, 1.5)}), TypeError, "must be a pair of integers, not (0, 1.5)"),
        (lambda: ranges({"x": (False, True)}), TypeError, "must be a pair of integers, not (False, True)"),
        (
            lambda: ranges({0: (0, 1)}),
            TypeError,
            "value_ranges[0] of case 'ReLU' must be under the name",
        ),
        (lambda: ranges({"x": (5, 3)}), ValueError, "value_ranges['x'] of case 'ReLU' is empty: 5 is larger than 3"),
        (lambda: Tolerance(rtol="a"), TypeError, "rtol must be a number, not str"),
        (lambda: Tolerance(atol=None), TypeError, "atol must be a number, not NoneType"),
        (lambda: Tolerance(rtol=-1), ValueError, "at least 0, not -1 and 0.0"),
        (lambda: Tolerance(atol=float("nan")), ValueError, "at least 0"),
        (lambda: export_case(7)(nn.ReLU), TypeError, "args of case 'ReLU'"),
    ],
)
def test_what_is_refused(build, error, words):
    with pytest.raises(error) as caught:
        build()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_torch_and_numpy_take_is_taken():
    collection = torch.export.ShapesCollection()
    for shapes in ({"input": {0: None}}, ({0: None},), [{0: None}], collection, torch.export.AdditionalInputs()):
        assert ModelCase(nn.ReLU, (X,), dynamic_shapes=shapes).dynamic_shapes is shapes
    bounds = np.asarray([0, 3])
    assert ranges({"input": tuple(bounds)}).value_ranges["input"] == (0, 3)
    assert ranges({"input": [2, 2]}).value_ranges["input"] == [2, 2]
    assert Tolerance(np.float32(0.5), 1).atol == 1


def test_names():
    assert ModelCase(Two, (X,)).name == "Two"
    assert ModelCase(Two(), (X,)).name == "Two"
    assert ModelCase(lambda: Two().eval(), (X,), name="mine").name == "mine"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((X,), {}),
        ([X], {}),
        (lambda: (X,), {}),
        (lambda: X, {}),
        ((), {"x": X}),
        (lambda: {"x": X}, dict),
        ((), lambda: {"x": X}),
    ],
)
def test_forms_of_the_example_call(args, kwargs):
    positional, named = ModelCase(Two, args, kwargs).example()
    assert isinstance(positional, tuple)
    assert isinstance(named, dict)
    (value,) = (*positional, *named.values())
    assert value is X


def test_what_the_functions_of_a_case_may_not_return():
    with pytest.raises(TypeError, match="args of case 'Two' must be a tuple of positional arguments, not int"):
        ModelCase(Two, lambda: 7).example()
    with pytest.raises(TypeError, match="must be a mapping, not list"):
        ModelCase(Two, (X,), lambda: [7]).example()
    with pytest.raises(TypeError, match="inputs2 of case 'Two' must be a tuple of positional arguments, not int"):
        ModelCase(Two, (X,), inputs2=lambda: 7).further_examples()


Y = torch.ones(5, 3)


@pytest.mark.parametrize(
    ("inputs2", "expected"),
    [
        (None, None),
        ((Y,), ((Y,), {"scale": 2})),
        (lambda: Y, ((Y,), {"scale": 2})),
        (((Y,), {"scale": 3}), ((Y,), {"scale": 3})),
        (lambda: ((Y,), {}), ((Y,), {})),
        ({"x": Y}, ((), {"x": Y})),
        ((Y, {"a": Y}), ((Y, {"a": Y}), {"scale": 2})),  # a dict that is itself an argument
    ],
)
def test_forms_of_the_second_call(inputs2, expected):
    second = next(iter(ModelCase(Two, (X,), {"scale": 2}, inputs2=inputs2).further_examples()), None)
    assert (second is None) == (expected is None)
    if expected is not None:
        assert second[1].keys() == expected[1].keys()
        assert all(a is b for a, b in zip(second[0], expected[0], strict=True) if isinstance(a, torch.Tensor))


def test_methods_become_cases():
    case = ModelCase(
        Two,
        (X,),
        name="two",
        methods={"encode": Method((X,), dynamic_shapes=({0: None},)), "decode": (torch.ones(2, 4), 3.0)},
        expected_failures={"capture": "known"},
        tolerance=Tolerance(1e-3),
    )
    encode, decode = case.expand()
    assert [encode.name, decode.name] == ["two.encode", "two.decode"]
    assert encode.dynamic_shapes == ({0: None},)
    assert decode.dynamic_shapes is None
    assert encode.expected_failures == {"capture": "known"}
    assert decode.tolerance == Tolerance(1e-3)
    assert encode.model()(X).shape == (2, 4)
    assert float(decode.model()(*decode.example()[0])) == 24.0
    assert case.methods.keys() == {"encode", "decode"}


def test_a_method_that_is_not_there():
    (case,) = ModelCase(Two, name="two", methods={"encoder": (X,)}).expand()
    with pytest.raises(AttributeError, match="Two has no method 'encoder'; did you mean 'encode'"):
        case.model()


def test_a_method_of_a_given_model_leaves_the_model_as_it_is():
    model = Two()
    (case,) = ModelCase(model, methods={"encode": (X,)}).expand()
    assert case.model()(X).shape == (2, 4)
    assert case.model() is not case.model()
    assert model(X).shape == ()


def test_decorated_factories_stay_what_they_are():
    @export_case((X,), name="a")
    @export_case((Y,), name="b")
    def build():
        return Two()

    assert isinstance(build(), Two)
    assert [case.name for case in getattr(build, CASES_ATTRIBUTE)] == ["b", "a"]

    @export_case((X,))
    class Base(nn.ReLU):
        pass

    class Derived(Base):
        pass

    assert [case.name for case in vars(Base)[CASES_ATTRIBUTE]] == ["Base"]
    assert CASES_ATTRIBUTE not in vars(Derived)


def test_further_calls_are_made_once_and_each_check_has_copies_of_its_own():
    from exportlint.checks.context import Context, Settings

    made: list[int] = []

    def second():
        made.append(1)
        return (torch.ones(3, 2),)

    ctx = Context(ModelCase(torch.nn.Linear(2, 2), (torch.ones(1, 2),), inputs2=second), Settings(()), lambda _: None)
    ((first, _),), ((again, _),) = ctx.further_examples(), ctx.further_examples()
    assert made == [1]
    first[0].zero_()
    assert torch.equal(again[0], torch.ones(3, 2))
    assert torch.equal(ctx.second_example()[0][0], torch.ones(3, 2))
