from __future__ import annotations

import sys
from pathlib import Path

import pytest

from exportlint.checks.loading import TargetError, cases_of, split

BUILD = """
import torch
from torch import nn

def build():
    return nn.Linear(3, 2)

def inputs():
    return (torch.ones(2, 3),)
"""


@pytest.fixture(autouse=True)
def imports(monkeypatch):
    """What a test imports is forgotten after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if not name.startswith(("torch", "sympy", "numpy", "transformers")):
            del sys.modules[name]


def names(target) -> list[str]:
    return [case.name for case in cases_of(str(target))]


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("a.py", ("a.py", None)),
        ("a.py:b", ("a.py", "b")),
        ("a/b.py:c.d", ("a/b.py", "c.d")),
        ("p.m", ("p.m", None)),
        ("p.m:c", ("p.m", "c")),
        ("odd:folder/a.py", ("odd:folder/a.py", None)),
        ("odd:folder/a.py:b", ("odd:folder/a.py", "b")),
    ],
)
def test_split(target, parts):
    assert split(target) == parts


def test_the_plain_convention(source):
    file = source(BUILD + "def inputs2():\n    return (torch.ones(5, 3),)\n\nDYNAMIC_SHAPES = {'input': {0: None}}\n")
    (case,) = cases_of(str(file))
    assert case.name == "model"
    assert case.model().in_features == 3
    assert case.example()[0][0].shape == (2, 3)
    assert case.further_examples()[0][0][0].shape == (5, 3)
    assert case.dynamic_shapes == {"input": {0: None}}


def test_the_plain_convention_with_keyword_arguments_alone(source):
    file = source("""
        import torch
        build = torch.nn.ReLU
        def inputs():
            return ()
        def kwargs():
            return {"input": torch.ones(2)}
    """)
    (case,) = cases_of(str(file))
    assert case.example()[1]["input"].shape == (2,)


DECLARED = """
    import functools
    import torch
    from torch import nn
    from exportlint import Method, ModelCase, export_case

    X = torch.ones(2, 3)

    def passing(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args)
        return inner

    single = ModelCase(nn.ReLU, (X,), name="single")
    again = single
    several = [ModelCase(nn.ReLU, (X,), name=f"listed{i}") for i in range(2)]
    nothing = []
    mixed = [1, single]

    @export_case((X,))
    def factory():
        return nn.Linear(3, 2)

    @passing
    @export_case((X,))
    def wrapped():
        return nn.Linear(3, 2)

    @export_case((X,), name="small")
    @export_case((X,), name="large")
    def stacked():
        return nn.Linear(3, 2)

    @export_case((X,))
    class Model(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
        def encode(self, x):
            return self(x)

    both = ModelCase(Model, name="both", methods={"encode": (X,), "forward": Method((X,))})

    def build():
        return nn.ReLU()

    def inputs():
        return (X,)
"""


def test_declared_cases_in_their_order_each_once_and_not_the_convention(source):
    file = source(DECLARED)
    assert names(file) == [
        "single", "listed0", "listed1", "factory", "wrapped", "large", "small", "Model", "both.encode", "both.forward",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("listed1", ["listed1"]),
        ("both.encode", ["both.encode"]),
        ("both", ["both.encode", "both.forward"]),
        ("several", ["listed0", "listed1"]),
        ("again", ["single"]),
        ("stacked", ["large", "small"]),
        ("Model", ["Model"]),
    ],
)
def test_cases_by_their_name_or_that_of_their_variable(source, name, found):
    assert names(f"{source(DECLARED)}:{name}") == found


def test_an_unknown_name_is_answered_with_the_known_ones(source):
    with pytest.raises(TargetError) as caught:
        cases_of(f"{source(DECLARED)}:listed7")
    assert "holds no model case 'listed7'; it has: single, listed0, listed1, factory" in str(caught.value)


def test_cases_that_another_file_made_are_not_this_files(source):
    """A factory that is imported is a case of its own file only; a ModelCase that is imported is meant."""
    source(
        """
        import torch
        from exportlint import ModelCase, export_case
        @export_case((torch.ones(1),))
        class M(torch.nn.ReLU):
            pass
        case = ModelCase(M, (torch.ones(1),), name="shared")
        """,
        "other.py",
    )
    file = source("from other import M, case\n")
    assert names(file) == ["shared"]


def test_a_package_with_relative_imports(source):
    source("", "shop/__init__.py")
    source("from .sizes import WIDTH\n", "shop/models/__init__.py")
    source("WIDTH = 3\n", "shop/models/sizes.py")
    imports = "from . import WIDTH\nfrom ..models.sizes import WIDTH as W\n"
    file = source(imports + BUILD.replace("Linear(3", "Linear(WIDTH + W - WIDTH"), "shop/models/first.py")
    (case,) = cases_of(str(file))
    assert case.name == "first"
    assert case.model().in_features == 3
    assert case.model.__module__ == "shop.models.first"


def test_the_cases_of_a_package_itself(source):
    source("WIDTH = 3\n", "shop/sizes.py")
    file = source(BUILD.replace("import torch\n", "import torch\nfrom .sizes import WIDTH\n", 1), "shop/__init__.py")
    assert names(file) == ["shop"]
    assert cases_of(str(file))[0].model.__module__ == "shop"


def test_a_sibling_is_imported_whatever_the_working_directory(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    source("WIDTH = 3\n", "sizes_of_a_sibling.py")
    file = source(BUILD.replace("import torch\n", "import torch\nfrom sizes_of_a_sibling import WIDTH\n", 1))
    assert names(file) == ["model"]


@pytest.mark.parametrize("kept", ["shop_of_project", "src/shop_of_project"])
def test_a_file_imports_the_packages_of_its_project(source, tmp_path, monkeypatch, kept):
    monkeypatch.chdir(tmp_path.parent)
    source("", "pyproject.toml")
    source("", f"{kept}/__init__.py")
    source("WIDTH = 3\n", f"{kept}/sizes.py")
    text = BUILD.replace("import torch\n", "import torch\nfrom shop_of_project.sizes import WIDTH\n", 1)
    assert names(source(text, "examples/vision/model.py")) == ["model"]


@pytest.mark.parametrize("name", ["json.py", "types.py", "torch.py", "exportlint.py", "2-layer net.py", "class.py"])
def test_files_whose_names_are_taken_or_no_identifiers(source, name):
    import json
    import types

    file = source(BUILD, name)
    (case,) = cases_of(str(file))
    assert case.model().in_features == 3
    assert (json.__name__, types.__name__) == ("json", "types")
    assert json.loads("[1]") == [1]


def test_two_files_of_one_name(source):
    one = source(BUILD, "a/model.py")
    two = source(BUILD.replace("Linear(3", "Linear(5"), "b/model.py")
    assert [cases_of(str(file))[0].model().in_features for file in (one, two)] == [3, 5]


def test_a_module_by_its_dotted_name(source, tmp_path, monkeypatch):
    source("", "shop/__init__.py")
    source(BUILD, "shop/first.py")
    monkeypatch.chdir(tmp_path)
    assert names("shop.first") == ["first"]
    assert names("shop.first:first") == ["first"]


def test_classes_can_be_pickled_and_their_source_read(source):
    """torch.export and dataclasses look a class's module up in sys.modules."""
    import inspect

    file = source("""
        import torch
        from dataclasses import dataclass
        @dataclass
        class Pair:
            a: "torch.Tensor"
        class build(torch.nn.ReLU):
            def forward(self, x):
                return x
        def inputs():
            return (torch.ones(1),)
    """)
    (case,) = cases_of(str(file))
    assert sys.modules[case.model.__module__].build is case.model
    assert "return x" in inspect.getsource(case.model.forward)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "holds no model case: no ModelCase, no @export_case and no build() with inputs()"),
        ("def build(): pass", "holds no model case"),
        ("build = 3\ninputs = 4", "holds no model case"),
        ("def f(:\n    pass", "cannot be imported: SyntaxError: invalid syntax"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package' (at model.py:1)"),
        ("def f():\n    1 / 0\n\nf()", "cannot be imported: ZeroDivisionError: division by zero (at model.py:2)"),
        ("import sys\nsys.exit()", "cannot be imported: SystemExit (at model.py:2)"),
        ("raise KeyError", "cannot be imported: KeyError (at model.py:1)"),
        (
            "from exportlint import export_case\n@export_case\ndef made(): pass",
            "made: @export_case needs the example call in parentheses, such as @export_case((x,))",
        ),
        ("from .other import x", "ImportError: attempted relative import with no known parent package"),
        ("def build(): pass\ndef inputs(): pass\nkwargs = 7", "kwargs of case 'model' must be a mapping"),
        ("def build(): pass\ndef inputs(): pass\nbuild.__name__ = ''\ninputs2 = 3", "inputs2 of case 'model' must be"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_loaded(source, text, words):
    file = str(source(text))
    with pytest.raises(TargetError) as caught:
        cases_of(file)
    assert str(caught.value).startswith(file)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("inside", "place"), [(True, "a/pk/__init__.py:2"), (False, "pk/__init__.py:2")])
def test_the_place_in_a_package_names_its_folder(tmp_path, monkeypatch, inside, place):
    (tmp_path / "a" / "pk").mkdir(parents=True)
    (tmp_path / "a" / "pk" / "__init__.py").write_text("x = 1\nraise ValueError('no')\n")
    (tmp_path / "a" / "pk" / "model.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path if inside else Path(__file__).parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(TargetError, match=rf"ValueError: no \(at {place}\)"):
        cases_of(str(tmp_path / "a" / "pk" / "model.py"))


def test_a_file_that_failed_is_imported_anew(source):
    file = source("raise ValueError")
    with pytest.raises(TargetError):
        cases_of(str(file))
    file.write_text(BUILD)
    assert names(file) == ["model"]


def test_a_file_with_a_foreign_encoding(tmp_path):
    file = tmp_path / "latin.py"
    file.write_bytes(b"# -*- coding: latin-1 -*-\nWORD = 'gr\xfc\xdfe'\n" + BUILD.encode())
    assert names(file) == ["latin"]
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbf" + BUILD.encode().replace(b"\n", b"\r\n"))
    assert names(tmp_path / "bom.py") == ["bom"]
    (tmp_path / "broken.py").write_bytes(b"WORD = '\xff'\n" + BUILD.encode())
    with pytest.raises(TargetError, match="SyntaxError"):
        cases_of(str(tmp_path / "broken.py"))


FACTORIES = """
import torch
from torch import nn
from torch.nn import Linear as MadeElsewhere
from exportlint import ModelCase, export_case

X = (torch.ones(2, 3),)

class MakesItself(nn.Linear):
    def __init__(self):
        super().__init__(3, 4)

class MakesNothing:
    pass

class MakesOfSize(nn.Linear):
    def __init__(self, size):
        super().__init__(3, size)

def make_any():
    return nn.Linear(3, 2)

def make_annotated() -> nn.Linear:
    return nn.Linear(3, 2)

def make_int() -> int:
    return 3

def make_of(size):
    return nn.Linear(3, size)

@export_case(X)
def make_case():
    return nn.Linear(3, 2)

make_held = ModelCase(nn.Linear(3, 2), X, name="held")
"""


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("make*", ["make_case", "held", "make_any", "make_annotated"]),
        ("Makes*", ["MakesItself"]),
        ("hel?", ["held"]),
        ("make_[a]*", ["make_any", "make_annotated"]),
    ],
)
def test_wildcards_of_names_stand_for_cases_and_for_factories_that_need_no_argument(tmp_path, pattern, found):
    (tmp_path / "factories.py").write_text(FACTORIES)
    assert names(f"{tmp_path / 'factories.py'}:{pattern}") == found


def test_a_name_with_wildcards_that_stands_for_nothing(tmp_path):
    (tmp_path / "factories.py").write_text(FACTORIES)
    with pytest.raises(TargetError, match=r"holds no model case 'nothing\*'; it has: make_case, held$"):
        cases_of(f"{tmp_path / 'factories.py'}:nothing*")


UNASKED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()

class Plain(nn.Module):
    pass

def small():
    raise RuntimeError("it was called")

def large(width=8):
    raise RuntimeError("it was called")

def needs(width):
    pass

def _private():
    pass

def main():
    pass
"""


@pytest.mark.parametrize("name", ["", ":nope"])
def test_what_may_be_asked_for_by_name_is_named(source, name):
    target = source(UNASKED)
    with pytest.raises(TargetError) as caught:
        cases_of(f"{target}{name}")
    asked = ", ".join(f"{target}:{factory}" for factory in ("Plain", "small", "large"))
    assert str(caught.value).endswith(f"can be asked for: {asked}")
