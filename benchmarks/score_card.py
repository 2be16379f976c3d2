"""The linter's score card on the labelled cases, and the block of the README that tells it.

    exportlint report fixtures/cases/bugreports fixtures/cases/patterns --timeout 60 --output cases.json
    python benchmarks/score_card.py [cases.json]

With a run of ``exportlint report`` it is kept in ``results/labelled_cases.json.gz`` first. The block of the README
between the two marks is written from what is kept there, and from the report of the zoo in ``docs/zoo/``, if any.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import portable_report

from exportlint import whole_file
from exportlint.report import read
from exportlint.report.score_card import percent, score_card

if TYPE_CHECKING:
    from exportlint.findings import Readiness

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "benchmarks" / "results" / "labelled_cases.json.gz"
ZOO = ROOT / "docs" / "zoo" / "readiness.json.gz"
README = ROOT / "README.md"
BEGIN, END = "<!-- numbers: python benchmarks/score_card.py -->", "<!-- end of numbers -->"


def block(cases: Readiness, zoo: Readiness | None) -> str:
    """What the README says, with its marks."""
    total = score_card(cases)[-1]
    counts = (total.confirmed, total.refuted, total.missed, total.not_exercised)
    cells = [*map(str, counts), percent(total.precision), percent(total.recall)]
    lines = [
        BEGIN,
        f"Predictions beside what the checks saw on the {len(cases.cases)} cases of `fixtures/cases`, with which the",
        f"rules were developed (torch {cases.environment.torch}; lines, each counted once):",
        "",
        "| confirmed | refuted | missed | not exercised | precision | recall |",
        "|---:|---:|---:|---:|---:|---:|",
        f"| {' | '.join(cells)} |",
    ]
    return "\n".join([*lines, *(_of_zoo(zoo) if zoo is not None else []), END])


def _of_zoo(zoo: Readiness) -> list[str]:
    """What the checks say of the zoo: models by check and outcome."""
    number = len(zoo.cases)
    made = ", ".join([f"torch {zoo.environment.torch}", *zoo.environment.packages])
    lines = [
        "",
        f"[The zoo](docs/zoo/readiness.md): {number} models of libraries from small configs ({made}):",
        "",
        "| check | passed | red | not checked |",
        "|---|---:|---:|---:|",
    ]
    for name in zoo.environment.checks:
        found = Counter(
            "red" if check.red else check.outcome if check.expected is None else "expected"
            for case in zoo.cases
            for check in case.checks
            if check.name == name
        )
        lines.append(f"| `{name}` | {found['passed']} | {found['red']} | {found['not_checked']} |")
    return lines


def in_place(text: str, numbers: str) -> str:
    """The text with its block replaced.

    Raises:
        SystemExit: When it has not each mark once.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit("README.md lacks the marks of the block, or has them twice")
    return text[: text.index(BEGIN)] + numbers + text[text.index(END) + len(END) :]


def main() -> int:
    """Keep a run, and write the block."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path)
    options = parser.parse_args()
    if options.run is not None:
        portable_report.write(portable_report.portable(read(options.run)), KEPT)
    numbers = block(read(KEPT), read(ZOO) if ZOO.is_file() else None)
    whole_file.write(README, in_place(README.read_text(encoding="utf-8"), numbers).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
