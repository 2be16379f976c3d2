"""The readiness report of the zoo, from the results of ``python -m exportlint.zoo run``.

    python benchmarks/zoo_readiness.py RESULTS.jsonl... --folder docs/zoo

Writes ``readiness.json.gz``, which follows the schema of reports and can be given to ``exportlint report diff``, and
from it ``readiness.md``. Where results hold a model several times, the last line counts. A report is of one torch:
results of others than ``--torch``, by default that of the last line, are left out, unless ``any`` is asked for. Files
are named from their package's folder on; where a path of the machine would be left, nothing is written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import portable_report

from exportlint import whole_file
from exportlint.findings import CaseResult, Environment, Readiness, TargetError
from exportlint.report import markdown
from exportlint.text import counted

OF_ENVIRONMENT = ("exportlint", "python", "torch")  # whose versions have fields of their own


def read(paths: list[Path]) -> list[dict[str, Any]]:
    """The records of all files, in their order."""
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def readiness(records: list[dict[str, Any]]) -> Readiness:
    """The run that these records are of."""
    last = {record["model"]: record for record in records}
    chosen = [last[model] for model in sorted(last)]
    settings = [record["settings"] for record in chosen]
    packages = {f"{n} {v}": None for r in chosen for n, v in r["versions"].items() if n not in OF_ENVIRONMENT}
    environment = Environment(
        exportlint=_versions(chosen, "exportlint"),
        python=_versions(chosen, "python"),
        torch=_versions(chosen, "torch"),
        platform="",
        date=max(record["date"] for record in chosen),
        isolation="; ".join(["server", *(_shares(chosen) if "," in _versions(chosen, "torch") else [])]),
        devices=tuple(dict.fromkeys(name for s in settings for name in s["devices"])),
        checks=tuple(dict.fromkeys(name for s in settings for name in s["checks"])),
        packages=tuple(sorted(packages)),
    )
    cases = tuple(msgspec.convert(record["case"], CaseResult) for record in chosen if record["case"] is not None)
    errors = tuple(
        TargetError(target=record["model"], message=record["error"]) for record in chosen if record["case"] is None
    )
    return portable_report.portable(Readiness(environment=environment, cases=cases, errors=errors))


def _shares(records: list[dict[str, Any]]) -> list[str]:
    """How many models were checked with each torch."""
    found = Counter(record["versions"]["torch"] for record in records)
    return [f"{counted(number, 'model')} with torch {torch}" for torch, number in sorted(found.items())]


def _versions(records: list[dict[str, Any]], name: str) -> str:
    return ", ".join(sorted({record["versions"].get(name, "?") for record in records}))


def main() -> int:
    """Write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("docs/zoo"))
    parser.add_argument("--torch")
    options = parser.parse_args()
    records = read(options.results)
    torch = options.torch or records[-1]["versions"]["torch"]
    chosen = [record for record in records if torch in ("any", record["versions"]["torch"])]
    if len(chosen) < len(records):
        print(f"{len(records) - len(chosen)} of {len(records)} results are of another torch than {torch}: left out")
    if not chosen:
        sys.exit(f"no result is of torch {torch}")
    run = readiness(chosen)
    page = markdown.render(run)
    size = portable_report.write(run, options.folder / "readiness.json.gz")
    whole_file.write(options.folder / "readiness.md", page.encode())
    print(f"{len(run.cases)} models, {size:,} and {len(page.encode()):,} bytes in {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
