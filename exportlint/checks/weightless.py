"""Checks of a model without weights: its factory runs under fake tensors, and what needs numbers is not checked.

The capture, the dynamic-shape contract and the devices need none. The model is exported as it is anyway, since an
export itself computes with fake tensors only.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

from exportlint import blame
from exportlint.checks import uncaptured
from exportlint.checks.context import SEED, Context, ModelError, NotCapturedError, as_module, fresh, seed_everything
from exportlint.findings import CheckResult
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.devices.provenance import Origin
    from exportlint.findings import Finding
    from exportlint.shapes.terms import Term

REASON = "no weights"
NOTE = "numbers are not checked: no weights"


class WeightlessContext(Context):
    """A case whose model is made under fake tensors."""

    _mode: Any = None

    @property
    def mode(self) -> Any:
        """The fake mode of the model and of its inputs."""
        from exportlint.torch_hooks import fake

        if self._mode is None:
            self._mode = fake.mode()
        return self._mode

    def build(self, seed: int = SEED) -> torch.nn.Module:
        """A model without numbers.

        Raises:
            ModelError: When the factory raises, also for want of numbers, or returns no module.
        """
        from torch import nn

        with self.making("build"):
            seed_everything(seed)
            try:
                if isinstance(self.case.model, nn.Module):
                    raise TypeError(
                        "a model without weights is made by a factory; this case has a module, which has weights"
                    )
                with self.mode:
                    model = self.case.model()
            except Exception as error:
                raise ModelError("build") from error
            made = as_module(model, self.case.name)
        self._locate(made)
        return made

    def example(self) -> Inputs:
        """The arguments of the example call, as fake tensors.

        Raises:
            ModelError: When the function that makes them raises.
        """
        if self._example is None:
            seed_everything()
            try:
                self._example = self.case.example()
            except Exception as error:
                raise ModelError("inputs") from error
        return self._faked(self._example)

    def further_examples(self) -> tuple[Inputs, ...]:
        """The arguments of the second call and of those after it, as fake tensors.

        Raises:
            ModelError: When the function that makes them raises.
        """
        return tuple(map(self._faked, super().further_examples()))

    def _faked(self, inputs: Inputs) -> Inputs:
        import torch
        from torch.utils import _pytree as pytree

        from exportlint.torch_hooks import fake

        made = pytree.tree_map(lambda t: fake.faked(t, self.mode) if isinstance(t, torch.Tensor) else t, fresh(inputs))
        return cast("Inputs", made)

    def export(self, dynamic_shapes: Any, inputs: Inputs | None = None) -> ExportedProgram:
        """Capture the model; nothing is looked for that it may leave behind, since all is fake.

        Raises:
            Exception: What `torch.export.export` raises.
        """
        import torch

        model, (args, kwargs) = self.build(), inputs or self.example()
        self.stage("export")
        with torch.no_grad():
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)


def run(name: str, ctx: WeightlessContext) -> CheckResult:
    """Run a check, as far as it needs no numbers."""
    from exportlint.torch_hooks import fake

    why_not = fake.why_not()
    if why_not is not None:
        return CheckResult(name=name, outcome="not_checked", reason=why_not)
    check: Callable[[WeightlessContext], CheckResult] | None = _CHECKS.get(name)
    return CheckResult(name=name, outcome="not_checked", reason=REASON) if check is None else check(ctx)


def _capture(ctx: WeightlessContext) -> CheckResult:
    from exportlint.checks import capture, refusal

    try:
        ctx.program()
    except ModelError as error:
        cause = error.__cause__ or error
        if _wants_numbers(cause):
            reason = f"the {error.stage} needs numbers, and there are no weights: {blame.words(cause)}"
            return CheckResult(name="capture", outcome="not_checked", reason=reason, runs=False)
        return capture.model_failure(ctx, error)
    except Exception as error:
        blame.pass_on_memory_error(error)
        found = refusal.misfit_of(ctx, error) or blame.of_failure(error, ctx.head())
        return CheckResult(
            name="capture", outcome="failed", reason=found.message, findings=(found,), notes=(NOTE,), numbers=False
        )
    return CheckResult(name="capture", outcome="passed", reason="numbers not checked", notes=(NOTE,), numbers=False)


def _wants_numbers(error: BaseException) -> bool:
    """Whether torch refused to answer with a number that it does not have."""
    return type(error).__name__ in ("DataDependentOutputException", "GuardOnDataDependentSymNode") or (
        "fake tensor" in said(error).lower() or "FakeTensor" in said(error)
    )


def _shapes(ctx: WeightlessContext) -> CheckResult:
    """The contract alone: what was asked of each dimension, or differs between two calls, and what is granted."""
    from exportlint.checks.shapes import check
    from exportlint.shapes import terms
    from exportlint.torch_hooks.guards import GuardLog

    contract, inferred, log = None, False, GuardLog()
    try:
        contract, inferred = ctx.contract()
        if not contract.dynamic:
            return CheckResult(name="shapes", outcome="not_checked", reason="no dimension is dynamic")
        _call_others(ctx)
        subject = check.subject_of(ctx, contract, log, inferred=inferred)
    except Exception as error:
        # Where dimensions were declared, the check capture says what is wrong; to differ between calls is asked here.
        if not inferred or isinstance(error, (ModelError, NotCapturedError)) or blame.is_out_of_memory(error):
            return uncaptured.result("shapes", error)
        return check.refused(ctx, error, log.guards, contract)
    asked = terms.terms(contract, subject.granted, subject.guards)
    found = [_pinned(ctx, term) for term in asked if term.grant == "constant"]
    if found:
        return CheckResult(
            name="shapes",
            outcome="failed",
            reason=found[0].message,
            findings=tuple(found),
            notes=(NOTE,),
            numbers=False,
        )
    return CheckResult(name="shapes", outcome="passed", reason="numbers not checked", notes=(NOTE,), numbers=False)


def _call_others(ctx: WeightlessContext) -> None:
    """Call the model as the further calls do.

    Raises:
        ModelError: When it does not take one of them; that it asks for numbers says nothing.
    """
    for inputs in ctx.further_examples():
        try:
            ctx.call_second(inputs)
        except ModelError as error:
            if not _wants_numbers(error.__cause__ or error):
                raise


def _pinned(ctx: WeightlessContext, term: Term) -> Finding:
    from exportlint.shapes import conditions

    guards = [guard for guard in term.guards if guard.place is not None]
    place = guards[0].place if guards else ctx.head()
    message = f"{term.name} should be dynamic and became the constant {term.leaf.shape[term.d]}"
    evidence = conditions.words(guards[0]) if guards else None
    return blame.finding(blame.size_rule(place), message, place, outcome="specialises", evidence=evidence)


def _device(ctx: WeightlessContext) -> CheckResult:
    """The eager model on the second device, where there are no numbers either: what mixes devices is refused."""
    from exportlint.checks.device.report import Report, blame_origin
    from exportlint.checks.device.twin import is_mixed

    report = Report()
    try:
        blamed, error = _elsewhere(ctx)
    except ModelError as failure:
        return uncaptured.result("device", failure)
    if error is not None and is_mixed(error):
        rule, message, place = blame_origin(blamed, blame.place_of(error))
        report.add(blame.finding(rule, message, place, outcome="unportable", evidence=blame.words(error)))
    elif error is not None:
        report.leave_out(f"the second device cannot run the model: {blame.words(error)}")
    report.notes.append(NOTE)
    return dataclasses.replace(report.result(), numbers=False)


def _elsewhere(ctx: WeightlessContext) -> tuple[Origin | None, Exception | None]:
    """Run the model on the second device: the origin of the tensor that was refused there, and the exception."""
    import torch

    from exportlint.checks.context import call
    from exportlint.devices import second
    from exportlint.devices.hooks import NAME as HOME
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance
    from exportlint.devices.twin import fake_module

    model, inputs = ctx.build(), ctx.example()
    ctx.stage("eager run on the second device")
    try:
        device = second.second_device()
    except second.SecondDeviceUnavailableError as error:
        return None, error
    fakes, mode = fake_module(model, inputs, device)
    provenance = Provenance(HOME, find_kept(model), births=False)
    try:
        with mode, provenance, torch.no_grad():
            call(model, fakes)
    except Exception as error:
        return provenance.blamed, error
    return None, None


def _lint(ctx: WeightlessContext) -> CheckResult:
    """The worker's half of the check `lint`: the lines that a call of fake tensors runs."""
    from exportlint.checks import lint

    result = lint.run(ctx)
    cause = ctx.last_error
    if result.reason != lint.PENDING and cause is not None and _wants_numbers(cause):
        reason = f"the call needs numbers, and there are no weights: {blame.words(cause)}"
        return CheckResult(name="lint", outcome="not_checked", reason=reason)
    return result


_CHECKS: Mapping[str, Any] = {"capture": _capture, "shapes": _shapes, "device": _device, "lint": _lint}
