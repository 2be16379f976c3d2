"""How fast ``exportlint check`` is, against bare parsing and TorchFix, in one run.

    python benchmarks/lint_speed.py SITE_PACKAGES [--torchfix PYTHON] [--rounds N] [--output FILE.md]

SITE_PACKAGES holds `timm` and `transformers` (``pip install --no-deps --target`` is enough); PYTHON is the interpreter
of an environment with torchfix, which wants an old libcst. What is compared runs alternately, so that what else the
machine does strikes both. CPU seconds are those of the process and its children, by the kernel; memory is that of the
largest.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from exportlint import whole_file

PARSE = """
import pathlib, sys, libcst
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    text = path.read_text()
    if "nn.Module" in text:
        libcst.parse_module(text)
"""
SMALL = """
import torch
from torch import nn


class Net{i}(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear({i}, {i})

    def forward(self, x: torch.Tensor):
        y = self.linear(x)
        if y.sum() > 0:
            y = -y
        return y
"""


@dataclass(frozen=True)
class Cost:
    """What a command took: CPU and wall seconds, and the memory of its largest process in MB."""

    cpu: float
    wall: float
    memory: float


def cost(command: list[str], folder: Path | None = None) -> Cost:
    """Run a command that may find something."""
    began = time.perf_counter()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss / 1024)


def check(folder: Path, *options: str) -> list[str]:
    """The command that lints a folder."""
    return [sys.executable, "-m", "exportlint", "check", str(folder), "--isolated", *options]


def spread(values: list[float], digits: int = 2) -> str:
    """The median, and the range where there are several."""
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


class Report:
    """Lines of a table, printed as they are made."""

    def __init__(self) -> None:
        self.lines = ["| what | measured | goal |", "|---|---:|---:|"]

    def row(self, *cells: str) -> None:
        """Add a line."""
        self.lines.append(f"| {' | '.join(cells)} |")
        print(self.lines[-1], flush=True)


def cold(report: Report, timm: Path, torchfix: str | None, rounds: int) -> None:
    """One process without a cache, against bare parsing and TorchFix."""
    ours, parsed = [], []
    for _ in range(rounds):
        parsed.append(cost([sys.executable, "-c", PARSE, str(timm)]))
        ours.append(cost(check(timm, "--no-cache", "--jobs", "1")))
    lines = sum(len(path.read_bytes().splitlines()) for path in timm.rglob("*.py"))
    report.row(f"`timm` ({lines:,} lines), cold, one process, CPU s", spread([c.cpu for c in ours]), "")
    report.row(
        "bare `libcst.parse_module` of its files that mention `nn.Module`, CPU s", spread([c.cpu for c in parsed]), ""
    )
    ratios = [c.cpu / p.cpu for c, p in zip(ours, parsed, strict=True)]
    report.row("ours / bare parsing", spread(ratios), "at most 1")
    if torchfix is not None:
        other = cost([torchfix, "-m", "torchfix", "--select", "ALL", str(timm)])
        ours.append(cost(check(timm, "--no-cache", "--jobs", "1")))
        report.row("TorchFix, all rules, CPU s", f"{other.cpu:.1f}", "")
        report.row("TorchFix / ours", f"{other.cpu / statistics.median([c.cpu for c in ours]):.1f}", "at least 15")


def jobs(report: Report, timm: Path, rounds: int) -> None:
    """One process against two, by the clock."""
    gains = []
    for _ in range(rounds):
        one = cost(check(timm, "--no-cache", "--jobs", "1"))
        two = cost(check(timm, "--no-cache", "--jobs", "2"))
        gains.append(one.wall / two.wall)
    report.row("`timm`, one process / two, wall", spread(gains), "at least 1.6")


def start(report: Report, folder: Path, rounds: int) -> None:
    """Five small files, against the import of libcst."""
    for i in range(1, 6):
        (folder / f"net{i}.py").write_text(SMALL.format(i=i), encoding="utf-8")
    ratios, ours = [], []
    for _ in range(3 * rounds):
        imported = cost([sys.executable, "-c", "import libcst"])
        ours.append(cost(check(folder, "--no-cache")).cpu)
        ratios.append(ours[-1] / imported.cpu)
    report.row("five small files, CPU s", spread(ours), "")
    report.row("five small files / `import libcst`", spread(ratios), "at most 3")


def warm(report: Report, transformers: Path, folder: Path, rounds: int) -> None:
    """A copy of transformers: cold, unchanged, and after a change of one file."""
    copy = folder / "transformers"
    shutil.copytree(
        transformers, copy, ignore=lambda _, names: [n for n in names if "." in n and not n.endswith(".py")]
    )
    files = list(copy.rglob("*.py"))
    lines = sum(len(path.read_bytes().splitlines()) for path in files)
    command = check(copy, "--cache-dir", str(folder / "cache"))
    first = cost(command)
    named = f"`transformers` ({len(files):,} files, {lines:,} lines)"
    report.row(f"{named}, cold, CPU s", f"{first.cpu:.0f}", "")
    report.row(f"{named}, cold, MB of the largest process", f"{first.memory:.0f}", "under 700")
    again = [cost(command) for _ in range(rounds)]
    report.row("unchanged, CPU s", spread([c.cpu for c in again]), "at most 2")
    changed = copy / "models" / "bert" / "modeling_bert.py"
    edits = []
    for i in range(rounds):
        changed.write_text(f"{changed.read_text(encoding='utf-8')}# {i}\n", encoding="utf-8")
        edits.append(cost(command).cpu)
    report.row("after a change of `modeling_bert.py`, CPU s", spread(edits), "")


def machine() -> str:
    """What it was measured on."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    load = os.getloadavg()[0]
    return f"{(named or [platform.processor()])[0]}, {os.cpu_count()} cores, load {load:.1f} when it began"


def main() -> int:
    """Measure; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--torchfix", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", default=["start", "cold", "jobs", "warm"])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    made = f"`python benchmarks/lint_speed.py`, {date}, Python {platform.python_version()}, "
    made += f"libcst {importlib.metadata.version('libcst')}; {machine()}."
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        small = Path(name) / "small"
        small.mkdir()
        if "start" in options.parts:
            start(report, small, options.rounds)
        if "cold" in options.parts:
            cold(report, options.site / "timm", options.torchfix, options.rounds)
        if "jobs" in options.parts:
            jobs(report, options.site / "timm", options.rounds)
        if "warm" in options.parts:
            warm(report, options.site / "transformers", Path(name), options.rounds)
    note = "Medians, with the range of all rounds in brackets."
    text = "\n".join(["# Speed of `exportlint check`", "", made, note, "", *report.lines, ""])
    if options.output is not None:
        whole_file.write(options.output, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
