"""What the pytest plugin costs, in CPU time.

    python benchmarks/plugin_cost.py [--output FILE.md] [--models NAME,...] [--cases N]

* **Overhead**: ten models, checks ``capture``, ``reload``, ``device`` and ``shapes`` (20 examples), in one pytest
  without kept verdicts, against a script that makes the same calls of torch itself in one process: build, call, export,
  run, save, load, run; call and export on the second device, move the program there, and run, save, load and run both;
  export with the dimensions of two calls dynamic, and call model and program with 20 sizes. Both begin with a new
  interpreter. The models are narrow, and as deep as their default configs; then of two layers, where what a session
  costs once weighs most.
* **Unchanged**: a suite of small cases, run twice; the second time all verdicts are kept.
* **Start**: ``pytest --help`` with and without the plugin, the least of several runs, one after the other.

CPU time counts all processes. The time on the clock is given where it is what was asked.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from exportlint import whole_file
from exportlint.processors import processors

MODELS = ("bert", "gpt2", "t5", "vit", "llama", "opt", "bloom", "distilbert", "fnet", "dinov2")
EXAMPLES = 20
HELPS = 11

CASES = """
import functools
import torch
import transformers
from exportlint import ModelCase
from exportlint.zoo import hf

def model(kind):
    config = hf.small_config(kind)
    if {deep}:
        full = type(config)()
        for name in ("num_hidden_layers", "num_decoder_layers"):
            if hasattr(full, name):
                setattr(config, name, getattr(full, name))
    torch.manual_seed(0)
    return transformers.AutoModel.from_config(config).eval()

def arguments(kind, number):
    kwargs = hf.example(kind)
    return {{name: tensor[:1].repeat(number, *[1] * (tensor.dim() - 1)) for name, tensor in kwargs.items()}}

def case(kind):
    return ModelCase(
        functools.partial(model, kind), kwargs=functools.partial(arguments, kind, 2), name=kind,
        inputs2=functools.partial(arguments, kind, 5),
    )

CASES = [case(kind) for kind in {models!r}]
"""

SUITE = (
    CASES
    + """
import pytest
from pytest_exportlint import ExportSuite

@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
class TestModels(ExportSuite):
    pass
"""
)

BARE = (
    CASES
    + """
import io, random
from torch.export import Dim
from torch.export.passes import move_to_device_pass
from exportlint.devices import second
from exportlint.devices.twin import export_on_second

def bare(case, kind):
    with torch.no_grad():
        model, kwargs = case.model(), case.kwargs()
        model(**kwargs)
        program = torch.export.export(model, (), kwargs, strict=False)
        program.module()(**kwargs)
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        torch.export.load(file).module()(**kwargs)
        there = second.to_second(kwargs)
        second.move_module(case.model())(**there)
        twin = export_on_second(case.model(), (), dict(kwargs))
        moved = move_to_device_pass(program, str(second.second_device()))
        for program in (twin, moved):
            program.module()(**there)
            file = io.BytesIO()
            torch.export.save(program, file)
            file.seek(0)
            torch.export.load(file).module()(**there)
        dynamic = {{name: {{0: Dim.DYNAMIC}} for name in kwargs}}
        program = torch.export.export(model, (), kwargs, dynamic_shapes=dynamic, strict=False)
        module = program.module()
        for number in range({examples}):
            inputs = arguments_of(kwargs, random.randint(2, 20))
            model(**inputs)
            module(**inputs)

def arguments_of(kwargs, number):
    return {{name: tensor[:1].repeat(number, *[1] * (tensor.dim() - 1)) for name, tensor in kwargs.items()}}

torch.set_num_threads(1)
second.second_device()
for case in CASES:
    try:
        bare(case, case.name)
    except Exception as error:
        print(f"bare {{case.name}}: {{type(error).__name__}}: {{error}}".splitlines()[0], file=sys.stderr)
"""
)

SMALL = """
import torch
from torch import nn
from exportlint import export_case

def family(number):
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, number + 1), nn.Linear(number + 1, 2)

        def forward(self, x):
            return self.second(self.first(x).relu())

    return Small

"""


def cpu(command: list[str], folder: Path) -> tuple[float, float, str]:
    """CPU seconds of a command with all its processes, seconds on the clock, and its output."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.monotonic() - began, done.stdout + done.stderr


def pytest(*arguments: str) -> list[str]:
    """The command of a pytest without what other plugins remember or change."""
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments]


def overhead(models: list[str], *, deep: bool) -> list[str]:
    """The overhead over bare calls: of models as deep as their default configs, or of two layers."""
    layers = "with all their layers" if deep else "of two layers"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        filled = {"models": models, "examples": EXAMPLES, "deep": deep}
        (folder / "bare.py").write_text(BARE.format(**filled))
        (folder / "test_suite.py").write_text(SUITE.format(**filled))
        bare, _, said = cpu([sys.executable, "bare.py"], folder)
        checks = "--export-checks=capture,reload,device,shapes"
        ours, _, out = cpu(pytest("--export-no-cache", checks, f"--export-examples={EXAMPLES}"), folder)
    last = next((line for line in reversed(out.splitlines()) if " in " in line), "")
    failed = [line for line in said.splitlines() if line.startswith("bare ")]
    return [
        f"| {len(models)} models {layers}: bare calls of torch | {bare:.1f} s |",
        f"| the same models in pytest: {last.strip('= ')} | {ours:.1f} s |",
        f"| ratio{' (asked for: at most 1.4)' if deep else ''} | {ours / bare:.2f} |",
        *(f"| {line} | |" for line in failed),
    ]


def unchanged(number: int) -> list[str]:
    """A suite that is run twice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = "".join(
            f"net{i} = export_case((torch.ones(2, 4),), name='net{i}')(family({i}))\n" for i in range(number)
        )
        (folder / "test_suite.py").write_text(SMALL + cases)
        first, first_clock, _ = cpu(pytest(), folder)
        again, again_clock, out = cpu(pytest(), folder)
    kept = next((line for line in out.splitlines() if "kept from an earlier run" in line), "")
    return [
        f"| {number} cases, first run | {first:.1f} s, {first_clock:.1f} s on the clock |",
        f"| unchanged: {kept} | {again:.1f} s, {again_clock:.1f} s on the clock |",
        f"| times faster on the clock (asked for: at least 10) | {first_clock / again_clock:.1f} |",
    ]


def start() -> list[str]:
    """What the plugin adds to the start of pytest."""
    with tempfile.TemporaryDirectory() as name:
        times: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(HELPS):
            for with_plugin in (True, False):
                chosen = [] if with_plugin else ["-p", "no:exportlint"]
                times[with_plugin].append(cpu(pytest("--help", *chosen), Path(name))[0])
    ours, without = (min(times[key]) * 1000 for key in (True, False))
    return [
        f"| `pytest --help` with and without the plugin | {ours:.0f} ms and {without:.0f} ms |",
        f"| difference (asked for: at most 30 ms) | {ours - without:.0f} ms |",
    ]


def main() -> None:
    """Measure and print, or write, the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--parts", default="start,unchanged,overhead,shrunk")
    given = parser.parse_args()
    parts = given.parts.split(",")
    rows = start() if "start" in parts else []
    rows += unchanged(given.cases) if "unchanged" in parts else []
    models = [name for name in given.models.split(",") if name]
    rows += overhead(models, deep=True) if "overhead" in parts else []
    rows += overhead(models, deep=False) if "shrunk" in parts else []
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers", "pytest"))
    head = f"{versions}, Python {platform.python_version()}, {processors()} cores"
    page = "\n".join(
        [
            "# What the pytest plugin costs",
            "",
            "`python benchmarks/plugin_cost.py`: CPU time of all processes, where nothing else is said.",
            "",
            f"{head}; {datetime.date.today()}. Load of the machine at the end: {os.getloadavg()[0]:.1f}.",
            "",
            "| | |",
            "|---|---|",
            *rows,
            "",
        ]
    )
    if given.output is None:
        print(page)
    else:
        whole_file.write(given.output, page.encode())


if __name__ == "__main__":
    main()
