"""How fast ``exportlint check`` is, and how much memory it takes, against bare parsing and TorchFix, in one run.

    python benchmarks/lint_speed.py SITE_PACKAGES [--torchfix PYTHON] [--rounds N] [--parts PART ...] [--output FILE.md]

SITE_PACKAGES holds `timm` and `transformers` (``pip install --no-deps --target`` is enough); PYTHON is the interpreter
of an environment with torchfix, which wants an old libcst. What is compared runs alternately, so that what else the
machine does strikes both. CPU seconds are those of a process and its children, by the kernel. Memory is the sum over
all processes, shared pages counted once (PSS), at the highest of samples that are a quarter of a second apart.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from exportlint import whole_file
from exportlint.processors import processors

if TYPE_CHECKING:
    from collections.abc import Callable

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
COUNTING = """
import sys
from exportlint.cli import main
from exportlint.source import work
run = work._run
def counted(paths, *rest):
    print("ran", len(paths), file=sys.stderr)
    return run(paths, *rest)
work._run = counted
main()
"""
CHANGED = Path("models", "bert", "modeling_bert.py")
_PAUSE = 0.25  # seconds between two looks at the memory


@dataclass(frozen=True)
class Cost:
    """What a command took.

    Attributes:
        own: CPU seconds of its first process.
        others: CPU seconds of the processes that it started.
        wall: Seconds by the clock.
        memory: The most that all its processes held at once, in MB; 0 where nobody looked.
        said: What it wrote to standard error.
    """

    own: float
    others: float
    wall: float
    memory: float
    said: str

    @property
    def cpu(self) -> float:
        """CPU seconds of all its processes."""
        return self.own + self.others


def cost(command: list[str], *, watched: bool = False) -> Cost:
    """Run a command that may find something; its memory is looked at where it is watched, which costs a little."""
    began, most = time.perf_counter(), 0.0
    with tempfile.TemporaryFile() as said:
        process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        while not _ends(process, _PAUSE if watched else None):
            most = max(most, _held(process))
        wall = time.perf_counter() - began
        spent = process.cpu_times()  # it is not waited for yet, so that the kernel still knows
        status = process.wait()
        said.seek(0)
        words = said.read().decode(errors="replace")
    if status not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with status {status}: {words[-500:]}")
    return Cost(spent.user + spent.system, spent.children_user + spent.children_system, wall, most, words)


def _ends(process: psutil.Process, seconds: float | None) -> bool:
    """Whether the process ends within this time, without waiting for it in the sense of the kernel."""
    handle = os.pidfd_open(process.pid)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def _held(process: psutil.Process) -> float:
    """What the process and all that it started hold, in MB."""
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_full_info().pss
        except psutil.Error:  # it ended
            continue
    return total / 2**20


def check(folder: Path, *options: str) -> list[str]:
    """The command that lints a folder."""
    return [sys.executable, "-m", "exportlint", "check", str(folder), "--isolated", *options]


def alternately(rounds: int, *commands: list[str]) -> list[list[Cost]]:
    """What each command took in each round; every second round goes backwards."""
    found: list[list[Cost]] = [[] for _ in commands]
    for i in range(rounds):
        for k in range(len(commands))[:: -1 if i % 2 else 1]:
            found[k].append(cost(commands[k]))
    return found


def ratios(above: list[Cost], below: list[Cost], what: Callable[[Cost], float]) -> str:
    """The quotient of each round."""
    return spread([what(a) / what(b) for a, b in zip(above, below, strict=True)])


def spread(values: list[float], digits: int = 2) -> str:
    """The median, and the range where there are several."""
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def cpu(costs: list[Cost], digits: int = 2) -> str:
    """Their CPU seconds."""
    return spread([each.cpu for each in costs], digits)


def _cpu(each: Cost) -> float:
    return each.cpu


class Report:
    """Lines of a table, printed as they are made."""

    def __init__(self) -> None:
        self.lines = ["| what | measured | goal |", "|---|---:|---:|"]

    def row(self, what: str, measured: str, goal: str = "") -> None:
        """Add a line."""
        self.lines.append(f"| {what} | {measured} | {goal} |")
        print(self.lines[-1], flush=True)


@dataclass(frozen=True)
class Run:
    """What is measured, with what.

    Attributes:
        report: Where the lines go.
        site: The folder of packages.
        folder: A folder for files that are made.
        torchfix: The interpreter of an environment with TorchFix.
        rounds: How often a thing is measured.
    """

    report: Report
    site: Path
    folder: Path
    torchfix: str | None
    rounds: int


def start(run: Run) -> None:
    """Five small files, against the import of libcst."""
    small = run.folder / "small"
    small.mkdir()
    for i in range(1, 6):
        (small / f"net{i}.py").write_text(SMALL.format(i=i), encoding="utf-8")
    imported, ours = alternately(3 * run.rounds, [sys.executable, "-c", "import libcst"], check(small, "--no-cache"))
    run.report.row("five small files, CPU s", cpu(ours))
    run.report.row("five small files / `import libcst`", ratios(ours, imported, _cpu), "at most 3")


def cold(run: Run) -> None:
    """One process without a cache, against bare parsing."""
    timm = run.site / "timm"
    lines = sum(len(path.read_bytes().splitlines()) for path in timm.rglob("*.py"))
    parse = [sys.executable, "-c", PARSE, str(timm)]
    parsed, ours = alternately(run.rounds, parse, check(timm, "--no-cache", "--jobs", "1"))
    run.report.row(f"`timm` ({lines:,} lines), cold, one process, CPU s", cpu(ours))
    run.report.row("bare `libcst.parse_module` of its files that mention `nn.Module`, CPU s", cpu(parsed))
    run.report.row("ours / bare parsing", ratios(ours, parsed, _cpu), "at most 1")


def torchfix(run: Run) -> None:
    """One process without a cache, before and after TorchFix."""
    if run.torchfix is None:
        run.report.row("TorchFix / ours", "not measured, no --torchfix", "at least 15")
        return
    timm = run.site / "timm"
    ask = "from importlib.metadata import version as v; print(v('torchfix'), v('libcst'))"
    theirs, libcst = subprocess.check_output([run.torchfix, "-c", ask], text=True).split()
    ours = [cost(check(timm, "--no-cache", "--jobs", "1"))]
    other = cost([run.torchfix, "-m", "torchfix", "--select", "ALL", str(timm)])
    ours.append(cost(check(timm, "--no-cache", "--jobs", "1")))
    run.report.row(f"TorchFix {theirs} (libcst {libcst}), all rules, `timm`, CPU s", f"{other.cpu:.1f}")
    run.report.row("exportlint before and after it, one process, CPU s", cpu(ours))
    run.report.row("TorchFix / ours", ratios([other, other], ours, _cpu), "at least 15")


def jobs(run: Run) -> None:
    """One process against as many as there are processors, by the clock."""
    timm, number = run.site / "timm", processors()
    commands = (check(timm, "--no-cache", "--jobs", each) for each in ("1", "auto"))
    one, auto = alternately(run.rounds, *commands)
    goal = "at least 1.6" if number == 2 else ""
    run.report.row(f"`timm`, one process / `--jobs auto` ({number}), wall", ratios(one, auto, lambda c: c.wall), goal)
    run.report.row("its first process, which works alone, CPU s", spread([c.own for c in auto]))
    run.report.row("the others, CPU s of all", spread([c.others for c in auto]))
    bound = [o.cpu / (a.own + a.others / number) for o, a in zip(one, auto, strict=True)]
    run.report.row("one process / `--jobs auto`, as these CPU seconds allow", spread(bound), goal)


def rules(run: Run) -> None:
    """What ``--profile-rules`` tells of `timm`."""
    told = cost(check(run.site / "timm", "--profile-rules")).said
    rows = re.findall(r"^ *([\d.]+) s +([\d.]+%)  (.+)$", told, re.MULTILINE)
    for seconds, share, name in (*rows[:3], *rows[-2:]):
        run.report.row(f"`--profile-rules`, `timm`: {name}, CPU s", f"{seconds} ({share})")


def warm(run: Run) -> None:
    """A copy of transformers: cold, unchanged, and after a change of one file."""
    copy, report = run.folder / "transformers", run.report
    other = lambda _, names: [n for n in names if "." in n and not n.endswith(".py")]  # noqa: E731
    shutil.copytree(run.site / "transformers", copy, ignore=other)
    files = list(copy.rglob("*.py"))
    lines = sum(len(path.read_bytes().splitlines()) for path in files)
    command = [sys.executable, "-c", COUNTING, *check(copy, "--cache-dir", str(run.folder / "cache"))[3:]]
    first = cost(command, watched=True)
    named = f"`transformers` ({len(files):,} files, {lines:,} lines)"
    report.row(f"{named}, cold, `--jobs auto` ({processors()}), CPU s", f"{first.cpu:.0f}")
    report.row("the same, wall s", f"{first.wall:.0f}")
    report.row("the same, MB of all processes at the peak", f"{first.memory:.0f}", "under 700")
    cost(command)  # what it reads is in memory then
    again = [cost(command) for _ in range(run.rounds)]
    report.row("unchanged, after one run that warms up, CPU s", cpu(again), "at most 2")
    report.row("the same, files checked again", spread([_ran(c) for c in again], 0), "0")
    edits = []
    for i in range(run.rounds):
        (copy / CHANGED).write_text(f"{(copy / CHANGED).read_text(encoding='utf-8')}# {i}\n", encoding="utf-8")
        edits.append(cost(command))
    report.row(f"after a change of `{CHANGED.as_posix()}`, CPU s", cpu(edits))
    report.row("the same, files checked again", spread([_ran(c) for c in edits], 0))


def _ran(each: Cost) -> float:
    """How many files were run, by what `COUNTING` tells."""
    return float(sum(map(int, re.findall(r"^ran (\d+)$", each.said, re.MULTILINE))))


PARTS = {part.__name__: part for part in (start, cold, torchfix, jobs, rules, warm)}


def machine() -> str:
    """What it was measured on."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{(named or [platform.processor()])[0]}, {os.cpu_count()} cores"


def main() -> int:
    """Measure; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--torchfix", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    began = os.getloadavg()[0]
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        run = Run(report, options.site, Path(name), options.torchfix, options.rounds)
        for part in dict.fromkeys(options.parts):
            PARTS[part](run)
    made = f"`python benchmarks/lint_speed.py`, {date}, Python {platform.python_version()}, "
    made += f"libcst {importlib.metadata.version('libcst')}; {machine()}, "
    made += f"load {began:.1f} when it began and {os.getloadavg()[0]:.1f} when it ended."
    note = "Medians, with the range of all rounds in brackets."
    text = "\n".join(["# Speed of `exportlint check`", "", made, note, "", *report.lines, ""])
    if options.output is not None:
        whole_file.write(options.output, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
