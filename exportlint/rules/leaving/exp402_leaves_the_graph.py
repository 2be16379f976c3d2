"""# leaves-the-graph (EXP402)

## What it does
Reports code under capture that needs real memory or another runtime: `data_ptr()`, `torch.save`, threads, copies by
`copy.copy`, gradients taken inside of `forward`, foreign functions, `with torch.device(...)`, methods made by
`functools.partialmethod`, `ctx.mark_dirty()`, nested tensors, operators such as `torch.linalg.inv` whose failure a
handler is to catch. Other `autograd.Function`s are captured by what their `forward` computes.

It also reports what TorchDynamo (strict export and `torch.compile`) does not follow, though `torch.export` by itself
runs it once and goes on: classes defined in `forward`, `eval`, locks, files, clocks, processes, contexts of
`contextvars`, hooks that `forward` registers, seeds and other states of torch, and many functions of Python's library.

## Why it matters
What happens there is not recorded: the capture fails, or the result of one call is kept for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import ARGUMENT, OfArgument, Unthreaded, fix
from exportlint.fixes.edits import Called as Calling
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.rules.untraced import FOLLOWED_SINCE_2_14, HOOKS, METHODS, PYTHON, TORCH
from exportlint.source.events import Asked, Called, Converted, Entered, Event, Used
from exportlint.source.facts import facts
from exportlint.source.values import (
    Const,
    Device,
    Dict,
    External,
    Instance,
    Number,
    Sequence,
    Tensor,
    TorchModule,
    Truth,
    Value,
    is_tensor,
    options,
    tensors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_THREADS = frozenset({
    "threading.Thread", "concurrent.futures.ThreadPoolExecutor", "concurrent.futures.thread.ThreadPoolExecutor",
    "concurrent.futures.executor.submit", "concurrent.futures.executor.map",
})  # fmt: skip
_PROGRESS = frozenset({"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.trange", "tqdm.auto.trange", "tqdm.rich.tqdm"})
_UNTRACED = PYTHON | TORCH | {"torch.autograd.context.mark_dirty", "functools.partialmethod", "torch.save"}
_GRADIENTS = frozenset({f"torch.func.{name}" for name in ("grad", "grad_and_value", "vjp", "jacrev")})
_FORWARD_MODE = frozenset({"torch.func.jacfwd", "torch.func.hessian", "torch.func.linearize"})
_AUTOGRAD = ("torch.autograd.grad", "torch.autograd.backward", "torch.autograd.functional.")
_COPIES = frozenset({"copy.copy", "copy.deepcopy"})
_READ = frozenset({
    "torch.load", "torch.from_dlpack", "torch.utils.dlpack.from_dlpack", "torch.utils.dlpack.to_dlpack",
    "torch.storage.data_ptr", "torch.cov", "torch.corrcoef", "torch.combinations", "torch.lobpcg",
})  # fmt: skip
_READ_OF_TENSOR = frozenset({".__dlpack__", ".share_memory_", ".to_mkldnn", ".cov", ".corrcoef"})
_SPARSE = frozenset({".to_sparse", ".to_sparse_coo", ".to_sparse_csc", ".to_sparse_csr"})
_NESTED = frozenset({
    f"torch.nested.{name}" for name in ("nested_tensor", "as_nested_tensor", "nested_tensor_from_jagged", "narrow")
})  # fmt: skip
_FAILING = frozenset({"torch.linalg.cholesky", "torch.linalg.inv", "torch.linalg.solve", "torch.inverse", ".inverse"})
_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_COMPARING = ("in", "sorted", "max", "min")
_UNKNOWN = "is nothing that TorchDynamo follows"


def match(event: Event) -> Iterator[Match]:
    """A call that capture cannot follow, a device or a lock that is entered, or an address that decides something."""
    if isinstance(event, Called):
        yield from _called(event)
        yield from _gradients(event)
        yield from _copied(event)
        yield from _untraced(event)
    elif isinstance(event, Entered):
        if isinstance(event.value, Device) or event.value == External("threading.lock"):
            yield Match(event.site, f"`with {event.site.text}` {_UNKNOWN}", "untraced")
    else:
        yield from _address(event)


def _address(event: Event) -> Iterator[Match]:
    """The address of a tensor takes part in a decision, or in a computation."""
    found: tuple[Value, ...] = ()
    if isinstance(event, Asked) or (isinstance(event, Converted) and event.to in ("int", "str")):
        found = options(event.value)
    elif isinstance(event, Used):
        found = (event.number,)
    compares = isinstance(event, Asked) and event.by in _COMPARING
    for value in found:
        number = value.of if isinstance(value, Truth) else value
        if not isinstance(number, Number) or number.site is None:
            continue
        asked = isinstance(event, Asked) and not compares and value is number
        if number.how == "computed address" or (number.how == "address" and not asked):
            yield Match(number.site, _of_address(number.site.text))


def _of_address(text: str) -> str:
    return f"`{text}` asks for the address of a tensor, and a captured tensor has none"


def _parts(value: Value) -> tuple[Value, ...]:
    return tuple(part for _, part in value.items) if isinstance(value, Dict) else (value,)


def _gradients(event: Called) -> Iterator[Match]:
    """Gradients that are taken by transforms of functions, or as a training loop takes them."""
    text = f"`{event.site.text}` takes a gradient inside of forward"
    if event.name in _GRADIENTS:
        yield Match(event.site, text, "gradient")
    elif event.name in _FORWARD_MODE:
        yield Match(event.site, f"{text}, in forward mode, which no capture follows")
    elif event.name.startswith(_AUTOGRAD) or (event.name == ".backward" and isinstance(event.receiver, Tensor)):
        of = event.receiver or next(iter(event.arguments), None)
        if isinstance(of, Tensor) and of.layered:
            yield Match(event.site, f"{text}, through layers of which a capture keeps no values")
        else:
            yield Match(event.site, f"{text}, which TorchDynamo refuses", "untraced")


def _copied(event: Called) -> Iterator[Match]:
    """A tensor, a container or a module that is copied as a Python object."""
    given = event.arguments[0] if event.arguments else None
    if event.name not in _COPIES or given is None:
        return
    text = f"`{event.site.text}`"
    deep = event.name == "copy.deepcopy"
    if is_tensor(given):
        clone = fix("Clone it", OfArgument(event.site.range, f"{ARGUMENT}.clone()"), unsafe=True)
        yield Match(event.site, f"{text} copies a tensor as a Python object", "copy", "Use tensor.clone().", fix=clone)
    elif deep and (_holds_tensors(given) or _has_parameters(given)):
        yield Match(event.site, f"{text} copies tensors as Python objects", "copy")
    elif not deep and (isinstance(given, Dict) or (isinstance(given, Sequence) and given.kind in ("list", "set"))):
        yield Match(event.site, f"{text} {_UNKNOWN}", "untraced", "Use the container's own method copy().")


def _holds_tensors(value: Value) -> bool:
    """Whether the value is a container that surely holds a tensor."""
    held = value.items if isinstance(value, Sequence) else _parts(value) if isinstance(value, Dict) else None
    return any(is_tensor(part) for part in held or ())


def _has_parameters(value: Value) -> bool:
    """Whether the value is a module of torch that surely has parameters."""
    own = isinstance(value, TorchModule) and value.name in facts().modules_with_parameters and not value.bare
    return own or (isinstance(value, TorchModule) and any(map(_has_parameters, value.parts)))


def _called(event: Called) -> Iterator[Match]:
    text = f"`{event.site.text}`"
    of_tensor = isinstance(event.receiver, Tensor)
    if (event.name == ".data_ptr" and of_tensor) or (event.name == "torch.Tensor.data_ptr"):
        yield Match(event.site, _of_address(event.site.text), "address")
    elif event.name in _THREADS:
        inner = f"{text} runs code in threads, which the capture does not see"
        turned = fix("Call it in turn", Unthreaded(event.site.range), unsafe=True)
        yield Match(event.site, inner, "threads", fix=turned)
    elif event.name in _READ or _reads(event):
        yield Match(event.site, f"{text} needs the data of tensors, and a captured tensor has none")
    elif event.name == "torch._shape_as_tensor":
        yield Match(
            event.site,
            f"{text} reads the memory of a tensor",
            "shape tensor",
            "Use torch.tensor(x.shape, device=x.device).",
            fix=fix("Make a tensor of the shape", OfArgument(event.site.range, f"torch.tensor({ARGUMENT}.shape)")),
        )
    elif event.name == "builtins.pow" and event.arguments and is_tensor(event.arguments[0]):
        power = fix("Use torch.pow", Calling(event.site.range, "torch.pow"))
        yield Match(event.site, f"{text} {_UNKNOWN}", "power", fix=power)
    else:
        yield from _of_another_kind(event, text)


def _reads(event: Called) -> bool:
    """Whether the call needs the data of a tensor that it is made on, or given."""
    if event.name == "torch.save":
        return bool(event.arguments) and bool(tensors(_parts(event.arguments[0])))
    return event.name in _READ_OF_TENSOR and isinstance(event.receiver, Tensor)


def _of_another_kind(event: Called, text: str) -> Iterator[Match]:
    """Tensors that are no plain ones, and what is computed a second time."""
    if event.name in _SPARSE and isinstance(event.receiver, Tensor):
        yield Match(event.site, f"{text} makes a sparse tensor, which torch.compile does not follow", "sparse")
    elif event.name in _NESTED:
        jagged = event.keywords.get("layout") == External("torch.jagged") or event.name.endswith("jagged")
        said = f"{text} makes a nested tensor, which no export follows"
        yield Match(event.site, said, "nested tensor" if jagged else "", "Pad the parts, and pass a mask.")
    elif event.name in _FAILING and event.caught:
        said = f"{text} may fail, and no program keeps the handler that is to catch it"
        yield Match(
            event.site, said, "handler", "Use the form that tells of failures, such as torch.linalg.cholesky_ex."
        )
    elif event.name == _CHECKPOINT:
        yield Match(event.site, f"{text} is nothing that a strict export follows", "checkpoint")


def _untraced(event: Called) -> Iterator[Match]:
    """What TorchDynamo does not follow."""
    text = f"`{event.site.text}` {_UNKNOWN}"
    if event.name in _PROGRESS:
        silent = fix("Leave out the progress bar", OfArgument(event.site.range, ARGUMENT, alone=False), unsafe=True)
        yield Match(event.site, text, "untraced", fix=silent if event.name.endswith("tqdm") else None)
    elif event.name in _UNTRACED or event.name.startswith("ctypes.library."):
        if not isinstance(event.receiver, TorchModule) and not _reads(event) and not _is_followed(event):
            later = event.name in FOLLOWED_SINCE_2_14
            yield Match(event.site, text, "untraced before 2.14" if later else "untraced")
    elif event.name.startswith("torch.") and _has_state(event):
        yield Match(event.site, text, "untraced")
    elif event.name.startswith("."):
        yield from _methods(event, text)


def _is_followed(event: Called) -> bool:
    """Whether it is a form of a call that is followed: the root logger, a list of what are parameters already."""
    if event.name == "torch.nn.ParameterList":
        given = event.arguments[0] if event.arguments else None
        held = given.items or (given.element,) if isinstance(given, Sequence) else ()
        return not any(isinstance(v, Tensor) and v.kept != "parameter" for part in held for v in options(part))
    return event.name == "logging.getLogger" and not event.arguments


def _has_state(event: Called) -> bool:
    """Whether a function of torch draws from a generator, or makes a tensor that wants a gradient."""
    made = facts().functions.get(event.name)
    drawn = event.keywords.get("generator") == External("torch.generator")
    return drawn or (made is not None and made.factory and event.keywords.get("requires_grad") == Const(value=True))


def _methods(event: Called, text: str) -> Iterator[Match]:
    """Methods of tensors and modules that TorchDynamo refuses."""
    name = event.name.removeprefix(".")
    tensor, module = isinstance(event.receiver, Tensor), isinstance(event.receiver, (TorchModule, Instance))
    if tensor and name in METHODS:
        yield Match(event.site, text, "untraced")
    elif module and name in HOOKS:
        yield Match(event.site, text, "untraced", "Register it in __init__.")
    elif name in ("requires_grad=", "requires_grad_") and (module or (tensor and _is_kept(event))):
        yield Match(event.site, text, "untraced", "Set it in __init__.")


def _is_kept(event: Called) -> bool:
    """Whether a tensor is a parameter, or is one of which an assignment says that it needs a gradient."""
    return event.name == ".requires_grad=" or getattr(event.receiver, "kept", "") == "parameter"


_FILE = {"imports": "import io\nfrom torch import save", "above": "FILE = io.BytesIO()"}
_CONTEXTS = {"imports": "from contextlib import nullcontext\nfrom torch import device"}

RULE = Rule(
    code="EXP402",
    name="leaves-the-graph",
    summary="The code asks for something that exists only while the model runs eagerly",
    rewrite="Move it out of forward, or replace it with a torch operator.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
    variants={
        "threads": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
            bad=example(
                """
                def forward(self, x):
                    with ThreadPoolExecutor(2) as pool:
                        return sum(pool.map(lambda f: f(x), [torch.sin, torch.cos]))
                """,
                imports="from concurrent.futures import ThreadPoolExecutor",
            ),
        ),
        "copy": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return x.relu() + copy.copy(x)", imports="import copy"),
        ),
        "gradient": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
            bad=example("def forward(self, x):\n    return torch.func.grad(lambda t: t.sin().sum())(x)"),
        ),
        "shape tensor": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return torch._shape_as_tensor(x).sum() + x"),
        ),
        "power": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return pow(x, 2)"),
            changed={"2.14": outcomes(export="fine", strict="fine", compiled="fine")},
        ),
        "address": Variant(
            outcomes=outcomes(export="breaks", strict="fine", compiled="fine"),
            bad=example("def forward(self, x):\n    return x + len({x.data_ptr()})"),
        ),
        "nested tensor": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
            bad=example(
                "def forward(self, x):\n    return torch.nested.as_nested_tensor(x, layout=torch.jagged).values()"
            ),
        ),
        "handler": Variant(
            outcomes=outcomes(export="specialises", strict="specialises", compiled="breaks"),
            bad=example(
                """
                def forward(self, x):
                    try:
                        return torch.linalg.inv(x)
                    except RuntimeError:
                        return x
                """,
                inputs="torch.eye(4)",
                inputs2="torch.zeros(4, 4)",
            ),
        ),
        "sparse": Variant(
            outcomes=outcomes(export="fine", strict="fine", compiled="breaks"),
            bad=example("def forward(self, x):\n    return x.to_sparse().to_dense()"),
        ),
        "checkpoint": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="fine"),
            bad=example(
                "def forward(self, x):\n    return checkpoint(self.fc, x, use_reentrant=False)",
                imports="from torch.utils.checkpoint import checkpoint",
                init="self.fc = nn.Linear(4, 4)",
            ),
        ),
        "untraced before 2.14": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="breaks"),
            bad=example(
                "def forward(self, x):\n    return x * nsmallest(1, [2, 1])[0]", imports="from heapq import nsmallest"
            ),
            changed={"2.14": outcomes(export="fine", strict="fine", compiled="fine")},
        ),
        "untraced": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="breaks"),
            bad=example(
                "def forward(self, x):\n    for _ in tqdm(range(2), disable=True):\n        x = x + 1\n    return x",
                imports="from tqdm import tqdm",
            ),
        ),
    },
    bad=example("def forward(self, x):\n    return x * 2 if x.data_ptr() % 2 else x + 1"),
    good=example("def forward(self, x):\n    return x * 2 if x.element_size() % 2 else x + 1"),
    fixed=example("def forward(self, x):\n    return x + 1"),
    near=(
        Near(
            variant="copy",
            bad=example("def forward(self, x):\n    return x.relu() + copy.deepcopy(x)", imports="import copy"),
            good=example("def forward(self, x):\n    return x.relu() + copy.deepcopy(3)", imports="import copy"),
        ),
        Near(
            variant="untraced",
            bad=example(
                """
                def forward(self, x):
                    for _ in tqdm(range(3)):
                        x = x * 2
                    return x
                """,
                imports="from tqdm import tqdm",
            ),
            good=example(
                """
                def forward(self, x):
                    for _ in sorted(range(3)):
                        x = x * 2
                    return x
                """,
                imports="from tqdm import tqdm",
            ),
        ),
        Near(
            bad=example("def forward(self, x):\n    save(x, FILE)\n    return x + 2", **_FILE),
            good=example("def forward(self, x):\n    (x, FILE)\n    return x + 2", **_FILE),
        ),
        Near(
            variant="untraced",
            bad=example("def forward(self, x):\n    with device(x.device):\n        return x + 3", **_CONTEXTS),
            good=example("def forward(self, x):\n    with nullcontext(x.device):\n        return x + 3", **_CONTEXTS),
        ),
        Near(
            variant="untraced",
            bad=example(
                """
                def forward(self, x):
                    return x * LIB.abs(-8)
                """,
                imports="import ctypes\nimport operator",
                above='LIB = ctypes.CDLL("libc.so.6")',
            ),
            good=example(
                """
                def forward(self, x):
                    return x * operator.abs(-8)
                """,
                imports="import ctypes\nimport operator",
                above='LIB = ctypes.CDLL("libc.so.6")',
            ),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"), Observer(check="compile", mode="compile")),
    events=(Called, Entered, Asked, Converted, Used),
    match=match,
)
