"""Definitions as trees of their own, and the places of their nodes in the file."""

from __future__ import annotations

import ast
from pathlib import Path

import libcst as cst
import pytest

import exportlint
from exportlint.source.fragments import Site, parse
from exportlint.source.index import index

OWN = sorted(Path(exportlint.__file__).parent.joinpath("source").glob("*.py"))


def names(tree: ast.AST) -> list[tuple[str, int, int]]:
    lines = [(n.id, n.lineno, n.col_offset + 1) for n in ast.walk(tree) if isinstance(n, ast.Name)]
    return sorted(lines)


@pytest.mark.parametrize("path", OWN, ids=lambda p: p.stem)
def test_places_are_those_of_pythons_own_tree(path: Path) -> None:
    """Every name of every function of the linter itself stands where `ast` says."""
    module = index(path, path.stem)
    whole = ast.parse(module.source.text)
    for entry in [*module.functions.values(), *(m for c in module.all_classes for m in c.methods.values())]:
        fragment = parse(entry.extent)
        (node,) = [s for s in fragment.statements if isinstance(s, cst.FunctionDef)]
        wanted = next(
            n for n in ast.walk(whole) if isinstance(n, ast.FunctionDef) and n.name == entry.name
            and entry.extent.first <= n.lineno <= entry.extent.last
        )  # fmt: skip
        found = {(n.value, (r := fragment.range_of(n)).line, r.column) for n in _names(node)}
        assert {n for n in names(wanted) if n[0] not in ("True", "False", "None")} <= found


def _names(node: cst.CSTNode) -> list[cst.Name]:
    if isinstance(node, cst.Name):
        return [node]
    return [n for child in node.children for n in _names(child)]


def test_a_statement_that_shares_its_line_is_found(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("if 1: x = 1; y = 2\n", encoding="utf-8")
    module = index(file, "m")
    fragment = parse(module.assigned["y"][0])
    assert fragment.statements
    assert Site(fragment, fragment.statements[0]).line == 1


def test_sites_are_equal_for_one_node_only(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("x = f(1, 1)\n", encoding="utf-8")
    fragment = parse(index(file, "m").assigned["x"][0])
    first, second = [n for n in _names(fragment.tree) if n.value in ("x", "f")]
    assert Site(fragment, first) == Site(fragment, first)
    assert Site(fragment, first) != Site(fragment, second)
    assert len({Site(fragment, first), Site(fragment, first), Site(fragment, second)}) == 2


def test_long_text_is_cut_and_put_on_one_line(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("x = f(\n    'a'\n)\n" + f"y = {'z' * 200}\n", encoding="utf-8")
    module = index(file, "m")
    short, long = (parse(module.assigned[name][0]) for name in "xy")
    assert Site(short, short.statements[0]).text == "x = f( 'a' )"
    assert len(Site(long, long.statements[0]).text) == 60
