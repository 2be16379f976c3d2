"""What the check ``device`` costs in CPU time, against two plain exports of the same model.

    python benchmarks/device_cost.py [--output FILE.md]

Ten models, each in a child process of its own. *Two exports*: `torch.export.export` twice, with the time to build the
model. *Capture and twin*: the export on the CPU, the provenance run, the runs that pose, the run on the second device,
the export there and the comparison of both programs. *Whole*: the whole check, with both programs run there. What the
first check of a process costs more, to register the second device and to read sources, is shown apart.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gc
import importlib.metadata
import platform
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from forking import in_fork

from exportlint import whole_file

MODELS = ("fnet", "deit", "vit", "dinov2", "bert", "gpt2", "bloom", "llama", "t5", "longt5")


def measure(kind: str) -> dict[str, float]:
    """CPU seconds of each part, and the number of nodes of the program."""
    warnings.simplefilter("ignore")
    import torch

    from exportlint.checks.case import ModelCase
    from exportlint.checks.context import Context, Settings
    from exportlint.checks.device import check as device
    from exportlint.devices import second_device
    from exportlint.zoo import hf

    torch.set_num_threads(1)
    kwargs = hf.example(kind)
    case = ModelCase(functools.partial(hf.model, kind), kwargs=kwargs, name=kind)
    context = functools.partial(Context, case, Settings(("device",)), lambda _: None)
    context().export(None)  # imports
    began = time.process_time()
    second_device()
    device.run(context())  # imports and the source of the model's files
    first = time.process_time() - began
    plain = timed(lambda: [context().export(None) for _ in range(2)])
    with mock.patch.object(device, "rerun"):
        twin = timed(lambda: device.run(context()))
    whole = timed(lambda: device.run(context()))
    nodes = len(context().program().graph.nodes)
    return {"first": first - whole, "plain": plain, "twin": twin, "whole": whole, "nodes": nodes}


def timed(function: Any) -> float:
    """CPU seconds of the quickest of three calls."""
    seconds = []
    for _ in range(3):
        gc.collect()
        began = time.process_time()
        function()
        seconds.append(time.process_time() - began)
    return min(seconds)


def table(rows: dict[str, dict[str, float]]) -> str:
    """The table, with how it was made."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers"))
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    twins, wholes = ([row[part] / row["plain"] for row in rows.values()] for part in ("twin", "whole"))
    first = statistics.median(row["first"] for row in rows.values())
    made = f"`python benchmarks/device_cost.py`, {date}, {versions}, Python {platform.python_version()}"
    medians = [f"{statistics.median(ratios):.2f}" for ratios in (twins, wholes)]
    summary = f"CPU time against two plain exports (medians): capture and twin {medians[0]}, whole check {medians[1]}. "
    summary += f"Once a process, to register the second device and to read sources: {first:.2f} s."
    lines = ["# Cost of the check device", "", f"{made}; CPU seconds, 2 cores, one used.", "", summary, ""]
    lines += ["| model | nodes | two exports, s | capture and twin, s | ratio | whole check, s | ratio |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|"]
    for (name, row), twin, whole in zip(rows.items(), twins, wholes, strict=True):
        lines.append(
            f"| {name} | {row['nodes']} | {row['plain']:.2f} | {row['twin']:.2f} | {twin:.2f} | {row['whole']:.2f} "
            f"| {whole:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure every model; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows = {}
    for kind in MODELS:
        rows[kind] = in_fork(measure, kind, seconds=300)
        print(kind, {part: round(value, 3) for part, value in rows[kind].items()}, flush=True)
    text = table(rows)
    print(text)
    if options.output is not None:
        whole_file.write(options.output, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
