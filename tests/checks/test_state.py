"""The check on models that lose state or freeze their surroundings, each with a twin that does not."""

from __future__ import annotations

import importlib.util
import re
import sys
import textwrap
from typing import NamedTuple

import pytest
from forking import in_fork
from hypothesis import given, settings
from hypothesis import strategies as st

from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.checks.jobs import module_of

MARK = "# <-"


class Kind(NamedTuple):
    """A way to lose state: the rule, the text of the file, and what to replace to mend it."""

    rule: str
    text: str
    mend: tuple[str, str]


def model(body, init="pass", name="M", above=""):
    """The source of a module with these bodies of ``__init__`` and ``forward``."""
    head = f"{above}class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    return (
        head + textwrap.indent(init, " " * 8) + "\n    def forward(self, x):\n" + textwrap.indent(body, " " * 8) + "\n"
    )


COUNTING = (
    "def counting():\n    n = 0\n    def f():\n        nonlocal n\n"
    "        n += 1  # <-\n        return n\n    return f\n"
)
COUNTER = ("self.calls = 0", "self.register_buffer('calls', torch.zeros(()))")

HERE = (
    "import json, os\nfrom pathlib import Path\nimport numpy as np\n"
    "HERE = Path(__file__).parent\nNUMBER = str(HERE / 'number.txt')\n"
)

KINDS = {
    "counter": Kind(
        "EXP501",
        model("self.calls = self.calls + 1  # <-\nreturn x * self.calls", "self.calls = 0"),
        COUNTER,
    ),
    "counter with a threshold": Kind(
        "EXP501",
        model(
            "self.calls += 1  # <-\nif self.calls <= 2:\n    return x\nreturn x.clamp(-0.1, 0.1)",
            "self.calls = 0",
        ),
        ("return x.clamp(-0.1, 0.1)", "return x"),
    ),
    "counter that matters much later": Kind(
        "EXP501",
        model("self.calls += 1  # <-\nreturn x if self.calls < 1000 else x * 2", "self.calls = 0"),
        ("else x * 2", "else x"),
    ),
    "counter with a remainder": Kind(
        "EXP501",
        model("self.calls += 1  # <-\nreturn x * 2 if self.calls % 50 == 0 else x", "self.calls = 0"),
        ("x * 2", "x"),
    ),
    "counter with one call in the far": Kind(
        "EXP501",
        model("if self.left == 500:\n    x = x * 3\nself.left -= 1  # <-\nreturn x", "self.left = 900"),
        ("x * 3", "x * 1"),
    ),
    "counter that goes round": Kind(
        "EXP501",
        model("self.step = (self.step + 1) % 7  # <-\nreturn x if self.step else x * 2", "self.step = 0"),
        ("x * 2", "x"),
    ),
    "list of more than ten": Kind(
        "EXP501",
        model("self.seen.append(1)  # <-\nreturn x * 2 if len(self.seen) > 10 else x", "self.seen = []"),
        ("x * 2", "x"),
    ),
    "appended list": Kind(
        "EXP501",
        model("self.seen.append(1)  # <-\nreturn x * len(self.seen)", "self.seen = []"),
        ("len(self.seen)", "2"),
    ),
    "dictionary": Kind(
        "EXP501",
        model("self.seen['n'] = self.seen.get('n', 0) + 1  # <-\nreturn x * self.seen['n']", "self.seen = {}"),
        ("self.seen['n']\n", "2\n"),
    ),
    "cached hidden state": Kind(
        "EXP501",
        model("self.h = torch.tanh(x + self.h)  # <-\nreturn self.h", "self.h = torch.zeros(2, 4)"),
        ("self.h = torch.zeros(2, 4)", "self.register_buffer('h', torch.zeros(2, 4))"),
    ),
    "hidden state that is made when it is missing": Kind(
        "EXP501",
        model(
            "h = torch.zeros_like(x) if self.h is None else self.h\nself.h = torch.tanh(x + h)  # <-\nreturn self.h",
            "self.h = None",
        ),
        ("self.h = torch.tanh(x + h)", "return torch.tanh(x)"),
    ),
    "statistic of the first call": Kind(
        "EXP501",
        model("if not hasattr(self, 'ref'):\n    self.ref = x.mean(0)  # <-\nreturn x - self.ref"),
        ("self.ref = x.mean(0)", "self.ref = 1.0"),
    ),
    "buffer that is made in the first call": Kind(
        "EXP501",
        model("if not hasattr(self, 'ref'):\n    self.register_buffer('ref', x.mean(0))  # <-\nreturn x - self.ref"),
        ("self.register_buffer('ref', x.mean(0))", "self.ref = 1.0"),
    ),
    "plain tensor that is mutated": Kind(
        "EXP501",
        model("self.t.add_(1)  # <-\nreturn x + self.t", "self.t = torch.zeros(4)"),
        ("self.t = torch.zeros(4)", "self.register_buffer('t', torch.zeros(4))"),
    ),
    "global": Kind(
        "EXP501",
        model("global CALLS\nCALLS += 1  # <-\nreturn x * CALLS", above="CALLS = 0\n"),
        ("return x * CALLS", "return x"),
    ),
    "list of the module": Kind(
        "EXP501",
        model("SEEN.append(1)  # <-\nreturn x * len(SEEN)", above="SEEN = []\n"),
        ("return x * len(SEEN)", "return x"),
    ),
    "class attribute": Kind(
        "EXP501",
        model("M.calls += 1  # <-\nreturn x * M.calls").replace("    def __init__", "    calls = 0\n    def __init__"),
        ("return x * M.calls", "return x"),
    ),
    "counter of a submodule": Kind(
        "EXP501",
        model("self.calls += 1  # <-\nreturn x * self.calls", "self.calls = 0", name="Sub")
        + model("return self.subs[1](self.subs[0](x))", "self.subs = nn.ModuleList([Sub(), Sub()])"),
        COUNTER,
    ),
    "object that counts": Kind(
        "EXP501",
        "class Count:\n    n = 0\n    def up(self):\n        self.n += 1  # <-\n        return self.n\n"
        + model("return x * self.count.up()", "self.count = Count()"),
        ("return self.n", "return 2"),
    ),
    "iterator that counts": Kind(
        "EXP501",
        model("return x * next(self.count)  # <-", "self.count = itertools.count(1)", above="import itertools\n"),
        ("next(self.count)", "2"),
    ),
    "generator of its own": Kind(
        "EXP501",
        model("return x * self.draw.random()  # <-", "self.draw = random.Random(3)", above="import random\n"),
        ("self.draw.random()", "0.5"),
    ),
    "state beside a counter that nothing reads": Kind(
        "EXP501",
        model("self.log += 1\nself.calls += 1  # <-\nreturn x * self.calls", "self.log = 0\nself.calls = 0"),
        COUNTER,
    ),
    "list in a closure": Kind(
        "EXP501",
        "def counting():\n    n = [0]\n    def f():\n        n[0] += 1  # <-\n        return n[0]\n    return f\n"
        + model("if self.f() > 1:\n    x = x * 2\nreturn x", "self.f = counting()"),
        ("n[0] += 1", "n[0] = 1"),
    ),
    "number in a closure": Kind(
        "EXP501",
        COUNTING + "count = counting()\n" + model("return x * count()"),
        ("return n\n", "return 2\n"),
    ),
    "closure of a decorator": Kind(
        "EXP501",
        "import functools\ndef counted(f):\n    n = 0\n    @functools.wraps(f)\n    def wrapper(self, x):\n"
        "        nonlocal n\n        n += 1  # <-\n        return f(self, x) * n\n    return wrapper\n"
        + model("return x + 1").replace("    def forward", "    @counted\n    def forward"),
        ("f(self, x) * n", "f(self, x)"),
    ),
    "closure that is bound in a partial": Kind(
        "EXP501",
        "import functools\n"
        + COUNTING
        + "times = functools.partial(lambda f, x: x * f(), counting())\n"
        + model("return times(x)"),
        ("return n\n", "return 2\n"),
    ),
    "class beside the model": Kind(
        "EXP501",
        "class Box:\n    n = 0\n" + model("Box.n += 1  # <-\nreturn x * Box.n"),
        ("return x * Box.n", "return x"),
    ),
    "default of forward": Kind(
        "EXP501",
        model("acc.append(1)  # <-\nreturn x * len(acc)").replace("self, x)", "self, x, acc=[])"),
        ("* len(acc)", "* 2"),
    ),
    "default of a helper by name": Kind(
        "EXP501",
        "def count(*, seen={}):\n    seen['n'] = seen.get('n', 0) + 1  # <-\n    return seen['n']\n"
        + model("return x * count()"),
        ("return seen['n']", "return 2"),
    ),
    "attribute of a function": Kind(
        "EXP501",
        "def count():\n    count.n += 1  # <-\n    return count.n\ncount.n = 0\n" + model("return x * count()"),
        ("return count.n", "return 2"),
    ),
    "object of the module": Kind(
        "EXP501",
        "class Box:\n    def __init__(self):\n        self.n = 0\nBOX = Box()\n"
        + model("BOX.n += 1  # <-\nreturn x * BOX.n"),
        ("return x * BOX.n", "return x"),
    ),
    "data class of the module": Kind(
        "EXP501",
        "from dataclasses import dataclass\n@dataclass\nclass Box:\n    n: int = 0\nBOX = {'a': Box()}\n"
        + model("BOX['a'].n += 1  # <-\nreturn x * BOX['a'].n"),
        ("return x * BOX['a'].n", "return x"),
    ),
    "data class with slots": Kind(
        "EXP501",
        "from dataclasses import dataclass\n@dataclass(slots=True)\nclass Box:\n    n: int = 0\n"
        + model("self.box.n += 1  # <-\nreturn x * self.box.n", "self.box = Box()"),
        ("return x * self.box.n", "return x"),
    ),
    "object with slots that a default holds": Kind(
        "EXP501",
        "class Box:\n    __slots__ = ('n',)\n"
        + model("box.n = getattr(box, 'n', 0) + 1  # <-\nreturn x * box.n").replace("self, x)", "self, x, box=Box())"),
        ("return x * box.n", "return x"),
    ),
    "object that a class keeps": Kind(
        "EXP501",
        "class Box:\n    only = None\n    n = 0\n    @classmethod\n    def get(cls):\n"
        "        cls.only = cls.only or cls()\n        return cls.only\nBox.get()\n"
        + model("box = Box.get()\nbox.n += 1  # <-\nreturn x * box.n"),
        ("return x * box.n", "return x"),
    ),
    "array that is changed in place": Kind(
        "EXP501",
        "import numpy as np\nTOTAL = np.zeros(4, dtype=np.float32)\n"
        + model("TOTAL[0] += 1  # <-\nreturn x + float(TOTAL[0])"),
        ("+ float(TOTAL[0])", "+ 1"),
    ),
    "attribute of a thread": Kind(
        "EXP501",
        "import threading\nLOCAL = threading.local()\n"
        + model("LOCAL.n = min(getattr(LOCAL, 'n', 0) + 1, 3)  # <-\nreturn x * LOCAL.n"),
        ("return x * LOCAL.n", "return x"),
    ),
    "variable of the context": Kind(
        "EXP501",
        "from contextvars import ContextVar\nCALLS = ContextVar('CALLS', default=0)\n"
        + model("CALLS.set(min(CALLS.get() + 1, 3))  # <-\nreturn x * CALLS.get()"),
        ("return x * CALLS.get()", "return x"),
    ),
    "Counter": Kind(
        "EXP501",
        "from collections import Counter\nSEEN = Counter()\n" + model("SEEN['n'] += 1  # <-\nreturn x * SEEN['n']"),
        ("return x * SEEN['n']", "return x"),
    ),
    "iterator of the model": Kind(
        "EXP501",
        model(
            "y = x + 1\nn = next(self.turn)  # <-\nreturn y * n",
            "self.turn = itertools.cycle([1, 2, 3])",
            above="import itertools\n",
        ),
        ("return y * n", "return y"),
    ),
    "iterator of the module": Kind(
        "EXP501",
        "TURN = iter(range(1, 10**6))\n" + model("y = x + 1\nreturn y * next(TURN)  # <-"),
        ("y * next(TURN)", "y"),
    ),
    "generator of the module": Kind(
        "EXP501",
        "def turns():\n    while True:\n        yield from (1, 2, 3)\nTURN = turns()\n"
        + model("n = next(TURN)  # <-\ny = x + 1\nreturn y * n"),
        ("return y * n", "return y"),
    ),
    "iterator that decides": Kind(
        "EXP501",
        "import itertools\nTURN = itertools.cycle([True, False])\n"
        + model("if next(TURN):  # <-\n    return x + 1\nreturn x"),
        ("return x + 1", "return x"),
    ),
    "clock": Kind(
        "EXP303",
        model("return x * (time.perf_counter() % 1000)  # <-", above="import time\n"),
        ("time.perf_counter() % 1000", "0.5"),
    ),
    "clock under another name": Kind(
        "EXP303",
        model("t = now()  # <-\nreturn x * (t % 7)", above="from time import time as now\n"),
        ("t % 7", "0.5"),
    ),
    "clock of nanoseconds": Kind(
        "EXP303",
        model("return x * (time.time_ns() % 1000)  # <-", above="import time\n"),
        ("time.time_ns() % 1000", "0.5"),
    ),
    "parity of the second": Kind(
        "EXP303",
        model("return x * (int(time.time()) % 2 + 1)  # <-", above="import time\n"),
        ("% 2", "* 0"),
    ),
    "last digit of the nanoseconds": Kind(
        "EXP303",
        model("return x * (time.monotonic_ns() % 10)  # <-", above="import time\n"),
        ("time.monotonic_ns() % 10", "2"),
    ),
    "half of the day": Kind(
        "EXP303",
        model("return x * 2 if datetime.now().hour < 12 else x  # <-", above="from datetime import datetime\n"),
        ("x * 2", "x"),
    ),
    "day of the week": Kind(
        "EXP303",
        model("return x * date.today().weekday()  # <-", above="from datetime import date\n"),
        ("date.today().weekday()", "2"),
    ),
    "year": Kind(
        "EXP303",
        model("return x * (time.localtime().tm_year > 2025)  # <-", above="import time\n"),
        ("time.localtime().tm_year > 2025", "2"),
    ),
    "time as text": Kind(
        "EXP303",
        model("return x * int(time.strftime('%H%M%S'))  # <-", above="import time\n"),
        ("int(time.strftime('%H%M%S'))", "2"),
    ),
    "coin": Kind(
        "EXP303",
        model("return x if random.random() < 0.5 else x * 2  # <-", above="import random\n"),
        ("x * 2", "x"),
    ),
    "die that seldom shows six": Kind(
        "EXP303",
        model("return x * 2 if np.random.randint(0, 6) == 2 else x  # <-", above="import numpy as np\n"),
        ("x * 2", "x"),
    ),
    "date": Kind(
        "EXP303",
        model("return x * datetime.now().timetuple().tm_yday  # <-", above="from datetime import datetime\n"),
        ("datetime.now().timetuple().tm_yday", "2"),
    ),
    "clock beside a clock that is logged": Kind(
        "EXP303",
        model(
            "began = time.time()\nx = x * (time.time() % 7)  # <-\nself.took = time.time() - began\nreturn x",
            above="import time\n",
        ),
        ("time.time() % 7", "0.5"),
    ),
    "random number": Kind(
        "EXP303",
        model("return x + random.uniform(-2, 2)  # <-", above="import random\n"),
        ("random.uniform(-2, 2)", "torch.rand(())"),
    ),
    "random number beside one that is not used": Kind(
        "EXP303",
        model("self.tag = random.random()\nreturn x + random.gauss(0, 1)  # <-", above="import random\n"),
        ("random.gauss(0, 1)", "torch.randn(())"),
    ),
    "random choice under another name": Kind(
        "EXP303",
        model("if choice([0, 1, 2]) > 0:  # <-\n    return x\nreturn x * 2", above="from random import choice\n"),
        ("choice([0, 1, 2]) > 0", "x.shape[0] > 0"),
    ),
    "random number of numpy": Kind(
        "EXP303",
        model("return x * np.random.rand()  # <-", above="import numpy as np\n"),
        ("np.random.rand()", "torch.rand(())"),
    ),
    "generator without a seed": Kind(
        "EXP303",
        model("return x * np.random.default_rng().random()  # <-", above="import numpy as np\n"),
        ("default_rng()", "default_rng(3)"),
    ),
    "environment": Kind(
        "EXP303",
        model("if os.environ.get('EXPORTLINT_TEST') == '1':  # <-\n    return x\nreturn x * 2", above="import os\n"),
        ("return x * 2", "return x"),
    ),
    "environment by getenv": Kind(
        "EXP303",
        model("return x * int(os.getenv('EXPORTLINT_TEST') or 2)  # <-", above="import os\n"),
        ("return x * int(", "int("),
    ),
    "environment with a value of its own": Kind(
        "EXP303",
        model(
            "mode = os.environ.get('EXPORTLINT_TEST')  # <-\nreturn x * 2 if mode == 'fast' else x", above="import os\n"
        ),
        ("x * 2 if", "x if"),
    ),
    "presence in the environment": Kind(
        "EXP303",
        model("return x if 'EXPORTLINT_TEST' in os.environ else x * 2  # <-", above="import os\n"),
        ("else x * 2", "else x"),
    ),
    "contents of a file": Kind(
        "EXP303",
        model("return x * float(open(NUMBER).read())  # <-", above=HERE),
        ("x * float(open(NUMBER).read())", "x * len(NUMBER)"),
    ),
    "table of json": Kind(
        "EXP303",
        model("table = json.loads((HERE / 'table.json').read_text())  # <-\nreturn x * table['scale']", above=HERE),
        ("x * table['scale']", "x"),
    ),
    "array that is loaded": Kind(
        "EXP303",
        model("return x + torch.from_numpy(np.load(HERE / 'array.npy'))  # <-", above=HERE),
        ("x + torch.from_numpy(np.load(HERE / 'array.npy'))", "x"),
    ),
    "array of text that is loaded": Kind(
        "EXP303",
        model("return x * float(np.loadtxt(NUMBER))  # <-", above=HERE),
        ("float(np.loadtxt(NUMBER))", "2"),
    ),
    "word in a file": Kind(
        "EXP303",
        model("mode = (HERE / 'mode.txt').read_text()  # <-\nreturn x * 2 if mode == 'fast' else x", above=HERE),
        ("x * 2", "x"),
    ),
    "file that is there": Kind(
        "EXP303",
        model("return x * 2 if os.path.exists(NUMBER) else x  # <-", above=HERE),
        ("x * 2", "x"),
    ),
    "file that is not there": Kind(
        "EXP303",
        model("return x * 2 if (HERE / 'debug.flag').is_file() else x  # <-", above=HERE),
        ("x * 2", "x"),
    ),
    "size of a file": Kind(
        "EXP303",
        model("return x * os.stat(NUMBER).st_size  # <-", above=HERE),
        ("os.stat(NUMBER).st_size", "2"),
    ),
    "files in a folder": Kind(
        "EXP303",
        model("return x * len(os.listdir(HERE / 'parts'))  # <-", above=HERE),
        ("len(os.listdir(HERE / 'parts'))", "2"),
    ),
    "files of a pattern": Kind(
        "EXP303",
        model("n = len(list((HERE / 'parts').glob('*.bin')))  # <-\nreturn x * n", above=HERE),
        ("x * n", "x"),
    ),
    "seed in forward": Kind(
        "EXP303",
        model("torch.manual_seed(3)  # <-\nreturn x + torch.rand(4)"),
        ("torch.manual_seed(3)", "pass"),
    ),
    "cached function": Kind(
        "EXP503",
        "import functools\n@functools.lru_cache  # <-\ndef table(n):\n    return torch.arange(n)\n"
        + model("return x + table(4)"),
        ("@functools.lru_cache", ""),
    ),
    "cache of the class": Kind(
        "EXP503",
        model("if 4 not in self.cache:\n    self.cache[4] = torch.arange(4)  # <-\nreturn x + self.cache[4]").replace(
            "    def __init__", "    cache = {}\n    def __init__"
        ),
        ("torch.arange(4)", "4"),
    ),
    "cache in a global": Kind(
        "EXP503",
        model(
            "global TABLE\nif TABLE is None:\n    TABLE = torch.arange(4)  # <-\nreturn x + TABLE",
            above="TABLE = None\n",
        ),
        ("torch.arange(4)", "4"),
    ),
    "cache of the model": Kind(
        "EXP503",
        model("if not hasattr(self, 't'):\n    self.t = torch.arange(4)  # <-\nreturn x + self.t"),
        ("torch.arange(4)", "4"),
    ),
}

# What changes or reads something, and loses nothing.
KEPT = {
    "nothing": model("return x * 2"),
    "running buffer": model(
        "self.mean.mul_(0.9).add_(x.mean(0))\nreturn x - self.mean", "self.register_buffer('mean', torch.zeros(4))"
    ),
    "buffer set anew": model("self.n = self.n + 1\nreturn x * self.n", "self.register_buffer('n', torch.zeros(()))"),
    "batch norm that trains": model("return self.f(x)", "self.f = nn.BatchNorm1d(4)"),
    "dropout that drops": model("return self.f(x)", "self.f = nn.Dropout(0.5)"),
    "noise of torch": model("return x + torch.randn_like(x) + torch.rand(4)"),
    "counter that nothing reads": model(
        "self.calls += 1\nself.seen.append(x.shape)\nreturn x", "self.calls, self.seen = 0, []"
    ),
    "last output kept": model("self.last = x * 2\nreturn self.last"),
    "list of each call": model(
        "self.parts = []\nself.parts.append(x)\nreturn torch.cat(self.parts)", "self.parts = []"
    ),
    "own generator with the same seed": model("return x * random.Random(3).random()", above="import random\n"),
    "random numbers seeded in forward": model("random.seed(3)\nreturn x * random.random()", above="import random\n"),
    "file that is read when the model is made": model(
        "return x * self.scale", "self.scale = float(open(NUMBER).read())", above=HERE
    ),
    "weights that are loaded when the model is made": model(
        "return x @ self.w", "self.w = nn.Parameter(torch.load(HERE / 'weights.pt'))", above=HERE
    ),
    "module that reads a file while it is imported": model(
        "import sys\nsys.path.insert(0, str(HERE))\nimport reads_while_imported\n"
        "del sys.modules['reads_while_imported']\nreturn x * reads_while_imported.N",
        above=HERE,
    ),
    "module whose input is overwritten": model("x.add_(1)\nreturn x * 2"),
}

# Changed by some calls only, and without effect: nothing to say.
SETTLED = {
    "cache that is filled once": model(
        "if 2 not in self.cache:\n    self.cache[2] = 0.5\nreturn x * self.cache[2]", "self.cache = {}"
    ),
    "warm-up that ends": model(
        "if self.calls < 5:\n    self.calls += 1\nreturn x if self.calls < 100 else x * 2", "self.calls = 0"
    ),
    "turn that never gets far": model(
        "x = x * 2 if self.turn > 99 else x\nself.turn = (self.turn + 1) % 4\nreturn x", "self.turn = 0"
    ),
    "default that is filled once": model("if not memo:\n    memo.append(0.5)\nreturn x * memo[0]").replace(
        "self, x)", "self, x, memo=[])"
    ),
}

# State that would matter after more calls than anybody makes: information at the line, so that nothing is refuted.
TOO_LONG = {
    "list of more than a thousand": model(
        "self.seen.append(1)  # <-\nreturn x * 2 if len(self.seen) > 1000 else x", "self.seen = []"
    ),
    "text that grows": model(
        "self.log = self.log + 'x'  # <-\nreturn x * 2 if len(self.log) > 99 else x", "self.log = ''"
    ),
    "two lines": model(
        "self.seen.append(1)  # <-\nif len(self.seen) > 1000:\n    return x * 2\nself.seen.append(2)  # <-\nreturn x",
        "self.seen = []",
    ),
}

# Reads without an effect on the result: information at the marked line.
QUIET = {
    "time that is logged": model(
        "began = time.time()  # <-\ny = x * 2\nprint('took', time.time() - began)  # <-\nreturn y",
        above="import time\n",
    ),
    "debug switch": model(
        "if os.environ.get('EXPORTLINT_TEST'):  # <-\n    print(x.shape)\nreturn x", above="import os\n"
    ),
    "file whose number is logged": model("print(open(NUMBER).read())  # <-\nreturn x", above=HERE),
    "file that is asked for": model("if os.path.exists(NUMBER):  # <-\n    print('there')\nreturn x", above=HERE),
    "random tag": model("self.tag = random.random()  # <-\nreturn x", above="import random\n"),
    "file": model("open('/dev/null').close()  # <-\nreturn x * 2"),
    "file by its path": model(
        "n = len(Path('/dev/null').read_text())  # <-\nreturn x * (n + 2)", above="from pathlib import Path\n"
    ),
}


def load(text, folder, name):
    """The model case of a file with this text; the file is imported under its name."""
    path = folder / f"{name}.py"
    path.write_text(f"import torch\nfrom torch import nn\n{text}")
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return ModelCase(sys.modules[name].M, args=example)


def example():
    import torch

    return (torch.linspace(0.1, 1, 8).view(2, 4),)


def check(case, name="state"):
    """The result of the check as plain data: outcome, reason, findings, notes."""
    module = importlib.import_module(module_of(name))
    result = module.run(Context(case, Settings((name,)), lambda _: None))
    findings = [(f.rule, f.severity, f.file.rpartition("/")[2], f.line, f.message) for f in result.findings]
    evidence = [f.evidence for f in result.findings if f.severity != "info"]
    return {
        "rewrites": [f.rewrite for f in result.findings],
        "outcome": result.outcome,
        "reason": result.reason,
        "findings": findings,
        "notes": result.notes,
        "evidence": evidence,
    }


def write_files(folder):
    """The files that the models read."""
    import numpy as np
    import torch

    (folder / "number.txt").write_text("2\n")
    (folder / "table.json").write_text('{"scale": 0.5}')
    (folder / "mode.txt").write_text("slow")
    (folder / "parts").mkdir()
    (folder / "parts" / "one.bin").write_bytes(b"1")
    (folder / "reads_while_imported.py").write_text(
        "from pathlib import Path\nN = float((Path(__file__).parent / 'number.txt').read_text())\n"
    )
    np.save(folder / "array.npy", np.ones(4, dtype=np.float32))
    torch.save(torch.ones(4, 4), folder / "weights.pt")


def run_all(texts, folder):
    results = {}
    write_files(folder)
    for number, (name, text) in enumerate(texts.items()):
        results[name] = check(load(text, folder, f"state_case{number}"))
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    texts = {f"bad {name}": kind.text for name, kind in KINDS.items()}
    texts |= {f"good {name}": mended(kind) for name, kind in KINDS.items()}
    texts |= {f"kept {name}": text for name, text in KEPT.items()}
    texts |= {f"quiet {name}": text for name, text in QUIET.items()}
    texts |= {f"long {name}": text for name, text in TOO_LONG.items()}
    texts |= {f"settled {name}": text for name, text in SETTLED.items()}
    return in_fork(run_all, texts, tmp_path_factory.mktemp("models"), seconds=120)


def mended(kind):
    assert kind.mend[0] in kind.text
    return kind.text.replace(*kind.mend)


def alarms(result):
    return [finding for finding in result["findings"] if finding[1] != "info"]


def marked(text):
    return [2 + n for n, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)]


@pytest.mark.parametrize("name", KINDS)
def test_it_is_found_at_its_line(results, name):
    kind, result = KINDS[name], results[f"bad {name}"]
    (line,) = marked(kind.text)
    found = {(rule, at) for rule, _, _, at, _ in alarms(result)}
    assert (kind.rule, line) in found, result
    assert found <= {(kind.rule, line), ("EXP503", line)}, result  # what is kept may be left behind, too
    assert result["outcome"] == "failed"
    assert result["reason"] == alarms(result)[0][4]
    assert all(result["evidence"]), result


@pytest.mark.parametrize("name", KINDS)
def test_its_mended_twin_is_silent(results, name):
    result = results[f"good {name}"]
    assert (result["outcome"], alarms(result), result["notes"]) == ("passed", [], []), result


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_is_silent(results, name):
    result = results[f"kept {name}"]
    assert (result["outcome"], alarms(result), result["notes"]) == ("passed", [], []), result


@pytest.mark.parametrize("name", QUIET)
def test_a_read_without_effect_is_information(results, name):
    found = results[f"quiet {name}"]
    assert (found["outcome"], [(rule, severity, at) for rule, severity, _, at, _ in found["findings"]]) == (
        "passed",
        [("EXP303", "info", line) for line in marked(QUIET[name])],
    )


@pytest.mark.parametrize("name", SETTLED)
def test_what_calls_no_longer_change_is_no_information(results, name):
    result = results[f"settled {name}"]
    assert (result["outcome"], result["findings"], result["notes"]) == ("passed", [], []), result


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_change_whose_effect_may_come_later_is_information(results, name):
    found = results[f"long {name}"]
    assert (found["outcome"], [(rule, severity, at) for rule, severity, _, at, _ in found["findings"]]) == (
        "passed",
        [("EXP501", "info", line) for line in marked(TOO_LONG[name])],
    )
    assert found["findings"][0][4].endswith("is changed here in each call; 16 calls in a row returned the same")


def test_two_clocks_that_matter_at_other_times_are_both_found(tmp_path):
    body = "x = x * (time.time_ns() % 10 + 1)  # <-\nreturn x if time.gmtime().tm_year < 2026 else x * 3  # <-"
    text = model(body, above="import time\n")
    result = in_fork(lambda: check(load(text, tmp_path, "two_clocks")))
    assert [(rule, line) for rule, _, _, line, _ in alarms(result)] == [("EXP303", line) for line in marked(text)]


def test_a_date_is_still_a_date(tmp_path):
    """While the clocks are replaced, classes of dates know what was made before."""
    above = (
        "import datetime\nfrom datetime import date\nBEFORE, DAY = datetime.datetime(2020, 1, 1), date(2020, 1, 1)\n"
    )
    body = (
        "now, today = datetime.datetime.now(), date.today()\n"
        "for value in (now, BEFORE):\n    assert isinstance(value, datetime.datetime) and isinstance(value, date)\n"
        "for value in (today, DAY):\n    assert isinstance(value, date) and not isinstance(value, datetime.datetime)\n"
        "assert issubclass(datetime.datetime, date)\nreturn x"
    )
    result = in_fork(lambda: check(load(model(body, above=above), tmp_path, "dates")))
    assert (result["outcome"], alarms(result)) == ("passed", [])
    assert "the same at each time that was tried" in result["findings"][0][4]


def test_of_two_questions_about_a_file_the_one_that_matters_is_found(tmp_path):
    body = "known = os.path.exists(NUMBER)\nbig = os.path.getsize(NUMBER) > 3  # <-\nreturn x * 2 if big else x"
    text = model(body, above=HERE)

    def run():
        write_files(tmp_path)
        return check(load(text, tmp_path, "asks_twice"))

    assert [(rule, line) for rule, _, _, line, _ in alarms(in_fork(run))] == [("EXP303", *marked(text))]


def test_a_model_that_meets_other_files_writes_none(tmp_path):
    """It makes what is missing, and it only seems to be missing."""
    body = (
        "if not os.path.exists(NUMBER):\n    Path(NUMBER).write_text('7')\n    os.makedirs(HERE / 'made')\n"
        "return x * float(open(NUMBER).read())  # <-"
    )
    text = model(body, above=HERE)

    def run():
        write_files(tmp_path)
        before = sorted(tmp_path.iterdir())
        found = alarms(check(load(text, tmp_path, "makes_files")))
        new = {path.name for path in tmp_path.iterdir()} - {path.name for path in before}
        return [[rule, line] for rule, _, _, line, _ in found], sorted(new), (tmp_path / "number.txt").read_text()

    found, new, held = in_fork(run)
    assert (found, held) == ([["EXP303", *marked(text)]], "2\n")
    assert set(new) <= {"makes_files.py", "__pycache__"}


def test_helpers_in_another_module_are_blamed(tmp_path):
    (tmp_path / "helper_of_state.py").write_text(
        "import time\n\nCALLS = 0\n\n\ndef count():\n    global CALLS\n    CALLS += 1\n    return CALLS\n\n\n"
        "def now():\n    return time.time() % 7\n"
    )

    def run():
        sys.path.insert(0, str(tmp_path))
        text = "from helper_of_state import count, now\n" + model("return x * count() + now()")
        return check(load(text, tmp_path, "uses_helper_of_state"))

    found = [(rule, file, line) for rule, _, file, line, _ in in_fork(run)["findings"]]
    assert found == [("EXP501", "helper_of_state.py", 8), ("EXP303", "helper_of_state.py", 13)]


@pytest.mark.parametrize(
    "drawn",
    [
        "os.urandom(4)[0] + os.urandom(4)[1]",
        "int(secrets.token_hex(3), 16)",
        "secrets.choice(range(10**6))",
        "secrets.randbits(20)",
        "(uuid.uuid1().int % 10**6)",
    ],
)
def test_an_unseeded_generator_is_named_and_makes_no_other_noise(tmp_path, drawn):
    text = "import os, secrets, uuid\n" + model(f"self.calls = 1\nreturn x * {drawn}")

    def run():
        case = load(text, tmp_path, "entropy")
        return [check(case, name) for name in ("capture", "state")]

    for result in in_fork(run):
        assert {(rule, line) for rule, _, _, line, _ in alarms(result)} == {("EXP303", 10)}


C = "import ctypes\nLIBC = ctypes.CDLL(None)\n"
DRAWN = (
    '@torch.library.custom_op("state_tests::drawn", mutates_args=())\n'
    "def drawn(x: torch.Tensor) -> torch.Tensor:\n    return x * (LIBC.rand() % 1000)\n"
    "@drawn.register_fake\ndef _(x):\n    return torch.empty_like(x)\n"
)


@pytest.mark.parametrize(
    "text", [C + DRAWN + model("return drawn(x)"), C + model("return x * self.n", "self.n = LIBC.rand()")]
)
def test_a_model_that_differs_from_itself_as_its_program_does_or_when_it_is_made_is_not_judged(tmp_path, text):
    result = in_fork(lambda: [check(load(text, tmp_path, "unknown"), name) for name in ("capture", "state")])
    assert [(r["outcome"], alarms(r)) for r in result] == [("not_checked", [])] * 2
    assert all("with the same seeds" in r["reason"] for r in result)


def test_what_goes_on_outside_of_python_is_found_where_python_reads_it(tmp_path):
    text = C + "def draw(n):\n    return LIBC.rand() % n\n" + model("y = x + 1\nreturn y * draw(1000)")
    result = in_fork(lambda: [check(load(text, tmp_path, "of_c"), name) for name in ("capture", "state")])
    assert [[(rule, line) for rule, _, _, line, _ in alarms(r)] for r in result] == [[("EXP501", 6)]] * 2


def test_capture_blames_state_at_its_line(tmp_path):
    kind = KINDS["global"]
    result = in_fork(lambda: check(load(kind.text, tmp_path, "counts"), "capture"))
    assert [(rule, at) for rule, _, _, at, _ in alarms(result)] == [("EXP501", *marked(kind.text))]


def test_what_only_the_first_call_changes_is_found_although_earlier_checks_called_the_model(tmp_path):
    text = model("global READY\nif not READY:\n    x = x * 2\nREADY = True  # <-\nreturn x", above="READY = False\n")

    def run():
        ctx = Context(load(text, tmp_path, "starts"), Settings(("capture", "state")), lambda _: None)
        found = [importlib.import_module(module_of(name)).run(ctx).findings for name in ("capture", "state")]
        return [[[f.rule, f.line] for f in findings if f.severity != "info"] for findings in found]

    assert in_fork(run) == [[["EXP501", *marked(text)]]] * 2


def test_capture_blames_the_line_at_which_the_captured_call_parts(tmp_path):
    text = model("if type(x) == torch.Tensor:  # <-\n    return x + 1\nreturn x")
    result = in_fork(lambda: check(load(text, tmp_path, "parts"), "capture"))
    assert [(rule, at) for rule, _, _, at, _ in alarms(result)] == [("EXP004", *marked(text))]


def test_capture_blames_the_line_that_makes_a_tensor_without_data(tmp_path):
    text = model("y = x * 2\nz = torch.func.grad(lambda t: (t * t).sum())(y)  # <-\nreturn z")
    result = in_fork(lambda: check(load(text, tmp_path, "without_data"), "capture"))
    assert [(rule, at) for rule, _, _, at, _ in alarms(result)] == [("EXP004", *marked(text))]


def test_a_model_that_is_not_captured_is_not_checked(tmp_path):
    result = in_fork(lambda: check(load(model("return x if x.sum() > 0 else -x"), tmp_path, "branches")))
    assert (result["outcome"], result["reason"]) == ("not_checked", "the model is not captured")


def test_a_model_that_does_not_run_is_not_checked(tmp_path):
    result = in_fork(lambda: check(load(model("return x", "raise ValueError"), tmp_path, "broken")))
    assert (result["outcome"], result["reason"]) == ("not_checked", "the model does not run: the build fails")


def test_nothing_stays_patched_and_globals_are_put_back(tmp_path):
    """As where checks run in the caller's process."""
    above = "import os, random, time\nimport numpy as np\nfrom datetime import datetime\n"
    above += "from time import time as now\nN = 0\n"
    body = (
        "global N\nN += 1\nself.log = [now(), datetime.now(), random.random(), np.random.rand(), os.getenv('A_B')]\n"
        "torch.manual_seed(0)\nopen('/dev/null').close()\nreturn x + N + int(os.getenv('A_B') or 0)"
    )

    def run():
        import builtins
        import datetime
        import io
        import os
        import random
        import time

        import numpy as np
        import torch

        from exportlint.checks.state import check as state

        ctx = Context(load(model(body, above=above), tmp_path, "reads_all"), Settings(("state",)), lambda _: None)
        ctx.program()
        owners = (time, random, datetime, np.random, builtins, io, type(os.environ), torch, sys.modules["reads_all"])
        before, variables = [dict(vars(owner)) for owner in owners], dict(os.environ)
        found = {finding.rule for finding in state.run(ctx).findings}
        changed = [k for owner, kept in zip(owners, before, strict=True) for k in kept if vars(owner)[k] is not kept[k]]
        return sorted(found), changed, dict(os.environ) == variables, sys.gettrace() is None

    assert in_fork(run) == [["EXP303", "EXP501"], [], True, True]


def test_damage_is_repaired_for_the_checks_that_follow(tmp_path):
    def run(kind):
        import torch

        from exportlint.parity.compare import is_fake

        case = load(kind.text, tmp_path, f"damaged_{len(kind.text)}")
        ctx = Context(case, Settings(("capture",)), lambda _: None)
        ctx.program()
        return is_fake(case.model()(torch.ones(2, 4))), len(ctx.left_behind)

    for name in ("cached function", "cache of the class", "cache in a global"):
        assert in_fork(run, KINDS[name]) == [False, 1]


def test_a_kept_output_is_no_damage(tmp_path):
    """It is a tensor without data after the capture, and the next call overwrites it."""
    result = in_fork(lambda: check(load(model("self.last = x * 2\nreturn self.last"), tmp_path, "keeps")))
    assert result["findings"] == []


def test_the_check_calls_the_model_few_times(tmp_path):
    def run():
        import torch

        from exportlint.checks.state import check as state

        calls = []
        case = load(model("return self.f(x)", "self.f = nn.Linear(4, 4)"), tmp_path, "counted")
        ctx = Context(case, Settings(("state",)), lambda _: None)
        ctx.program()
        with torch.nn.modules.module.register_module_forward_hook(lambda *_: calls.append(1)):
            state.run(ctx)
        return len(calls) / 2  # the module, and the layer in it

    assert in_fork(run) == 5


def test_a_table_that_is_expanded_is_put_back(tmp_path):
    """In the program, beside a write, and in a global whose base changes."""
    above = "BASE = torch.zeros(1, 4)\nWIDE = BASE.expand(2, 4)\n"
    body = "BASE.add_(1)  # <-\nself.seen.add_(1)\nreturn x * self.table + WIDE"
    init = "self.table = torch.ones(1, 4).expand(2, 4)\nself.register_buffer('seen', torch.zeros(()))"
    text = model(body, init, above=above)
    result = in_fork(lambda: [check(load(text, tmp_path, "expanded"), name) for name in ("capture", "state")])
    for found in result:
        assert (found["outcome"], ("EXP501", *marked(text)) in {(f[0], f[3]) for f in alarms(found)}) == (
            "failed",
            True,
        )


def test_a_module_without_python_state_is_silent(tmp_path):
    """However often it has been called: what it keeps without reading it and what buffers carry is no finding."""
    layers = st.sampled_from(["nn.Linear(4, 4)", "nn.ReLU()", "nn.LayerNorm(4)", "nn.Dropout(0.5)"])
    keeping = ["pass", "self.last = x", "self.calls = 3", "self.shapes.append(x.shape)", "self.b.add_(1)"]

    @given(st.lists(layers, max_size=4), st.sampled_from(keeping), st.integers(1, 3))
    @settings(max_examples=25, deadline=None, database=None)
    def silent(layers, kept, calls):
        init = (
            f"self.f = nn.Sequential({', '.join(layers)})\nself.shapes = []\nself.register_buffer('b', torch.zeros(4))"
        )
        case = load(model(f"{kept}\nreturn self.f(x) + self.b", init), tmp_path, "stateless")
        for _ in range(calls):
            result = check(case)
        assert (result["outcome"], result["findings"], result["notes"]) == ("passed", [], ())

    in_fork(silent)


def test_a_generator_that_is_made_in_each_call(tmp_path):
    """The program keeps one, which goes on from call to call."""
    text = model("return x + torch.rand(4, generator=torch.Generator().manual_seed(3))")
    result = in_fork(lambda: check(load(text, tmp_path, "generator")))
    assert [found[0] for found in alarms(result)] == ["EXP004"]


FIRST, LACKS = (
    "first at the node mul (aten.mul.Tensor)",
    "where after the node add (aten.add.Tensor) the program lacks aten.mul.Tensor",
)


@pytest.mark.parametrize(
    ("body", "begins", "where"),
    [
        ("self.calls += 1\ny = x + 1\nreturn y * (self.calls + 2)", "call 2: output: 8 of 8 values differ", FIRST),
        ("self.calls += 1\ny = x + 1\nreturn y * self.calls", "call 2: output: 8 of 8 values differ", LACKS),
        ("y = x + 1\nreturn y * random.random()", "with another seed of Python's and numpy's random numbers", FIRST),
        ("y = x + 1\nreturn y * float(os.environ.get('A_TEST', '3'))", "with A_TEST set to ", FIRST),
        ("y = x + 1\nreturn y * (2 if torch.is_grad_enabled() else 3)", "where gradients are recorded: ", FIRST),
        ("torch.manual_seed(3)\ny = x + 1\nreturn y * torch.rand(4)", "after another seed: output: 8 of 8", FIRST),
        ("self.calls += 1\ny = x + 1\nreturn y * (2 if self.calls < 1000 else 3)", "with self.calls = ", FIRST),
    ],
)
def test_it_is_told_where_values_part(tmp_path, body, begins, where):
    text = "import os, random\n" + model(body, "self.calls = 0")
    (evidence,) = in_fork(lambda: check(load(text, tmp_path, "parts_at_mul"))["evidence"])
    assert evidence.startswith(begins)
    assert re.search(r", by at most \S+, at \[\d, \d\]: ", evidence)
    line = 2 + next(n for n, written in enumerate(text.splitlines(), 1) if "return y *" in written)
    assert f"; they part in M itself, {where} at " in evidence
    assert evidence.endswith(f":{line}")


def test_a_buffer_that_the_program_writes_to_is_not_blamed(tmp_path):
    """What decides where or what is written is, or the line that the program lacks."""
    init = "self.register_buffer('mem', torch.zeros(8, 4))\nself.pos = 0"
    body = "self.mem[self.pos % 8] = x[0]\nself.pos += 1  # <-\nreturn self.mem.mean(0)"
    beside = model(body, init)
    body = "self.n += 1\nif not torch.compiler.is_exporting() and int(self.n) > 3:\n    x = x * 0.5  # <-\nreturn x"
    alone = model(body, "self.register_buffer('n', torch.zeros((), dtype=torch.long))")

    def run():
        return [check(load(text, tmp_path, f"followed_{n}")) for n, text in enumerate((beside, alone))]

    first, second = in_fork(run)
    assert [(rule, at) for rule, _, _, at, _ in alarms(first)] == [("EXP501", *marked(beside))], first
    (last,) = marked(alone)
    assert [(rule, at) for rule, _, _, at, _ in alarms(second)] == [("EXP004", last - 1)], second


@pytest.mark.parametrize(
    ("init", "body"),
    [
        (
            "self.open, self.calls = True, 0",
            "self.calls += 1\nif not self.open:\n    raise RuntimeError('closed')\nself.open = False  # <-\nreturn x",
        ),
        (
            "self.turns = iter([2])",
            "for turn in self.turns:\n    return x * turn\nraise RuntimeError('closed')  # <-",
        ),
    ],
)
def test_a_second_call_that_only_the_eager_model_refuses(tmp_path, init, body):
    text = model(body, init)
    result = in_fork(lambda: check(load(text, tmp_path, "refuses")))
    assert (result["outcome"], [(rule, at) for rule, _, _, at, _ in alarms(result)]) == (
        "failed",
        [("EXP501", *marked(text))],
    )
    assert result["evidence"] == ["call 2: RuntimeError: closed in eager, and a result of the program"]


@pytest.mark.parametrize(
    ("made", "drawn"),
    [("random.Random(0)", "self.g.random()"), ("numpy.random.default_rng(0)", "float(self.g.random())")],
)
def test_a_generator_that_is_kept_is_advised_against(tmp_path, made, drawn):
    text = "import numpy, random\n" + model(f"return x + {drawn}  # <-", f"self.g = {made}")
    result = in_fork(lambda: check(load(text, tmp_path, "generator")))
    assert [(rule, at) for rule, _, _, at, _ in alarms(result)] == [("EXP501", *marked(text))], result
    assert result["rewrites"][0].startswith("Draw with torch and without a generator of its own")


def test_a_generator_of_torch_goes_on_in_the_program_too(tmp_path):
    """Although an earlier check has run the program."""
    text = model("return x + torch.randn(4, generator=self.g)", "self.g = torch.Generator().manual_seed(0)")

    def run():
        ctx = Context(load(text, tmp_path, "draws"), Settings(("capture", "state")), lambda _: None)
        return [importlib.import_module(module_of(name)).run(ctx).outcome for name in ("capture", "state")]

    assert in_fork(run) == ["passed", "passed"]


SAME_NAME = """
class Carries(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1  # <-
        return x * self.n


class Sets(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n = 5
        return x * self.n


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Carries(), Sets()

    def forward(self, x):
        return self.two(self.one(x))
"""
OF_ITSELF = "        self.n += 1  # <-\n        return"
HEAD = "    def forward(self, x):\n        self.n +="
BY_ANOTHER = {
    "its own method": (),
    "whoever has it": (
        (OF_ITSELF, "        return"),
        ("return self.two(self.one(x))", "self.one.n += 1  # <-\n        return self.two(self.one(x))"),
    ),
    "a decorated method": ((HEAD, f"    @torch.no_grad()\n{HEAD}"),),
    "a base": (
        ("class Carries(nn.Module)", "class Base(nn.Module)"),
        ("class Sets", "class Carries(Base):\n    pass\n\n\nclass Sets"),
    ),
    "a property": (
        (OF_ITSELF, "        self.more\n        return"),
        ("class Sets", "    @property\n    def more(self):\n        self.n += 1  # <-\n\n\nclass Sets"),
    ),
    "a class": (
        ("        self.n += 1", "        Carries.n += 1"),
        ("class Carries(nn.Module):", "class Carries(nn.Module):\n    n = 0\n"),
        ("        super().__init__()\n        self.n = 0", "        super().__init__()"),
    ),
}


@pytest.mark.parametrize("name", BY_ANOTHER)
def test_of_two_attributes_of_one_name_the_one_that_is_carried_is_blamed(tmp_path, name):
    text = SAME_NAME
    for old, new in BY_ANOTHER[name]:
        assert old in text
        text = text.replace(old, new, 1)
    result = in_fork(lambda: check(load(text, tmp_path, "same_name")))
    assert [(rule, at) for rule, _, _, at, _ in alarms(result)] == [("EXP501", *marked(text))], result


def test_of_two_caches_of_one_name_the_one_that_keeps_a_tensor_without_data_is_blamed(tmp_path):
    kind = KINDS["cache of the model"]
    text = kind.text.replace("class M", "class Keeps")
    text += model("self.t = 3\nreturn x * self.t", name="Sets")
    text += model("return self.two(self.one(x))", "self.one, self.two = Keeps(), Sets()")
    result = in_fork(lambda: check(load(text, tmp_path, "two_caches")))
    assert ("EXP503", *marked(text)) in [(rule, at) for rule, _, _, at, _ in alarms(result)], result
    assert {at for _, _, _, at, _ in alarms(result)} == set(marked(text)), result


def test_a_counter_whose_effect_may_come_later_is_told_where_it_is_changed(tmp_path):
    counting = "self.n += 1{}\nif self.n == 10**9:\n    x = x + 1\nreturn x"
    text = model(counting.format("  # <-"), "self.n = 0", "Counts")
    text += model("self.n = 5\nreturn x * self.n", "self.n = 5", "Sets")
    text += model("return self.two(self.one(x))", "self.one, self.two = Counts(), Sets()")
    result = in_fork(lambda: check(load(text, tmp_path, "late")))
    assert [(rule, severity, at) for rule, severity, _, at, _ in result["findings"]] == [
        ("EXP501", "info", *marked(text))
    ], result


def test_of_two_globals_of_one_name_the_one_that_is_carried_is_blamed(tmp_path):
    (tmp_path / "sets_a_global.py").write_text("N = 0\ndef put():\n    global N\n    N = 5\n    return N\n")
    text = "import sets_a_global\n" + model(
        "global N\nN += 1  # <-\nreturn x * N * sets_a_global.put()", above="N = 0\n"
    )

    def run():
        sys.path.insert(0, str(tmp_path))
        return check(load(text, tmp_path, "two_globals"))

    found = [(rule, file, at) for rule, _, file, at, _ in alarms(in_fork(run))]
    assert found == [("EXP501", "two_globals.py", *marked(text))]
