"""The catalogue of rules: one file a rule, one folder a family.

>>> from exportlint.rules import catalogue
>>> catalogue()["EXP101"].name
'branch-on-tensor'
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exportlint.rules.base import Rule


@functools.cache
def catalogue() -> Mapping[str, Rule]:
    """All rules by code, in order of their codes.

    Raises:
        RuntimeError: When a rule's file is named after another code than the one it declares.
    """
    rules: dict[str, Rule] = {}
    for module in pkgutil.walk_packages(__path__, prefix=f"{__name__}."):
        file = module.name.rpartition(".")[2]
        if not file.startswith("exp"):
            continue
        rule: Rule = importlib.import_module(module.name).RULE
        if file != f"{rule.code.lower()}_{rule.name.replace('-', '_')}" or rule.code in rules:
            raise RuntimeError(f"{module.name} declares {rule.code} {rule.name}, which is taken or not its file's name")
        rules[rule.code] = rule
    return MappingProxyType(dict(sorted(rules.items())))


@functools.cache
def families() -> Mapping[str, tuple[str, ...]]:
    """The codes of each family, by its name (``control-flow``), which is that of its folder."""
    found: dict[str, tuple[str, ...]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            files = (f.name for f in pkgutil.iter_modules([f"{__path__[0]}/{module.name}"]))
            names = sorted(file.partition("_")[0].upper() for file in files if file.startswith("exp"))
            found[module.name.replace("_", "-")] = tuple(names)
    return MappingProxyType(found)
