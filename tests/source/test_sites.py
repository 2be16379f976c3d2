"""Places of nodes in a file, and their text."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from exportlint.source.index import index
from exportlint.source.sites import Range, Site, place_parts

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, text: str) -> tuple[ast.stmt, ...]:
    """The statements that bind a name at the top of a file, and the file's index."""
    file = folder / "m.py"
    file.write_text(text, encoding="utf-8")
    return tuple(e[0].statement for e in index(file, "m").assigned.values())


def test_trees_that_were_let_go_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    text = "class A:\n    @property\n    def f(self):\n        return 1\n\ndef g(): return 2\n\nif g(): x = 1; y = 2\n"
    file.write_text(text, encoding="utf-8")
    module = index(file, "m")
    extents = [module.functions["g"].extent, module.classes["A"].methods["f"].extent, *module.assigned["y"]]
    before = [ast.dump(extent.statement) for extent in extents]
    assert module.held
    module.let_go()
    assert not module.held
    assert [ast.dump(extent.statement) for extent in extents] == before
    assert module.held


def test_columns_count_characters(tmp_path: Path) -> None:
    text = "é = 'ü' + f(\n  'ö', b)\n"
    (statement,) = made(tmp_path, text)
    source = index(tmp_path / "m.py", "m").source
    assert isinstance(statement, ast.Assign)
    assert Site(source, statement.value).range == Range(1, 5, 2, 10)
    assert isinstance(statement.value, ast.BinOp)
    assert Site(source, statement.value.right).range == Range(1, 11, 2, 10)
    assert Site(source, statement.value.right).text == "f( 'ö', b)"


def test_the_place_of_a_parameter_is_its_name(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("def f(a, ä: 'list[int]' = 1): pass\n", encoding="utf-8")
    module = index(file, "m")
    assert Site(module.source, module.functions["f"].node.args.args[1]).range == Range(1, 10, 1, 11)


def test_sites_are_equal_for_one_node_only(tmp_path: Path) -> None:
    (statement,) = made(tmp_path, "x = f(1, 1)\n")
    source = index(tmp_path / "m.py", "m").source
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Call)
    first, second = statement.value.args
    assert Site(source, first) == Site(source, first)
    assert Site(source, first) != Site(source, second)
    assert len({Site(source, first), Site(source, first), Site(source, second)}) == 2


def test_long_text_is_cut_and_put_on_one_line(tmp_path: Path) -> None:
    short, long = made(tmp_path, "x = f(\n    'a'\n)\n" + f"y = {'z' * 200}\n")
    source = index(tmp_path / "m.py", "m").source
    assert Site(source, short).text == "x = f( 'a' )"
    assert len(Site(source, long).text) == 60


@pytest.mark.parametrize("text", [
    "x = f'{a.b()}'\n",
    "x = f'ä {a.b()!r:>{width}}' f'{c}'\n",
    "x = (f'''\n  {a.b()}\n    and {c}\n''')\n",
    "x = ('a'\n  f'{a.b()}'\n     f'{c:.2f}')\n",
    "x = f'{f\"{a.b()}\"}'\n",
    "x = f'''{\n   a.b(\n  c)}'''\n",
])  # fmt: skip
def test_places_inside_of_f_strings_are_right_or_those_of_the_whole(tmp_path: Path, text: str) -> None:
    (statement,) = made(tmp_path, text)
    source = index(tmp_path / "m.py", "m").source
    assert isinstance(statement, ast.Assign)
    whole = statement.value
    assert isinstance(whole, ast.JoinedStr)
    place_parts(whole, source)
    parts = [n for n in ast.walk(whole) if isinstance(n, (ast.Name, ast.Call))]
    assert parts
    for part in parts:
        found = Site(source, part)
        assert found.range == Site(source, whole).range or found.text.replace(" ", "") == ast.unparse(part)
