"""How a file names what fixes write into it."""

from __future__ import annotations

import libcst as cst

from exportlint.fixes.tree import Text, Tree


def torch_name(tree: Tree, name: str) -> tuple[str, list[Text]]:
    """How the file spells a dotted name of torch (``torch.where``), and the import that is missing for it, if any."""
    rest = name.removeprefix("torch.")
    spelt = _imported(tree)
    if spelt is not None:
        return f"{spelt}.{rest}", []
    at = _first_import(tree)
    return name, [Text(at, at, f"import torch{tree.module.default_newline}")]


def _imported(tree: Tree) -> str | None:
    """The name under which the top level of a file imports torch."""
    for statement in tree.module.body:
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            for alias in small.names if isinstance(small, cst.Import) else ():
                plain = isinstance(alias.name, cst.Name) and alias.name.value == "torch"
                if plain and alias.asname is None:
                    return "torch"
                if plain and alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                    return alias.asname.name.value
                if alias.asname is None and tree.source(alias.name).startswith("torch."):
                    return "torch"
    return None


def _first_import(tree: Tree) -> int:
    """The offset at which an import can be written: before the first other one, behind a docstring otherwise."""
    last = 0
    for i, statement in enumerate(tree.module.body):
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        future = (
            isinstance(small, cst.ImportFrom)
            and isinstance(small.module, cst.Name)
            and small.module.value == "__future__"
        )
        docstring = i == 0 and isinstance(small, cst.Expr) and isinstance(small.value, cst.BaseString)
        if not future and not docstring:
            return tree.span(statement)[0] if isinstance(small, (cst.Import, cst.ImportFrom)) or not last else last
        place = tree.positions[statement].end
        last = tree.offset(place.line + 1, 1)
    return last
