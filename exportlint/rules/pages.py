"""Rules as pages: what ``exportlint rule`` prints, and the files of ``docs/rules``.

``python -m exportlint.rules.pages docs/rules`` writes the folder anew.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint import whole_file
from exportlint.findings import MODES
from exportlint.rules import catalogue, families

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exportlint.findings import Outcomes
    from exportlint.rules.base import Rule

OUTCOMES = """\
`main` is the form in the bad example; other forms, which end otherwise, have names of their own.
*breaks*: the capture fails; *silent*: it succeeds, and the result is wrong; *specialises*: the program holds for fewer
inputs than the model; *unportable*: wrong on another device or elsewhere; *fine*: nothing of it; -: not observed.
*advice*: nothing fails, but it may not be meant."""
INDEX = "README.md"


def page(found: Rule) -> str:
    """The rule's page, what happens in each mode, and its examples."""
    parts = [found.page.strip(), "## What to do\n" + found.rewrite]
    rows = [("main" + _advice(found.advice), found.outcomes)]
    for name, variant in found.variants.items():
        rows.append((name + _advice(variant.advice), variant.outcomes))
        rows += [(f"{name}, torch {release} on", outcomes) for release, outcomes in variant.changed.items()]
    head = "| form | export | export-strict | compile |\n|---|---|---|---|"
    parts += ["\n".join(["## Outcomes", head, *(_row(name, o) for name, o in rows)]), OUTCOMES]
    good = "The bad example, rewritten." if found.good == found.fixed else "Close to the bad example, and portable."
    fixed = "" if found.good == found.fixed else found.fixed
    examples = (
        ("Bad", "The rule holds here, in its main form.", found.bad),
        ("Good", good, found.good),
        ("Fixed", " ".join(["The bad example, rewritten.", found.fixed_differs]).strip(), fixed),
    )
    parts += [f"## {title}\n{words}\n\n```python\n{text.strip()}\n```" for title, words, text in examples if text]
    return "\n\n".join(parts) + "\n"


def _advice(advice: bool) -> str:
    return " (advice)" if advice else ""


def _stage(found: Rule) -> str:
    return " (preview)" if found.stage == "preview" else ""


def _row(name: str, outcomes: Outcomes) -> str:
    return "| " + " | ".join([name, *(outcomes.get(mode, "-") for mode in MODES)]) + " |"


def index() -> str:
    """The list of all rules, by family."""
    lines = ["# Rules", "", "`exportlint rule CODE` prints the same pages."]
    for family, codes in families().items():
        lines += ["", f"## {family}", "", "| code | name | what it is about |", "|---|---|---|"]
        rules = [catalogue()[code] for code in codes]
        lines += [f"| [{r.code}]({r.code}.md) | `{r.name}` | {r.summary}{_stage(r)} |" for r in rules]
    return "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """The texts of the folder, by name."""
    return {INDEX: index(), **{f"{rule.code}.md": page(rule) for rule in catalogue().values()}}


def main(arguments: Sequence[str]) -> None:
    """Write the files, and remove the pages of rules that are gone."""
    (folder,) = map(Path, arguments)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = files()
    for name, text in wanted.items():
        whole_file.write(folder / name, text.encode())
    for file in folder.glob("EXP*.md"):
        if file.name not in wanted:
            file.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
