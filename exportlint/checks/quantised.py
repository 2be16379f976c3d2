"""The check ``quantised``: is the program of the quantised model right, how far is it from the float one, who loads it?

The model is quantised in each way that torchao has for it, unless the case gives one that is quantised already. Parity
is that of the program with the quantised eager model: that both are far from the float model is another matter, and
another line. Then the program is loaded in a fresh interpreter without torchao.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks import loader, reload, uncaptured
from exportlint.checks.context import Context, ModelError, call, result_of
from exportlint.checks.fresh import FreshInterpreters
from exportlint.findings import CheckResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn
    from torch.export import ExportedProgram

    from exportlint.checks.isolation.job import Message
    from exportlint.findings import Finding, Result

NAME = "quantised"
LIBRARY = "torchao"
ITS_OWN = "as the case makes it"
FOLDER = "quantised"
MOST_SECONDS = 300  # of the process that loads
UNWRAP = "Call torchao.utils.unwrap_tensor_subclass(model) before the export, which was tried: torch alone loads that."
KEEP = "Keep torchao where the program is loaded, or quantise in a way whose program holds plain tensors."
DECOMPOSED = "quantized_decomposed"
IMPORT = "Import torch.ao.quantization.fx._decomposed, which comes with torch, before the program is loaded."
NOTHING = "it quantises no layer of the model"


class NotHadError(Exception):
    """A way to quantise is not to be had here; the message is the reason."""


def _configured(module: str, config: str) -> Callable[[Context], nn.Module]:
    """Quantise by a configuration of torchao."""

    def make(ctx: Context) -> nn.Module:
        quantize = importlib.import_module(f"{LIBRARY}.quantization").quantize_
        model = ctx.build()
        quantize(model, getattr(importlib.import_module(module), config)())
        if not is_quantised(model):
            raise NotHadError(NOTHING)
        return model

    return make


def _pt2e(ctx: Context) -> nn.Module:
    """Quantise an exported program for x86, calibrated by the example."""
    steps = _first_module(f"{LIBRARY}.quantization.pt2e.quantize_pt2e", "torch.ao.quantization.quantize_pt2e")
    x86 = _first_module(
        f"{LIBRARY}.quantization.pt2e.quantizer.x86_inductor_quantizer",
        "torch.ao.quantization.quantizer.x86_inductor_quantizer",
    )
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    with torch.no_grad():
        prepared = steps.prepare_pt2e(ctx.export(ctx.dynamic_shapes).module(), quantizer)
        call(prepared, ctx.example())
        made: torch.fx.GraphModule = steps.convert_pt2e(prepared)
    if not holds(made.graph, DECOMPOSED):
        raise NotHadError(NOTHING)
    return made


def _first_module(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise NotHadError(f"neither {' nor '.join(names)} is there")


WAYS: dict[str, Callable[[Context], nn.Module]] = {
    "int8 weight-only": _configured(f"{LIBRARY}.quantization", "Int8WeightOnlyConfig"),
    "int4 weight-only": _configured(f"{LIBRARY}.quantization", "Int4WeightOnlyConfig"),
    "NVFP4": _configured(f"{LIBRARY}.prototype.mx_formats", "NVFP4DynamicActivationNVFP4WeightConfig"),
    "pt2e": _pt2e,
}


@dataclass
class Done:
    """What is known of one way."""

    name: str
    why_not: str = ""
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def is_quantised(model: nn.Module) -> bool:
    """Whether a parameter or buffer is a tensor of torchao's."""
    return any(type(t).__module__.partition(".")[0] == LIBRARY for t in (*model.parameters(), *model.buffers()))


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    if importlib.util.find_spec(LIBRARY) is None:
        return _not_checked(f"{LIBRARY} is not installed")
    try:
        ctx.expected()
        own = is_quantised(ctx.build())
        ctx.program()
    except Exception as error:
        return uncaptured.result(NAME, error)
    ways = [_judged(ctx, ctx, Done(ITS_OWN))] if own else [_tried(ctx, name) for name in WAYS]
    notes = [
        note for way in ways for note in ([f"{way.name}: not checked: {way.why_not}"] if way.why_not else way.notes)
    ]
    had = [way for way in ways if not way.why_not]
    if not had:
        return CheckResult(name=NAME, outcome="not_checked", reason=ways[0].why_not, notes=tuple(notes))
    found = tuple(finding for way in had for finding in way.findings)
    counting = [finding for finding in found if finding.counts]
    reason = counting[0].message if counting else ", ".join(way.name for way in had)
    return CheckResult(
        name=NAME, outcome="failed" if counting else "passed", reason=reason, findings=found, notes=tuple(notes)
    )


def _not_checked(reason: str) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason)


def _tried(ctx: Context, name: str) -> Done:
    """Quantise the model in one way, and judge what comes of it."""
    done = Done(name)
    ctx.stage(f"quantisation, {name}")
    quantised = _of(ctx, lambda: WAYS[name](ctx))
    try:
        quantised.expected()
    except ModelError as error:
        done.why_not = _reason(error.__cause__ or error)
        return done
    return _judged(ctx, quantised, done)


def _of(ctx: Context, make: Callable[[], nn.Module]) -> Context:
    """A context whose model is made so."""
    return Context(dataclasses.replace(ctx.case, model=make), ctx.settings, ctx.announce)


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, NotHadError) else blame.words(error)


def _judged(ctx: Context, quantised: Context, done: Done) -> Done:
    """Parity of the program, the gap to the float model, and what loading needs."""
    try:
        program = quantised.program()
        actual = result_of(program, quantised.example())
    except Exception as error:
        blame.pass_on_memory_error(error)
        message = f"the quantised model ({done.name}) is not captured, and the float one is"
        done.findings.append(_finding(ctx, "EXP003", message, "breaks", blame.words(error)))
        return done
    difference = quantised.compare(quantised.expected(), actual, quantised.example())
    if difference is not None:
        message = f"the program of the quantised model ({done.name}) computes something else than that"
        done.findings.append(_finding(ctx, "EXP004", message, "silent", str(difference)))
        return done
    done.notes.append(f"{done.name}: the program gives what the quantised model gives")
    if quantised is not ctx:
        done.notes.append(f"{done.name}: {gap(ctx.expected(), quantised.expected())}")
    _load(ctx, quantised, done, actual)
    return done


def gap(wanted: Any, found: Any) -> str:
    """How far the results of the quantised model are from those of the float one, in words."""
    pairs = [
        (a.double(), b.double())
        for a, b in zip(pytree.tree_leaves(wanted), pytree.tree_leaves(found), strict=False)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.is_floating_point() and a.shape == b.shape
    ]
    worst = max((float((a - b).abs().max()) for a, b in pairs if a.numel()), default=0.0)
    largest = max((float(a.abs().max()) for a, _ in pairs if a.numel()), default=0.0)
    share = f", {100 * worst / largest:.2g} % of its largest value" if largest else ""
    return f"at most {worst:.2g} from the float model{share}"


def _load(ctx: Context, quantised: Context, done: Done, result: Any) -> None:
    """Load the program where only torch is; what that lacks is a finding, or advice where exportlint quantised."""
    error = _loaded(quantised, quantised.program(), result)
    if error is None:
        done.notes.append(f"{done.name}: torch alone loads the program")
        return
    plain = holds(quantised.program().graph, DECOMPOSED)
    needs = f"operators {DECOMPOSED}" if plain else LIBRARY
    rewrite = IMPORT if plain else UNWRAP if _unwrapped_loads(quantised) else KEEP
    outcome: Result = "unportable" if done.name == ITS_OWN else "fine"
    message = f"the program of the quantised model ({done.name}) needs {needs} where it is loaded"
    done.findings.append(_finding(ctx, "EXP701", message, outcome, error, rewrite))


def holds(graph: torch.fx.Graph, namespace: str) -> bool:
    """Whether a graph calls operators of this namespace."""
    return any(str(node.target).startswith(f"{namespace}.") for node in graph.nodes)


def _unwrapped_loads(quantised: Context) -> bool:
    """Whether torch alone loads the program where torchao's tensors are taken apart before the export."""

    def make() -> nn.Module:
        made: nn.Module = importlib.import_module(f"{LIBRARY}.utils").unwrap_tensor_subclass(quantised.build())
        return made

    unwrapped = _of(quantised, make)
    try:
        program = unwrapped.program()
        result = result_of(program, unwrapped.example())
        if unwrapped.compare(quantised.expected(), result, unwrapped.example()) is not None:
            return False
        return _loaded(unwrapped, program, result) is None
    except Exception as error:
        blame.pass_on_memory_error(error)
        return False


def _loaded(ctx: Context, program: ExportedProgram, result: Any) -> str | None:
    """Why a fresh interpreter without torchao does not load and run the program; ``None`` where it does."""
    folder = ctx.path(FOLDER)
    folder.mkdir(exist_ok=True)
    ctx.stage("save of the quantised program")
    try:
        torch.export.save(program, folder / loader.PROGRAM)
    except Exception as error:
        return f"it cannot be saved: {blame.words(error)}"
    torch.save(reload.record(ctx, result), folder / loader.CALL)
    ctx.stage("load of the quantised program")
    heard: list[Message] = []
    ending = FreshInterpreters(apart=False).run("job", str(folder), MOST_SECONDS, heard.append)
    if ending.how == "wall":
        return f"the process that loads it does not end within {MOST_SECONDS} seconds"
    loaded = [message["loaded"] for message in heard if "loaded" in message]
    if ending.how != "done" or not loaded:
        return f"the process that loads it {ending.words}"
    why = loaded[-1]["error"]
    return None if why is None else f"{loaded[-1]['step']}: {why}"


def _finding(
    ctx: Context, rule: str, message: str, outcome: Result, evidence: str, rewrite: str | None = None
) -> Finding:
    return blame.finding(rule, message, ctx.head(), outcome=outcome, evidence=evidence, rewrite=rewrite)
