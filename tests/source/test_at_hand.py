"""What stands beside a place: found in one walk, however deep or long the function is."""

from __future__ import annotations

import ast

import pytest

from exportlint.source import at_hand, tree


def parsed(text: str) -> tuple[ast.Call, list[ast.stmt]]:
    """The call of `here` in a text, and the statements."""
    body = ast.parse(text).body
    calls = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Call))
    return next(c for c in calls if ast.unparse(c.func) == "here"), body


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("y = x + here(z) * w", ["x", "here", "z", "w"]),
        ("x = x + here(w)", ["here", "w"]),
        ("if a:\n    y = b + here()\n    z = c", ["b", "here"]),
        ("if a + here() > b:\n    c\nelse:\n    d", ["a", "here", "b"]),
        ("for i in here(n):\n    use(i, m)", ["here", "n"]),
        ("try:\n    a\nexcept E:\n    b + here()", ["b", "here"]),
        ("match a:\n    case P() if here(b):\n        c", ["a", "P", "here", "b"]),
        ("with a:\n    def f():\n        return b, here(lambda q: q)", ["b", "here", "q"]),
    ],
)
def test_the_innermost_statement_tells_what_is_beside(text: str, names: list[str]) -> None:
    assert at_hand._beside(*parsed(text)) == names


def test_nothing_is_beside_what_is_elsewhere() -> None:
    call, _ = parsed("here()")
    assert at_hand._beside(call, ast.parse("x = y").body) == []


@pytest.mark.parametrize("shape", ["deep", "long"])
def test_the_work_grows_as_the_function_does(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[ast.AST] = []

    def counting(node: ast.AST):
        visited.append(node)
        return plain(node)

    plain = tree.children
    for module in (at_hand, tree):
        monkeypatch.setattr(module, "children", counting)
    work = []
    for size in (20, 80):
        lines = [f"{' ' * i}if a:" for i in range(size)] if shape == "deep" else ["if a:", *[" b = c"] * size]
        visited.clear()
        call, body = parsed("\n".join([*lines, f"{' ' * (size if shape == 'deep' else 1)}x = y + here(z)"]))
        assert at_hand._beside(call, body) == ["y", "here", "z"]
        work.append(len(visited))
    assert work[1] < 4.5 * work[0]
