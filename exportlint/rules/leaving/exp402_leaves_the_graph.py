"""# leaves-the-graph (EXP402)

## What it does
Reports code under capture that needs real memory or another runtime: `data_ptr()`, `torch.save`, threads, copies by
`copy.copy`, gradients taken inside of `forward`, foreign functions, `with torch.device(...)`, methods made by
`functools.partialmethod`, `ctx.mark_dirty()`. Other `autograd.Function`s are captured by what their `forward` computes.

## Why it matters
What happens there is not recorded: the capture fails, or the result of one call is kept for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import ARGUMENT, OfArgument, Unthreaded, fix
from exportlint.fixes.edits import Called as Calling
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called, Entered, Event
from exportlint.source.values import Device, Dict, Tensor, Value, is_tensor, tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

_THREADS = frozenset(
    {"threading.Thread", "concurrent.futures.ThreadPoolExecutor", "concurrent.futures.thread.ThreadPoolExecutor"}
)
_PROGRESS = frozenset({"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.trange", "tqdm.auto.trange", "tqdm.rich.tqdm"})
_UNTRACED = _PROGRESS | {"torch.save", "torch.autograd.context.mark_dirty", "functools.partialmethod"}
_GRADIENTS = frozenset({f"torch.func.{name}" for name in ("grad", "grad_and_value", "vjp", "jacrev")})
_AUTOGRAD = ("torch.autograd.grad", "torch.autograd.backward", "torch.autograd.functional.")
_COPIES = frozenset({"copy.copy", "copy.deepcopy"})


def match(event: Event) -> Iterator[Match]:
    """A call that capture cannot follow, or a device that is entered."""
    if isinstance(event, Called):
        yield from _called(event)
        yield from _gradients(event)
    elif isinstance(event, Entered) and isinstance(event.value, Device):
        yield Match(event.site, f"`with {event.site.text}` is nothing that TorchDynamo follows", "untraced")


def _parts(value: Value) -> tuple[Value, ...]:
    return tuple(part for _, part in value.items) if isinstance(value, Dict) else (value,)


def _gradients(event: Called) -> Iterator[Match]:
    """Gradients that are taken by transforms of functions, or as a training loop takes them."""
    text = f"`{event.site.text}` takes a gradient inside of forward"
    if event.name in _GRADIENTS:
        yield Match(event.site, text, "gradient")
    elif event.name.startswith(_AUTOGRAD) or (event.name == ".backward" and isinstance(event.receiver, Tensor)):
        yield Match(event.site, f"{text}, which TorchDynamo refuses", "untraced")


def _called(event: Called) -> Iterator[Match]:
    given = event.arguments[0] if event.arguments else None
    text = f"`{event.site.text}`"
    if event.name == ".data_ptr" and isinstance(event.receiver, Tensor):
        yield Match(event.site, f"{text} asks for the address of a tensor, and a captured tensor has none")
    elif event.name in _THREADS:
        inner = f"{text} runs code in threads, which the capture does not see"
        turned = fix("Call it in turn", Unthreaded(event.site.range), unsafe=True)
        yield Match(event.site, inner, "threads", fix=turned)
    elif event.name in _COPIES and given is not None and is_tensor(given):
        clone = fix("Clone it", OfArgument(event.site.range, f"{ARGUMENT}.clone()"), unsafe=True)
        yield Match(event.site, f"{text} copies a tensor as a Python object", "copy", "Use tensor.clone().", fix=clone)
    elif event.name == "torch.load" or (event.name == "torch.save" and given is not None and tensors(_parts(given))):
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
        yield Match(event.site, f"{text} is nothing that TorchDynamo follows", "power", fix=power)
    elif event.name in _UNTRACED or event.name.startswith("ctypes.library."):
        silent = fix("Leave out the progress bar", OfArgument(event.site.range, ARGUMENT, alone=False), unsafe=True)
        plain = event.name in _PROGRESS and event.name.endswith("tqdm")
        text = f"{text} is nothing that TorchDynamo follows"
        yield Match(event.site, text, "untraced", fix=silent if plain else None)


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
    events=(Called, Entered),
    match=match,
)
