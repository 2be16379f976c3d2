"""How often each rule was found."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from exportlint.formats.wording import closing

if TYPE_CHECKING:
    from exportlint.formats import Results


def render(results: Results, form: str = "full") -> str:
    """A line a rule, the most frequent first, then how much was found; as JSON with Ruff's field names.

    Args:
        results: What was found.
        form: The format: ``json`` and ``json-lines`` are JSON, any other is text.
    """
    counts = Counter((p.rule.code, p.rule.name) for p in results.shown)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if form.startswith("json"):
        held = [{"code": code, "name": name, "count": n} for (code, name), n in rows]
        return (
            "".join(f"{json.dumps(e)}\n" for e in held) if form == "json-lines" else json.dumps(held, indent=2) + "\n"
        )
    wide = len(str(max(counts.values(), default=0)))
    return "".join(f"{line}\n" for line in (*(f"{n:>{wide}}  {c}  {name}" for (c, name), n in rows), closing(results)))
