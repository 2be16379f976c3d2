"""The check on models that lose state or freeze their surroundings, each with a twin that does not."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from typing import NamedTuple

import pytest
from forking import in_fork

from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings

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


COUNTER = ("self.calls = 0", "self.register_buffer('calls', torch.zeros(()))")

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
            "h = self.h if self.h is not None else torch.zeros_like(x)\nself.h = torch.tanh(x + h)  # <-\nreturn self.h",
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
    "hidden in a closure": Kind(
        "EXP501",
        "def counting():\n    n = [0]\n    def f():\n        n[0] += 1\n        return n[0]\n    return f\n"
        + model("if self.f() > 1:  # <-\n    x = x * 2\nreturn x", "self.f = counting()"),
        ("n[0] += 1", "n[0] = 1"),
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
    "presence in the environment": Kind(
        "EXP303",
        model("return x if 'EXPORTLINT_TEST' in os.environ else x * 2  # <-", above="import os\n"),
        ("else x * 2", "else x"),
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
    "running buffer": model("self.mean.mul_(0.9).add_(x.mean(0))\nreturn x - self.mean", COUNTER[1].replace("calls', torch.zeros(())", "mean', torch.zeros(4)")),
    "buffer set anew": model("self.n = self.n + 1\nreturn x * self.n", "self.register_buffer('n', torch.zeros(()))"),
    "batch norm that trains": model("return self.f(x)", "self.f = nn.BatchNorm1d(4)"),
    "dropout that drops": model("return self.f(x)", "self.f = nn.Dropout(0.5)"),
    "noise of torch": model("return x + torch.randn_like(x) + torch.rand(4)"),
    "generator of torch": model("return x + torch.rand(4, generator=torch.Generator().manual_seed(3))"),
    "counter that nothing reads": model("self.calls += 1\nself.seen.append(x.shape)\nreturn x", "self.calls, self.seen = 0, []"),
    "last output kept": model("self.last = x * 2\nreturn self.last"),
    "list of each call": model("self.parts = []\nself.parts.append(x)\nreturn torch.cat(self.parts)", "self.parts = []"),
    "own generator with the same seed": model("return x * random.Random(3).random()", above="import random\n"),
    "random numbers seeded in forward": model("random.seed(3)\nreturn x * random.random()", above="import random\n"),
    "module whose input is overwritten": model("x.add_(1)\nreturn x * 2"),
}  # fmt: skip

# Reads without an effect on the result: information at the marked line.
QUIET = {
    "time that is logged": model(
        "began = time.time()  # <-\ny = x * 2\nprint('took', time.time() - began)  # <-\nreturn y", above="import time\n"
    ),
    "debug switch": model("if os.environ.get('EXPORTLINT_TEST'):  # <-\n    print(x.shape)\nreturn x", above="import os\n"),
    "random tag": model("self.tag = random.random()  # <-\nreturn x", above="import random\n"),
    "file": model("open('/dev/null').close()  # <-\nreturn x * 2"),
    "file by its path": model("n = len(Path('/dev/null').read_text())  # <-\nreturn x * (n + 2)", above="from pathlib import Path\n"),
}  # fmt: skip


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
    module = importlib.import_module(f"exportlint.checks.{name}")
    result = module.run(Context(case, Settings((name,)), lambda _: None))
    findings = [(f.rule, f.severity, f.file.rpartition("/")[2], f.line, f.message) for f in result.findings]
    evidence = [f.evidence for f in result.findings if f.severity != "info"]
    return {"outcome": result.outcome, "reason": result.reason, "findings": findings, "notes": result.notes,
            "evidence": evidence}  # fmt: skip


def run_all(texts, folder):
    results = {}
    for number, (name, text) in enumerate(texts.items()):
        results[name] = check(load(text, folder, f"state_case{number}"))
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    texts = {f"bad {name}": kind.text for name, kind in KINDS.items()}
    texts |= {f"good {name}": mended(kind) for name, kind in KINDS.items()}
    texts |= {f"kept {name}": text for name, text in KEPT.items()}
    texts |= {f"quiet {name}": text for name, text in QUIET.items()}
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
    assert (kind.rule, marked(kind.text)[0]) in [(rule, at) for rule, _, _, at, _ in alarms(result)], result
    assert {(rule, at) for rule, _, _, at, _ in alarms(result)} <= {
        (kind.rule, marked(kind.text)[0]),
        ("EXP503", marked(kind.text)[0]),
    }, result
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
        "passed", [("EXP303", "info", line) for line in marked(QUIET[name])],
    )  # fmt: skip
