"""Which files may call into a file, found by the text of their imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exportlint.source.callers import Callers, Generated

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "pkg/__init__.py": "from .layers import *\nfrom .unused import thing\n",
    "pkg/layers/__init__.py": "from .norm import Norm, scale as rescale\n",
    "pkg/layers/norm.py": "class Norm:\n    pass\n\ndef scale(x):\n    return x\n",
    "pkg/unused.py": "def thing():\n    pass\n",
    "pkg/direct.py": "from pkg.layers.norm import (\n    Norm,  # a comment, with a comma\n)\n\ndef f():\n    Norm()\n",
    "pkg/renamed.py": "from .layers import rescale\n\ndef g(x):\n    return rescale(x)\n",
    "pkg/starred.py": "from . import *\n\ndef h(x):\n    return Norm()(x)\n",
    "pkg/whole.py": "import pkg.layers.norm as norm\n\ndef k(x):\n    return norm.scale(x)\n",
    "pkg/further.py": "from .renamed import g\n\ndef m(x):\n    return g(x)\n",
    "pkg/other.py": "from .unused import thing\n\ndef n():\n    thing()\n",
    "train.py": "from pkg import Norm\n\ndef main():\n    Norm()\n",
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
    assert found == ["pkg/direct.py", "pkg/further.py", "pkg/renamed.py", "pkg/starred.py", "pkg/whole.py", "train.py"]


def test_a_file_that_only_hands_names_on_calls_nothing(project: Path) -> None:
    assert names(project, "pkg/unused.py") == ["pkg/other.py", "pkg/starred.py"]


def test_the_files_of_another_package_are_not_looked_through(project: Path) -> None:
    (project / "apart").mkdir()
    (project / "apart" / "__init__.py").write_text("", encoding="utf-8")
    (project / "apart" / "user.py").write_text(
        "from pkg.unused import thing\ndef f():\n    thing()\n", encoding="utf-8"
    )
    assert "apart/user.py" not in names(project, "pkg/unused.py")


def test_a_file_says_what_it_was_generated_from(project: Path) -> None:
    head = "# This file was automatically generated from src/pkg/modular_net.py.\n#   Do NOT edit it.\n"
    (project / "pkg" / "modeling_net.py").write_text(head, encoding="utf-8")
    (project / "pkg" / "modular_net.py").write_text("", encoding="utf-8")
    generated = Generated()
    assert generated.is_source(project / "pkg" / "modular_net.py")
    assert not generated.is_source(project / "pkg" / "modeling_net.py")
