"""Checks model types of `transformers` with the pytest plugin and writes the table ``docs/zoo/transformers.md``.

    python benchmarks/transformers_table.py [--output FILE] [--types NAME,...]

One pytest, all checks, configs shrunk, nothing downloaded. The table has a row for each model type and, for each red
check, the line of source that explains it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from exportlint import whole_file
from exportlint.processors import processors

ROOT = Path(__file__).parents[1]
TYPES = Path(__file__).with_name("transformers_types.txt")
WORDS = {"passed": "ok", "not_checked": "-", "timed_out": "timed out"}


def checked(types: list[str]) -> tuple[dict[str, Any], int, float]:
    """The readiness of these types, pytest's exit status and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "readiness.json"
        models = [f"--export-model=hf:{name}" for name in types]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *models, f"--export-report={file}"],
            cwd=ROOT,
            check=False,
        )
        return json.loads(file.read_text()), done.returncode, time.monotonic() - began


def table(readiness: dict[str, Any], status: int, seconds: float) -> str:
    """The page."""
    checks, date = readiness["environment"]["checks"], readiness["environment"]["date"][:10]
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers", "exportlint")
    )
    red = [case for case in readiness["cases"] if any(_red(check) for check in case["checks"])]
    lines = [
        "# Model types of transformers",
        "",
        "Made by `python benchmarks/transformers_table.py`, which is `pytest --export-model=hf:TYPE ...`: small",
        "configs, random weights, no download. `pytest --export-model=hf:TYPE -rs` says why something is not checked.",
        "",
        f"{versions}, Python {platform.python_version()}, {processors()} cores; {date}.",
        f"{len(readiness['cases'])} model types in {seconds / 60:.0f} minutes; pytest ended with status {status}.",
        f"{len(red)} have a red check.",
        "",
        f"| model type | {' | '.join(checks)} |",
        "|---" * (len(checks) + 1) + "|",
    ]
    for case in readiness["cases"]:
        by_name = {check["name"]: check for check in case["checks"]}
        cells = [_cell(by_name[name]) if name in by_name else "" for name in checks]
        lines.append(f"| {case['name'].removeprefix('hf:')} | {' | '.join(cells)} |")
    lines += ["", "## What is red, and the line that explains it", ""]
    for case in red:
        lines += [f"* **{case['name'].removeprefix('hf:')}**", *_reasons(case)]
    return "\n".join(lines) + "\n"


def _counts(finding: dict[str, Any]) -> bool:
    return finding["severity"] != "info" and not finding["library"] and finding["verdict"] != "refuted"


def _red(check: dict[str, Any]) -> bool:
    outcome = check["outcome"] in ("failed", "errored", "crashed", "timed_out")
    return outcome or any(_counts(finding) for finding in check["findings"])


def _cell(check: dict[str, Any]) -> str:
    word = WORDS.get(check["outcome"], check["outcome"])
    return f"**{word}**" if _red(check) else word


def _reasons(case: dict[str, Any]) -> list[str]:
    lines = []
    for check in case["checks"]:
        findings = [finding for finding in check["findings"] if _counts(finding)]
        for finding in findings:
            place = f"{_short(finding['file'])}:{finding['line']}" if finding["file"] else "no line known"
            source = f" `{finding['source'][:120]}`" if finding["source"] else ""
            lines.append(f"  * {check['name']}: {finding['rule']} at {place}{source}: {_words(finding['message'])}")
        if not findings and _red(check):
            lines.append(f"  * {check['name']}: {_words(check['reason'] or check['outcome'])}")
    return lines


def _short(file: str) -> str:
    return re.sub(r"^.*site-packages/", "", file)


def _words(text: str) -> str:
    return re.sub(r"\S*site-packages/", "", text).replace("|", "\\|").replace("<", "&lt;")[:300]


def main() -> None:
    """Check the types and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "zoo" / "transformers.md")
    parser.add_argument("--types", help="Default: those of transformers_types.txt.")
    given = parser.parse_args()
    types = TYPES.read_text().split() if given.types is None else [name for name in given.types.split(",") if name]
    page = table(*checked(types))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    whole_file.write(given.output, page.encode())


if __name__ == "__main__":
    main()
