"""What does the check ``shapes`` find in the labelled cases, within how many drawn calls, and is it silent else?

    python benchmarks/shape_cases.py [--output FILE.md]

Takes the cases of ``fixtures/cases/`` that fail, or are captured wrongly, for other sizes only, and checks them with
20 and with 100 examples: *found* is a finding of ``capture`` or ``shapes`` on a labelled line. The portable cases are
checked with so many examples that more than 1,000 calls are compared in all; any finding there is an alarm.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from exportlint import whole_file

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "fixtures" / "cases"
SIZES = {"dims_specialised", "parity:dynamic_second_inputs", "export_dynamic", "nonstrict-dynamic"}
ANYWAY = {"export_nonstrict", "nonstrict", "build_or_eager"}  # these fail whatever the sizes are
RED = {"failed", "errored", "crashed", "timed_out"}
EXAMPLES = (20, 100)
DRAWS = 1000


def labelled() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The cases that fail for other sizes, and the portable ones, each with its path."""
    sized, clean = [], []
    for folder in ("bugreports", "patterns"):
        for read in json.loads((CASES / folder / "labels.json").read_text()):
            label = {**read, "path": CASES / folder / read["file"]}
            if not label["should_flag"]:
                clean.append(label)
            elif SIZES & set(label["modes"]) and not ANYWAY & set(label["modes"]):
                sized.append(label)
    return sized, clean


def checked(labels: list[dict[str, Any]], examples: int) -> dict[str, list[dict[str, Any]]]:
    """The checks ``capture`` and ``shapes`` of each case, by file name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "r.json"
        command = [sys.executable, "-m", "exportlint", "report", *(str(label["path"]) for label in labels)]
        command += ["--checks", "capture,shapes", "--examples", str(examples), "--output", str(out)]
        subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
        cases = json.loads(out.read_text())["cases"]
    return {Path(case["target"].split(":")[0]).name: case["checks"] for case in cases}


def found(label: dict[str, Any], checks: list[dict[str, Any]]) -> bool:
    """Whether a finding that counts lies on a labelled line."""
    right = {*label["flag_lines"], *label.get("accept_lines", [])}
    return any(right & set(range(f["line"], (f["end_line"] or f["line"]) + 1)) for f in counting(checks) if f["line"])


def counting(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings that are no advice."""
    return [f for check in checks for f in check["findings"] if f["severity"] != "info"]


def calls(checks: list[dict[str, Any]]) -> int:
    """How many calls ``shapes`` compared."""
    shapes = next(check for check in checks if check["name"] == "shapes")
    words = [shapes["reason"] or "", *shapes["notes"]]
    return sum(int(match[1]) for text in words if (match := re.match(r"(\d+) calls", text)))


def main() -> int:
    """Check all cases; print the table."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    sized, clean = labelled()
    of_sized = {examples: checked(sized, examples) for examples in EXAMPLES}
    of_clean = checked(clean, 2 * DRAWS // len(clean))
    alarms = [name for name, checks in of_clean.items() if counting(checks) or any(c["outcome"] in RED for c in checks)]
    compared = sum(calls(checks) for checks in of_clean.values())
    hits = {n: sum(found(label, of_sized[n].get(label["file"], [])) for label in sized) for n in EXAMPLES}
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    made = f"`python benchmarks/shape_cases.py`, {date}, torch {torch.__version__}, Python {platform.python_version()}"
    said = ", ".join(f"{hits[n]} of {len(sized)} found at a labelled line within {n} examples" for n in EXAMPLES)
    text = [
        "# The check shapes on labelled cases",
        "",
        f"{made}; 2 CPU cores.",
        "",
        f"{said}. {len(alarms)} alarms on {len(clean)} portable cases in {compared} compared calls"
        + (f": {', '.join(alarms)}." if alarms else "."),
        "",
        "| case | kind | 20 examples | 100 examples |",
        "|---|---|---|---|",
    ]
    for label in sized:
        cells = ["found" if found(label, of_sized[n].get(label["file"], [])) else "missed" for n in EXAMPLES]
        text.append(f"| {label['file']} | {label['kind']} | {' | '.join(cells)} |")
    print("\n".join(text))
    if options.output is not None:
        whole_file.write(options.output, ("\n".join(text) + "\n").encode())
    return int(bool(alarms) or hits[EXAMPLES[-1]] < len(sized) or compared < DRAWS)


if __name__ == "__main__":
    sys.exit(main())
