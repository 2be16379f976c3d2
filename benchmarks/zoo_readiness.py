"""The readiness report of the zoo, from the results of ``python -m exportlint.zoo run``.

    python benchmarks/zoo_readiness.py RESULTS.jsonl... --folder docs/zoo

Writes ``readiness.json.gz``, which follows the schema of reports and can be given to ``exportlint report diff``, and
from it ``readiness.md``. Where results hold a model several times, the last line counts. A report is of one torch:
results of others than ``--torch``, by default that of the last line, are left out. Files are named from their package's
folder on; where a path of the machine would be left, nothing is written.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec

from exportlint import whole_file
from exportlint.findings import CaseResult, Environment, Readiness, TargetError
from exportlint.report import json_file, markdown, schema
from exportlint.text import map_strings

INSTALLED = re.compile(r"[^\s\"'()\[\],;:=`]*/(?:site|dist)-packages/")
STANDARD = re.compile(r"[^\s\"'()\[\],;:=`]*/lib/python3\.\d+/")
OWN = re.compile(rf"{re.escape(str(Path(__file__).resolve().parent.parent))}/")
TEMPORARY = re.compile(r"/tmp/exportlint-\w+")
PATH = re.compile(r"(?<![\w.:/\])-])/(?:bin|data|etc|home|mnt|opt|private|root|srv|tmp|usr|var|work|Users)/[^\s\"']*")
OF_ENVIRONMENT = ("exportlint", "python", "torch")  # whose versions have fields of their own


def read(paths: list[Path]) -> list[dict[str, Any]]:
    """The records of all files, in their order."""
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def without_paths(text: str) -> str:
    """Text in which installed files begin at ``site-packages/``, and those of the standard library at ``lib/``."""
    text = INSTALLED.sub("site-packages/", text)
    return TEMPORARY.sub("FOLDER", OWN.sub("", STANDARD.sub("lib/", text)))


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
        isolation="server",
        devices=tuple(dict.fromkeys(name for s in settings for name in s["devices"])),
        checks=tuple(dict.fromkeys(name for s in settings for name in s["checks"])),
        packages=tuple(sorted(packages)),
    )
    cases = tuple(_case(record["case"]) for record in chosen if record["case"] is not None)
    errors = tuple(
        TargetError(target=record["model"], message=record["error"]) for record in chosen if record["case"] is None
    )
    return map_strings(Readiness(environment=environment, cases=cases, errors=errors), without_paths)


def _case(record: dict[str, Any]) -> CaseResult:
    """The case without torch's stacks, which are long, and tell where it was run."""
    return msgspec.convert({**record, "checks": [{**check, "stack": None} for check in record["checks"]]}, CaseResult)


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
    chosen = [record for record in records if record["versions"]["torch"] == torch]
    if len(chosen) < len(records):
        print(f"{len(records) - len(chosen)} of {len(records)} results are of another torch than {torch}: left out")
    if not chosen:
        sys.exit(f"no result is of torch {torch}")
    run = readiness(chosen)
    text = json_file.render(run)
    jsonschema.validate(json.loads(text), schema.load())
    page = markdown.render(run)
    left = PATH.findall(text) + PATH.findall(page)
    if left:
        sys.exit(f"paths of this machine are left, such as {left[0]}: nothing was written")
    packed = gzip.compress(text.encode(), mtime=0)
    whole_file.write(options.folder / "readiness.json.gz", packed)
    whole_file.write(options.folder / "readiness.md", page.encode())
    print(f"{len(run.cases)} models, {len(packed):,} and {len(page.encode()):,} bytes in {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
