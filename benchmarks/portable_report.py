"""Reports that are committed: without paths of the machine, true to the schema, and compressed. Imported by scripts."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema

from exportlint import whole_file
from exportlint.report import json_file, schema
from exportlint.text import map_strings

if TYPE_CHECKING:
    from exportlint.findings import Readiness

ROOT = Path(__file__).resolve().parent.parent
INSTALLED = re.compile(r"[^\s\"'()\[\],;:=`]*/(?:site|dist)-packages/")
STANDARD = re.compile(r"[^\s\"'()\[\],;:=`]*/lib/python3\.\d+/")
OWN = re.compile(rf"{re.escape(str(ROOT))}/")
TEMPORARY = re.compile(r"/tmp/exportlint-\w+")
PATH = re.compile(r"(?<![\w.:/\])-])/(?:bin|data|etc|home|mnt|opt|private|root|srv|tmp|usr|var|work|Users)/[^\s\"']*")


def portable(run: Readiness) -> Readiness:
    """The run without torch's stacks, which are long and tell where it was run, and without paths of the machine.

    Raises:
        SystemExit: When a path is left.
    """
    cases = tuple(
        dataclasses.replace(case, checks=tuple(dataclasses.replace(check, stack=None) for check in case.checks))
        for case in run.cases
    )
    found = map_strings(dataclasses.replace(run, cases=cases), _without_paths)
    left = PATH.findall(json_file.render(found))
    if left:
        raise SystemExit(f"paths of this machine are left, such as {left[0]}: nothing was written")
    return found


def _without_paths(text: str) -> str:
    """Text in which installed files begin at ``site-packages/``, and those of the standard library at ``lib/``."""
    text = INSTALLED.sub("site-packages/", text)
    return TEMPORARY.sub("FOLDER", OWN.sub("", STANDARD.sub("lib/", text)))


def write(run: Readiness, path: Path) -> int:
    """Write a run as compressed JSON, the same bytes for the same run; how many bytes that are."""
    text = json_file.render(run)
    jsonschema.validate(json.loads(text), schema.load())
    packed = gzip.compress(text.encode(), mtime=0)
    whole_file.write(path, packed)
    return len(packed)
