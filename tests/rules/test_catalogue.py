"""The catalogue: no rule without its words and its proof, and the linter agrees with every example."""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from typing import TYPE_CHECKING, get_args

import pytest
from cases import Case, cases
from forms import FORMS, Form

from exportlint.cli.rule import predicted
from exportlint.findings import MODES, RESULTS
from exportlint.rules import catalogue
from exportlint.rules.base import Near, Proof, Rule, Variant, outcomes
from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.source.engine import Prediction

RULES = list(catalogue().values())
LAYOUT = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_every_rule_has_its_words(rule: Rule) -> None:
    assert rule.page.startswith(f"# {rule.name} ({rule.code})")
    assert "## What it does" in rule.page
    assert "## Why it matters" in rule.page
    assert not rule.summary.endswith(".")
    assert rule.rewrite.endswith(".")


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_every_rule_has_its_proof(rule: Rule) -> None:
    assert rule.proof in get_args(Proof)
    assert rule.bad
    assert rule.good
    assert rule.fixed
    assert rule.near
    assert rule.observed_by or rule.proof in ("run", "build")  # what Python cannot read, or load, gets to no check
    modes = {"export"} if rule.proof == "check" and rule.match is None else set(MODES)
    for variant in ("", *rule.variants):
        declared = rule.outcomes_of(variant)
        assert set(declared) == modes
        assert set(declared.values()) <= set(RESULTS)
        assert not rule.is_advice(variant) or set(declared.values()) == {"fine"}
    named = {near.variant for near in rule.near if near.variant}
    assert named <= set(rule.variants)


@pytest.mark.parametrize("rule", [r for r in RULES if r.match is not None], ids=lambda r: r.code)
def test_a_rule_that_matches_declares_outcomes_and_events(rule: Rule) -> None:
    assert rule.events
    assert set(rule.outcomes) == set(MODES)


def tokens(source: str) -> list[str]:
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in found if token.type not in LAYOUT]


@pytest.mark.parametrize(
    "near", [pytest.param(n, id=f"{r.code}-near-{i}") for r in RULES for i, n in enumerate(r.near)]
)
def test_near_misses_differ_by_one_token(near: Near) -> None:
    """One token of Python's own tokenizer is changed, inserted or deleted; layout and comments do not count."""
    bad, good = tokens(near.bad), tokens(near.good)
    blocks = difflib.SequenceMatcher(None, bad, good, autojunk=False).get_opcodes()
    changed = sum(max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in blocks if kind != "equal")
    assert changed == 1, [(bad[i1:i2], good[j1:j2]) for kind, i1, i2, j1, j2 in blocks if kind != "equal"]


def findings(tmp_path: Path, source: str, oldest: tuple[int, int] | None = None) -> list[Prediction]:
    """What is found in any mode, each judged alone, where this is the oldest torch."""
    file = tmp_path / "example.py"
    file.write_text(source, encoding="utf-8")
    return [p for mode in MODES for p in lint([file], Options(modes=(mode,), preview=True, torch_version=oldest))]


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.id.replace(" ", "-"))
def test_the_linter_agrees_with_the_example(case: Case, tmp_path: Path) -> None:
    """A bad example is found in its variant, if in source at all; a good one holds nothing that bites in any mode."""
    found = findings(tmp_path, case.source, case.oldest)
    here = {(p.rule.code, p.variant) for p in found}
    bites = case.rule.is_advice(case.variant) or any(outcome != "fine" for outcome in case.wanted.values())
    if case.bad and bites and predicted(case.rule):
        assert (case.rule.code, case.variant) in here, here
    elif not case.bad:
        assert not here, [p.message for p in found]


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_further_forms_are_found(form: Form, tmp_path: Path) -> None:
    found = findings(tmp_path, form.source)
    assert {f"{p.rule.code} {p.variant}".strip() for p in found} == form.found, [p.message for p in found]


@pytest.mark.parametrize("case", [c for c in cases() if c.rule.code != "EXP001"], ids=lambda c: c.id.replace(" ", "-"))
def test_examples_are_small_files_after_the_convention(case: Case) -> None:
    names = {node.name for node in ast.parse(case.source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert {"build", "inputs", "inputs2"} <= names


def test_outcomes_follow_the_release_of_torch() -> None:
    old, new = (outcomes(export="fine", strict=word, compiled=word) for word in ("breaks", "fine"))
    variant = Variant(outcomes=old, bad="", changed={"2.14": new, "2.9": old})
    assert [variant.outcomes_in(release) for release in ((2, 8), (2, 13), (2, 14), (2, 15), (3, 0))] == [old] * 2 + [
        new
    ] * 3
