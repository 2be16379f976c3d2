"""Is the linter right on code that it was not written for? Draws findings for a reader to judge, counts verdicts.

    exportlint check SITE/transformers SITE/timm SITE/torchvision --output-format json > findings.json
    python benchmarks/precision/draw.py draw findings.json --site SITE
    python benchmarks/precision/draw.py again later.json --site SITE
    python benchmarks/precision/draw.py table

``draw`` writes `findings.jsonl` beside this script: 100 of the errors and warnings, drawn with a fixed seed from all of
them in the order of files, lines and rules. A reader then writes ``verdict`` and ``reason`` into each:

* *right*: torch does at that line what the finding says, in a model that the class is for, as it stands;
* *wrong*: it does not, or no call that the class allows gets there so.

``again`` notes which of them a later linter still tells, so that the wrong ones can be seen to go and the right ones to
stay. ``table`` writes `README.md` from the verdicts. It ends with status 1 while findings are without verdict or fewer
than 90 % are right.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from exportlint import whole_file

FOLDER = Path(__file__).resolve().parent
DRAWN = FOLDER / "findings.jsonl"
TABLE = FOLDER / "README.md"
SEED = 20261130
NUMBER = 100
PACKAGES = ("timm", "torchvision", "transformers")
WANTED = 0.9


def drawn(found: list[dict[str, Any]], site: Path) -> list[dict[str, Any]]:
    """The findings to be judged, in the order of files and lines."""
    records = sorted((_record(f, site) for f in found if f["severity"] != "info"), key=_order)
    return sorted(random.Random(SEED).sample(records, min(NUMBER, len(records))), key=_order)


def _order(record: dict[str, Any]) -> tuple[str, int, str]:
    return record["file"], record["line"], record["code"]


def _record(finding: dict[str, Any], site: Path) -> dict[str, Any]:
    path, line = Path(finding["filename"]), finding["location"]["row"]
    source = path.read_text(encoding="utf-8").splitlines()[line - 1].strip()
    kept = {key: finding[key] for key in ("code", "severity", "message")}
    file = Path(os.path.relpath(path, site)).as_posix()
    return {"file": file, "line": line, **kept, "source": source, "verdict": None, "reason": None}


def noted(records: list[dict[str, Any]], later: list[dict[str, Any]], site: Path) -> list[dict[str, Any]]:
    """The same findings, with whether they are among those of a later run."""
    told = {_order(_record(f, site)) for f in later if f["severity"] != "info"}
    return [{**record, "still_told": _order(record) in told} for record in records]


def versions(site: Path) -> list[str]:
    """The packages that were linted, with their versions."""
    found = {d.metadata["Name"]: d.version for d in distributions(path=[str(site)])}
    return [f"{name} {found[name]}" for name in PACKAGES]


def write(records: list[dict[str, Any]]) -> None:
    """Write the findings, one a line."""
    whole_file.write(DRAWN, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode())


def table(head: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """The verdicts as Markdown."""
    right, judged = (sum(r["verdict"] in wanted for r in records) for wanted in (("right",), ("right", "wrong")))
    lines = [
        "# The linter on code that it was not written for",
        "",
        f"{len(records)} of {head['findings']} errors and warnings in {', '.join(head['packages'])},",
        f"drawn with the seed {head['seed']} and judged by reading the code, and by running it where that left a doubt",
        "(`draw.py` says how).",
        "",
        f"**{right} of {judged} are right.**",
        *_since(records),
        "",
        "| rule | right | wrong |",
        "|---|---|---|",
    ]
    counts = Counter((r["code"], r["verdict"]) for r in records)
    lines += [f"| {c} | {counts[c, 'right']} | {counts[c, 'wrong']} |" for c in sorted({r["code"] for r in records})]
    lines += ["", "## Wrong", "", *_rows(r for r in records if r["verdict"] != "right")]
    lines += ["", "## Right", "", *_rows(r for r in records if r["verdict"] == "right")]
    return "\n".join(lines) + "\n"


def _since(records: list[dict[str, Any]]) -> list[str]:
    """What became of them, where that was noted."""
    if any("still_told" not in r for r in records):
        return []
    counts = Counter((r["verdict"], r["still_told"]) for r in records)
    gone, wrong = counts["wrong", False], counts["wrong", False] + counts["wrong", True]
    kept, right = counts["right", True], counts["right", True] + counts["right", False]
    return [
        "",
        f"Mended since: {gone} of the {wrong} wrong ones are not told any more, {kept} of the {right} right ones are.",
    ]


def _rows(records: Any) -> list[str]:
    rows = [
        f"| `{r['file']}:{r['line']}` | {r['code']} | {_cell(r['message'])} | {_cell(r['reason'] or 'not judged')} |"
        for r in records
    ]
    return ["| place | rule | finding | why |", "|---|---|---|---|", *rows] if rows else ["None."]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Draw findings, or count the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("draw", "again"):
        command = commands.add_parser(name)
        command.add_argument("findings", type=Path)
        command.add_argument("--site", type=Path, required=True)
    commands.add_parser("table")
    args = parser.parse_args()
    if args.command == "draw":
        found = json.loads(args.findings.read_text())
        number = sum(f["severity"] != "info" for f in found)
        write([{"seed": SEED, "findings": number, "packages": versions(args.site)}, *drawn(found, args.site)])
        return 0
    head, *records = (json.loads(line) for line in DRAWN.read_text().splitlines())
    if args.command == "again":
        write([head, *noted(records, json.loads(args.findings.read_text()), args.site)])
        return 0
    whole_file.write(TABLE, table(head, records).encode())
    right = sum(r["verdict"] == "right" for r in records)
    return int(any(r["verdict"] is None for r in records) or right < WANTED * len(records))


if __name__ == "__main__":
    sys.exit(main())
