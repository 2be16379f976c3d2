"""What the checks say of the models of the zoo: a table from the results of ``python -m exportlint.zoo run``.

    python -m exportlint.zoo run --list benchmarks/zoo_models.txt --output RESULTS.jsonl
    python benchmarks/zoo.py RESULTS.jsonl... --output benchmarks/results/zoo.md

It is about the checks that look for what the environment of an export left in the program; of the others tells
``docs/zoo/readiness.md``. Where results hold a model several times, the last line counts. A finding is *shown by* a
script in ``fixtures/found/`` that shows the same rule in the same file without exportlint, at the same line if there is
such a script.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import sys
from pathlib import Path
from typing import Any

from exportlint import whole_file

FOUND = Path(__file__).parent.parent / "fixtures" / "found"
LIST = Path(__file__).parent / "zoo_models.txt"
HEADER = re.compile(r"^# (EXP\d+) (\S+?):(\d+)", re.MULTILINE)
CHECKS = ("capture", "device", "twins", "state")
NOT_BUILT = (
    "the factory fails",
    "the example inputs cannot be made",
    "no example call was found",
    "the eager call fails",
)


def read(paths: list[Path]) -> dict[str, dict[str, Any]]:
    """The last record of each model, with the checks that this is about."""
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    records = {record["model"]: record for record in map(json.loads, lines)}
    for case in (record["case"] for record in records.values() if record["case"] is not None):
        case["checks"] = [check for check in case["checks"] if check["name"] in CHECKS]
    return records


def proofs() -> dict[tuple[str, str, str | None], str]:
    """The scripts that show a finding, by rule, file and line, and by rule and file alone."""
    found: dict[tuple[str, str, str | None], str] = {}
    for script in sorted(FOUND.glob("*.py")):
        for rule, file, line in HEADER.findall(script.read_text(encoding="utf-8")):
            found[rule, file, line] = script.name
            found.setdefault((rule, file, None), script.name)
    return found


def short(file: str | None) -> str:
    """The file from its package's folder on."""
    return (file or "?").rpartition("site-packages/")[2]


def not_built(record: dict[str, Any]) -> str | None:
    """Why a model was not there to be checked."""
    if record["case"] is None:
        return str(record["error"])
    reasons = [check["reason"] or "" for check in record["case"]["checks"]]
    return next((reason for reason in reasons if reason.startswith(NOT_BUILT)), None)


def findings(records: dict[str, dict[str, Any]]) -> dict[tuple[str, str, int | None], dict[str, Any]]:
    """The findings above information by rule and place, with the models and checks that have them."""
    found: dict[tuple[str, str, int | None], dict[str, Any]] = {}
    for model, record in records.items():
        if not_built(record):
            continue
        for check in record["case"]["checks"]:
            for finding in check["findings"]:
                if finding["severity"] == "info":
                    continue
                key = (finding["rule"], short(finding["file"]), finding["line"])
                entry = found.setdefault(key, {"message": finding["message"], "models": {}, "checks": {}})
                entry["models"][model] = entry["checks"][check["name"]] = None
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]["models"]), item[0][:2], item[0][2] or 0)))


def table(records: dict[str, dict[str, Any]]) -> list[str]:
    """All as lines of Markdown."""
    built = {model: record for model, record in records.items() if not not_built(record)}
    lines = ["# The zoo", "", *made_with(records), "", *counts(records, built), "", *outcomes(built)]
    lines += ["", "## Findings above information", "", *finding_rows(built)]
    lines += ["", "## What was not passed and has no finding", "", *silent_rows(built)]
    lines += ["", "## What did not build", "", *missing_rows(records), "", "## Models", "", *model_rows(built)]
    return lines


def made_with(records: dict[str, dict[str, Any]]) -> list[str]:
    """One line for each set of versions and settings."""
    sets: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for record in records.values():
        versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
        devices = ", ".join(record["settings"]["devices"])
        limit = str(record["settings"]["timeout"]).removesuffix(".0")
        sets[f"{versions}; devices: {devices}; {limit} s a check"].append(record)
    return [
        f"- {len(group)} models, {min(r['date'] for r in group)[:10]}, {sum(r['seconds'] for r in group) / 60:.0f} min "
        f"of wall-clock time in all: {words}"
        for words, group in sets.items()
    ]


def counts(records: dict[str, dict[str, Any]], built: dict[str, dict[str, Any]]) -> list[str]:
    """How many models were built, by source."""
    rows = []
    for source in sorted({model.partition(":")[0] for model in records}):
        all_of = [model for model in records if model.startswith(f"{source}:")]
        rows.append(f"{source}: {sum(model in built for model in all_of)} of {len(all_of)}")
    listed = [line.partition("#")[0].strip() for line in LIST.read_text(encoding="utf-8").splitlines()]
    wanted = {line for line in listed if line}
    missed = f"{len(wanted - records.keys())} of the {len(wanted)} models of `{LIST.name}`"
    words = f"Built and run in eager: {len(built)} of {len(records)} ({'; '.join(rows)})."
    return [f"{words} Not reached by these runs: {missed}."]


def outcomes(built: dict[str, dict[str, Any]]) -> list[str]:
    """How often each outcome was, by check."""
    tally: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for record in built.values():
        for check in record["case"]["checks"]:
            tally[check["name"]][check["outcome"]] += 1
    names = sorted({outcome for counter in tally.values() for outcome in counter})
    head = ["| check | " + " | ".join(name.replace("_", " ") for name in names) + " |", "|---|" + "---:|" * len(names)]
    return [*head, *(f"| {c} | " + " | ".join(str(n[name]) for name in names) + " |" for c, n in tally.items())]


def finding_rows(built: dict[str, dict[str, Any]]) -> list[str]:
    """One row for each rule and place."""
    shown = proofs()
    rows = ["| rule | place | models | checks | what | shown by |", "|---|---|---|---|---|---|"]
    for (rule, file, line), entry in findings(built).items():
        models = list(entry["models"])
        some = ", ".join(models[:4]) + (f" and {len(models) - 4} more" if len(models) > 4 else "")
        proof = shown.get((rule, file, str(line)), shown.get((rule, file, None)))
        link = f"[{proof}](../../fixtures/found/{proof})" if proof else "not shown"
        checks = ", ".join(entry["checks"])
        rows.append(f"| {rule} | {file}:{line} | {some} | {checks} | {clean(entry['message'])} | {link} |")
    return rows


def silent_rows(built: dict[str, dict[str, Any]]) -> list[str]:
    """Checks that did not pass, without a finding that says why; the same reason once."""
    reasons: dict[tuple[str, str, str], list[str]] = collections.defaultdict(list)
    for model, record in built.items():
        for check in record["case"]["checks"]:
            counted = any(f["severity"] != "info" for f in check["findings"])
            if check["outcome"] != "passed" and not counted:
                reasons[check["name"], check["outcome"], clean(check["reason"] or "")].append(model)
    rows = ["| check | outcome | reason | models |", "|---|---|---|---|"]
    for (check, outcome, reason), models in sorted(reasons.items(), key=lambda item: -len(item[1])):
        some = ", ".join(models[:4]) + (f" and {len(models) - 4} more" if len(models) > 4 else "")
        rows.append(f"| {check} | {outcome.replace('_', ' ')} | {reason} | {some} |")
    return rows


def missing_rows(records: dict[str, dict[str, Any]]) -> list[str]:
    """The models that were not built, with the reason."""
    missing = {model: not_built(record) for model, record in records.items()}
    rows = [f"| {model} | {clean(reason)} |" for model, reason in missing.items() if reason]
    return ["| model | reason |", "|---|---|", *rows]


def model_rows(built: dict[str, dict[str, Any]]) -> list[str]:
    """One row for each model."""
    names = list(dict.fromkeys(check["name"] for record in built.values() for check in record["case"]["checks"]))
    rows = [f"| model | {' | '.join(names)} | seconds |", "|---|" + "---|" * len(names) + "---:|"]
    for model, record in built.items():
        said = {check["name"]: check["outcome"].replace("_", " ") for check in record["case"]["checks"]}
        rows.append(f"| {model} | {' | '.join(said.get(name, '') for name in names)} | {record['seconds']:.0f} |")
    return rows


def clean(text: str) -> str:
    """Text as it fits into a cell, without the machine's folders."""
    return re.sub(r"\S*site-packages/", "", " ".join(text.split())).replace("|", "/")[:200]


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    text = "\n".join(table(read(options.results))) + "\n"
    if options.output is None:
        print(text)
        return 0
    whole_file.write(options.output, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
