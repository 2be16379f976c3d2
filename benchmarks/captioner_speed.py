"""What each way to run an image captioner takes, beside eager: the check ``speed`` on its encoder and decoder.

    python benchmarks/captioner_speed.py [--output benchmarks/results/captioner_speed.md]

The captioner is that of ``fixtures/captioning``, a ViT encoder and a GPT-2 decoder of two layers each: as small as it
is there, and with the widths of ViT-S/16 on images of 224 x 224. All ways are called in turns, so that a machine that
does other things too makes the spread wide and leaves the ratios.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exportlint import whole_file
from exportlint.processors import processors

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "fixtures" / "captioning" / "cases.py"
SIZES = {
    "as the fixture has it": {},
    "of the widths of ViT-S/16": {"HIDDEN": 384, "IMAGE": 224, "PATCH": 16, "VOCABULARY": 5000, "PATCHES": 197},
}
CASES = """
import importlib.util

spec = importlib.util.spec_from_file_location("captioner", {source!r})
captioner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(captioner)
vars(captioner).update({sizes!r})
encoder, decoder = captioner.encoder, captioner.decoder
"""
CLAIM = "10.7 %"
WAY = re.compile(
    r"(?:(?P<dtype>bfloat16), )?(?P<way>exported and compiled|exported|AOTInductor): (?P<ratio>.*) of eager's time; "
    r"first result after (?P<ready>.*?) s(?:; a call takes [^,]*? of memory(?:, (?P<beside>\S+) of eager's)?)?"
)
EAGER = re.compile(r"(?:(?P<dtype>bfloat16), )?eager: (?P<ms>.*) ms; first result after")


def measured(sizes: dict[str, int], timeout: float) -> list[dict[str, Any]]:
    """The results of the check for encoder and decoder."""
    with tempfile.TemporaryDirectory() as folder:
        cases, output = Path(folder) / "cases.py", Path(folder) / "run.json"
        cases.write_text(CASES.format(source=str(SOURCE), sizes=sizes))
        command = [sys.executable, "-m", "exportlint", "report", str(cases), "--checks", "capture", "--speed"]
        command += ["--no-cache", "--timeout", str(timeout), "--output", str(output)]
        subprocess.run(command, check=False, cwd=folder)
        data = json.loads(output.read_text())
    return [
        {"case": case["name"], **check}
        for case in data["cases"]
        for check in case["checks"]
        if check["name"] == "speed"
    ]


def rows(size: str, results: list[dict[str, Any]]) -> Iterable[str]:
    """The rows of the table."""
    for result in results:
        if result["outcome"] != "passed":
            yield f"| {result['case']}, {size} | | {result['outcome']}: {result['reason']} | | | |"
        for note in result["notes"]:
            eager, way = EAGER.match(note), WAY.match(note)
            if eager is not None:
                part = f"{result['case']}, {size}"
                yield f"| {part} | {eager['dtype'] or 'float32'} | eager | {eager['ms']} ms | | |"
            elif way is not None:
                memory = f"{way['beside']} of eager's" if way["beside"] else ""
                dtype = way["dtype"] or "float32"
                yield f"| | {dtype} | {way['way']} | {way['ratio']} | {way['ready']} s | {memory} |"
            elif "not measured" in note:
                yield f"| | | {note} | | | |"


def slower(results: list[dict[str, Any]]) -> int:
    """In how many of the parts and dtypes compiling the program made it slower."""
    return sum("compiling the program made it slower" in note for result in results for note in result["notes"])


def page(found: dict[str, list[dict[str, Any]]], loads: list[float]) -> str:
    """The page.

    Args:
        found: The results by size.
        loads: Load averages before, between and after the runs.
    """
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers"))
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    everything = [result for results in found.values() for result in results]
    threads = next((note for result in everything for note in result["notes"] if "thread" in note), "").split(";")[0]
    lines = [
        "# Speed of the captioner",
        "",
        f"`python benchmarks/captioner_speed.py`, {today}, {versions},",
        f"{processors()} cores; {threads}.",
        f"Load average from {min(loads):.1f} to {max(loads):.1f} meanwhile.",
        "Of a way the ratio to eager's time is told: the median of rounds in which all are called in turns, and the",
        "quartiles. The time until the first result begins at the eager model, and holds export and compilation, but",
        "for what the cache of TorchInductor holds from earlier runs.",
        "",
        "| part | dtype | way | time, or of eager's | first result after | memory of a call |",
        "|---|---|---|---|---|---|",
    ]
    for size, results in found.items():
        lines += rows(size, results)
    lines += [
        "",
        f"Compiling the program made it slower in {slower(everything)} of {2 * len(everything)} rows.",
        "",
        f"A claim that was to be looked at is that an exported program is {CLAIM} faster than eager; where it was made",
        "is not known. The rows *exported* are what stands beside it.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure both sizes and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--timeout", type=float, default=900.0, help="CPU seconds of one check.")
    given = parser.parse_args()
    found, loads = {}, [os.getloadavg()[0]]
    for size, sizes in SIZES.items():
        found[size] = measured(sizes, given.timeout)
        loads.append(os.getloadavg()[0])
    text = page(found, loads)
    print(text)
    if given.output is not None:
        whole_file.write(given.output, text.encode())


if __name__ == "__main__":
    main()
