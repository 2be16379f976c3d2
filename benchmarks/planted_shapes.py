"""Which specialisations planted into models of ``transformers`` does the check ``shapes`` find, within how many calls?

    python benchmarks/planted_shapes.py [--all] [--models NAME ...] [--examples N] [--output FILE.md]

Each model is built from a small config and wrapped by a module that does something to its result which holds for some
sizes only: a batch frozen, a length cached, a slice bound, a divisibility, an unrolled loop. One is planted into each
model, or with ``--all`` every one. It counts as found where the check blames the planted line. *Calls* is how many had
been tried by then, 0 where none was needed; *clean* is the same model behind a wrapper that is right for all sizes.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import importlib.util
import platform
import statistics
import sys
import tempfile
import textwrap
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

from forking import in_fork

from exportlint import whole_file

MARK = "  # planted"
KINDS = {
    "batch frozen": f"return y + torch.zeros(int(y.shape[0]), 1, 1){MARK}",
    "length cached": f"""
        if y.shape[1] > self.table.shape[1]:{MARK}
            self.table = torch.ones(1, y.shape[1], 1)
        return y * self.table[:, : y.shape[1]]
    """,
    "slice bound": f"return y[:, :12] * 2{MARK}",
    "divisibility": f"""
        if y.shape[1] % 2 == 0:{MARK}
            return y.view(y.shape[0], -1, 2 * y.shape[2]).sum(2)
        return y.sum(2)
    """,
    "unrolled loop": f"return sum(y[:, i] * (i + 1) for i in range(y.shape[1])){MARK}",
    "clean": "return y * 2",
}
PLANTED = tuple(kind for kind in KINDS if kind != "clean")
MODELS = (
    *("bert", "gpt2", "llama", "opt", "gpt_neox", "mistral", "qwen2", "qwen3", "gemma", "olmo2"),
    *("bloom", "biogpt", "distilbert", "roberta", "electra", "albert", "mpnet", "starcoder2", "stablelm", "xglm"),
)
TEXT = """
import torch
from torch import nn
from torch.export import Dim

from exportlint import ModelCase
from exportlint.zoo import hf


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = hf.model({kind!r})
        self.table = torch.ones(1, 16, 1)

    def forward(self, ids):
        y = self.model(input_ids=ids).last_hidden_state
{body}


def inputs():
    return (torch.arange(3, 27).view(3, 8),)


CASE = ModelCase(Wrapper, inputs, name={kind!r}, dynamic_shapes={{"ids": {{0: Dim.AUTO, 1: Dim.AUTO}}}})
"""


@dataclass(frozen=True)
class Verdict:
    """What the checks said of one planted model."""

    found: bool
    calls: int
    places: list[int]
    seconds: float
    error: str = ""


def verdict(kind: str, model: str, examples: int) -> dict[str, Any]:
    """Plant one kind into one model and look for it; the fields of a `Verdict`."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"planted_{abs(hash((kind, model)))}.py"
        path.write_text(TEXT.format(kind=model, body=textwrap.indent(textwrap.dedent(KINDS[kind]).strip(), " " * 8)))
        ast.parse(path.read_text())
        began = time.monotonic()
        lines, calls, why = observed(path, examples)
        marked = [n for n, text in enumerate(path.read_text().splitlines(), 1) if text.endswith(MARK)]
        found = bool(set(marked) & set(lines)) if marked else not lines
        return asdict(Verdict(found, calls, lines, time.monotonic() - began, why))


def observed(path: Path, examples: int) -> tuple[list[int], int, str]:
    """The lines that are blamed, the calls until the first of them was found, and why nothing was checked."""
    from exportlint.checks.context import Context, Settings
    from exportlint.checks.shapes import check as shapes
    from exportlint.checks.shapes.trials import Subject

    spec = importlib.util.spec_from_file_location(path.stem, path)
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    context = Context(module.CASE, Settings(("shapes",), examples), lambda _: None)
    tried: list[int] = [0]
    first: list[int] = []

    def counted(original: Any) -> Any:
        def attempt(subject: Subject, trial: Any) -> None:
            tried[0] += 1
            try:
                original(subject, trial)
            finally:
                if subject.faults and not first:
                    first.append(tried[0])

        return attempt

    Subject.attempt, Subject.probe = counted(Subject.attempt), counted(Subject.probe)
    result = shapes.run(context)
    here = [f for f in result.findings if f.counts and f.file and Path(f.file).name == path.name]
    calls = 0 if any("became the constant" in f.message for f in here) else next(iter(first), tried[0])
    why = result.reason or "" if result.outcome in ("not_checked", "errored") else ""
    return [f.line or 0 for f in here], calls, why


def table(verdicts: dict[str, dict[str, Verdict]], examples: int) -> str:
    """The table, with how it was made."""
    import torch
    import transformers

    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    planted = [v for kinds in verdicts.values() for kind, v in kinds.items() if kind != "clean"]
    clean = [kinds["clean"] for kinds in verdicts.values()]
    seconds = statistics.median(v.seconds for v in planted)
    made = f"`python benchmarks/planted_shapes.py --examples {examples}`, {date}, torch {torch.__version__}, "
    made += f"transformers {transformers.__version__}, Python {platform.python_version()}"
    calls = [v.calls for v in planted if v.found]
    summary = (
        f"{len(planted)} specialisations planted into {len(verdicts)} models: "
        f"{sum(v.found for v in planted)} of {len(planted)} found at the planted line, after a median of "
        f"{statistics.median(calls) if calls else 0:g} calls, at most {max(calls, default=0)}; "
        f"{sum(not v.found for v in clean)} alarms on {len(clean)} clean wrappers. "
        f"Median time of a check: {seconds:.1f} s."
    )
    lines = ["# Planted specialisations", "", f"{made}; 2 CPU cores.", "", summary, ""]
    lines += ["Cells: calls until it was found; *missed*, with the lines that were blamed instead.", ""]
    lines += [f"| model | {' | '.join(KINDS)} |", f"|---|{'---|' * len(KINDS)}"]
    for model, kinds in verdicts.items():
        lines.append(f"| {model} | {' | '.join(said(kind, kinds[kind]) if kind in kinds else '' for kind in KINDS)} |")
    return "\n".join(lines) + "\n"


def said(kind: str, verdict: Verdict) -> str:
    """The cell of one verdict."""
    if verdict.error:
        return f"not checked: {verdict.error}"
    if kind == "clean":
        return "silent" if verdict.found else f"alarm at {verdict.places}"
    return str(verdict.calls) if verdict.found else f"missed {verdict.places}"


def main() -> int:
    """Plant every kind into every model; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--all", action="store_true", help="every kind in every model, not one in each")
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    import transformers  # noqa: F401 - once, before all children

    verdicts: dict[str, dict[str, Verdict]] = {}
    for number, model in enumerate(options.models):
        kinds = KINDS if options.all else (PLANTED[number % len(PLANTED)], "clean")
        verdicts[model] = {
            kind: Verdict(**in_fork(verdict, kind, model, options.examples, seconds=300)) for kind in kinds
        }
        print(model, {kind: said(kind, v) for kind, v in verdicts[model].items()}, file=sys.stderr)
    text = table(verdicts, options.examples)
    print(text)
    if options.output is not None:
        whole_file.write(options.output, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
