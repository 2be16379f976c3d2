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
