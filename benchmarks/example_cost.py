"""What does one drawn call cost in the check ``shapes``, against a bare run of the model and one of the program?

    python benchmarks/example_cost.py [--calls N] [--output FILE.md]

Five model sizes. *Bare* is one call of the eager model and one of the program on the same inputs. *Drawn* is one call
of the check: hypothesis draws it, it is noted in the journal, both are run on copies, the results are compared. They
are measured in turns on the same draws, in CPU time of the one thread. The bound is 3 ms and 1.15 times bare.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from exportlint import whole_file

FIXED_SECONDS, FACTOR = 3e-3, 1.15
# Width and depth of a stack of linear layers, and the rows of its example.
SIZES = {
    "tiny": (8, 2, 4),
    "small": (64, 4, 16),
    "medium": (256, 8, 64),
    "large": (512, 16, 128),
    "huge": (1024, 16, 256),
}


def subject(width: int, depth: int, rows: int, folder: str) -> Any:
    """A stack of layers under the check, with the journal in this folder."""
    import torch
    from torch import nn
    from torch.export import Dim

    from exportlint import ModelCase
    from exportlint.checks.context import Context, Settings
    from exportlint.checks.shapes import check as shapes
    from exportlint.torch_hooks.guards import GuardLog

    def build() -> nn.Module:
        return nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())))

    case = ModelCase(
        build,
        (torch.randn(rows, width),),
        name="stack",
        dynamic_shapes={"input": {0: Dim("rows", min=1, max=2 * rows)}},
    )
    context = Context(case, Settings(("shapes",), workdir=folder), lambda _: None)
    return shapes.subject_of(context, context.contract()[0], GuardLog(), inferred=False)


def measure(width: int, depth: int, rows: int, calls: int) -> tuple[float, float]:
    """Median seconds of a bare pair of runs, and of a drawn call, for each drawn call."""
    import torch
    from hypothesis import HealthCheck, Phase, given, settings

    from exportlint.checks.shapes.search import space_of
    from exportlint.checks.shapes.trials import Trial

    bare: list[float] = []
    drawn_seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        tested = subject(width, depth, rows, folder)
        ended = [0.0]

        @settings(
            max_examples=calls, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(space_of(tested).drawn())
        def test(drawn: Any) -> None:
            tested.attempt(Trial.of(drawn))
            drawn_seconds.append(time.process_time() - ended[0])  # with what hypothesis did since the last call
            began = time.process_time()
            with torch.no_grad():
                tested.model(*drawn.inputs[0], **drawn.inputs[1])
                tested.module(*drawn.inputs[0], **drawn.inputs[1])
            bare.append(time.process_time() - began)
            ended[0] = time.process_time()

        test()
    return statistics.median(bare[2:]), statistics.median(drawn_seconds[2:])


def table(rows: dict[str, tuple[float, float]], calls: int) -> str:
    """The table, with how it was made."""
    import torch

    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    made = f"`python benchmarks/example_cost.py`, {date}, torch {torch.__version__}, Python {platform.python_version()}"
    load = f"load average {os.getloadavg()[0]:.0f}"
    within = sum(drawn <= FIXED_SECONDS + FACTOR * bare for bare, drawn in rows.values())
    lines = [
        "# Cost of a drawn call",
        "",
        f"{made}; CPU time of one thread, median of {calls} calls of each model; {load}.",
        "",
    ]
    lines += [f"{within} of {len(rows)} within {FIXED_SECONDS * 1e3:g} ms and {FACTOR} times bare.", ""]
    lines += [
        "| model | width, depth, rows | bare, ms | drawn, ms | over bare, ms | bound, ms |",
        "|---|---|---|---|---|---|",
    ]
    for name, (bare, drawn) in rows.items():
        size = ", ".join(map(str, SIZES[name]))
        bound = FIXED_SECONDS + FACTOR * bare
        numbers = " | ".join(f"{seconds * 1e3:.2f}" for seconds in (bare, drawn, drawn - bare, bound))
        lines.append(f"| {name} | {size} | {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure every size; print the table."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = {name: measure(*size, options.calls) for name, size in SIZES.items()}
    text = table(rows, options.calls)
    print(text)
    if options.output is not None:
        whole_file.write(options.output, text.encode())
    return int(any(drawn > FIXED_SECONDS + FACTOR * bare for bare, drawn in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
