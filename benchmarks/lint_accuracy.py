"""How often is the linter right on the labelled cases, by what torch did with each of them?

    python benchmarks/lint_accuracy.py [--output FILE.md]

Exports each case of ``fixtures/cases/``, in another process: with fixed sizes, and again with those dynamic that
the case asks for or that its second call changes. A finding of the linter (mode ``export``, error or warning) that says
``breaks`` is *right* where the first export failed or its program does not run, one that says ``specialises`` where the
second failed or its program refuses the second call, and *wrong* otherwise. Other outcomes are judged by the labels of
the case: a finding on none of its lines is wrong. Recall counts cases that end so, with a finding on a labelled line.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import platform
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from exportlint import whole_file

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "fixtures" / "cases"
LIMIT = 20  # seconds for a case, on average


def labelled() -> list[dict[str, Any]]:
    """Every case with its path."""
    return [
        {**label, "path": CASES / folder / label["file"]}
        for folder in ("bugreports", "patterns")
        for label in json.loads((CASES / folder / "labels.json").read_text())
    ]


def observe(path: str) -> str:
    """What torch makes of one case: ``breaks``, ``specialises`` or ``captured``."""
    import importlib.util

    import torch
    from torch.utils import _pytree as pytree

    spec = importlib.util.spec_from_file_location("case", path)
    assert spec is not None
    assert spec.loader is not None
    case = importlib.util.module_from_spec(spec)
    sys.modules["case"] = case
    spec.loader.exec_module(case)
    kwargs = case.kwargs() if hasattr(case, "kwargs") else {}
    given = tuple(case.inputs())
    try:
        result = torch.export.export(case.build(), given, kwargs).module()(*case.inputs(), **kwargs)
        if any(type(leaf).__name__ == "FakeTensor" for leaf in pytree.tree_leaves(result)):
            return "breaks"
    except Exception:  # whatever it is, the capture broke
        return "breaks"
    second = tuple(case.inputs2()) if hasattr(case, "inputs2") else None
    shapes = getattr(case, "DYNAMIC_SHAPES", None) or (second and varying(given, second))
    if not shapes or kwargs:
        return "captured"
    try:
        program = torch.export.export(case.build(), tuple(case.inputs()), dynamic_shapes=shapes).module()
        if second is not None:
            program(*second)
    except Exception:
        return "specialises"
    return "captured"


def varying(first: tuple[Any, ...], second: tuple[Any, ...]) -> Any:
    """A request for each dimension in which two calls differ; ``None`` where they do not."""
    import torch

    wanted = tuple(
        {i: torch.export.Dim.DYNAMIC for i in range(a.dim()) if a.shape[i] != b.shape[i]}
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.dim() == b.dim()
        else None
        for a, b in zip(first, second, strict=False)
    )
    return wanted if len(wanted) == len(first) and any(wanted) else None


def observed(paths: list[Path]) -> dict[Path, str]:
    """The same for all of them, in other processes: after one that torch aborts, or that hangs, the rest goes on."""
    outcomes: dict[Path, str] = {}
    while waiting := [path for path in paths if path not in outcomes]:
        command = [sys.executable, __file__, "--observe", *map(str, waiting)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as child:
            timer = threading.Timer(LIMIT * len(waiting), child.kill)
            timer.start()
            assert child.stdout is not None
            for line in child.stdout:
                name, _, outcome = line.strip().rpartition(" ")
                if name and outcome in ("breaks", "specialises", "captured"):
                    outcomes[Path(name)] = outcome
            timer.cancel()
        unanswered = [path for path in waiting if path not in outcomes]
        if unanswered:
            outcomes[unanswered[0]] = "no answer"
    return outcomes


def linted() -> dict[str, list[dict[str, Any]]]:
    """The linter's errors and warnings by file."""
    command = [sys.executable, "-m", "exportlint", "check", str(CASES), "--output-format", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for finding in json.loads(ran.stdout):
        found[finding["filename"]].append(finding)
    return found


def judged(finding: dict[str, Any], label: dict[str, Any], outcome: str) -> str:
    """``right``, ``wrong`` or ``undecided``."""
    claim = finding["outcomes"]["export"]
    if outcome == "no answer" or (outcome == "breaks" and claim != "breaks"):
        return "undecided"  # what stands behind a failure is not seen
    if claim in ("breaks", "specialises"):
        return "right" if outcome == claim else "wrong"
    return "right" if on_line(finding, label) else "wrong"


def on_line(finding: dict[str, Any], label: dict[str, Any]) -> bool:
    """Whether a finding lies on a line that the case names."""
    lines = {*label["flag_lines"], *label.get("accept_lines", ()), *label.get("optional_lines", ())}
    return bool(lines & set(range(finding["location"]["row"], finding["end_location"]["row"] + 1)))


def table(labels: list[dict[str, Any]], outcomes: dict[Path, str], found: dict[str, list[dict[str, Any]]]) -> str:
    """The result, as Markdown."""
    import torch

    rules: dict[str, Counter[str]] = defaultdict(Counter)
    caught: dict[str, Counter[bool]] = defaultdict(Counter)
    for label in labels:
        here, outcome = found.get(str(label["path"]), []), outcomes[label["path"]]
        for finding in here:
            rules[f"{finding['code']} {finding['rule']}"][judged(finding, label, outcome)] += 1
        if outcome in ("breaks", "specialises"):
            caught[outcome][any(on_line(f, label) for f in here)] += 1
    total = sum(rules.values(), Counter())
    decided = total["right"] + total["wrong"]
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    lines = [
        f"# The linter on the labelled cases ({datetime.date.today()}, {versions})",
        "",
        f"{len(labels)} cases; by what torch did: {dict(Counter(outcomes.values()))}.",
        f"Precision: {total['right']} of {decided} decided findings are right.",
        *(f"Recall, of cases that torch {word}: {n[True]} of {n.total()}." for word, n in sorted(caught.items())),
        "",
        "| rule | right | wrong | undecided |",
        "|---|---|---|---|",
        *(f"| {rule} | {n['right']} | {n['wrong']} | {n['undecided']} |" for rule, n in sorted(rules.items())),
    ]
    wrong = [
        f"* `{label['file']}:{f['location']['row']}` {f['code']}: torch says {outcomes[label['path']]}"
        for label in labels
        for f in found.get(str(label["path"]), [])
        if judged(f, label, outcomes[label["path"]]) == "wrong"
    ]
    return "\n".join([*lines, *(["", "Wrong:", "", *wrong] if wrong else []), ""])


def main() -> None:
    """Run all cases, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--observe", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for path in args.observe or ():
        with contextlib.redirect_stdout(io.StringIO()):
            outcome = observe(path)
        print(path, outcome, flush=True)
    if args.observe:
        return
    labels = labelled()
    outcomes = observed([label["path"] for label in labels])
    text = table(labels, outcomes, linted())
    if args.output is None:
        print(text)
        return
    whole_file.write(args.output, text.encode())


if __name__ == "__main__":
    main()
