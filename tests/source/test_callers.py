"""Which files may call into a file, found by the text of their imports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from exportlint.source.callers import Callers, Generated

if TYPE_CHECKING:
    from pathlib import Path

NET = "\n\nclass Net(Module):\n    def forward(self, x):\n        "
FILES = {
    "pkg/__init__.py": "from .layers import *\nfrom .unused import thing\n",
    "pkg/layers/__init__.py": "from .norm import Norm, scale as rescale\n",
    "pkg/layers/norm.py": "class Norm:\n    pass\n\ndef scale(x):\n    return x\n",
    "pkg/unused.py": "def thing():\n    pass\n",
    "pkg/direct.py": f"from pkg.layers.norm import (\n    Norm,  # a comment, with a comma\n){NET}Norm()\n",
    "pkg/renamed.py": "from .layers import rescale\n\ndef g(x):\n    return rescale(x)\n",
    "pkg/starred.py": f"from . import *{NET}return Norm()(x)\n",
    "pkg/whole.py": f"import pkg.layers.norm as norm{NET}return norm.scale(x)\n",
    "pkg/further.py": f"from .renamed import g{NET}return g(x)\n",
    "pkg/above.py": f"from .further import Net{NET}return Net()(x)\n",
    "pkg/heir.py": "from .renamed import g\nfrom elsewhere import Net\n\nclass Deep(Net):\n    depth = 3\n",
    "pkg/other.py": f"from .unused import thing{NET}thing()\n",
    "train.py": "from pkg import Norm\n\ndef build():\n    Norm()\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def names(root: Path, file: str) -> list[str]:
    return [p.relative_to(root).as_posix() for p in Callers().of(root / file)]


def test_imports_of_every_kind_are_followed_through_re_exports(project: Path) -> None:
    found = names(project, "pkg/layers/norm.py")
    assert found == ["pkg/direct.py", "pkg/further.py", "pkg/heir.py", "pkg/starred.py", "pkg/whole.py", "train.py"]


def test_a_model_speaks_for_what_it_calls_so_those_above_it_are_not_followed(project: Path) -> None:
    assert "pkg/above.py" not in names(project, "pkg/renamed.py")
    assert names(project, "pkg/further.py") == ["pkg/above.py"]


def test_of_hundreds_of_callers_a_spread_is_followed_whatever_file_is_asked_for_first(project: Path) -> None:
    for i in range(300):
        (project / "pkg" / f"net{i:03}.py").write_text(f"from .renamed import g{NET}return g(x)\n", encoding="utf-8")
    found = names(project, "pkg/renamed.py")
    assert len(found) == 32
    assert found[0] < "pkg/net010.py"
    assert found[-1] > "pkg/net280.py"
    assert names(project, "pkg/renamed.py") == found


def test_a_file_that_only_hands_names_on_calls_nothing(project: Path) -> None:
    assert names(project, "pkg/unused.py") == ["pkg/other.py", "pkg/starred.py"]


def test_the_files_of_another_package_are_not_looked_through(project: Path) -> None:
    (project / "apart").mkdir()
    (project / "apart" / "__init__.py").write_text("", encoding="utf-8")
    (project / "apart" / "user.py").write_text(
        "from pkg.unused import thing\ndef f():\n    thing()\n", encoding="utf-8"
    )
    assert "apart/user.py" not in names(project, "pkg/unused.py")


HEAD = "# This file was automatically generated from src/pkg/modular_net.py.\n"
CLASS = "class Net(Base):\n    pass\n"


@pytest.mark.parametrize(
    ("text", "is_source"),
    [
        (f"{HEAD}#   Do NOT edit it.\n{CLASS}", True),
        (f"\ufeff# coding: utf-8\r\n\r\n# Auto-generated from modular_net.py\r\n{CLASS}", True),
        (f"# Copyright\n# generated automatically from ./modular_net.py\n{CLASS}", True),
        (f'"""Test vectors generated from modular_net.py by hand."""\n{CLASS}', False),
        (f'"""\n{HEAD}"""\n{CLASS}', False),
        (f"# Test vectors generated from modular_net.py\n{CLASS}", False),
        (f"# These were generated from modular_net.py by hand.\n{CLASS}", False),
        (f"x = 1\n{HEAD}{CLASS}", False),
        (f"{HEAD}VECTORS = [1, 2]\n", False),
    ],
)
def test_a_file_says_in_its_head_what_it_was_generated_from(project: Path, text: str, is_source: bool) -> None:
    (project / "pkg" / "modeling_net.py").write_bytes(text.encode())
    (project / "pkg" / "modular_net.py").write_text(f"{HEAD}{CLASS}", encoding="utf-8")
    generated = Generated()
    assert generated.is_source(str(project / "pkg" / "modular_net.py")) is is_source
    assert not generated.is_source(str(project / "pkg" / "modeling_net.py"))


def test_what_others_were_generated_from_calls_nothing(project: Path) -> None:
    net = f"from .renamed import g{NET}return g(x)\n"
    (project / "pkg" / "modular_net.py").write_text(net, encoding="utf-8")
    (project / "pkg" / "modeling_net.py").write_text(f"{HEAD}{net}", encoding="utf-8")
    found = names(project, "pkg/renamed.py")
    assert "pkg/modeling_net.py" in found
    assert "pkg/modular_net.py" not in found


def test_what_is_no_file_is_not_waited_for(project: Path) -> None:
    wanted = names(project, "pkg/layers/norm.py")
    for name in ("pipe.py", "pkg/pipe.py"):
        os.mkfifo(project / name)
    assert names(project, "pkg/layers/norm.py") == wanted
    assert not Generated().is_source(str(project / "pkg" / "direct.py"))


CASE = "from exportlint import ModelCase\nfrom pkg.unused import thing\ncase = ModelCase(thing, ())\n"


def test_cases_in_tests_call_into_what_they_import_and_not_into_what_is_called_the_same(project: Path) -> None:
    (project / "tests").mkdir()
    for name, text in {"__init__": "", "train": "def build():\n    pass\n", "test_net": CASE}.items():
        (project / "tests" / f"{name}.py").write_text(text, encoding="utf-8")
    assert "tests/test_net.py" in names(project, "pkg/unused.py")
    beside = CASE.replace("pkg.unused", ".train").replace("thing", "build")
    (project / "tests" / "test_net.py").write_text(beside, encoding="utf-8")
    assert names(project, "train.py") == []
    assert names(project, "tests/train.py") == ["tests/test_net.py"]


@pytest.mark.parametrize("package", [True, False])
def test_what_is_known_of_a_file_that_declares_cases_holds_wherever_it_is_seen_from(
    project: Path, package: bool
) -> None:
    (project / "tests").mkdir()
    (project / "tests" / "test_net.py").write_text(CASE, encoding="utf-8")
    if package:
        (project / "tests" / "__init__.py").write_text("", encoding="utf-8")
    asked = [project / "pkg" / "unused.py", project / "tests" / "test_net.py"]
    first = Callers()
    found = [first.of(path) for path in asked]
    again = Callers(outlines=first.outlines)
    assert [again.of(path) for path in asked] == found
    assert not again.learnt


@pytest.mark.parametrize(
    "line",
    [
        "from pkg.ops import (  # helpers (old ones)\n    scale,\n)",
        "from pkg.ops \\\n    import scale",
        "from pkg.ops import \\\r\n    scale",
        "import os, \\\n    pkg.ops",
        "import os; from pkg.ops import scale",
        "try: from pkg.ops import scale\nexcept ImportError: pass",
        "if True: import pkg.ops as ops  # as ops",
        "\tfrom pkg import ops",
    ],
)
def test_an_import_is_found_however_it_is_spelt(tmp_path: Path, line: str) -> None:
    (tmp_path / "pkg").mkdir()
    for name, text in {"__init__": "", "ops": "def scale(x):\n    return x\n", "net": f"{line}{NET}x\n"}.items():
        (tmp_path / "pkg" / f"{name}.py").write_text(text, encoding="utf-8", newline="")
    assert names(tmp_path, "pkg/ops.py") == ["pkg/net.py"]


def test_of_files_of_one_name_the_one_beside_the_importer_counts(tmp_path: Path) -> None:
    (tmp_path / "setup.py").touch()
    for i in range(40):
        (tmp_path / f"e{i:02}").mkdir()
        (tmp_path / f"e{i:02}" / "ops.py").write_text("def scale(x):\n    return x\n", encoding="utf-8")
        (tmp_path / f"e{i:02}" / "net.py").write_text(f"from ops import scale{NET}x\n", encoding="utf-8")
    assert [names(tmp_path, f"e{i:02}/ops.py") for i in range(40)] == [[f"e{i:02}/net.py"] for i in range(40)]
