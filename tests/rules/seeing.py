"""Examples that are run in processes of their own, since torch can abort them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

WORKERS = 2
# What fails in forward mode leaves its level entered: no job comes after.
_LEAVES_BEHIND = re.compile("jacfwd|hessian|linearize")


def seen_of(wanted: list[dict[str, str]], folder: Path) -> dict[str, Any]:
    """What torch made of each job, by its id; a job is what ``observing.py`` takes."""
    running = []
    wanted = sorted(wanted, key=lambda job: _LEAVES_BEHIND.search(job["source"]) is not None)
    for i in range(WORKERS):
        given, results, log = (folder / f"{i}.{name}" for name in ("jobs", "results", "log"))
        given.write_text(json.dumps(wanted[i::WORKERS]), encoding="utf-8")
        script = str(Path(__file__).with_name("observing.py"))
        with log.open("wb") as stream:
            process = subprocess.Popen([sys.executable, script, str(given), str(results)], cwd=folder, stderr=stream)
        running.append((process, results, log))
    found: dict[str, Any] = {}
    for process, results, log in running:
        assert process.wait(timeout=600) == 0, log.read_text(encoding="utf-8")[-3000:]
        found.update(json.loads(results.read_text(encoding="utf-8")))
    return found
