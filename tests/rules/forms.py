"""Further forms of hazards, beside the examples of the rules, and clean code close to them.

Each says what torch makes of it in the three capture modes, and what the linter is to find.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cases import RELEASE

from exportlint.rules.examples import example

BREAKS = ("breaks", "breaks", "breaks")
SPECIALISES = ("specialises", "specialises", "fine")
SILENT = ("silent", "silent", "fine")
UNPORTABLE = ("unportable", "unportable", "fine")
UNTRACED = ("fine", "breaks", "breaks")
UNTRACED_BEFORE_2_14 = UNTRACED if RELEASE < (2, 14) else ("fine", "fine", "fine")
UNREGISTERED = ("breaks", "breaks", "fine")
ALONE = ("breaks", "fine", "fine")
NUMBER = ("specialises", "fine", "fine")
PRINTED = ("fine", "specialises", "breaks")
NAMED = ("fine", "specialises", "fine")
COMPILED = ("fine", "fine", "breaks")
NO_EXPORT = ("breaks", "breaks", "fine")
FINE = ("fine", "fine", "fine")
LISTED = ("unportable", "breaks" if RELEASE < (2, 14) else "unportable", "fine")
GIVEN = ("silent", "breaks", "breaks") if RELEASE < (2, 14) else ("silent", "silent", "silent")
ROWS = {"inputs": "torch.ones(6, 4)", "inputs2": "torch.ones(10, 4)"}
FEW = {"inputs": "torch.ones(6, 4)", "inputs2": "torch.ones(3, 4)"}
REFUSED = ("silent", "breaks", "breaks")
ORDERED = REFUSED if RELEASE < (2, 14) else ("silent", "silent", "fine")
RANGED = ("silent", "breaks", "fine")
TABLES = {
    "imports": "import datetime\nimport random\nimport secrets\nimport time\nimport uuid\nimport numpy as np",
    "init": "self.t = [float(i) for i in range(1000)]\nself.rng = random.Random(0)\n"
    "self.numbers = np.random.default_rng(0)",
    "inputs": "torch.arange(2000.0).view(2, 1000)",
}
DRAWN = ("silent", "breaks", "breaks" if RELEASE < (2, 14) else "fine")
ROW = {"inputs": "torch.ones(6, 4)", "shapes": '{"x": {0: torch.export.Dim.DYNAMIC}}'}
MANY = {"inputs": "torch.ones(6, 4)", "inputs2": "torch.ones(40, 4)"}
CODES = {"init": "self.c = nn.Parameter(torch.ones(3, 4))\nself.big = nn.Parameter(torch.ones(99, 4))"}
NUMPY = {"imports": "import numpy as np"}
OUT = {"imports": "from dataclasses import dataclass", "above": "@dataclass\nclass Out:\n    x: torch.Tensor"}
MATH = {"imports": "import math"}
INTEGER = {"parameters": "x, n", "inputs": "torch.ones(2, 4), torch.tensor(3)"}
FUNCTIONAL = {"imports": "import torch.nn.functional as F"}
WINDOW = {"parameters": "x, n", "inputs": "torch.ones(2, 8), torch.tensor(3)", **FUNCTIONAL}
_OF_THREE = "self.m = nn.ModuleDict({'3': nn.Tanh()})"
STEPS = {
    "imports": "import os",
    "build": 'os.environ.pop("EXAMPLE_STEPS", None)\nreturn Net().eval()',
    "inputs2": '(os.environ.update(EXAMPLE_STEPS="3"), torch.ones(2, 4))[1]',
}
METER = """class Meter:
    def __init__(self):
        self.n, self.seen = 0, []

    def add(self, x):
        self.n += 1
        self.seen.append(x)
        return torch.cat(self.seen).sum(0)
"""
KEPT = "class K:\n    n = 0\n\n\nC = K()"
COUNTED = {"above": "C = {'n': 0}"}

_COUNTER = """
def counter():
    n = 0

    def step():
        nonlocal n
        n += 1
        return n

    return step
"""

_BOX = """
def counter():
    box = [0]

    def bump():
        box[0] += 1
        return box[0]

    return bump
"""
_NOTE = "{}\ndef note(k):\n{}\nself.note = note"

_METHODS = """
class Make(nn.Module):
    def _make(self, n, device=None):
        return torch.zeros(n, device=device)

    def _times(self, k, x):
        return x * k if x.sum() > 0 else x

    on_cpu = partialmethod(_make, device="cpu")
    twice = partialmethod(_times, 2)
"""
METHODS = {"imports": "from functools import partialmethod", "above": _METHODS, "init": "self.m = Make()"}

FUNCTION = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        {}
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
"""


CUSTOM = """
@torch.library.custom_op("example_form::{0}", mutates_args=())
def {0}(x: torch.Tensor) -> torch.Tensor:
    return {1}

"""
FAKE = """
@{0}.register_fake
def _(x):
    return torch.empty_like(x)

"""


@dataclass(frozen=True)
class Form:
    """Code of a `forward`.

    Attributes:
        body: Its statements.
        outcomes: What torch does, in the order of the capture modes.
        found: The rules and variants that are found, ``CODE`` or ``CODE VARIANT``.
        proof: How to see the outcomes.
        parts: What else the file holds, as `example` takes it.
    """

    body: str
    outcomes: tuple[str, str, str]
    found: frozenset[str]
    proof: str = "capture"
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The text of the file."""
        lines = "\n".join("    " + line for line in self.body.splitlines())
        return example(f"def forward(self, {self.parts.get('parameters', 'x')}):\n{lines}", **self._given)

    @property
    def _given(self) -> dict[str, str]:
        return {name: text for name, text in self.parts.items() if name != "parameters"}


def form(body: str, outcomes: tuple[str, str, str], *found: str, proof: str = "capture", **parts: str) -> Form:
    """A form, its parts as keywords."""
    return Form(body, outcomes, frozenset(found), proof, parts)


def _on_devices(body: str, outcomes: tuple[str, str, str], *found: str, **parts: str) -> Form:
    return form(body, outcomes, *found, proof="second device", **parts)


def _called_twice(body: str, outcomes: tuple[str, str, str], *found: str, **parts: str) -> Form:
    return form(body, outcomes, *found, proof="second call", **parts)


def _cases(subject: str, *cases: str) -> str:
    """A ``match`` of which the first case returns one thing, and what follows it another."""
    return f"match {subject}:\n" + "".join(f"    case {case}:\n        return x * 2\n" for case in cases) + "return -x"


_LEAF = "torch.set_grad_enabled(True)\ny = x.detach().requires_grad_()\n"
_WEIGHT = "self.w = nn.Parameter(torch.ones(4))"
TABLE = "if n not in {0}:\n    {0}[n] = torch.arange(n, device=x.device)\nreturn x + {0}[n][:, None]"
FORMS = (
    form("a, b = sorted([x.sum(), x.mean()])\nreturn x * a + b", BREAKS, "EXP101"),
    form("y = [x.sum(), x.mean()]\ny.sort()\nreturn x * y[0]", BREAKS, "EXP101"),
    form("return x * min([x.sum(), x.mean()])", FINE),
    form("return max(x, -x, key=torch.sum)", BREAKS, "EXP101"),
    form("return x + max(range(2), key=lambda i: x[i].sum())", BREAKS, "EXP101"),
    form("y = [x, -x]\ny.sort(key=lambda p: (1, p.sum()))\nreturn y[0]", BREAKS, "EXP101"),
    form("y = {'a': x.sum(), 'b': x.mean()}\nreturn x if max(y, key=y.get) == 'a' else -x", BREAKS, "EXP101"),
    form("return min([(x.sum(), x), (x.mean(), -x)])[1]", BREAKS, "EXP101"),
    form("return x + sorted(zip(x.sum(1), [1, 2]))[0][1]", BREAKS, "EXP101"),
    form("return sorted([x, -x], key=lambda p: p.sum().item())[0]", BREAKS, "EXP102"),
    form("return x * sorted(n.tolist())[0]", BREAKS, "EXP102", parameters="x, n",
         inputs="torch.ones(2, 4), torch.tensor([3, 1])"),
    form("return sorted([(x.sum(), 2), (x.mean(), 1)], key=lambda p: p[1])[0][0]", FINE),
    form("return x * max(n.tolist())", FINE, parameters="x, n", inputs="torch.ones(2, 4), torch.tensor([3, 1])"),
    form("torch._assert(x.sum() > 0, 'no')\nreturn x * 2", BREAKS, "EXP101"),
    form("torch.testing.assert_close(x, x)\nreturn x * 2", BREAKS, "EXP101"),
    form("torch.testing.assert_close(x.dim(), 2)\nreturn x * 2", FINE),
    form("return x * 2 if torch.is_nonzero(x.sum()) else x", BREAKS, "EXP101"),
    form("if operator.gt(x.sum(), 0):\n    return x * 2\nreturn x", BREAKS, "EXP101", imports="import operator"),
    form("return x * 2 if operator.truth(x.sum()) else x", BREAKS, "EXP101", imports="import operator"),
    form("return x * 2 if operator.mul(x.sum(), 2) > 0 else x", BREAKS, "EXP101", imports="import operator"),
    form("return x * 2 if operator.neg(x.sum()) else x", BREAKS, "EXP101", imports="import operator"),
    form("return x * 2 if operator.mul(x.dim(), 2) > 0 else x", FINE, imports="import operator"),
    form("return x.reshape(operator.index(x.shape[0]), 4)", SPECIALISES, "EXP301", **ROWS, imports="import operator"),
    form("return x.reshape(x.size(0).__index__(), 4)", ("specialises", "specialises", "breaks"), "EXP301",
         "EXP301 index method", **ROWS),
    _on_devices("return x + self.make(4)", UNPORTABLE, "EXP201", imports="from functools import partial",
         init='self.make = partial(torch.zeros, device="cpu")'),
    form("return x + self.make(4, device=x.device)", FINE, imports="from functools import partial",
         init='self.make = partial(torch.zeros, device="cpu")'),
    form("return x + self.make()", FINE, imports="from functools import partial",
         init='self.make = partial(torch.zeros, ())'),
    _on_devices("return x + self.make(4)", UNPORTABLE, "EXP202", imports="import functools",
         init="self.make = functools.partial(torch.zeros, dtype=torch.float32)"),
    form("return x.to(0) + x", BREAKS, "EXP201 accelerator"),
    form("return x.to(torch.float32, True) + x", FINE),
    form("return x.type(torch.cuda.FloatTensor) + x", BREAKS, "EXP201 accelerator"),
    form("return x.type('torch.cuda.FloatTensor') + x", BREAKS, "EXP201 accelerator"),
    _on_devices("return x.type('torch.FloatTensor') + x", UNPORTABLE, "EXP201"),
    _on_devices("a = torch.zeros(4, device='cpu')\nb = torch.ones(4, device='cpu')\nreturn x + (a + b)", UNPORTABLE,
                "EXP201"),
    _on_devices("a = torch.zeros(4, device='cpu')\nb = torch.ones(4, device=x.device)\nreturn x + (a + b)", UNPORTABLE,
                "EXP201"),
    _on_devices("a = torch.zeros(4, device=x.device)\nb = torch.ones(4, device='cpu')\nreturn x + (a + b)", UNPORTABLE,
                "EXP201"),
    form("return x + torch.cuda.FloatTensor([1.0, 2.0, 3.0, 4.0])", BREAKS, "EXP201 accelerator"),
    form("return x + torch.from_numpy(x.__array__()).to(x)", BREAKS, "EXP401"),
    form("return x * Parameter(torch.ones(4, device=x.device), requires_grad=False)", UNTRACED, "EXP502 parameter",
         imports="from torch.nn import Parameter"),
    form("return x * Parameter(data=x)", ("fine", "breaks", "fine"), "EXP502 parameter of a tensor",
         imports="from torch.nn.parameter import Parameter"),
    form("return x * nn.Parameter(self.w)", ("fine", "breaks", "fine"), "EXP502 parameter of a tensor",
         init="self.w = nn.Parameter(torch.ones(4))"),
    form("return x * made(x)", UNTRACED, "EXP502 parameter",
         above="def made(x):\n    return nn.Parameter(torch.zeros(4, device=x.device))"),
    form("return x * 2 if isinstance(self.w, nn.Parameter) else x", FINE, init="self.w = nn.Parameter(torch.ones(4))"),
    form("return twice(x)", BREAKS, "EXP801", above=CUSTOM.format("twice", "x * 2")),
    form("return twice(x)", BREAKS, "EXP801", imports="from torch.library import custom_op as operator",
         above=CUSTOM.format("twice", "x * 2").replace("torch.library.custom_op", "operator")),
    form("return helper(x)", BREAKS, "EXP801",
         above=CUSTOM.format("twice", "x * 2") + "\n\ndef helper(v):\n    return twice(v)\n"),
    form("return twice(once(x))", BREAKS, "EXP801",
         above=CUSTOM.format("once", "x * 1") + FAKE.format("once") + CUSTOM.format("twice", "x * 2")),
    form("return named(x)", BREAKS, "EXP801",
         above="def plain(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n\n\n"
         'named = torch.library.custom_op("example_form::named", plain, mutates_args=())'),
    form("return twice(x)", FINE, above=CUSTOM.format("twice", "x * 2") + FAKE.format("twice")),
    form("return twice(x)", FINE,
         above=CUSTOM.format("twice", "x * 2") + "\n\ntwice.register_fake(torch.empty_like)\n"),
    form("return twice(x)", FINE,
         above=CUSTOM.format("twice", "torch.from_numpy(x.numpy() * 2)") + FAKE.format("twice")),
    form("return twice(x)", FINE,
         above=CUSTOM.format("twice", "x * 2 if x.sum() > 0 else x * 1") + FAKE.format("twice")),
    form("y = x * 1\nadd(y)\nreturn y", FINE,
         above='@torch.library.custom_op("example_form::add", mutates_args=("x",))\n'
         "def add(x: torch.Tensor) -> None:\n    x.add_(1)\n"),
    form("return twice(x)", UNTRACED, "EXP402 untraced",
         above="@torch.compiler.disable\ndef twice(x):\n    return x * 2\n"),
    _on_devices("return twice(self.fc, x)", UNPORTABLE, "EXP206", init="self.fc = nn.Linear(4, 4)",
                above='@torch.autocast("cuda", dtype=torch.bfloat16)\ndef twice(layer, x):\n    return layer(x) * 2\n'),
    form("return twice(x)", FINE, above="@torch.no_grad()\ndef twice(x):\n    return x * 2\n"),
    form("try:\n    y = torch.linalg.cholesky(x)\nexcept torch.linalg.LinAlgError:\n    y = x\nreturn y",
         ("specialises", "specialises", "breaks"), "EXP402 handler", inputs="torch.eye(4)",
         inputs2="torch.zeros(4, 4)"),
    form("try:\n    y = x.inverse()\nexcept Exception as e:\n    raise ValueError('singular') from e\nreturn y", FINE,
         inputs="torch.eye(4)"),
    form("y, info = torch.linalg.cholesky_ex(x)\nreturn torch.where(info > 0, x, y)", FINE, inputs="torch.eye(4)",
         inputs2="torch.zeros(4, 4)"),
    form("try:\n    y = x.sin()\nexcept RuntimeError:\n    y = x\nreturn y", FINE),
    form("with Timer():\n    return x * 2", UNTRACED, "EXP402 untraced", imports="import time",
         above="class Timer:\n    def __enter__(self):\n        self.start = time.perf_counter()\n\n"
         "    def __exit__(self, *raised):\n        pass"),
    form("with Scaled() as k:\n    return x * k", FINE,
         above="class Scaled:\n    def __enter__(self):\n        return 2\n\n"
         "    def __exit__(self, *raised):\n        pass"),
    form("return x * 2 if FLAG.exists() else x", UNTRACED, "EXP402 untraced", imports="from pathlib import Path",
         above="FLAG = Path('/flag')"),
    form("return x * 2 if FLAG.suffix else x", FINE, imports="from pathlib import Path", above="FLAG = Path('/flag')"),
    _on_devices("return x + torch.zeros(4, device=self.options.device)", UNPORTABLE, "EXP201",
         imports="from dataclasses import dataclass", init="self.options = Options()",
         above="@dataclass\nclass Options:\n    device: str = 'cpu'"),
    form("return {'x': x, 'kept': frozenset({'x'})}", UNREGISTERED, "EXP601"),
    form(f"{_LEAF}return torch.autograd.grad(self.fc(y).relu().sum(), y)[0]", BREAKS, "EXP402",
         init="self.fc = nn.Linear(4, 4)"),
    form(f"{_LEAF}return torch.autograd.grad(self.fc(y).sum(), y)[0]", BREAKS, "EXP402",
         init="self.fc = nn.LayerNorm(4)"),
    form(f"{_LEAF}self.fc(y).sum().backward()\nreturn y.grad", BREAKS, "EXP402",
         init="self.fc = nn.Sequential(nn.Linear(4, 4), nn.ReLU())"),
    form(f"x = self.fc(x)\n{_LEAF}return torch.autograd.grad(y.sin().sum(), y)[0]", UNTRACED, "EXP402 untraced",
         init="self.fc = nn.Linear(4, 4)"),
    form(f"{_LEAF}return torch.autograd.grad((y * self.w).sum(), y)[0]", UNTRACED, "EXP402 untraced", init=_WEIGHT),
    form("def up(t):\n    t[0] = 1\n    return t * 2\n\nreturn torch.cond(x.sum() > 0, up, torch.sin, (x * 1,))",
         NO_EXPORT, "EXP802 writes"),
    form("def up(t):\n    self.n.add_(1)\n    return t * 2\n\nreturn torch.cond(x.sum() > 0, up, torch.sin, (x,))",
         NO_EXPORT, "EXP802 writes", init="self.register_buffer('n', torch.zeros(()))"),
    form("def up(t):\n    y = t.clone()\n    y[0] = 1\n    return y.mul_(2)\n\n"
         "return torch.cond(x.sum() > 0, up, torch.sin, (x,))", FINE),
    form("return torch.cond(x.sum() > 0, torch.sin, lambda t: t.to(dtype=torch.float16), (x,))", BREAKS, "EXP803"),
    form("return torch.cond(x.sum() > 0, lambda t: t.long(), lambda t: torch.zeros_like(t, dtype=torch.int64), (x,))",
         FINE),
    form("return torch.cond(x.sum() > 0, lambda t: t.to(x.dtype) * 1, lambda t: t * 2, (x,))", FINE),
    form("return torch.cond(x.sum() > 0, lambda t: (t * 2).long(), lambda t: t.long() * 3, (x,))", FINE),
    form("x = x.double()\nreturn torch.cond(x.sum() > 0, lambda t: t.double() * 2, lambda t: t * 3, (x,))", FINE),
    form("x = x.long()\nreturn torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t * 3, (x,))", FINE),
    form("return torch.func.jacfwd(torch.sin)(x).sum((2, 3)) + x", BREAKS, "EXP402"),
    form("return hessian(lambda t: t.sin().sum())(x).sum((2, 3)) + x", BREAKS, "EXP402",
         imports="from torch.func import hessian"),
    form("return torch.func.jvp(torch.sin, (x,), (x,))[1]", FINE),
    form("return x + nn.ParameterDict({'a': torch.ones(4, device=x.device)})['a']", UNTRACED, "EXP402 untraced"),
    form("return x + nn.ParameterList([self.w])[0]", FINE, init=_WEIGHT),
    form("class Pair:\n    k = 2\nreturn x * Pair.k", UNTRACED, "EXP402 untraced"),
    form("return x * width()", UNTRACED, "EXP402 untraced",
         above="def width():\n    class Pair:\n        k = 2\n\n    return Pair.k"),
    form("return x * self.k", FINE, init="class Pair:\n    k = 2\n\nself.k = Pair.k"),
    form("with self.lock:\n    return x * 2", UNTRACED, "EXP402 untraced", imports="from threading import RLock",
         init="self.lock = RLock()"),
    form("with self.none:\n    return x * 2", FINE, imports="from contextlib import nullcontext",
         init="self.none = nullcontext()"),
    form("return x * 2 if self.done.is_set() else x", FINE, imports="import threading",
         init="self.done = threading.Event()"),
    form("return self.pool.submit(torch.sin, x).result()", BREAKS, "EXP402 threads",
         imports="from concurrent.futures import ThreadPoolExecutor", init="self.pool = ThreadPoolExecutor(1)"),
    form("return x * KEPT.get()", UNTRACED_BEFORE_2_14, "EXP402 untraced before 2.14",
         imports="from contextvars import ContextVar", above="KEPT = ContextVar('kept', default=2)"),
    form("return x + len({p.data_ptr() for _, p in self.named_parameters()})", ALONE, "EXP402 address", init=_WEIGHT),
    form("seen = {}\nfor p in self.fc.parameters():\n    seen[p.data_ptr()] = p\nreturn x + len(seen)", ALONE,
         "EXP402 address", init="self.fc = nn.Linear(4, 4)"),
    form("return x * 2 if x.data_ptr() else x", ALONE, "EXP402 address"),
    form("return x * 2 if x.data_ptr() in {1, 2} else x", ALONE, "EXP402 address"),
    form("return x * 2 if x.data_ptr() in [1, 2] else x", BREAKS, "EXP402"),
    form("return x * 2 if x.data_ptr() % 2 else x", BREAKS, "EXP402"),
    form("return x * 2 if x.untyped_storage().data_ptr() else x", BREAKS, "EXP402"),
    form("return x + x.untyped_storage().size()", FINE),
    form("return x * torch.cov(x).sum()", BREAKS, "EXP402"),
    form("return torch.nested.nested_tensor([x[0], x[1]]).to_padded_tensor(0.0)", BREAKS, "EXP402"),
    form("return copy.deepcopy([x, x])[0]", BREAKS, "EXP402 copy", imports="import copy"),
    form("return x * copy.copy(self.sizes)[0]", UNTRACED, "EXP402 untraced", imports="import copy",
         init="self.sizes = [2, 3]"),
    form("return x * copy.deepcopy(self.sizes)[0]", FINE, imports="import copy", init="self.sizes = [2, 3]"),
    form("return copy.deepcopy(self.fc)(x)", BREAKS, "EXP402 copy", imports="import copy",
         init="self.fc = nn.Linear(4, 4)"),
    form("self.w.requires_grad_(False)\nreturn x * self.w", UNTRACED, "EXP402 untraced", init=_WEIGHT),
    form("for w in self.parameters():\n    w.requires_grad = False\nreturn x * self.w", UNTRACED, "EXP402 untraced",
         init=_WEIGHT),
    form("for w in self.parameters():\n    w.grad = None\nreturn x * self.w", FINE, init=_WEIGHT),
    form("return x * torch.ones(4, device=x.device, requires_grad=True)", UNTRACED, "EXP402 untraced"),
    form("return x * torch.ones(4, device=x.device, requires_grad=False)", FINE),
    form("return x + torch.rand((), generator=self.g) * 0", UNTRACED, "EXP402 untraced",
         init="self.g = torch.Generator().manual_seed(3)"),
    form("handle = self.fc.register_forward_hook(lambda m, i, o: o * 2)\ny = self.fc(x)\nhandle.remove()\nreturn y",
         UNTRACED, "EXP402 untraced", init="self.fc = nn.Tanh()"),
    form("return self.fc(x)", FINE, init="self.fc = nn.Tanh()\nself.fc.register_forward_hook(lambda m, i, o: o * 2)"),
    form("if not torch.compiler.is_compiling():\n    gc.collect()\nreturn x * 2", FINE, imports="import gc"),
    form("return x * 2 if LOG.isEnabledFor(10) else x", COMPILED, "EXP403", imports="import logging",
         above="LOG = logging.getLogger(__name__)"),
    form("logging.getLogger()\nreturn x * 2", FINE, imports="import logging"),
    form("logging.getLogger(__name__)\nreturn x * 2", UNTRACED, "EXP402 untraced", imports="import logging"),
    form("return torch.func.vjp(torch.sin, x)[0]", NO_EXPORT, "EXP402 gradient"),
    form("return vjp(torch.sin, x)[0]", NO_EXPORT, "EXP402 gradient", imports="from functorch import vjp"),
    form("return torch.func.jacrev(torch.sin)(x).sum((2, 3)) + x", NO_EXPORT, "EXP402 gradient"),
    form("return torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1]", FINE),
    form("return torch.func.vmap(torch.sin)(x)", FINE),
    form(f"{_LEAF}return torch.autograd.grad(y.sin().sum(), y)[0]", UNTRACED, "EXP402 untraced"),
    form(f"{_LEAF}return grad(y.sin().sum(), y)[0]", UNTRACED, "EXP402 untraced",
         imports="from torch.autograd import grad"),
    form(f"{_LEAF}y.sin().sum().backward()\nreturn y.grad", UNTRACED, "EXP402 untraced"),
    form(f"{_LEAF}torch.autograd.backward(y.sin().sum())\nreturn y.grad", UNTRACED, "EXP402 untraced"),
    form("return torch.autograd.functional.jacobian(torch.sin, x).sum((2, 3)) + x", UNTRACED, "EXP402 untraced"),
    form("d = x.data\nreturn x - d.mean(-1, keepdim=True)", NO_EXPORT, "EXP504"),
    form("return x * self.w.data.sum()", NO_EXPORT, "EXP504", init=_WEIGHT),
    form("return x + getattr(x, 'data')", NO_EXPORT, "EXP504"),
    form("return x + x.data.new_zeros(4)", NO_EXPORT, "EXP504"),
    form("return x + torch.zeros_like(x.data)", NO_EXPORT, "EXP504"),
    form("return bare(x)", NO_EXPORT, "EXP504", above="def bare(x):\n    return x.data * 2"),
    form("return x * x.data.shape[0] * x.data.size(0) * x.data.dim()", FINE),
    form("return x.to(self.w.data.dtype).to(x.data.device)", FINE, init=_WEIGHT),
    form("y = x.data\nreturn x + y.shape[0]", FINE),
    form("self.w.data.copy_(torch.ones_like(self.w) * 2)\nreturn x * self.w", ("breaks", "silent", "fine"),
         "EXP504 written", init=_WEIGHT),
    form("d = self.w.data\nd *= 0.5\nreturn x * self.w", ("breaks", "silent", "fine"), "EXP504 written", init=_WEIGHT),
    form("self.w.data[0] = 3.0\nreturn x * self.w", ("breaks", "silent", "fine"), "EXP504 written", init=_WEIGHT),
    form("y = x * 2\ny.data[:, 0] = 0.0\nreturn y", ("breaks", "silent", "fine"), "EXP504 written"),
    form("self.a.weight.data = self.a.weight * 0.5\nreturn self.a(x)", ("silent", "fine", "fine"), "EXP504 bound",
         init="self.a = nn.Linear(4, 4)"),
    form("return x + self.t", FINE, init="self.register_buffer('t', nn.Parameter(torch.ones(4)).data)"),
    form("return self.k.data * x", FINE, init="self.k = Kept()", above="class Kept:\n    data = 2"),
    form("return self.a.to(x.dtype)(x)", ALONE, "EXP505", init="self.a = nn.Linear(4, 4)"),
    form("self.a = self.a.float()\nreturn self.a(x)", ALONE, "EXP505", init="self.a = nn.Linear(4, 4)"),
    form("self.to(x.device)\nreturn x * self.w", ALONE, "EXP505", init=_WEIGHT),
    form("return moved(self.a, x)(x)", ALONE, "EXP505", init="self.a = nn.Sequential(nn.Linear(4, 4), nn.ReLU())",
         above="def moved(module, x):\n    return module.to(x.device)"),
    form("for part in self.a:\n    x = part.to(x.device)(x)\nreturn x", ALONE, "EXP505",
         init="self.a = nn.ModuleList([nn.Linear(4, 4)])"),
    form("return self.a.to(dtype=torch.float64)(x.double())", BREAKS, "EXP505 cast", init="self.a = nn.Linear(4, 4)"),
    form("self.a.double()\ny = self.a(x.double())\nself.a.float()\nreturn y.float()", BREAKS, "EXP505", "EXP505 cast",
         init="self.a = nn.Linear(4, 4)"),
    form("return self.a.to(x.device)(x)", FINE, init="self.a = nn.ReLU()"),
    form("return self.a.to(x.device)(x)", FINE, init="self.a = nn.LayerNorm(4, elementwise_affine=False)"),
    form("return self.a(x)", FINE, init="self.a = nn.Linear(4, 4).to('cpu')"),
    form("if self.a.weight.device != x.device:\n    self.a.to(x.device)\nreturn self.a(x)", FINE,
         init="self.a = nn.Linear(4, 4)"),
    form("if self.a.weight.device == x.device:\n    return self.a(x)\nreturn self.a.to(x.device)(x)", FINE,
         init="self.a = nn.Linear(4, 4)"),
    form("if self.a.weight.dtype != x.dtype:\n    move(self.a, x)\nreturn self.a(x)", FINE,
         init="self.a = nn.Linear(4, 4)", above="def move(module, x):\n    module.to(x.dtype)"),
    form("return self.w.to(x.device) * x", FINE, init=_WEIGHT),
    form("return x * self.step()", FINE, init="self.step = lambda: 2", above=_COUNTER),
    form("step = counter()\nreturn x * step() * step()", FINE, above=_COUNTER),
    form("return x * STEP()", SILENT, "EXP501", above=_COUNTER + "\nSTEP = counter()"),
    form("return x + torch.zeros(6, 4, device=x.device)", SPECIALISES, "EXP301", **ROW),
    form("return torch.zeros(6, 4, device=x.device) < x", SPECIALISES, "EXP301", **ROW),
    form("return x * self.scale", SPECIALISES, "EXP301", **ROW, init="self.register_buffer('scale', torch.ones(6, 1))"),
    form("return x * self.scale", FINE, **ROW, init="self.register_buffer('scale', torch.ones(1, 4))"),
    form("return x + torch.zeros(1, 4, device=x.device)", FINE, **ROW),
    form("return x @ torch.ones(4, 6, device=x.device) + torch.ones(6, device=x.device)", FINE, **ROW),
    form("return x.expand(6, 4) * 2", SPECIALISES, "EXP301", **ROW),
    form("return x.expand(2, -1, 4) * 2", FINE, **ROW),
    form("a, b, c, d, e, f = x\nreturn a + b + c + d + e + f", SPECIALISES, "EXP301", **ROW),
    form("a, b, c, d = x.T\nreturn a + b + c + d", FINE, **ROW),
    form("return torch.cat([p * 2 for p in x.chunk(x.shape[0])])", SPECIALISES, "EXP301", **ROW),
    form("return torch.cat([p * 2 for p in x.chunk(2)])", FINE, **ROW),
    form("return x * 2 if x.max(0).values.sum() > 0 else x", BREAKS, "EXP101"),
    form("return x * 2 if torch.linalg.svd(x).S.sum() > 0 else x", BREAKS, "EXP101"),
    form("return torch.stack([x[0] + i for i in range(x.shape[1])])", FINE, parameters="x: tuple[torch.Tensor]"),
    _called_twice("return x + torch.from_numpy(np.random.rand(4)).to(x)", ("silent", "silent", "silent"),
                  "EXP303 numpy random number", **NUMPY),
    _called_twice("return x + torch.tensor([random.random()], device=x.device)", DRAWN,
                  "EXP303 random number", imports="import random"),
    form("return x * 2 if operator.gt(x.dim(), 1) else x", FINE, imports="import operator"),
    form("return x + len(list(filter(None, x.sum(1))))", BREAKS, "EXP101"),
    form("return x + len(list(filter(None, [1, 0])))", FINE),
    form("positive = bool(x.sum() > 0)\nreturn x * 2", ALONE, "EXP101 bool"),
    form("return x * 2 if bool(x.sum() > 0) else x", BREAKS, "EXP101"),
    form(_cases("x.sum()", "0"), BREAKS, "EXP101"),
    form(_cases("x.sum()", "None", "1 | 2"), BREAKS, "EXP101"),
    form(_cases("(x.sum(), 1)", "(0, 1)"), BREAKS, "EXP101"),
    form(_cases("x", "torch.Tensor() as t if t.sum() > 0"), BREAKS, "EXP101"),
    form(_cases("x.dim()", "_ if x.sum() > 0"), BREAKS, "EXP101"),
    form(_cases("x.mean().item()", "0.5"), BREAKS, "EXP102"),
    form("return x * math.sqrt(x.sum())", BREAKS, "EXP102", **MATH),
    form("return x * math.floor(x.sum())", BREAKS, "EXP102", **MATH),
    form("return x * math.floor(x.sum().item())", FINE, **MATH),
    form("return x * math.exp(x.mean().item())", BREAKS, "EXP102", **MATH),
    form("return x * math.isfinite(n.item())", BREAKS, "EXP102", **MATH, **INTEGER),
    form("return x * math.sin(x.mean().item())", NO_EXPORT, "EXP102 mathematics", **MATH),
    form("return x * math.sqrt(n.item())", ALONE, "EXP102 conversion", **MATH, **INTEGER),
    form("return x * math.sqrt(n)", NO_EXPORT, "EXP102 mathematics", **MATH, **INTEGER),
    form("return x * math.pow(x.mean(), 2)", UNTRACED, "EXP102 untraced", **MATH),
    form("return x * round(x.sum())", BREAKS, "EXP102"),
    form("return x * round(x.sum().item())", FINE),
    form("return x * self.t[n]", NO_EXPORT, "EXP102 lookup", init="self.t = (1, 2, 3, 4)", **INTEGER),
    form("return self.f[n.item()](x)", NO_EXPORT, "EXP102 lookup", **INTEGER,
         init="self.f = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))"),
    form("return x + sum(x[0].tolist())", UNTRACED, "EXP102 untraced"),
    form("return x * torch.tensor(n.tolist())", FINE, **INTEGER),
    form(_cases("x.shape[0]", "6"), SPECIALISES, "EXP301", **ROWS),
    form(_cases("x.shape", "(6, _)"), SPECIALISES, "EXP301", **ROWS),
    form(_cases("x.shape", "(_, 4)"), FINE, **ROWS),
    form(_cases("x.sum() > 0", "True"), FINE),
    form(_cases("x", "None", "torch.Tensor(ndim=3)", "[_, _]", "{'a': _}", "int()"), FINE),
    form("t = x.sum()\nmatch x.dim():\n    case 1:\n        return x\n    case t:\n        pass\n"
         "return x if t > 0 else -x", FINE),
    form("match {'a': x}, [x, 1]:\n    case {'a': a, **rest}, [b, *more]:\n        return a + b if rest or more else x",
         FINE),
    _on_devices("with torch.device('cpu'):\n    p = torch.arange(4)\nreturn x + p", ("unportable", "breaks", "breaks"),
                "EXP201 context", "EXP402 untraced"),
    _on_devices("return x + torch.zeros(4, device=D)", UNPORTABLE, "EXP201",
                above="D = 'cuda' if torch.cuda.is_available() else 'cpu'"),
    _on_devices("return x + torch.zeros(4, device=D)", UNPORTABLE, "EXP201",
                above="D = 'cpu'\nif torch.cuda.device_count() > 0:\n    D = 'cuda:0'"),
    _on_devices("return x + torch.zeros(4, device=D)", UNPORTABLE, "EXP201",
                above="if torch.xpu.is_available():\n    D = 'cuda'\nelse:\n    D = torch.device('cpu')"),
    _on_devices("return x + torch.zeros(4, device=device)", UNPORTABLE, "EXP201",
                parameters="x, device='mps' if torch.backends.mps.is_available() else 'cpu'"),
    _on_devices("return x + torch.zeros(4, device=self.d)", UNPORTABLE, "EXP201", init="self.d = D",
                above="D = torch.device('cuda' if torch.cuda.is_available() else 'cpu')"),
    _on_devices("return self.fc(x.to(D))", UNPORTABLE, "EXP201", init="self.fc = nn.Linear(4, 4)",
                above="D = 'cuda' if torch.cuda.is_available() else 'cpu'"),
    _on_devices("return self.fc(x)", FINE, init="self.fc = nn.Linear(4, 4, device=D)",
                above="D = 'cuda' if torch.cuda.is_available() else 'cpu'"),
    _on_devices("with x.device:\n    return x + torch.ones(4)", UNTRACED, "EXP402 untraced"),
    _on_devices("total = torch.zeros(1)\nfor row in x:\n    total = total + row.sum()\nreturn total", UNPORTABLE,
                "EXP202"),
    _on_devices("total = torch.tensor(0.0)\nfor i in range(2):\n    total = total + x[i].sum()\nreturn total", FINE),
    _on_devices("total = torch.tensor(0.0)\nfor i in range(2):\n    total += x[i].sum()\nreturn total", UNPORTABLE,
                "EXP202"),
    _on_devices("total = torch.tensor(0.0)\ntotal.add_(x.sum())\nreturn total", UNPORTABLE, "EXP202"),
    _on_devices("total = torch.tensor(0.0)\ntotal.copy_(x.sum())\nreturn total", FINE),
    _on_devices("total = torch.tensor(0.0)\ntotal.add_(1)\nreturn total + x.sum()", FINE),
    _on_devices("total = torch.tensor(0.0)\ntotal += 1\nreturn total + x.sum()", FINE),
    _on_devices("total = torch.zeros((), device=x.device)\ntotal += x.sum()\nreturn total", FINE),
    _on_devices("total = 0\nfor i in range(2):\n    total += x[i].sum()\nreturn total", FINE),
    _on_devices("total = torch.tensor(0.0)\ntotal += x.sum().cpu()\nreturn x * total", FINE),
    _on_devices("return x * self.w", UNPORTABLE, "EXP203", init="self.w = nn.Parameter(torch.ones(4)).data"),
    _on_devices("return x * self.w[0]", LISTED, "EXP203 list",
                init="self.w = [nn.Parameter(torch.ones(4))]"),
    _on_devices("return self.w[0](x)", FINE, init="self.w = nn.ModuleList([nn.Linear(4, 4)])"),
    _on_devices("if mask is None:\n    mask = torch.ones(4)\nreturn x * mask", UNPORTABLE, "EXP202",
                parameters="x, mask=None"),
    _on_devices("return x * (self.w if mask is None else mask)", UNPORTABLE, "EXP203", parameters="x, mask=None",
                init="self.w = torch.ones(4)"),
    _on_devices("return self.w[0](x)", FINE, init="self.w = [nn.Linear(4, 4)]\nself.all = nn.ModuleList(self.w)"),
    _on_devices("return x * self.w[0]", FINE, init="self.w = nn.ParameterList([torch.ones(4)])"),
    _on_devices("for w in self.w.values():\n    x = x * w\nreturn x", FINE,
                init="self.w = nn.ParameterDict({'a': torch.ones(4)})"),
    _on_devices("return x * self.w[0]", UNPORTABLE, "EXP203", init="self.w = (torch.ones(4), 3)"),
    _on_devices("for w in self.w:\n    x = x * w\nreturn x", UNPORTABLE, "EXP203",
                init="self.w = [torch.ones(4), torch.zeros(4)]"),
    _on_devices("for w in self.w:\n    x = x * w\nreturn x", UNPORTABLE, "EXP203",
                init="self.w = []\nfor i in range(2):\n    self.w.append(torch.ones(4))"),
    _on_devices("return x * self.w[1]", UNPORTABLE, "EXP203",
                init="self.w = {i: torch.ones(4) for i in range(2)}"),
    _on_devices("for w in self.w.values():\n    x = x * w\nreturn x", UNPORTABLE, "EXP203",
                init="self.w = {}\nself.w['a'] = torch.ones(4)"),
    _on_devices("return x * W['a']", UNPORTABLE, "EXP203", above="W = {'a': torch.ones(4)}"),
    _on_devices("return x * w[0]", UNPORTABLE, "EXP203", parameters="x, w=(torch.ones(4),)"),
    form("y = x * 1\nfor i in range(len(self.w[0])):\n    y = y + self.w[0][i]\nreturn y * len(self.w)", FINE,
         **ROWS, init="self.w = [torch.ones(4)]"),
    _on_devices("return x * self.w[0].to(x)", FINE, init="self.w = [torch.ones(4)]"),
    _on_devices("return x * self.w[0]", FINE, init="self.w = [torch.tensor(4.0)]"),
    _on_devices("return torch.relu(x) + torch.ones(x.shape)", UNPORTABLE, "EXP202"),
    _on_devices("return torch.relu(x) + torch.zeros(*x.size())", UNPORTABLE, "EXP202"),
    _on_devices("if self.t is None:\n    self.t = torch.arange(4)\nreturn x * self.t", UNPORTABLE, "EXP202",
                init="self.t = None"),
    _on_devices("if not hasattr(self, 't'):\n    self.t = torch.arange(4)\nreturn x * self.t", UNPORTABLE, "EXP202"),
    _on_devices("if self.t is None or len(self.t) != 4:\n    self.t = torch.arange(4)\nreturn x * self.t", UNPORTABLE,
                "EXP202", init="self.t = None"),
    _on_devices("if 'a' not in self.t:\n    self.t['a'] = torch.arange(4)\nreturn x * self.t['a']", UNPORTABLE,
                "EXP202", init="self.t = {}"),
    _on_devices("if self.t is None:\n    self.t = torch.arange(4, device=x.device)\nreturn x * self.t", FINE,
                init="self.t = None"),
    form("a, b = x.chunk(2, 0)\nreturn a + b", FINE, **ROWS),
    form("return x * (2 if str(x.shape[0]) == '6' else 3)", ("silent", "specialises", "breaks"), "EXP301 text",
         "EXP301 printed", **ROWS),
    form("return x if f'{x.shape} {str(x.shape[0])}' else -x", PRINTED, "EXP301 printed", **ROWS),
    form("return x if f'{x.shape}' else -x", FINE, **ROWS),
    form("return x if repr(tuple(x.shape)) else -x", PRINTED, "EXP301 printed", **ROWS),
    form("return x if '%s' % x.shape[0] else -x", PRINTED, "EXP301 printed", **ROWS),
    form("text = f'{x.shape[0]:d}'\nreturn x * 2", NUMBER, "EXP301 number", **ROWS),
    form("a, *rest = x\nreturn a", SPECIALISES, "EXP301", **ROWS),
    form("return x.reshape(int(math.prod(x.shape)))", NUMBER, "EXP301 number",
         **ROWS, imports="import math"),
    form("return x.reshape(math.prod(x.shape))", FINE, **ROWS, imports="import math"),
    form("return x.reshape(np.prod(x.shape))", UNTRACED, "EXP301 numpy size", **ROWS, **NUMPY),
    form("return x * np.zeros(x.shape[0]).size", NUMBER, "EXP301 number", **ROWS, **NUMPY),
    form("return x * np.sqrt(x.shape[0])", SPECIALISES, "EXP301", **ROWS, **NUMPY),
    form("return x[:-4] * 2", FINE, **ROWS),
    form("return x[:-4] * 2", SPECIALISES, "EXP301 slice", **FEW),
    form("return x[-4:] * 2", SPECIALISES, "EXP301 slice", **FEW),
    form("return x[4:] * 2", SPECIALISES, "EXP301 slice", **FEW),
    form("return x[1:-1] * 2", SPECIALISES, "EXP301 slice", **FEW),
    form("return x[::4] * 2", FINE, **ROWS),
    form("return x[::4] * 2", SPECIALISES, "EXP301 slice", **FEW),
    form("n = x.shape[0]\nt = {}\n" + "t[n] = torch.arange(n, device=x.device)\nreturn x + t[n][:, None]", SPECIALISES,
         "EXP301", **ROWS),
    _called_twice("n = x.shape[0]\n" + TABLE.format("self.t"), SPECIALISES, "EXP302", **ROWS, init="self.t = {}"),
    _called_twice("return x + self.t.setdefault(f'{x.shape[0]}', torch.arange(x.shape[0], device=x.device))[:, None]",
                  NAMED, "EXP302 text", **ROWS, init="self.t = {}"),
    _called_twice("n = '{}'.format(x.shape[0])\n" + TABLE.replace("arange(n", "arange(x.shape[0]").format("self.t"),
                  FINE, **ROWS, init="self.t = {}"),
    _called_twice("n = x.shape[0]\n" + TABLE.format("T"), SPECIALISES, "EXP302", **ROWS, above="T = {}"),
    form("return x * np.array([1.0, 2.0, 3.0, 4.0])", ALONE, "EXP401", **NUMPY),
    form("x = x + 0\nx += np.ones(4, dtype='float32')\nreturn x", ALONE, "EXP401", **NUMPY),
    form("return np.array([1.0, 2.0, 3.0, 4.0]) * x", BREAKS, "EXP401 numpy operator", **NUMPY),
    form("return x > np.ones(4, dtype='float32')", BREAKS, "EXP401 numpy operator", **NUMPY),
    form("return x + T", UNREGISTERED, "EXP401 kept array", **NUMPY, above="T = np.ones(4, dtype=np.float32)"),
    form("return x * np.float32(2) * np.sqrt(2) * np.pi", FINE, **NUMPY),
    form("torch.save({'x': x}, io.BytesIO())\nreturn x * 2", BREAKS, "EXP402", "EXP402 untraced", imports="import io"),
    form("torch.save(3, io.BytesIO())\nreturn x * 2", UNTRACED, "EXP402 untraced", imports="import io"),
    form("return Double.apply(x * 1)", UNTRACED, "EXP402 untraced", above=FUNCTION.format("ctx.mark_dirty(x)")),
    form("return Double.apply(x * 1)", FINE, above=FUNCTION.format("ctx.save_for_backward(x)")),
    form("return Double.apply(x * 1)", BREAKS, "EXP101", above=FUNCTION.format("x = x + 1 if x.sum() > 0 else x")),
    _called_twice("self.seen.append(x.shape)\nreturn x * len(self.seen)", SILENT, "EXP501", init="self.seen = []"),
    _called_twice("C['n'] += 1\nreturn x * C['n']", SILENT, "EXP501", **COUNTED),
    _called_twice("c = C\nc['n'] += 1\nreturn x * c['n']", SILENT, "EXP501", **COUNTED),
    _called_twice("self.c['n'] = self.c.get('n', 0) + 1\nreturn x * self.c['n']", SILENT, "EXP501", init="self.c = {}"),
    _called_twice("self.c[x.dim()] += 1\nreturn x * self.c[x.dim()]", SILENT, "EXP501",
                  init="self.c = defaultdict(int)", imports="from collections import defaultdict"),
    _called_twice("self.c['n'] += 1\nreturn x * self.c['n']", SILENT, "EXP501",
                  init="self.c = collections.Counter()", imports="import collections"),
    form("c = collections.Counter()\nc['n'] += 1\nreturn x * c['n']", FINE, imports="import collections"),
    _called_twice("setattr(self, 'n', getattr(self, 'n') + 1)\nreturn x * self.n", SILENT, "EXP501", init="self.n = 0"),
    _called_twice("self.n = getattr(self, 'n', 0) + 1\nreturn x * self.n", SILENT, "EXP501"),
    _called_twice("setattr(self, 'n', getattr(self, 'n', 0) + 1)\nreturn x * self.n", SILENT, "EXP501"),
    _called_twice("self.n = getattr(self, 'n', 0) + 1\nreturn x * self.n", SILENT, "EXP501", init="self.n = 0"),
    _called_twice("n = getattr(self, 'n', 1)\nreturn x * n if n > 0 else x", FINE, init="self.n = 1"),
    _called_twice("self.n = getattr(self, 'n', 3)\nreturn x * self.n", FINE),
    _called_twice("self.n = getattr(self, 'n', 0) + 1\nreturn x * 2", FINE, "EXP501 unread counter"),
    _called_twice("if not hasattr(self, 'n'):\n    self.n = 0\nself.n += 1\nreturn x * 2", FINE,
                  "EXP501 unread counter"),
    _called_twice("self.n += 1\nif self.n % 9 == 0:\n    LOG.info('call %d', self.n)\nreturn x * 2", FINE,
                  "EXP501 unread counter", "EXP403", init="self.n = 0", imports="import logging",
                  above="LOG = logging.getLogger()"),
    _called_twice("x = torch.cat([self.past.expand(x.shape[0], -1), x], 1)\nself.past = x[:1, -2:] + 1\nreturn x",
                  SILENT, "EXP501", "EXP203", init="self.past = torch.zeros(1, 2)"),
    _called_twice("self.__setattr__('n', self.n + 1)\nreturn x * self.n", SILENT, "EXP501", init="self.n = 0"),
    _called_twice("self.__dict__['n'] += 1\nreturn x * self.n", SILENT, "EXP501", init="self.n = 0"),
    _called_twice("vars(self)['n'] = self.n + 1\nreturn x * self.n", SILENT, "EXP501", init="self.n = 0"),
    _called_twice("type(C).n += 1\nreturn x * C.n", ("silent",) * 3, "EXP501", above=KEPT),
    _called_twice("C.__class__.n += 1\nreturn x * type(C).n", SILENT, "EXP501", above=KEPT),
    _called_twice("type(C).n = 3\nreturn x * type(C).n", FINE, above=KEPT),
    _called_twice("setattr(self, 'n', 3)\nreturn x * self.n", FINE, init="self.n = 0"),
    _called_twice("self.__dict__['n'] = 3\nreturn x * self.n", FINE, init="self.n = 0"),
    _called_twice("if self.first:\n    self.first = False\n    return x * 2\nreturn x", SILENT, "EXP501",
                  init="self.first = True"),
    _called_twice("if self.first:\n    self.first = False\nreturn x", FINE, init="self.first = True"),
    _called_twice("seen.append(1)\nreturn x * len(seen)", SILENT, "EXP501", parameters="x, seen=[]"),
    _called_twice("return x * next(self.it)", SILENT, "EXP501", init="self.it = iter(range(1, 100))"),
    _called_twice("return x * next(self.it)", SILENT, "EXP501", init="self.it = itertools.count(1)",
                  imports="import itertools"),
    _called_twice("c = C\nc.n += 1\nreturn x * c.n", SILENT, "EXP501", above="class K:\n    n = 0\n\n\nC = K()"),
    _called_twice("self.h.append(x)\nreturn x + sum(self.h)", SILENT, "EXP501", init="self.h = deque(maxlen=3)",
                  imports="from collections import deque"),
    form("return x, {'a': Out(x)}", UNREGISTERED, "EXP601", **OUT),
    form("return {x, x + 1}", UNREGISTERED, "EXP601"),
    form("return (x * i for i in range(2))", UNREGISTERED, "EXP601"),
    form("return map(torch.sin, [x])", UNREGISTERED, "EXP601"),
    form("return b['x'] * 2", UNREGISTERED, "EXP601", parameters="b", imports="from collections import UserDict",
         above="Batch = UserDict", inputs="Batch(x=torch.ones(2))"),
    form("return x, None, 'a', 3", FINE),
    form("return x * n.__index__()", BREAKS, "EXP102", **INTEGER),
    form("return x * n.item().__index__()", BREAKS, "EXP102", **INTEGER),
    form("return F.avg_pool1d(x, n.item())", NO_EXPORT, "EXP102 range", **WINDOW),
    form("return F.max_pool1d(x, 2, stride=n.item())", NO_EXPORT, "EXP102 range", **WINDOW),
    form("return F.avg_pool2d(x[None], (1, n.item()))", NO_EXPORT, "EXP102 range", **WINDOW),
    form("return nn.AvgPool1d(n.item())(x)", BREAKS, "EXP102", **WINDOW),
    form("return x.unfold(1, n.item(), 1)", NO_EXPORT, "EXP102 range", **WINDOW),
    form("return x.sum() + torch.linspace(0, 1, n.item(), device=x.device)", NO_EXPORT, "EXP102 range", **WINDOW),
    form("return F.interpolate(x[None], size=n.item())", FINE, **WINDOW),
    form("return torch.linspace(0, n.item(), 4, device=x.device) + x", FINE, **INTEGER),
    form("return torch.cdist(x, self.c)", SPECIALISES, "EXP301", **MANY, **CODES),
    form("return torch.cdist(x1=x, x2=self.big)", SPECIALISES, "EXP301", **MANY, **CODES),
    form("return torch.cdist(self.c, x, 2.0)", SPECIALISES, "EXP301", **MANY, **CODES),
    form("return torch.cdist(self.big, x)", FINE, **MANY, **CODES),
    form("return torch.cdist(x, self.c, p=1.0)", FINE, **MANY, **CODES),
    form("return torch.cdist(x, self.c, compute_mode='use_mm_for_euclid_dist')", FINE, **MANY, **CODES),
    form("return torch.cdist(x.T[:, :3], self.c[:, :3])", FINE, **MANY, **CODES),
    form("return F.avg_pool1d(x.t(), x.shape[0])", SPECIALISES, "EXP301", **FUNCTIONAL, **ROWS),
    form("return F.max_pool1d(x.t(), kernel_size=x.shape[0], stride=1)", SPECIALISES, "EXP301", **FUNCTIONAL, **ROWS),
    form("return F.avg_pool2d(x[None], (x.shape[0], 1))", SPECIALISES, "EXP301", **FUNCTIONAL, **ROWS),
    form("return nn.MaxPool1d(x.shape[0])(x.t())", SPECIALISES, "EXP301", **ROWS),
    form("return x.unfold(0, x.shape[0], 1)", SPECIALISES, "EXP301", **ROWS),
    form("return F.one_hot(x.argmax(1), x.shape[0])", SPECIALISES, "EXP301", **FUNCTIONAL, **ROWS),
    form("return F.adaptive_avg_pool1d(x, x.shape[0])", SPECIALISES, "EXP301", **FUNCTIONAL, **ROWS),
    form("return F.adaptive_avg_pool2d(x[None], (x.shape[0], 1))", FINE, **FUNCTIONAL, **ROWS),
    form("return torch.linspace(0, x.shape[0], 4, device=x.device) + x", FINE, **ROWS),
    form("return x[: x.shape[0] - 1].roll(x.shape[0], 0)", FINE, **ROWS),
    form("return x[:operator.index(n)]", ALONE, "EXP102 conversion", **INTEGER, imports="import operator"),
    form("return x[:operator.index(n.item())]", NO_EXPORT, "EXP102 lookup", **INTEGER, imports="import operator"),
    form("return x * n.__int__()", ALONE, "EXP102 conversion", **INTEGER),
    form("return x * n.item().__int__()", BREAKS, "EXP102", **INTEGER),
    form("return x * x.sum().__float__()", ALONE, "EXP102 conversion"),
    form("return x * x.sum().item().__float__()", BREAKS, "EXP102"),
    form("return x * 2 if x.sum().__bool__() else x", BREAKS, "EXP101"),
    form("positive = (x.sum() > 0).__bool__()\nreturn x * 2", BREAKS, "EXP101"),
    form("return x * 2 if n.item().__bool__() else x", BREAKS, "EXP102", **INTEGER),
    form("return x * 2 if x.sum().__gt__(0) else x", BREAKS, "EXP101"),
    form("return x * 2 if x.sum().item().__gt__(0) else x", BREAKS, "EXP102"),
    form("return x * 2 if x.sum().__neg__() else x", BREAKS, "EXP101"),
    form("return x * x.__gt__(0)", FINE),
    form("return x * self.scale.__mul__(2)", FINE, init="self.register_buffer('scale', torch.ones(4))"),
    form("return x * x[x > 0].__len__()", FINE),
    form("return x * x.__len__()", FINE, **ROWS),
    form("return x * 2 if x.dim().__gt__(1) else x", FINE),
    form("return x * 2 if x.shape[0].__gt__(7) else x", SPECIALISES, "EXP301", **ROWS),
    form("return x.reshape(x.shape[0].__int__(), 4)", ("specialises", "specialises", "breaks"), "EXP301",
         "EXP301 index method", **ROWS),
    form("return self.m[f'{n.item()}'](x)", NO_EXPORT, "EXP102 lookup", init=_OF_THREE, **INTEGER),
    form("return self.m[f'{x.sum(0).argmax().item() + 3}'](x)", BREAKS, "EXP102", init=_OF_THREE),
    form("return self.m['%d' % (x.sum(0).argmax().item() + 3)](x)", BREAKS, "EXP102", "EXP102 format",
         init=_OF_THREE),
    form("i = n.item()\nreturn getattr(self, f'head_{i}')(x)", NO_EXPORT, "EXP102 lookup",
         init="self.head_3 = nn.Tanh()", **INTEGER),
    form("i = x.sum(0).argmax().item()\nreturn getattr(self, f'head_{i}')(x)", BREAKS, "EXP102",
         init="self.head_0 = nn.Tanh()"),
    form("return getattr(self, f'head_{x.dim()}')(x)", FINE, init="self.head_2 = nn.Tanh()"),
    form("words = f'{n.item()}'\nreturn x * 2", FINE, **INTEGER),
    form("return x * 2 if 3 in n else x", BREAKS, "EXP101", parameters="x, n",
         inputs="torch.ones(2, 4), torch.tensor([3, 1])"),
    form("return x * 2 if x.shape[1] in (3, 4) else x", FINE),
    form("return F.one_hot(x.long())", BREAKS, "EXP102", **FUNCTIONAL),
    form("return F.one_hot(x.long(), 4)", FINE, **FUNCTIONAL),
    form("return F.one_hot(x.long(), num_classes=4)", FINE, **FUNCTIONAL),
    form("return x * 2 if n.item() == 3 else x", NO_EXPORT, "EXP102 asked of an input", **INTEGER),
    form("k = int(n)\nreturn x * 2 if k > 2 else x", NO_EXPORT,
         "EXP102 asked of an input", "EXP102 conversion", **INTEGER),
    form("k = n.item()\nwhile k > 0:\n    x = x * 2\n    k -= 1\nreturn x", NO_EXPORT,
         "EXP102 asked of an input", **INTEGER),
    form(_cases("n.item()", "0", "3"), NO_EXPORT, "EXP102 asked of an input", **INTEGER),
    form("n = n + 1\nreturn x * 2 if n.item() == 3 else x", BREAKS, "EXP102", **INTEGER),
    form("return x * 2 if (n * 2).item() == 3 else x", BREAKS, "EXP102", **INTEGER),
    form("return x * 2 if n.item() > 0.5 else x", BREAKS, "EXP102", parameters="x, n",
         inputs="torch.ones(2, 4), torch.tensor(0.7)"),
    _called_twice("for _ in range(int(os.environ.get('EXAMPLE_STEPS', '2'))):\n    x = x + 1\nreturn x",
                  ("silent", "silent", "silent"), "EXP303", **STEPS),
    _called_twice("for _ in range(random.randint(1, 9)):\n    x = x + 1\nreturn x", DRAWN, "EXP303 random range",
                  imports="import random"),
    *(
        _called_twice(f"return {drawn}", REFUSED, "EXP303 random number", **TABLES)
        for drawn in (
            "x[:, random.randint(0, 999)]",
            "x + self.t[random.randrange(1000)]",
            "x + self.t[int(random.random() * 1000)]",
            "x * self.rng.gauss(0, 1)",
            "x * random.triangular(0, 1)",
        )
    ),
    *(
        _called_twice(f"return {drawn}", REFUSED, "EXP303 random number", "EXP402 untraced", **TABLES)
        for drawn in ("x * random.getrandbits(30)", "x * (uuid.uuid4().int % 1000)", "x * secrets.randbelow(1 << 30)")
    ),
    *(
        _called_twice(f"return {drawn}", REFUSED, "EXP303 random choice", **TABLES)
        for drawn in ("x * random.choice(self.t)", "x * self.rng.choice(self.t)")
    ),
    _called_twice("return x * random.choices(self.t)[0]", REFUSED, "EXP303 random choice", "EXP402 untraced",
                  **TABLES),
    _called_twice("return x * random.sample(self.t, 1)[0]", ORDERED, "EXP303 random order", **TABLES),
    _called_twice("return x * self.rng.random()", ("silent", "breaks", "silent"), "EXP303 own generator", **TABLES),
    _called_twice("return x[:, :random.randint(1, 999)].sum()", RANGED, "EXP303 random range", **TABLES),
    _called_twice("return x + self.t[np.random.randint(1000)]", REFUSED, "EXP303 numpy random number", **TABLES),
    _called_twice("return x + self.numbers.random()", REFUSED, "EXP303 numpy random number", **TABLES),
    _called_twice("return x * datetime.datetime.now().microsecond", REFUSED, "EXP303 clock", "EXP402 untraced",
                  **TABLES),
    _called_twice("return x * (time.monotonic_ns() % 1000)", REFUSED, "EXP303 clock", "EXP402 untraced",
                  **TABLES),
    form("return x * self.drawn", FINE, imports="import random",
         init="self.drawn = random.Random(0).random() + random.choice([1])"),
    form("return x * {'a': 2.0}.get(os.environ.get('EXAMPLE_STEPS', 'a'), 3.0)", ("silent", "silent", "silent"),
         "EXP303", **STEPS),
    form("return getattr(torch, os.environ.get('EXAMPLE_STEPS', 'relu').replace('3', 'neg'))(x)",
         ("silent", "silent", "silent"), "EXP303", **STEPS),
    form("return x * {3: 1.0, 1: 2.0}[n.item()]", NO_EXPORT, "EXP102 lookup", **INTEGER),
    form("return x * {3: 1.0, 1: 2.0}.get(n.item(), 5.0)", NO_EXPORT, "EXP102 lookup", **INTEGER),
    form("return x * T[n.item() > 2]", NO_EXPORT, "EXP102 lookup", **INTEGER, above="T = {True: 1.0, False: 2.0}"),
    form("return x * 2 if x.mean().item() in {1.0, 4.0} else x", BREAKS, "EXP102"),
    form("return x * 2 if x.mean().item() in (1.0, 4.0) else x", BREAKS, "EXP102"),
    form("return x * {4: 1.0, 1: 2.0}.get(x.shape[1], 2)", FINE, **ROWS),
    form("return x * {6: 1.0, 10: 2.0}.get(x.shape[0], 1.0)", SPECIALISES, "EXP301", **ROWS),
    form("return x * divmod(n.item(), 2)[0]", BREAKS, "EXP102", **INTEGER),
    form("a, b = divmod(x.sum(), 2)\nreturn x * a + b", BREAKS, "EXP102"),
    form("a, b = divmod(x.shape[0], 2)\nreturn x * a + b", ("specialises", "specialises", "breaks"),
         "EXP301 index method", **ROWS),
    form("a, b = divmod(x.shape[1], 2)\nreturn x * a + b", FINE, **ROWS),
    form("return x * (n.item() // 2) + n.item() % 2", FINE, **INTEGER),
    _on_devices("return x + self.m.on_cpu(4)", ("unportable", "breaks", "breaks"), "EXP201", "EXP402 untraced",
                **METHODS),
    _on_devices("return x + self.m.on_cpu(4, device=x.device)", UNTRACED, "EXP402 untraced", **METHODS),
    form("return self.m.twice(x)", BREAKS, "EXP101", "EXP402 untraced", **METHODS),
    form("return self.m._make(4) + x.dim()", FINE, **METHODS),
    _on_devices("return x + x.cpu()", UNPORTABLE, "EXP201"),
    _on_devices("return self.w + x.type(torch.FloatTensor)", UNPORTABLE, "EXP201",
                init="self.w = nn.Parameter(torch.ones(4))"),
    _on_devices("return torch.cat([x, (x * 2).cpu()])", UNPORTABLE, "EXP201"),
    _on_devices("return self.fc(x).cpu() + x", UNPORTABLE, "EXP201", init="self.fc = nn.Linear(4, 4)"),
    _on_devices("a, b = x.cpu()\nreturn a + x", UNPORTABLE, "EXP201"),
    _on_devices("return self.a(torch.zeros(4)) + x", UNPORTABLE, "EXP202", init="self.a = nn.ReLU()"),
    _on_devices("return x + torch.zeros(4, device=self.index.device).to(x.device)", FINE,
                init='self.index = torch.arange(4, device="cpu")'),
    _on_devices("return x * x.sum().cpu()", FINE),
    _on_devices("return x + x[0, 0].cpu()", FINE),
    _on_devices("return x[x.long().cpu() % 2]", FINE),
    _on_devices("y = x.clone()\ny[:, 0] = x[:, 0].cpu()\nreturn y", FINE),
    _on_devices("return x.cpu() * 2, x", FINE),
    _on_devices("return x.cpu().to(x.device) + x", FINE),
    _on_devices("return self.a(x.cpu()) * 2", FINE, init="self.a = nn.ReLU()"),
    _on_devices("return nn.functional.mse_loss(x, -x).cpu() + x", FINE),
    _on_devices("return torch.cat(torch.tensor_split(x, n.cpu()))", FINE, parameters="x, n",
                inputs="torch.ones(2, 4), torch.tensor([1])"),
    _called_twice("m = Meter()\nm.add(x)\nreturn m.add(x) * m.n", FINE, above=METER),
    _called_twice("ms = [Meter() for _ in range(2)]\nreturn ms[0].add(x) * ms[0].n", FINE, above=METER),
    _called_twice("return Meter().add(x)", FINE, above=METER),
    _called_twice("m = None\nif m is None:\n    m = Meter()\nreturn m.add(x) * m.n", FINE, above=METER),
    _called_twice("return self.m.add(x) * self.m.n", SILENT, "EXP501", above=METER, init="self.m = Meter()"),
    _called_twice("return M.add(x) * M.n", SILENT, "EXP501", above=METER + "\nM = Meter()"),
    _called_twice("if self.m is None:\n    self.m = Meter()\nreturn self.m.add(x) * self.m.n", SILENT, "EXP501",
                  above=METER, init="self.m = None"),
    _called_twice("if not self.ms:\n    self.ms.append(Meter())\nreturn self.ms[0].add(x) * self.ms[0].n", SILENT,
                  "EXP501", above=METER, init="self.ms = []"),
    _called_twice("return x * self.bump()", SILENT, "EXP501", above=_BOX, init="self.bump = counter()"),
    _called_twice("return x * BUMP()", SILENT, "EXP501", above=_BOX + "\nBUMP = counter()"),
    form("bump = counter()\nreturn x * bump() * bump()", FINE, above=_BOX),
    _called_twice("return x * self.note(2)", SILENT, "EXP501",
                  init=_NOTE.format("seen = []", "    seen.append(k)\n    return len(seen)")),
    _called_twice("return x * self.note(2)", SILENT, "EXP501",
                  init=_NOTE.format("d = {'n': 0}", "    d['n'] += k\n    return d['n']")),
    _called_twice("return x * self.note(2)", FINE,
                  init=_NOTE.format("seen = []", "    seen.append(k)\n    return k")),
    _called_twice("return x * self.note(2)", FINE,
                  init=_NOTE.format("box = [2]", "    box[0] = k\n    return box[0]")),
    _called_twice("return x * self.note(2)", FINE,
                  init=_NOTE.format("kept = {}", "    if k not in kept:\n        kept[k] = k * 2\n    return kept[k]")),
    _called_twice("Net.forward.calls = getattr(Net.forward, 'calls', 0) + 1\nreturn x * Net.forward.calls",
                  GIVEN, "EXP501 function attribute"),
    _called_twice("helper.n = getattr(helper, 'n', 0) + 1\nreturn x * helper.n", GIVEN,
                  "EXP501 function attribute", above="def helper(x):\n    return x"),
    _called_twice("return x * getattr(helper, 'n', 2)", FINE, above="def helper(x):\n    return x"),
    _called_twice("return helper(x)", SILENT, "EXP501",
                  above="def helper(x, seen=[]):\n    seen.append(1)\n    return x * len(seen)"),
    _called_twice("return helper(x, [])", FINE,
                  above="def helper(x, seen=[]):\n    seen.append(1)\n    return x * len(seen)"),
)  # fmt: skip
