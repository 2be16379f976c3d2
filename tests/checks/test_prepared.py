"""What the cases of one file import is imported once for the second and all later ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from exportlint.checks.prepared import Prepared
from exportlint.checks.runner import Options, Runner
from exportlint.checks.verdicts import Verdicts

FILE = """
import json, os
from pathlib import Path

import torch
from torch import nn
from exportlint import ModelCase

with open(Path(__file__).with_name("imports.log"), "a") as log:
    log.write("imported\\n")
FACTOR = json.loads(Path(__file__).with_name("factor.json").read_text())


class Scale(nn.Module):
    def forward(self, x):
        return x * FACTOR


CASES = [ModelCase(Scale, (torch.ones(2, 3),), name=f"case{i}") for i in range(4)]
"""


@pytest.fixture
def target(tmp_path):
    (tmp_path / "models.py").write_text(FILE)
    (tmp_path / "factor.json").write_text("2")
    return str(tmp_path / "models.py")


def imports(target):
    log = Path(target).with_name("imports.log")
    number = len(log.read_text().splitlines())
    log.unlink()
    return number


def checked(target, verdicts=None):
    with Runner(Options(checks=("capture", "device"), examples=2), verdicts) as runner:
        cases = runner.list_cases(target)
        return [check for case in cases for check in runner.check_named(case).checks]


def test_the_second_case_and_all_later_ones_import_nothing_anew(target):
    checks = checked(target)
    assert [check.outcome for check in checks] == ["passed"] * 8
    assert imports(target) == 4  # for the list, the two processes of the first case, and once for all others


@pytest.mark.slow
def test_what_was_imported_before_a_case_counts_among_what_its_verdict_depends_on(target, tmp_path):
    def run():
        return [check.cached for check in checked(target, Verdicts(tmp_path / "kept"))]

    assert run() == [False] * 8
    assert run() == [True] * 8
    Path(target).with_name("factor.json").write_text("3")
    assert run() == [False] * 8


def test_where_the_import_for_all_ends_its_process_each_case_imports_for_itself(target):
    dies = "if len(Path(__file__).with_name('imports.log').read_text().split()) == 3: os._exit(7)"
    Path(target).write_text(FILE.replace("FACTOR = ", f"{dies}\nFACTOR = "))
    with Runner(Options(checks=("capture",))) as runner:
        cases = runner.list_cases(target)
        assert [runner.check_named(case).checks[0].outcome for case in cases[:3]] == ["passed"] * 3
    assert imports(target) == 5  # for the list, the three cases, and once in vain


def test_each_target_is_prepared_once_for_its_second_case():
    asked: list[str] = []

    def prepare(target, libraries):
        assert libraries == (["rich"] if target == "a.py" else [])
        asked.append(target)
        return target != "bad.py"

    prepared = Prepared(prepare)
    prepared.learn("a.py:x", ["rich"])
    assert [prepared.name_for("a.py:x", "x"), prepared.name_for("a.py:x", "x"), asked] == ["", "", []]
    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(lambda i: prepared.name_for(f"a.py:y{i}", f"y{i}"), range(8)))
    assert (set(names), asked) == ({"a.py"}, ["a.py"])
    assert [prepared.name_for("bad.py", name) for name in "xyz"] == ["", "", ""]
    assert [prepared.name_for(f"hf:{name}", name) for name in ("bert", "t5")] == ["", "hf:"]
    assert asked == ["a.py", "bad.py", "hf:"]


LAZY = """
import os, sys
from pathlib import Path

import torch
from torch import nn
from exportlint import ModelCase

LATER = []  # calls of the factory in this process


def model():
    if not LATER:
        with open(Path(__file__).with_name("there.log"), "a") as log:
            log.write(f"{'rich.table' in sys.modules} ")
    LATER.append(1)
    import rich.table

    CHANGE
    return nn.Linear(3, 2)


CASES = [ModelCase(model, (torch.ones(2, 3),), name=f"case{i}") for i in range(3)]
"""


def found_imported(folder, change):
    """Of three cases, whether the library that their factory imports was there when it was called first."""
    target = folder / "lazy.py"
    target.write_text(LAZY.replace("CHANGE", change))
    with Runner(Options(checks=("capture",), examples=2)) as runner:
        checks = [runner.check_named(case).checks[0] for case in runner.list_cases(str(target))]
    assert [check.outcome for check in checks] == ["passed"] * 3
    return (folder / "there.log").read_text().split()


def test_a_library_that_a_factory_imports_is_there_for_the_factories_of_later_cases(tmp_path):
    assert found_imported(tmp_path, "pass") == ["False", "True", "True"]


def test_a_library_is_imported_by_each_case_where_the_environment_changes_meanwhile(tmp_path):
    assert found_imported(tmp_path, "os.environ['LAZY'] = 'changed'") == ["False"] * 3
