"""How often each rule was found."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from exportlint.formats.wording import closing

if TYPE_CHECKING:
    from exportlint.formats import Results


def render(results: Results, *, as_json: bool = False) -> str:
    """A line a rule, the most frequent first, then how much was found; or a list, with Ruff's field names."""
    counts = Counter((p.rule.code, p.rule.name) for p in results.shown)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if as_json:
        return json.dumps([{"code": code, "name": name, "count": n} for (code, name), n in rows], indent=2) + "\n"
    wide = len(str(max(counts.values(), default=0)))
    return "".join(f"{line}\n" for line in (*(f"{n:>{wide}}  {c}  {name}" for (c, name), n in rows), closing(results)))
