"""Model cases: what to check, written down by the owner of the model.

Importing this module imports no torch, so that a model file may import it at no cost.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from exportlint.checks import variants
from exportlint.findings import CHECKS, VARIANTS

__tracebackhide__ = True  # what is wrong with a case is told at the line that makes it, in pytest
Inputs = tuple[tuple[Any, ...], dict[str, Any]]
F = TypeVar("F")


WEIGHTS = ("real", "fake")


class NoExampleError(Exception):
    """Nobody wrote an example call, and none could be made; the message says what was tried and what to do."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a floating-point result may lie from the eager one: ``|a - b| <= atol + rtol * |b|``.

    Raises:
        TypeError: When a bound is no number.
        ValueError: When a bound is negative, infinite or not a number.
    """

    rtol: float = 0.0
    atol: float = 0.0

    def __post_init__(self) -> None:
        for key in ("rtol", "atol"):
            if not _is_number(getattr(self, key), numbers.Real):
                raise TypeError(f"{key} must be a number, not {type(getattr(self, key)).__name__}")
        if not all(bound >= 0 and _is_finite(bound) for bound in (self.rtol, self.atol)):
            raise ValueError(f"a tolerance needs finite rtol and atol of at least 0, not {self.rtol} and {self.atol}")


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method of the model to export beside, or instead of, ``forward``.

    Attributes:
        args: Positional arguments of an example call.
        kwargs: Keyword arguments of an example call.
        dynamic_shapes: As for `ModelCase`.
        inputs2: As for `ModelCase`.
        more_inputs: As for `ModelCase`.

    Raises:
        TypeError: When an argument is of the wrong kind.
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    inputs2: Any = None
    more_inputs: Any = ()

    def __post_init__(self) -> None:
        _require(_call_kinds(self), self, "a Method")


@dataclass(frozen=True, slots=True)
class Moment:
    """What a step of a sequence of calls is made from, on the eager model's side or on the program's.

    Attributes:
        last: What the last call on this side returned; ``None`` at the beginning and after a reset.
        count: Calls since then.
        seed: A drawn number, the same on both sides.
    """

    last: Any
    count: int
    seed: int


@dataclass(frozen=True, slots=True)
class Step:
    """A call that may follow others.

    Attributes:
        inputs: Makes the arguments from a `Moment`: a tuple of positional arguments, a pair ``(args, kwargs)`` with a
            dict as its second item, or a mapping of keyword arguments; ``None`` where the step is not possible now.
        method: The method that is called: ``forward``, or one of the case's `methods`.
    """

    inputs: Callable[[Moment], Any]
    method: str = "forward"

    def __post_init__(self) -> None:
        if not callable(self.inputs):
            raise TypeError(f"inputs of a Step must be a function, not {type(self.inputs).__name__}")
        if not isinstance(self.method, str):
            raise TypeError(f"method of a Step must be the name of a method, not {type(self.method).__name__}")


@dataclass(frozen=True, slots=True, eq=False)
class ModelCase:
    """What to check: a model, an example call, and what should hold for other calls.

    Args:
        model: An ``nn.Module``, or a factory of one. A class counts as a factory. A factory is called anew for each
            process that needs the model, so nothing that a check does to one model reaches another check.
        args: Positional arguments of the example call, or a function that returns them.
        kwargs: Keyword arguments of the example call, or a function that returns them.
        name: Name of the case in reports and test ids. Default: the name of the factory or class.
        dynamic_shapes: As for `torch.export.export`; ``None`` means that every dimension is fixed, unless `inputs2`
            has other sizes: dimensions that vary are then taken as dynamic by the check ``shapes``.
        inputs2: A second valid call with other sizes or values: a tuple of positional arguments, a pair
            ``(args, kwargs)`` with a dict as its second item, or a function that returns one of them.
        more_inputs: Further valid calls, each written as `inputs2`, or a function that returns them; a dimension that
            varies between any two of the calls is dynamic.
        methods: Methods to export, by name; each becomes a case ``name.method`` and ``forward`` is left out unless
            it is one of them. A value is a `Method`, or the tuple of positional arguments of an example call.
        value_ranges: Smallest and largest value, both included, that an integer input may take, by the name of the
            parameter: those of a tensor, or a Python integer that is dynamic. Default: found from the embedding that
            reads the input, else the values in the example; a dynamic integer is at least 2, or the example. Floats
            that have a range keep to it as well.
        expected_failures: Reason by name of check. A failure of that check is reported but changes no exit status; a
            pass is reported as a failure, so that the list stays true.
        tolerance: What counts as equal where the results are not equal bit for bit. Default: derived from the error
            that the eager model makes against float64.
        canonical: Brings a result into a form in which what is free, such as the order of detections or of ties, is
            the same; applied to the results of both before they are compared.
        steps: Calls that may follow each other, by name, for the check ``steps``: a `Step`, or ``None`` for a reset,
            which drops what is carried from call to call and keeps the model and the program.
        loss: For the check ``training``: takes the result of the model in training mode and returns a scalar.
        variants: Further cases made from this one: ``bfloat16`` and ``float16`` (model and inputs are cast), and
            ``autocast`` (to bfloat16).
        checkpoint: A file of weights that must load strictly into a fresh model, for the check ``checkpoint``: what
            `torch.save` wrote, with the state dict itself or inside of dictionaries, or ``.safetensors``.
        weights: ``real``, or ``fake``: the factory is called under fake tensors, which take no memory, and what needs
            numbers is not checked.
        about: A function that says how the case was made, where nobody wrote it down; reports show it.

    Raises:
        TypeError: When an argument is of the wrong kind.
        ValueError: When the case has no name and none can be derived, a range of values is empty, or
            `expected_failures` lacks a reason or names no check.
    """

    model: Any
    args: Any = ()
    kwargs: Any = field(default_factory=dict)
    name: str = field(default="", kw_only=True)
    dynamic_shapes: Any = field(default=None, kw_only=True)
    inputs2: Any = field(default=None, kw_only=True)
    more_inputs: Any = field(default=(), kw_only=True)
    methods: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    value_ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict, kw_only=True)
    expected_failures: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    tolerance: Tolerance | None = field(default=None, kw_only=True)
    checkpoint: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    weights: str = field(default="real", kw_only=True)
    about: Any = field(default=None, kw_only=True)
    inferred: bool = field(default=False, kw_only=True, repr=False)  # whether nobody wrote the inputs down
    canonical: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    steps: Mapping[str, Step | None] = field(default_factory=dict, kw_only=True)
    loss: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    variants: Sequence[str] = field(default=(), kw_only=True)
    whole: ModelCase | None = field(default=None, kw_only=True, repr=False)  # the case whose method this one is
    plain: ModelCase | None = field(default=None, kw_only=True, repr=False)  # the case that this is a variant of

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise TypeError(f"model must be an nn.Module or a factory of one, not {type(self.model).__name__}")
        if not self.name:
            object.__setattr__(self, "name", _name_of(self.model))
        if not isinstance(self.name, str) or not self.name.strip() or not self.name.isprintable():
            raise ValueError("name must be a non-empty string in one line")
        self._validate()

    def _validate(self) -> None:
        kinds: dict[str, tuple[bool, str]] = {
            **_call_kinds(self),
            "methods": (isinstance(self.methods, Mapping), "a mapping"),
            "value_ranges": (isinstance(self.value_ranges, Mapping), "a mapping"),
            "expected_failures": (isinstance(self.expected_failures, Mapping), "a mapping"),
            "tolerance": (isinstance(self.tolerance, (Tolerance, type(None))), "a Tolerance"),
            "canonical": (self.canonical is None or callable(self.canonical), "a function"),
            "steps": (isinstance(self.steps, Mapping), "a mapping"),
            "loss": (self.loss is None or callable(self.loss), "a function"),
            "checkpoint": (isinstance(self.checkpoint, (str, os.PathLike, type(None))), "a path"),
            "variants": (isinstance(self.variants, (tuple, list)), "a tuple of names"),
        }
        _require(kinds, self, f"case {self.name!r}")
        if self.weights not in WEIGHTS:
            raise ValueError(f"weights of case {self.name!r} must be one of {', '.join(WEIGHTS)}, not {self.weights!r}")
        self._validate_ranges()
        self._validate_methods()
        self._validate_steps()
        for check, reason in self.expected_failures.items():
            if check not in CHECKS:
                raise ValueError(
                    f"expected_failures of case {self.name!r}: {check!r} is no check; known: {', '.join(CHECKS)}"
                )
            if not isinstance(reason, str) or not reason.strip():
                raise ValueError(f"expected_failures[{check!r}] of case {self.name!r} needs a reason")

    def _validate_ranges(self) -> None:
        for name, pair in self.value_ranges.items():
            what = f"value_ranges[{name!r}] of case {self.name!r}"
            if not isinstance(name, str):
                raise TypeError(f"{what} must be under the name of a parameter, not under {type(name).__name__}")
            if not isinstance(pair, (tuple, list)):
                raise TypeError(f"{what} must be a pair of integers, not {type(pair).__name__}")
            if len(pair) != 2 or not all(_is_number(bound, numbers.Integral) for bound in pair):
                raise TypeError(f"{what} must be a pair of integers, not {pair!r}")
            if pair[0] > pair[1]:
                raise ValueError(f"{what} is empty: {pair[0]} is larger than {pair[1]}")

    def _validate_methods(self) -> None:
        for name, method in self.methods.items():
            what = f"methods of case {self.name!r}"
            if not isinstance(name, str) or not name.isidentifier():
                raise ValueError(f"{what}: {name!r} is no name of a method")
            if not isinstance(method, (Method, tuple, list)) and not _is_tensor(method):
                kind = type(method).__name__
                raise TypeError(f"{what}: {name!r} must have a Method, or a tuple of arguments, not {kind}")

    def _validate_steps(self) -> None:
        for name, step in self.steps.items():
            if not isinstance(step, (Step, type(None))):
                raise TypeError(f"steps[{name!r}] of case {self.name!r} must be a Step, not {type(step).__name__}")
            if step is not None and step.method not in (self.methods or ("forward",)):
                raise ValueError(
                    f"steps[{name!r}] of case {self.name!r} calls {step.method!r}, which is no method of it"
                )
        if self.steps and not any(self.steps.values()):
            raise ValueError(f"steps of case {self.name!r} holds no Step")
        for variant in self.variants:
            if variant not in VARIANTS:
                raise ValueError(
                    f"variants of case {self.name!r}: {variant!r} is no variant; known: {', '.join(VARIANTS)}"
                )

    def example(self) -> Inputs:
        """The example call: positional and keyword arguments, made by the case's functions where it has them.

        Raises:
            TypeError: When they are not a tuple and a mapping.
        """
        args = self.args() if callable(self.args) else self.args
        kwargs = self.kwargs() if callable(self.kwargs) else self.kwargs
        if isinstance(args, Mapping):  # a function that returns keyword arguments only
            return (), {**args, **kwargs}
        return _as_call(args, kwargs, f"args of case {self.name!r}")

    def further_examples(self) -> tuple[Inputs, ...]:
        """The second valid call and those after it; keyword arguments of the first are kept where one names none.

        Raises:
            TypeError: When one of them is not a tuple of arguments or a pair ``(args, kwargs)``.
        """
        second = self.inputs2() if callable(self.inputs2) else self.inputs2
        more = self.more_inputs() if callable(self.more_inputs) else self.more_inputs
        if not _are_calls(more):
            raise TypeError(f"more_inputs of case {self.name!r} must be a list of calls, not {type(more).__name__}")
        named = [] if second is None else [("inputs2", second)]
        named += [(f"more_inputs[{i}]", inputs) for i, inputs in enumerate(more)]
        return tuple(
            as_inputs(inputs, f"{name} of case {self.name!r}", lambda: self.example()[1]) for name, inputs in named
        )

    def asks_for(self, check: str) -> bool:
        """Whether a check has something to do here: some are about what only few cases have.

        Of a case with methods, what is about all of them is checked with the first.
        """
        whole = self.whole or self
        first = self.whole is None or self.name == f"{whole.name}.{next(iter(whole.methods))}"
        asked = {
            "steps": bool(whole.steps) and first,
            "methods": self.whole is not None and len(whole.methods) > 1 and first,
            "training": self.loss is not None,
            "checkpoint": first,
        }
        return asked.get(check, True)

    def expand(self) -> tuple[ModelCase, ...]:
        """The case itself, or one case for each of its methods; then the same for each of its variants.

        Those are named ``case``, ``case.method``, ``case[variant]`` and ``case[variant].method``.
        """
        wholes = (self, *(variants.of_case(self, name) for name in self.variants))
        return tuple(case for whole in wholes for case in whole._of_methods())

    def _of_methods(self) -> tuple[ModelCase, ...]:
        return tuple(self._of_method(name, method) for name, method in self.methods.items()) or (self,)

    def _of_method(self, name: str, method: Any) -> ModelCase:
        if not isinstance(method, Method):
            method = Method(*_as_call(method, {}, f"method {name!r} of case {self.name!r}"))
        return dataclasses.replace(
            self,
            model=_MethodFactory(self.model, name),
            args=method.args,
            kwargs=method.kwargs,
            name=f"{self.name}.{name}",
            dynamic_shapes=method.dynamic_shapes,
            inputs2=method.inputs2,
            more_inputs=method.more_inputs,
            methods={},
            steps={},
            whole=self,
            plain=self.plain and self.plain._of_method(name, self.plain.methods[name]),
        )


@dataclass(frozen=True, slots=True)
class _MethodFactory:
    """A factory of a module that calls one of the model's methods as its ``forward``."""

    model: Any
    method: str

    def __call__(self) -> Any:
        from torch import nn

        model = copy.deepcopy(self.model) if isinstance(self.model, nn.Module) else self.model()
        if not callable(getattr(model, self.method, None)):
            near = difflib.get_close_matches(self.method, dir(model), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"{type(model).__name__} has no method {self.method!r}{hint}")
        return method_module(model, self.method)


def method_module(model: Any, method: str) -> Any:
    """A module around the model whose ``forward`` is the method, with its signature; the model's own stays as it is."""
    from torch import nn

    class MethodOf(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.training = model.training  # train() would change the modules inside

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(self.model, method)(*args, **kwargs)

    functools.update_wrapper(MethodOf.forward, getattr(type(model), method))
    MethodOf.__name__ = MethodOf.__qualname__ = f"{type(model).__name__}.{method}"
    return MethodOf()


def _call_kinds(holder: Method | ModelCase) -> dict[str, tuple[bool, str]]:
    """What example calls and their shapes must be: by argument, whether it is so, and in words."""
    second, more, shapes = holder.inputs2, holder.more_inputs, holder.dynamic_shapes
    return {
        "args": (callable(holder.args) or isinstance(holder.args, (tuple, list)), "a tuple or a function"),
        "kwargs": (callable(holder.kwargs) or isinstance(holder.kwargs, Mapping), "a mapping or a function"),
        "inputs2": (second is None or callable(second) or _is_call(second), "a call, as a tuple, or a function"),
        "more_inputs": (callable(more) or (_are_calls(more) and all(map(_is_call, more))), "a list of calls"),
        "dynamic_shapes": (_are_dynamic_shapes(shapes), "a mapping, a tuple or a list"),
    }


def _require(kinds: Mapping[str, tuple[bool, str]], holder: Any, what: str) -> None:
    """Raise for the first argument that is of the wrong kind.

    Raises:
        TypeError: With what it must be.
    """
    for key, (valid, kind) in kinds.items():
        if not valid:
            given = getattr(holder, key)
            hint = "; for one argument write (x,)" if key == "args" and _is_tensor(given) else ""
            if key == "more_inputs" and _are_calls(given):
                place, wrong = next((i, call) for i, call in enumerate(given) if not _is_call(call))
                raise TypeError(f"{key}[{place}] of {what} must be a call, as a tuple, not {type(wrong).__name__}")
            raise TypeError(f"{key} of {what} must be {kind}, not {type(given).__name__}{hint}")


def _is_call(value: Any) -> bool:
    """Whether it may be an example call; a single tensor counts as one argument."""
    return isinstance(value, (tuple, list, Mapping)) or _is_tensor(value)


def _is_number(value: Any, kind: type) -> bool:
    """Whether the value is a number of that kind; a bool counts as none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer larger than any float
        return False


def _is_tensor(value: Any) -> bool:
    """Whether the value is a tensor, or an array, told without torch."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _are_calls(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def _are_dynamic_shapes(value: Any) -> bool:
    """Whether torch takes it as dynamic shapes by its class: some classes of its own make them from the example."""
    return value is None or isinstance(value, (Mapping, tuple, list)) or hasattr(value, "dynamic_shapes")


def _name_of(model: Any) -> str:
    name = getattr(model, "__name__", "") or type(model).__name__
    if name == "<lambda>":
        raise ValueError("a case whose model is a lambda needs a name")
    return str(name)


def as_inputs(made: Any, what: str, kwargs: Callable[[], Mapping[str, Any]] = dict) -> Inputs:
    """Positional and keyword arguments from a tuple, a pair ``(args, kwargs)`` or a mapping.

    Args:
        made: One of these.
        what: What it is, for messages.
        kwargs: Makes the keyword arguments that go with a mere tuple.

    Raises:
        TypeError: When it is none of these.
    """
    if isinstance(made, Mapping):
        return (), dict(made)
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], tuple) and type(made[1]) is dict:
        return made[0], made[1]
    return _as_call(made, kwargs(), what)


def _as_call(args: Any, kwargs: Any, what: str) -> Inputs:
    """Positional and keyword arguments; a single tensor counts as one argument."""
    if _is_tensor(args):
        args = (args,)
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"{what} must be a tuple of positional arguments, not {type(args).__name__}")
    if not isinstance(kwargs, Mapping):
        raise TypeError(f"the keyword arguments with {what} must be a mapping, not {type(kwargs).__name__}")
    return tuple(args), dict(kwargs)


CASES_ATTRIBUTE = "__exportlint_cases__"
_BARE = "__exportlint_bare__"  # the function that a decorator was given in the place of arguments
UNFINISHED = "@export_case needs the example call in parentheses, such as @export_case((x,))"


OTHER_NAMES = frozenset({"input", "inputs", "example", "example_inputs", "sample_inputs"})  # of the example call


def require_settings(names: Iterable[str]) -> None:
    """Look whether a model case takes keyword arguments of these names.

    Raises:
        TypeError: When it does not, with the name that may be meant.
    """
    known = [
        field.name
        for field in dataclasses.fields(ModelCase)
        if field.name not in ("model", "whole", "plain", "inferred")
    ]
    for name in names:
        if name not in known:
            meant = ["args"] if name in OTHER_NAMES else difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {meant[0]!r}?" if meant else f"; it takes: {', '.join(known)}"
            raise TypeError(f"a model case takes no {name!r}{hint}")


def export_case(args: Any = (), kwargs: Any = None, **settings: Any) -> Callable[[F], F]:
    """Mark a factory, or a module class, as a model case; the factory itself is returned unchanged.

    Args:
        args: As for `ModelCase`.
        kwargs: As for `ModelCase`.
        **settings: The keyword arguments of `ModelCase`.

    Raises:
        TypeError: When an argument is of the wrong kind, or the decorator is written without parentheses.
        ValueError: As for `ModelCase`.
    """
    require_settings(settings)
    if isinstance(args, type):
        raise TypeError(UNFINISHED)

    def decorate(factory: F) -> F:
        case = ModelCase(factory, args, {} if kwargs is None else kwargs, **settings)
        setattr(factory, CASES_ATTRIBUTE, (*vars(factory).get(CASES_ATTRIBUTE, ()), case))
        return factory

    setattr(decorate, _BARE, args)
    return decorate


def is_unfinished(value: Any, name: str, module: str) -> bool:
    """Whether a variable of a module holds what ``@export_case`` without parentheses makes of a function there."""
    given = getattr(value, "__dict__", {}).get(_BARE)
    return callable(given) and (getattr(given, "__name__", ""), getattr(given, "__module__", "")) == (name, module)
