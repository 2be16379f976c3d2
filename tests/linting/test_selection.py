"""Selectors: what they stand for, which of two wins, and what is said of a misspelt one."""

from __future__ import annotations

import pytest

from exportlint.linting.selection import Layer, SelectorError, codes, codes_on
from exportlint.rules import catalogue, families

DEVICES = {code for code in catalogue() if code.startswith("EXP2")}


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("EXP201", {"EXP201"}),
        ("exp201", {"EXP201"}),
        ("device-literal", {"EXP201"}),
        ("EXP2", DEVICES),
        ("EXP20", DEVICES),
        ("devices", DEVICES),
        (" control-flow ", {"EXP101", "EXP102", "EXP103"}),
        ("EXP", set(catalogue())),
        ("all", set(catalogue())),
    ],
)
def test_what_a_selector_stands_for(selector: str, found: set[str]) -> None:
    assert codes(selector) == found


def test_families_hold_every_rule_once() -> None:
    held = [code for family in families().values() for code in family]
    assert sorted(held) == list(catalogue())
    assert not set(families()) & {rule.name for rule in catalogue().values()}


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("branch-on-tenser", "did you mean 'branch-on-tensor'?"),
        ("EXP1O1", "did you mean 'EXP101'?"),
        ("device", "did you mean 'devices'?"),
        ("al", "did you mean 'ALL'?"),
        ("zzz", "exportlint rules lists them all"),
        ("", "exportlint rules lists them all"),
        ("EX", "exportlint rules lists them all"),
        ("EXP99", "exportlint rules lists them all"),
        ("EXPP", "exportlint rules lists them all"),
        ("EPX101", "did you mean 'EXP101'?"),
        ("EXP1011", "did you mean 'EXP101'?"),
        ("EXPl0l", "did you mean 'EXP101'?"),
        ("EXP2OI", "did you mean 'EXP201'?"),
        ("EXPIO2", "did you mean 'EXP102'?"),
        ("EXP209", "did you mean 'EXP20"),
        ("EXP109", "did you mean 'EXP10"),
        ("EXP59", "exportlint rules lists them all"),
        ("EXP101:EXP202", "put a comma between EXP101 and EXP202"),
        ("EXP101;branch-on-tensor", "put a comma between EXP101 and branch-on-tensor"),
        ("EXP101 devices EXP2", "put a comma between EXP101, devices and EXP2"),
        ("EXP101:EXP999", "exportlint rules lists them all"),
    ],
)
def test_what_means_nothing_gets_a_hint(selector: str, hint: str) -> None:
    with pytest.raises(SelectorError) as caught:
        codes(selector)
    assert str(caught.value).startswith(f"{selector!r} is no rule, family of rules or beginning of a code")
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("layers", "on"),
    [
        ((Layer(("EXP2",), (), ("EXP201",)),), DEVICES - {"EXP201"}),
        ((Layer(("EXP201",), (), ("EXP2",)),), {"EXP201"}),
        ((Layer(("device-literal",), (), ("devices",)),), {"EXP201"}),
        ((Layer(("EXP201",), (), ("device-literal",)),), set()),
        ((Layer(("EXP101",), ("EXP2",), ("EXP202",)),), DEVICES - {"EXP202"} | {"EXP101"}),
        ((Layer(("EXP1",)), Layer(("EXP201",))), {"EXP201"}),
        ((Layer(("EXP1",), (), ("EXP101",)), Layer(("EXP101",))), {"EXP101"}),
        ((Layer(("EXP101",)), Layer(None, ("EXP102",))), {"EXP101", "EXP102"}),
        ((Layer(("EXP101", "EXP201")), Layer(None, (), ("EXP2",))), {"EXP101"}),
    ],
)
def test_the_more_exact_selector_wins_and_the_later_place(layers: tuple[Layer, ...], on: set[str]) -> None:
    assert codes_on(layers) == on | {"EXP001"}


def test_nothing_selected_is_every_rule_and_what_cannot_be_read_can_be_ignored() -> None:
    assert codes_on(()) == codes_on((Layer(),)) == set(catalogue())
    assert "EXP001" not in codes_on((Layer(("ALL",), (), ("invalid-syntax",)),))
    assert codes_on((Layer((), (), ()),)) == {"EXP001"}
