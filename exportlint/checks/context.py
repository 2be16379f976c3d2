"""What the checks of one model case share inside a worker: the model, its example calls, and the captured program."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from exportlint import blame
from exportlint.text import said
from exportlint.torch_hooks import refusals
from exportlint.torch_hooks.guards import GuardLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs, ModelCase
    from exportlint.checks.state.python_state import Snapshot
    from exportlint.checks.strange_tensors import Classes
    from exportlint.findings import CheckResult, Finding
    from exportlint.parity.compare import Bounds, Difference
    from exportlint.parity.reference import Reference
    from exportlint.places import Place
    from exportlint.shapes.contract import Contract
    from exportlint.torch_hooks.guards import Guard

SEED = 0


class ModelError(Exception):
    """The model cannot be built or its eager call failed; the cause is the model's own exception."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage


class NestingError(ValueError):
    """A result, or arguments, whose parts cannot be listed: a list that contains itself, as a rule."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} cannot be taken apart: a container contains itself, or the nesting does not end")


class NotCapturedError(Exception):
    """The program is not at hand since an earlier check found that it cannot be captured."""


@dataclass
class Settings:
    """What the caller asked of the checks.

    Attributes:
        checks: Names of the checks, in order.
        examples: Examples that hypothesis draws for each case.
        devices: Devices for the check ``device``.
        workdir: Folder for files that pass between the processes of one case.
        captured: False when an earlier process found that the case cannot be captured.
        record: Whether to tell what each check depends on.
        tolerance: Relative and absolute tolerance for cases that have none of their own.
        died: How an earlier process of the check ``shapes`` ended in a drawn call, which is to be replayed.
        variants: Variants that every case has beside its own.
        profiles: Runtimes whose limits count in the check ``opset``.
    """

    checks: tuple[str, ...]
    examples: int = 20
    devices: tuple[str, ...] = ("second",)
    workdir: str = ""
    captured: bool = True
    record: bool = False
    tolerance: tuple[float, float] | None = None
    died: str = ""
    variants: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()


def as_module(made: Any, case: str) -> torch.nn.Module:
    """What the factory of a case made.

    Raises:
        ModelError: When it is no module.
    """
    from torch import nn

    if not isinstance(made, nn.Module):
        words, remedy = type(made).__name__, ""
        if isinstance(made, type):
            words, remedy = f"the class {made.__name__}", f": let it return {made.__name__}()"
        elif made is None:
            words, remedy = "None", ": a return is missing"
        raise ModelError("build") from TypeError(
            f"the factory of case {case!r} returned {words}, not an nn.Module{remedy}"
        )
    return made


@dataclass
class Context:
    """One model case inside a worker.

    Attributes:
        case: The model case.
        settings: What the caller asked for.
        announce: Told the name of each stage before it begins, so that a crash can be placed.
        locate: Told where the model begins, once it was built.
        provisional: Told a result that stands if the process dies while the check goes on.
        observe: Told what a run exercised, for the check ``lint``.
        load: Makes the case anew, from modules that are imported where they are not there; `None` where the case
            exists only as an object.
        inputs_after: The arguments of the example call as the eager model left them, once it was called.
        guards: The guards of the captured program, or of the export that failed, with their lines.
        left_behind: What exports left behind in the eager model and in the code around it.
        judged: Results that were not equal bit for bit, and how they were judged, in words.
        last_error: What the model, or its export, raised last.
        code_state: What outlives a model, as it was before the first call.
        doing: The stage that was announced last, in this check.
        classes: Classes of the tensors that the case is made of, once they were asked for.
    """

    case: ModelCase
    settings: Settings
    announce: Callable[[str], None]
    provisional: Callable[[CheckResult], None] = lambda _: None
    locate: Callable[[Place], None] = lambda _: None
    observe: Callable[[dict[str, Any]], None] = lambda _: None
    load: Callable[[], ModelCase] | None = None
    guards: list[Guard] = field(default_factory=list)
    left_behind: list[Finding] = field(default_factory=list)
    judged: dict[str, None] = field(default_factory=dict)
    inputs_after: Inputs | None = None
    last_error: BaseException | None = None
    code_state: Snapshot | None = None
    classes: Classes | None = None
    doing: str = ""
    _built: bool = False
    _shared: Any = None
    _example: Inputs | None = None
    _further: tuple[Inputs, ...] | None = None
    _forward: tuple[Place | None] | None = None
    _contract: tuple[Contract, bool] | None = None
    _written_out: Any = None
    _expected: Any = None
    _has_expected: bool = False
    _program: ExportedProgram | None = None
    _module: torch.nn.Module | None = None
    _failure: Exception | None = field(default=None)

    @property
    def dynamic_shapes(self) -> Any:
        """The dynamic shapes that the case declares; those of a `ShapesCollection` or `AdditionalInputs` written out.

        Raises:
            ModelError: When they cannot be written out.
        """
        declared = self.case.dynamic_shapes
        if not hasattr(declared, "dynamic_shapes"):
            return declared
        if self._written_out is None:
            model, _ = self.build(), self.example()
            try:  # from the case's own tensors, since a collection knows no copies
                self._written_out = declared.dynamic_shapes(model, *cast("Inputs", self._example))
            except Exception as error:
                raise ModelError("dynamic_shapes") from error
        return self._written_out

    @property
    def tolerance(self) -> Bounds:
        """The tolerance that the case asks for, as `exportlint.parity.compare.compare` takes it; empty for none."""
        asked = self.case.tolerance
        if asked is not None:
            return {"rtol": asked.rtol, "atol": asked.atol}
        default = self.settings.tolerance
        return {} if default is None else {"rtol": default[0], "atol": default[1]}

    def compare(
        self, expected: Any, actual: Any, inputs: Inputs | None = None, *, reference: Reference | None = None
    ) -> Difference | None:
        """The first difference between two results of a call, as the case defines equal.

        Args:
            expected: What the eager model returns.
            actual: What the program returns.
            inputs: The arguments of the call, for a fresh model in float64 where results are not equal bit for bit.
            reference: Stands for that model's result where more than the arguments decides it.

        Raises:
            ModelError: When the case's `canonical` raises for what the eager model returns.
        """
        from exportlint.parity.compare import compare

        if reference is None and inputs is not None:
            reference = self.reference(inputs)
        canonical = None if self.case.canonical is None else self._canonical_for(expected)
        found = compare(expected, actual, reference=reference, canonical=canonical, **self.tolerance)
        if reference is not None and found is None:
            self.judge(reference)
        return found

    def _canonical_for(self, expected: Any) -> Callable[[Any], Any]:
        """The case's `canonical`, which is at fault where it raises for the eager model's result."""
        given: Any = self.case.canonical

        def canonical(result: Any) -> Any:
            try:
                return given(result)
            except Exception as error:
                if result is expected:
                    raise ModelError("canonical") from error
                raise

        return canonical

    def judge(self, reference: Reference) -> None:
        """Keep what a reference tells a reader, once for each value that it was asked about."""
        for note in reference.notes:
            about = note.partition(":")[0]
            if not any(known.partition(":")[0] == about for known in self.judged):
                self.judged[note] = None

    def reference(self, *calls: Inputs, call_of: Callable[[Any, int], Any] = lambda model, _: model) -> Reference:
        """The result of the last of these calls of one fresh model in float64, for when it is needed.

        Args:
            *calls: Their arguments.
            call_of: What is called, of the model and by the place among the calls.
        """
        from exportlint.parity.observed import left_by
        from exportlint.parity.reference import Reference, in_double, widened

        def prepare() -> Callable[[], Any]:
            model, wide = in_double(self.build()), [widened(inputs) for inputs in calls]

            def last() -> Any:
                results = [call(call_of(model, place), inputs) for place, inputs in enumerate(wide)]
                made.left.update(left_by(model, wide[-1]))
                return self.case.canonical(results[-1]) if self.case.canonical is not None else results[-1]

            return last

        made = Reference(prepare)
        return made

    def stage(self, name: str) -> None:
        """Say what is done next."""
        self.doing = name
        self.announce(name)

    @contextlib.contextmanager
    def making(self, name: str) -> Iterator[None]:
        """Say what is made, and afterwards what was done before it, so that a death is not told of what was made."""
        before = self.doing
        self.stage(name)
        yield
        self.stage(before)

    @property
    def makes_anew(self) -> bool:
        """Whether the factory, which was called, makes another model each time."""
        return self._shared is None

    def build(self, seed: int = SEED) -> torch.nn.Module:
        """A fresh model as the factory makes it, with the random numbers of this seed.

        Raises:
            ModelError: When the factory raises or returns no module.
        """
        from torch import nn

        with self.making("build"):
            try:
                if isinstance(self.case.model, nn.Module):
                    model = cast("nn.Module", _copied(self.case.model))
                else:
                    model = self._made(seed)
            except Exception as error:
                raise ModelError("build") from error
            made = as_module(model, self.case.name)
        self._locate(made)
        return made

    def _locate(self, model: torch.nn.Module) -> None:
        """Say once where the model begins, which is told of a process that ends without a stack."""
        if self._forward is None:
            self._forward = (blame.forward_of(model),)
            if self._forward[0] is not None:
                self.locate(self._forward[0])

    def _made(self, seed: int) -> Any:
        """What the factory makes; a copy of it as it was at first, where the factory returns one object every time."""
        if self._shared is not None:
            return copy.deepcopy(self._shared)
        seed_everything(seed)
        model = self.case.model()
        if not self._built:
            self._built = True
            seed_everything()
            if self.case.model() is model and model is not None:
                self._shared = _copied(model)
                return copy.deepcopy(self._shared)
        return model

    def example(self) -> Inputs:
        """Fresh copies of the arguments of the example call.

        Raises:
            ModelError: When the function that makes them raises, or the model that they are inferred from.
        """
        if self._example is None:
            with self.making("inputs"):
                seed_everything()
                try:
                    self._example = self.case.example()
                    _check_nesting(self._example, "an argument")
                except ModelError:  # an example that is inferred from the model
                    raise
                except Exception as error:
                    raise ModelError("inputs") from error
        return cast("Inputs", fresh(self._example))

    def second_example(self) -> Inputs | None:
        """Fresh copies of the arguments of the second call, if there is one.

        Raises:
            ModelError: When the function that makes them raises.
        """
        return next(iter(self.further_examples()), None)

    def further_examples(self) -> tuple[Inputs, ...]:
        """Fresh copies of the arguments of the second call and of those after it.

        Raises:
            ModelError: When a function that makes them raises.
        """
        if self._further is None:
            with self.making("inputs2"):
                seed_everything()
                try:
                    self._further = self.case.further_examples()
                    _check_nesting(self._further, "an argument")
                except Exception as error:
                    raise ModelError("inputs2") from error
        return tuple(map(fresh, self._further))

    def expected(self) -> Any:
        """The result of the example call of a fresh eager model.

        Raises:
            ModelError: When the model does not run.
        """
        if not self._has_expected:
            try:
                self.inputs_after = self.example()
                model = self.build()
                self.note_code_state(model)
                self._expected = self.call_eager(model, self.inputs_after)
            except ModelError as error:
                self.last_error = error.__cause__
                raise
            self._has_expected = True
        return self._expected

    def note_code_state(self, model: torch.nn.Module) -> None:
        """Note what globals and the like hold before a model is called for the first time."""
        from exportlint.checks.state.python_state import Snapshot

        if self.code_state is None:
            self.code_state = Snapshot(model, lasting=True)

    def call_second(self, inputs: Inputs) -> None:
        """Call a fresh eager model with the arguments of the second call, which are copied.

        Raises:
            ModelError: When it raises, with the stage ``second call``.
        """
        model = self.build()
        self.stage("second call")
        try:
            call(model, fresh(inputs))
        except Exception as error:
            raise ModelError("second call") from error

    def call_eager(self, model: torch.nn.Module, inputs: Inputs) -> Any:
        """Call the eager model without gradients.

        Raises:
            ModelError: When it raises.
        """
        self.stage("eager call")
        try:
            return call(model, inputs)
        except Exception as error:
            raise ModelError("eager call") from error

    def only_in_variant(self, again: Callable[[Context], Any]) -> str:
        """The variant that the case is, where what fails in it works in the case that it was made from; else empty.

        Args:
            again: Does the same with that case, and raises where it fails there too.
        """
        from exportlint.checks import variants

        if self.case.plain is None:
            return ""
        try:
            again(type(self)(self.case.plain, self.settings, self.announce))
        except Exception as error:
            blame.pass_on_memory_error(error)
            return ""
        return variants.of_name(self.case.name)

    def contract(self) -> tuple[Contract, bool]:
        """What is asked of the dimensions, and whether that was inferred from several calls.

        Raises:
            ModelError: When the model or its inputs cannot be made, or the case gives a range of values for an input
                that there is not.
        """
        if self._contract is None:
            self._contract = self._asked()
        return self._contract

    def _asked(self) -> tuple[Contract, bool]:
        from exportlint.shapes import contract

        others = self.further_examples()
        inferred = self.dynamic_shapes is None and bool(others)
        if inferred:
            found = contract.inferred(self.build(), self.example(), *others)
        else:
            found = contract.declared(self.build(), self.example(), self.dynamic_shapes or {})
            found = contract.as_in_calls(found, self.example(), self.case.dynamic_shapes)
        names = {leaf.parameter for leaf in found.leaves}
        unknown = sorted(set(self.case.value_ranges) - names)
        if unknown:
            there = ", ".join(sorted(names))
            words = f"value_ranges names {unknown[0]!r}, which is no tensor input; there are: {there}"
            raise ModelError("value_ranges") from ValueError(words)
        return contract.limited(found, self.case.value_ranges), inferred

    def head(self) -> Place | None:
        """Where the model begins: the head of its ``forward``, or of the factory that makes a model of torch's own."""
        return self.forward() or blame.definition_of(self.case.model)

    def forward(self) -> Place | None:
        """The head of the model's ``forward``, unless it is torch's own."""
        if self._forward is None:
            self._locate(self.build())
        return self._forward[0] if self._forward is not None else None

    def program(self) -> ExportedProgram:
        """The program captured on CPU in torch's default mode, with the case's dynamic shapes.

        Raises:
            NotCapturedError: When an earlier check found that it cannot be captured.
            Exception: What `torch.export.export` raises; the same exception again at later calls.
        """
        if not self.settings.captured:
            raise NotCapturedError
        if self._failure is not None:
            raise self._failure
        if self._program is None:
            log = GuardLog(self.guards)
            try:
                with log:
                    self._program = self.export(self.dynamic_shapes)
            except ModelError:
                raise
            except Exception as error:
                self._failure = self.last_error = error
                raise
        return self._program

    def module(self) -> torch.nn.Module:
        """The captured program as a module, made once; whoever runs it leaves its state `unchanged`.

        Raises:
            Exception: What `program` raises, or torch where it makes no module of the program.
        """
        if self._module is None:
            self._module = self.program().module()
        return self._module

    def export(self, dynamic_shapes: Any, inputs: Inputs | None = None) -> ExportedProgram:
        """Capture a fresh model from fresh copies of the example call.

        Raises:
            Exception: What `torch.export.export` raises.
        """
        import torch

        from exportlint.checks.state import leftovers

        model, (args, kwargs) = self.build(), inputs or self.example()
        self.note_code_state(model)
        watch = leftovers.Watch(model)
        self.stage("export")
        try:
            with torch.no_grad(), refusals.told():
                return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
        finally:
            left = watch.findings(lambda: self._call_apart(model))
            self.left_behind += [finding for finding in left if finding not in self.left_behind]

    def _call_apart(self, model: torch.nn.Module) -> Any:
        """Call a model whose buffers a program shares, and give them their values back."""
        import torch

        before = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
        try:
            return call(model, self.example())
        finally:
            with torch.no_grad():
                for buffer, value in before:
                    buffer.copy_(value)

    @property
    def captured(self) -> bool:
        """Whether the program is at hand."""
        return self._program is not None

    def path(self, name: str) -> Path:
        """A file in the folder that the processes of the case share."""
        return Path(self.settings.workdir) / name


def _copied(model: Any) -> Any:
    """A copy of a model that exists once.

    Raises:
        TypeError: When it cannot be copied, with what to do.
    """
    try:
        return copy.deepcopy(model)
    except Exception as error:
        words = f"{type(error).__name__}: {said(error)}".splitlines()[0]
        raise TypeError(f"the model cannot be copied ({words}): pass a factory that makes a new one") from error


def call(function: Callable[..., Any], inputs: Inputs) -> Any:
    """Call a model or program without gradients; random operators draw the same numbers each time.

    Raises:
        NestingError: When the parts of what it returns cannot be listed.
    """
    import torch

    seed_everything()
    with torch.no_grad():
        result = function(*inputs[0], **inputs[1])
    _check_nesting(result, "the result")
    return result


def _check_nesting(tree: Any, what: str) -> None:
    """Refuse what no check can compare, and no program take or return.

    Raises:
        NestingError: When the parts of it cannot be listed.
    """
    from torch.utils import _pytree as pytree

    try:
        pytree.tree_leaves(tree)
    except RecursionError:
        raise NestingError(what) from None


def flat_call(function: Callable[..., Any], args: Iterable[Any]) -> Any:
    """The same for what takes flattened arguments."""
    return call(function, (tuple(args), {}))


def seed_everything(seed: int = SEED) -> None:
    """Seed the generators of torch, Python and, where it is loaded, numpy."""
    import torch

    if _accelerated():
        torch.manual_seed(seed)
    else:  # the same without the stack trace that torch formats for each kind of device that is not there
        torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def _accelerated() -> bool:
    import torch

    try:
        return torch.accelerator.is_available()
    except RuntimeError:  # a backend that is named and has no module, so nothing to seed
        return False


def fresh(tree: Any) -> Any:
    """A copy of nested arguments: tensors are cloned with their strides, shared ones stay shared."""
    import torch
    from torch.utils import _pytree as pytree

    memo: dict[int, Any] = {}

    def copy_leaf(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in memo:
                memo[id(leaf)] = _clone(leaf)
            return memo[id(leaf)]
        try:
            return copy.deepcopy(leaf)
        except Exception:
            return leaf

    return pytree.tree_map(copy_leaf, tree)


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def result_of(program: ExportedProgram, inputs: Inputs, module: Any = None) -> Any:
    """What a call of the program returns; its buffers keep their values.

    The result may be a buffer that the call wrote into: it is copied before the buffer gets its value back.

    Args:
        program: The program.
        inputs: The arguments, which the call may write into.
        module: The program as a module, where there is one.

    Raises:
        Exception: What the program raises.
    """
    from torch.utils import _pytree as pytree

    from exportlint.parity.observed import kept

    with unchanged(program):
        return pytree.tree_map(kept, call(program.module() if module is None else module, inputs))


@contextlib.contextmanager
def unchanged(program: ExportedProgram) -> Iterator[None]:
    """Give the program's buffers, constants and generators their values back, as if it had not been run."""
    import torch

    buffers = [program.state_dict[name] for name in program.graph_signature.buffers if name in program.state_dict]
    tensors = [t for t in (*buffers, *program.constants.values()) if isinstance(t, torch.Tensor)]
    before = [t.detach().clone() for t in tensors] if mutates(program) else []
    generators = [(g, g.get_state()) for g in program.constants.values() if isinstance(g, torch.Generator)]
    try:
        yield
    finally:
        for generator, state in generators:
            generator.set_state(state)
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=False):
                write_back(tensor, value)


def write_back(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Give a tensor the values of a copy of it; where it is expanded, each element is written once."""
    import torch

    if tensor.layout is torch.strided:
        for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            if stride == 0 and size > 1:
                tensor, value = tensor.narrow(dim, 0, 1), value.narrow(dim, 0, 1)
    tensor.copy_(value)


def mutates(program: ExportedProgram) -> bool:
    """Whether a run of the program may change its buffers.

    Before a decomposition operators write into them, and afterwards the signature says which it updates.
    """
    return bool(program.graph_signature.buffers_to_mutate) or any(
        getattr(getattr(node.target, "_schema", None), "is_mutable", False)
        for module in program.graph_module.modules()
        for node in getattr(getattr(module, "graph", None), "nodes", ())
    )
