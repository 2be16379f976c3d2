"""Whatever the linter reads, it ends without an exception, with ranges inside of the file, the same twice."""

from __future__ import annotations

import ast
import itertools
import random
import re
import sysconfig
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exportlint.findings import MODES
from exportlint.source.engine import Linted, Options, examine, examine_text
from exportlint.source.files import TOO_DEEP
from exportlint.source.units import NOT_READ

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parent.parent.parent
OPTIONS = Options(modes=MODES, preview=True)
EXPECTED = (TOO_DEEP, NOT_READ, "it takes more steps than the analysis may")
STANDARD_TESTS = Path(sysconfig.get_path("stdlib")) / "test"
INSTALLED = Path(sysconfig.get_path("purelib"))
PACKAGES = sorted({path.relative_to(INSTALLED).parts[0] for path in INSTALLED.glob("*/**/*.py")})


def told(linted: Linted) -> list[str]:
    """All that was found, as text."""
    return [f"{p}" for p in linted.predictions] + [f"{u}" for u in linted.unanalysed]


def faults(linted: Linted, texts: dict[Path, bytes]) -> Iterator[str]:
    """What must not happen: an exception inside of the linter, or a range that is not in the file."""
    for unanalysed in linted.unanalysed:
        if not unanalysed.reason.startswith(EXPECTED):
            yield f"{unanalysed.path}: {unanalysed.words}"
    ends: dict[Path, list[int]] = {}
    for prediction in linted.predictions:
        path, where = prediction.path, prediction.range
        if path not in ends:
            text = texts[path].decode("utf-8", "replace") if path in texts else path.read_text("utf-8", "replace")
            ends[path] = [len(line) for line in (*text.replace("\f", " ").splitlines(), "")]
        lines = ends[path]
        inside = 1 <= where.line <= where.end_line <= len(lines) and where.column >= 1
        ordered = (where.line, where.column) <= (where.end_line, where.end_column)
        if prediction.rule.code == "EXP001":  # where Python says that it stopped reading
            ordered, inside = True, 1 <= where.line <= len(lines)
        if not inside or not ordered or where.end_column > lines[where.end_line - 1] + 1:
            yield f"{path}: {prediction.rule.code} at {where} of {len(lines)} lines"


def examined(paths: Iterable[Path]) -> list[str]:
    """What is wrong with the findings in files, of which each is examined twice."""
    files = sorted(paths)
    first, second = examine(files, OPTIONS), examine(files, OPTIONS)
    found = list(faults(first, {}))
    return found if told(first) == told(second) else [*found, "not the same twice"]


@pytest.mark.slow
def test_the_tests_of_python_itself() -> None:
    files = list(STANDARD_TESTS.rglob("*.py"))
    if not files:
        pytest.skip("this Python comes without its own tests")
    assert examined(files) == []


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_an_installed_package(package: str) -> None:
    assert examined((INSTALLED / package).rglob("*.py")) == []


@pytest.mark.slow
def test_installed_modules() -> None:
    assert examined(INSTALLED.glob("*.py")) == []


# Programs that are generated


NAMES = ("x", "y", "mask", "n", "self.table", "self.fc", "self.layers", "TABLES", "items", "flag")
CALLED = (
    "len", "int", "float", "range", "sorted", "max", "min", "sum", "str", "list", "tuple", "dict", "zip", "enumerate",
    "isinstance", "getattr", "setattr", "map", "filter", "next", "iter", "any", "all", "bool", "torch.zeros", "abs",
    "torch.cat", "torch.where", "torch.arange", "torch.tensor", "torch.cond", "np.array", "math.sqrt", "os.getenv",
    "self.helper", "helper", "functools.partial", "torch.nn.functional.relu", "self.layers.append", "TABLES.get",
    "torch.device", "torch.autocast", "torch.load", "x.to", "x.item", "x.tolist", "x.size", "x.view", "x.split",
    "while_loop", "torch.jit.script", "copy.copy", "Outer", "nn.Linear", "super",
)  # fmt: skip
ATTRIBUTES = ("shape", "device", "dtype", "T", "data", "is_cuda", "type", "__dict__", "training", "weight", "__class__")
CONSTANTS = ("0", "1", "-1", "2.5", "None", "True", "'cpu'", "'cuda'", "...", "b''", "10**40", "1j", "''")
OPERATORS = (
    "+", "-", "*", "/", "//", "%", "@", "**", "&", "|", "<<", "==", "!=", "<", ">=", "is", "is not", "in", "not in",
)  # fmt: skip
SLOTS = {
    "NAME": NAMES,
    "CALL": CALLED,
    "ATTR": ATTRIBUTES,
    "OPER": OPERATORS,
    "GONE": ("x", "self.table", "TABLES[n]"),
    "SPEC": ("", "!r", ":>4", ":{n}d"),
}
_SLOT = re.compile("|".join([*SLOTS, "EXPR", "BODY"]))
EXPRESSIONS = (
    "(EXPR OPER EXPR)", "(EXPR OPER EXPR)", "(EXPR and EXPR or not EXPR)", "(EXPR if EXPR else EXPR)",
    "CALL(EXPR, EXPR)", "CALL(EXPR, *EXPR, key=EXPR, **EXPR)", "CALL(EXPR, device=EXPR)", "(EXPR).ATTR", "(EXPR)[EXPR]",
    "(EXPR)[EXPR:EXPR, ..., None]", "[EXPR for y in EXPR if EXPR]", "{EXPR: EXPR for n in EXPR}",
    "(lambda y, n=EXPR: EXPR)", "f'{NAMESPEC} and {nSPEC}'", "(EXPR, *EXPR)", "{'a': EXPR, **EXPR}", "(y := EXPR)",
    "sorted(EXPR, key=lambda y: EXPR)", "NAME",
)  # fmt: skip
SIMPLE = (
    "x = EXPR", "NAME = EXPR", "x, *items = EXPR", "n += EXPR", "self.table[EXPR] = EXPR", "self.ATTR = EXPR",
    "assert EXPR, EXPR", "return EXPR", "raise ValueError(EXPR)", "yield EXPR", "del GONE", "global TABLES", "EXPR",
)  # fmt: skip
NESTED = (
    "if EXPR:\nBODY\nelse:\nBODY", "while EXPR:\nBODY\n    break", "for x, y in EXPR:\nBODY\n    continue",
    "with EXPR as y:\nBODY", "try:\nBODY\nexcept (ValueError, TypeError) as e:\nBODY\nfinally:\nBODY",
    "def helper(x, y=EXPR):\nBODY", "class Outer(nn.Module):\nBODY",
    "match EXPR:\n    case [x, *_] | {'a': x} if n:\n        x = EXPR\n    case nn.Linear(n):\n        return EXPR",
)  # fmt: skip
HEAD = """
import copy, functools, math, os
import numpy as np
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

TABLES = {}


def helper(x, *rest, n=3, **more):
"""


class Program:
    """A program made of random numbers, which Python can read and which need not make sense."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def filled(self, template: str, inside: int, below: int = 0) -> str:
        """A form with something in each of its slots: so deep expressions, and statements that nest so deeply."""
        return _SLOT.sub(lambda slot: self.slot(slot[0], inside, below), template)

    def slot(self, name: str, inside: int, below: int) -> str:
        if name == "BODY":
            return self.block(below)
        if name != "EXPR":
            return self.random.choice(SLOTS[name])
        chosen = EXPRESSIONS if inside > 0 else NAMES + CONSTANTS
        return self.filled(self.random.choice(chosen), inside - 1 - self.random.randrange(2))

    def block(self, below: int) -> str:
        """Statements, indented."""
        made = []
        for _ in range(self.random.randrange(1, 4)):
            forms = SIMPLE if below <= 0 or self.random.random() < 0.6 else NESTED
            made.append(self.filled(self.random.choice(forms), 3, below - 1))
        return textwrap.indent("\n".join(made), "    ")

    def text(self) -> str:
        """A file with a function and a module class."""
        methods = (
            "def __init__(self, n=3):\n    super().__init__()\n    self.fc = nn.Linear(3, n)",
            "def forward(self, x: torch.Tensor, mask=None, *items, flag=True):",
            "def helper(self, x, n=2):",
        )
        inside = "\n\n".join(f"{head}\n{self.block(2)}" for head in methods)
        return f"{HEAD}{self.block(2)}\n\n\nclass Net(nn.Module):\n{textwrap.indent(inside, '    ')}\n"


def generated(seed: int) -> list[str]:
    """What is wrong with the findings in one generated program."""
    text = Program(seed).text()
    path, data = ROOT / f"generated_{seed}.py", text.encode()
    first, second = examine_text(path, data, OPTIONS), examine_text(path, data, OPTIONS)
    found = list(faults(first, {path: data}))
    return found if told(first) == told(second) else [*found, f"seed {seed}: not the same twice"]


def test_generated_programs_are_programs() -> None:
    seeds = range(40)
    readable = 0
    for seed in seeds:
        try:
            ast.parse(Program(seed).text())
        except SyntaxError:
            continue
        readable += 1
    assert readable == 40


def test_generated_programs() -> None:
    assert list(itertools.chain.from_iterable(map(generated, range(15)))) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_generated_programs(part: int) -> None:
    assert list(itertools.chain.from_iterable(map(generated, range(1000 + part, 5000, 4)))) == []


@pytest.mark.slow
def test_files_of_which_parts_are_missing() -> None:
    """Lines and letters are taken out of the labelled cases: most of what is left is no Python, some is."""
    chosen = random.Random(5)
    found: list[str] = []
    for path in sorted((ROOT / "fixtures" / "cases").rglob("*.py")):
        lines = path.read_bytes().splitlines(keepends=True)
        for _ in range(4):
            first = chosen.randrange(len(lines))
            left = lines[:first] + lines[first + chosen.randrange(1, 4) :]
            data = b"".join(left)
            cut = chosen.randrange(len(data) + 1)
            for text in (data, data[:cut] + data[cut + 1 :]):
                first_time, again = examine_text(path, text, OPTIONS), examine_text(path, text, OPTIONS)
                found += faults(first_time, {path: text})
                assert told(first_time) == told(again)
    assert found == []
