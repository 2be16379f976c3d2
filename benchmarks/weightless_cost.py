"""What the checks of a model of 10 GiB cost where it is made without weights: CPU seconds and memory.

``python benchmarks/weightless_cost.py --output benchmarks/results/weightless_cost.md``
"""

from __future__ import annotations

import argparse
import datetime
import resource
import statistics
import time
from pathlib import Path

import torch
from torch import nn

from exportlint import ModelCase, whole_file
from exportlint.checks import weightless
from exportlint.checks.context import Settings

CHECKS = ("capture", "shapes", "lint", "device")


class Big(nn.Module):
    """10 GiB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16384, 16384, bias=False) for _ in range(10)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features of shape (rows, 16384) to features of the same shape."""
        for layer in self.layers:
            x = layer(x)
        return x


def measured(check: str) -> float:
    """CPU seconds of a check of a fresh case, with the export that it needs."""
    inputs, other = (torch.ones(2, 16384),), (torch.ones(5, 16384),)
    case = ModelCase(Big, inputs, inputs2=other, weights="fake", name="Big")
    ctx = weightless.WeightlessContext(case, Settings((check,)), announce=lambda _: None)
    began = time.process_time()
    result = weightless.run(check, ctx)
    if result.outcome != "passed" and not (check == "lint" and result.reason == "watched"):
        raise SystemExit(f"{check}: {result.outcome}: {result.reason}")
    return time.process_time() - began


def main() -> None:
    """Measure each check five times and write the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    measured("capture")  # what a process imports once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = {check: sorted(measured(check) for _ in range(5)) for check in CHECKS}
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    lines = [
        "# Cost of the checks without weights",
        "",
        f"`python benchmarks/weightless_cost.py`, {today}, torch {torch.__version__}; CPU seconds of 5 runs each,",
        "a fresh model of 10 GiB every time.",
        f"Memory beyond the first run: {grown:.0f} MiB.",
        "",
        "| check | median, s | least, s | most, s |",
        "|---|---:|---:|---:|",
        *(f"| {name} | {statistics.median(t):.2f} | {t[0]:.2f} | {t[-1]:.2f} |" for name, t in times.items()),
        "",
    ]
    text = "\n".join(lines)
    print(text)
    if arguments.output is not None:
        whole_file.write(arguments.output, text.encode())


if __name__ == "__main__":
    main()
