"""The index of a file, and names across files."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source.files import UnreadableError, read
from exportlint.source.index import ClassEntry, FunctionEntry, ModuleIndex, index
from exportlint.source.project import Assigned, Outside, Project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path):
    def write(**files: str) -> Path:
        folder = tmp_path / "pkg"
        for name, text in {"__init__": "", **files}.items():
            path = folder.joinpath(*name.split("__sub__")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return folder

    return write


def test_definitions_in_arms_are_found_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        "try:\n    import fast as f\nexcept ImportError:\n    f = None\nif True:\n    @deco\n"
        "    def g():\n        pass\n"
        "class A:\n    x: int = 3\n    class B: pass\n    @property\n    def p(self): self.q = 1\n",
        encoding="utf-8",
    )
    module = index(file, "m")
    assert module.imports == {"f": "fast"}
    assert [(e.first, e.last) for e in module.assigned["f"]] == [(4, 4)]
    assert (module.functions["g"].extent.first, module.functions["g"].extent.last) == (6, 8)
    assert module.functions["g"].decorators == ("deco",)
    assert [c.name for c in module.all_classes] == ["A", "B"]
    assert module.classes["A"].fields == ("x",)
    assert module.classes["A"].written == {"q": frozenset({"p"})}


def test_relative_imports_are_made_absolute(package) -> None:
    folder = package(a="from .b import one\nfrom . import b as other\nfrom ..elsewhere import two\n", b="one = 1\n")
    module = Project().module(folder / "a.py")
    assert module.name == "pkg.a"
    assert module.imports == {"one": "pkg.b.one", "other": "pkg.b", "two": "elsewhere.two"}


def test_names_are_resolved_through_re_exports_stars_and_attributes(package) -> None:
    folder = package(
        __init__="from .layers import *\nfrom .layers import Net as Model\n",
        layers="import torch.nn.functional as F\nfrom torch.nn import Module\nLIMIT = 3\n"
        "class Net(Module):\n    def f(self): ...\n",
        user="import pkg\nfrom pkg import Model\nimport pkg.layers as L\nimport numpy as np\n",
    )
    project = Project()
    user = project.module(folder / "user.py")
    assert isinstance(project.resolve(user, "Model"), ClassEntry)
    assert project.resolve(user, "Model") is project.resolve(user, "pkg.Net")
    assert isinstance(project.resolve(user, "pkg.Model.f"), FunctionEntry)
    assert isinstance(project.resolve(user, "L"), ModuleIndex)
    assert isinstance(project.resolve(user, "pkg.LIMIT"), Assigned)
    assert project.resolve(user, "L.F.relu") == Outside("torch.nn.functional.relu")
    assert project.resolve(user, "np.array") == Outside("numpy.array")
    assert project.resolve(user, "len") == Outside("builtins.len")
    assert project.resolve(user, "nothing") is None


def test_circles_of_imports_and_of_bases_end(package) -> None:
    folder = package(a="from .b import X\nclass Y(X): pass\n", b="from .a import Y, X\nclass Z(Z): pass\n")
    project = Project()
    assert project.resolve(project.module(folder / "a.py"), "X") == Outside("pkg.b.X")
    z = project.module(folder / "b.py").classes["Z"]
    assert project.lineage(z)[0] == (z,)
    assert not project.is_module(z)


def test_methods_follow_the_lineage(package) -> None:
    folder = package(
        base="from torch import nn\nclass A(nn.Module):\n    def f(self): ...\n    def g(self): ...\n",
        child="from .base import A\nclass B(A):\n    def f(self): ...\n",
    )
    project = Project()
    b = project.module(folder / "child.py").classes["B"]
    assert project.is_module(b)
    f, g = project.method(b, "f"), project.method(b, "g")
    assert f is not None
    assert f.parent is b
    assert g is not None
    assert g.module.name == "pkg.base"
    above = project.method(b, "f", after=b)
    assert above is not None
    assert above.module.name == "pkg.base"


def test_installed_packages_are_not_followed(package) -> None:
    folder = package(a="import libcst\nfrom click import Command\n")
    project = Project()
    module = project.module(folder / "a.py")
    assert project.resolve(module, "libcst.Module") == Outside("libcst.Module")
    assert project.resolve(module, "Command") == Outside("click.Command")


def test_lines_end_where_python_ends_them(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_bytes("a\r\nb\rc\x0cd\u2028e\n\nf".encode())
    assert read(file).lines == ("a\r\n", "b\r", "c\x0cd\u2028e\n", "\n", "f")
    assert read(file).line(3) == "c\x0cd\u2028e"
    assert read(file).line(99) == ""


def test_an_unreadable_file_says_where(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("x = 1\ny = (\n", encoding="utf-8")
    with pytest.raises(UnreadableError, match="never closed") as caught:
        index(file, "m")
    assert (caught.value.line, caught.value.column) == (2, 5)


def test_what_stands_in_for_a_failed_import_is_not_what_runs(tmp_path: Path) -> None:
    text = "try:\n    from torch import _assert\nexcept ImportError:\n    def _assert(a, b):\n        assert a, b\n"
    file = tmp_path / "made.py"
    file.write_text(f"{text}    def other(a):\n        return a\n", encoding="utf-8")
    module = index(file, "made")
    assert module.imports == {"_assert": "torch._assert"}
    assert list(module.functions) == ["other"]
