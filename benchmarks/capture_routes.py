"""How many architectures each way to capture a model captures, and whether it is right then.

    python benchmarks/capture_routes.py ROWS.jsonl [--output docs/capture-routes.md] [--of vision] [--models NAME,...]

Small configs with random weights, nothing downloaded; one example call each. Every attempt runs in a child of its own
with a time limit, and adds one line of JSON to ROWS.jsonl; a run that was stopped goes on where it was. The libraries
may be tried in environments of their own, one after the other: the page holds all that is in ROWS.jsonl.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch._dynamo

from exportlint import blame, whole_file, zoo
from exportlint.checks import torchscript
from exportlint.checks.context import Context, ModelError, Settings, call, fresh
from exportlint.checks.isolation import fork
from exportlint.checks.isolation.job import Limits
from exportlint.checks.torchscript import tensors_of
from exportlint.parity.compare import compare
from exportlint.processors import processors
from exportlint.zoo.run import Lines, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exportlint.checks.case import Inputs
    from exportlint.checks.isolation.job import Emit

    Run = Callable[[Inputs], list[torch.Tensor]]

HERE = Path(__file__).parent
LISTS = {"transformers": HERE / "transformers_types.txt", "vision": HERE / "vision_models.txt"}
NAMED = {"transformers": "`transformers`", "vision": "`timm` and `torchvision`"}
RIGHT, WRONG, REFUSED, NOT_RUN = "right", "wrong", "refused", "does not run"
WORDS = {RIGHT: "yes", WRONG: "**wrong**", REFUSED: "no", NOT_RUN: "-"}
# Ways that keep the sizes of the example say so by themselves; of these a second call shows whether they do.
SECOND = ("trace", "script")
MOST_REASONS = 5


@dataclass
class Attempt:
    """What one way made of one model: the JSON of one line."""

    model: str
    route: str
    outcome: str = ""
    words: str = ""
    second: str = ""
    graphs: int = 0
    seconds: float = 0.0


def _traced(model: Any, inputs: Inputs, _: Attempt) -> Run:
    return torchscript.traced(model, inputs).run


def _scripted(model: Any, inputs: Inputs, _: Attempt) -> Run:
    return torchscript.scripted(model, inputs).run


def _exported(model: Any, inputs: Inputs, attempt: Attempt) -> Run:
    with torch.no_grad():
        program = torch.export.export(model, *inputs, strict=attempt.route == "export-strict").module()
    return lambda given: tensors_of(call(program, given))


def _compiled(model: Any, _: Inputs, attempt: Attempt) -> Run:
    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        attempt.graphs += 1
        return graph.forward

    model.compile(fullgraph=attempt.route == "fullgraph", backend=backend)
    return lambda given: tensors_of(call(model, given))


ROUTES: dict[str, tuple[str, Callable[[Any, Inputs, Attempt], Run]]] = {
    "trace": ("`torch.jit.trace`", _traced),
    "script": ("`torch.jit.script`", _scripted),
    "export": ("`torch.export.export`", _exported),
    "export-strict": ("`torch.export.export(strict=True)`", _exported),
    "fullgraph": ("`torch.compile(fullgraph=True)`", _compiled),
    "compile": ("`torch.compile`, graph breaks allowed", _compiled),
}


def attempt(emit: Emit, model: str, route: str) -> None:
    """Try one way on one model, in the child."""
    made = Attempt(model, route)
    ctx = Context(zoo.case(model), Settings(()), announce=lambda stage: emit({"stage": stage}))
    try:
        expected, inputs = tensors_of(ctx.expected()), ctx.example()
    except ModelError as error:
        made.outcome, made.words = NOT_RUN, blame.words(error.__cause__ or error)
    else:
        emit({"stage": "capture"})
        _try(ctx, made, expected, inputs)
    emit({"attempt": dataclasses.asdict(made)})


def _try(ctx: Context, made: Attempt, expected: list[torch.Tensor], inputs: Inputs) -> None:
    try:
        run = ROUTES[made.route][1](ctx.build(), inputs, made)
        actual = run(ctx.example())
    except Exception as error:
        made.outcome, made.words = REFUSED, _words(error)
        return
    if not made.graphs and made.route in ("fullgraph", "compile"):
        made.outcome, made.words = REFUSED, "no graph was captured"
        return
    differs = _differs(ctx, expected, actual, inputs)
    made.outcome, made.words = (RIGHT, "") if differs is None else (WRONG, differs)
    if made.route in SECOND:
        made.second = _second(ctx, run)


def _differs(ctx: Context, expected: list[torch.Tensor], actual: list[torch.Tensor], inputs: Inputs) -> str | None:
    reference = ctx.reference(inputs, call_of=torchscript.with_tensors_alone)
    found = compare(expected, actual, reference=reference)
    return None if found is None else str(found)


def _second(ctx: Context, run: Run) -> str:
    """What becomes of a call with other sizes: right, wrong, raises, or none where there is no such call."""
    inputs = ctx.second_example()
    if inputs is None:
        return "none"
    expected = tensors_of(call(ctx.build(), fresh(inputs)))
    try:
        actual = run(fresh(inputs))
    except Exception:
        return "raises"
    return RIGHT if _differs(ctx, expected, actual, inputs) is None else WRONG


def _words(error: Exception) -> str:
    """The exception in one line, without what differs from model to model."""
    gb = re.search(r"/gb/(gb\d+)\.html", str(error))
    words = blame.words(error)
    return f"{words} ({gb[1].upper()})" if gb else words


def attempted(model: str, route: str, timeout: float) -> Attempt:
    """Try one way on one model in a child."""
    heard: dict[str, Any] = {"stage": "build"}
    began = time.monotonic()
    ending = fork.run(lambda emit: attempt(emit, model, route), Limits.for_timeout(timeout, jobs=1), heard.update)
    made = Attempt(**heard["attempt"]) if "attempt" in heard else Attempt(model, route)
    if "attempt" not in heard:
        made.outcome = "timed out" if ending.how in ("wall", "cpu") else "crashed"
        made.words = f"the process {ending.words} during the {heard['stage']}"
    made.seconds = round(time.monotonic() - began, 1)
    return made


def measured(rows: Path, models: list[str], timeout: float) -> list[dict[str, Any]]:
    """The lines of the file with those of all attempts on these models with these versions; what lacks is made."""
    made_with, date = versions(), datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    records = Lines(rows).records
    done = {(r["model"], r["route"]) for r in records if r["versions"] == made_with}
    todo = [(model, route) for model in models for route in ROUTES if (model, route) not in done]
    for number, (model, route) in enumerate(todo, 1):
        made = attempted(model, route, timeout)
        records.append({**dataclasses.asdict(made), "versions": made_with, "date": date})
        with rows.open("ab", buffering=0) as file:
            file.write(json.dumps(records[-1], sort_keys=True).encode() + b"\n")
            os.fsync(file.fileno())
        print(f"[{number}/{len(todo)}] {model} {route}: {made.outcome} {made.words[:100]}", flush=True)
    return records


class Library:
    """What was tried of one library, with one set of versions: those of its last line."""

    def __init__(self, name: str, records: list[dict[str, Any]]) -> None:
        self.name = name
        self.records = [r for r in records if r["model"].startswith("hf:") == (name == "transformers")]
        if self.records:
            self.records = [r for r in self.records if r["versions"] == self.records[-1]["versions"]]
        self.kept = {(r["model"], r["route"]): r for r in self.records}
        self.models = [m for m in dict.fromkeys(r["model"] for r in self.records) if self._ran(m)]

    def _ran(self, model: str) -> bool:
        """Whether the model runs, and each way was tried on it."""
        return all((model, r) in self.kept and self.kept[model, r]["outcome"] != NOT_RUN for r in ROUTES)

    def count(self, route: str, *outcomes: str) -> int:
        """How many models have one of these outcomes by one way."""
        return sum(self.kept[model, route]["outcome"] in outcomes for model in self.models)

    def share(self, route: str, *outcomes: str) -> str:
        """The same, of all."""
        return f"{100 * self.count(route, *outcomes) / len(self.models):.0f} %"


def page(records: list[dict[str, Any]]) -> str:
    """The page with all tables."""
    libraries = [library for name in LISTS if (library := Library(name, records)).models]
    lines = [
        "# Ways to capture a model",
        "",
        "Made by `python benchmarks/capture_routes.py ROWS.jsonl`: models from small configs, or as their library",
        "builds them, with random weights, one example call each, on the CPU. Every attempt has a process of its own",
        "with a time limit.",
        "",
        "*Right*: the tensors of the result are the eager model's, as `exportlint` compares them. A trace is given",
        "tensors alone and returns tensors alone; what else the call holds is constant. Both ways of `torch.compile`",
        "run with a backend that calls the graph as it is, since what is asked is whether it is captured. The seconds",
        "are those of a whole attempt: build, example, capture, call and comparison.",
        "",
        *(line for library in libraries for line in _rates(library)),
        *_claims(libraries),
        *(line for library in libraries for line in (*_reasons(library), *_each(library))),
    ]
    return "\n".join(lines).strip() + "\n"


def _rates(library: Library) -> Iterable[str]:
    dates = sorted({r["date"] for r in library.records})
    made_with = ", ".join(f"{name} {version}" for name, version in library.records[0]["versions"].items())
    when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    yield from (f"## {len(library.models)} models of {NAMED[library.name]}", "")
    yield from (f"{made_with}; {processors()} cores; {when}.", "")
    yield "| way | captured | of all | and right | wrong | refused | crashed or timed out | median seconds |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for route, (name, _) in ROUTES.items():
        right, wrong, refused = (library.count(route, word) for word in (RIGHT, WRONG, REFUSED))
        lost = len(library.models) - right - wrong - refused
        seconds = sorted(library.kept[model, route]["seconds"] for model in library.models)[len(library.models) // 2]
        share = library.share(route, RIGHT, WRONG)
        yield f"| {name} | {right + wrong} | {share} | {right} | {wrong} | {refused} | {lost} | {seconds:.1f} |"
    yield ""
    yield from _others(library)


def _others(library: Library) -> Iterable[str]:
    """What becomes of calls with other sizes, and of graphs that break."""
    for route in SECOND:
        right = [m for m in library.models if library.kept[m, route]["outcome"] == RIGHT]
        found = collections.Counter(library.kept[m, route]["second"] for m in right)
        called = sum(found.values()) - found["none"]
        if called:
            yield f"{ROUTES[route][0]} is right for {called} models that also take a call of other sizes. For that it"
            yield f"is right in {found[RIGHT]}, silently wrong in {found[WRONG]}, and it raises in {found['raises']}."
            yield ""
    graphs = [library.kept[m, "compile"]["graphs"] for m in library.models]
    broken = sum(number > 1 for number in graphs)
    yield f"With graph breaks allowed, {broken} models fall into more than one graph, at most into {max(graphs)}."
    yield ""


def _claims(libraries: list[Library]) -> Iterable[str]:
    got = (RIGHT, WRONG)
    rows: dict[str, Callable[[Library], str]] = {
        "`torch.compile` works for 93 % of 163 open-source models, in training on a GPU": lambda of: (
            f"{of.share('compile', RIGHT)} right with graph breaks allowed, in inference, with a backend that compiles "
            "nothing"
        ),
        "Dynamo acquires the graph of 99 % of 7,000 projects": lambda of: (
            f"{of.share('compile', *got)} with graph breaks allowed, {of.share('fullgraph', *got)} as one graph"
        ),
        "TorchScript and others struggle to acquire the graph 50 % of the time": lambda of: (
            f"{of.share('trace', *got)} by a trace, {of.share('script', *got)} by a script"
        ),
    }
    yield from (
        "## Beside what was published",
        "",
        "The claims are those of [PyTorch 2.0](https://pytorch.org/get-started/pytorch-2.0/). They are about other",
        "models, sizes and versions, so the numbers stand beside each other and refute nothing.",
        "",
        f"| claim | {' | '.join(NAMED[library.name] for library in libraries)} |",
        "|---" * (len(libraries) + 1) + "|",
    )
    for claim, here in rows.items():
        yield f"| {claim} | {' | '.join(here(library) for library in libraries)} |"
    yield ""


def _each(library: Library) -> Iterable[str]:
    yield from (f"## Each model of {NAMED[library.name]}", "")
    yield from (f"| model | {' | '.join(ROUTES)} |", "|---" * (len(ROUTES) + 1) + "|")
    for model in library.models:
        cells = [WORDS.get(word := library.kept[model, route]["outcome"], word) for route in ROUTES]
        yield f"| {model.removeprefix('hf:').replace('_', chr(92) + '_')} | {' | '.join(cells)} |"
    yield ""


def _reasons(library: Library) -> Iterable[str]:
    yield from (f"## Why not, of {NAMED[library.name]}", "")
    for route, (name, _) in ROUTES.items():
        failed = [library.kept[m, route] for m in library.models if library.kept[m, route]["outcome"] != RIGHT]
        counts = collections.Counter(_plain(r) for r in failed)
        if counts:
            yield f"{name}:"
            yield ""
            yield from (f"* {number} times: {words}" for words, number in counts.most_common(MOST_REASONS))
            yield ""


def _plain(record: dict[str, Any]) -> str:
    """The reason without paths and numbers that belong to one model, as Markdown takes it."""
    words = re.sub(r"\S*site-packages/", "", record["words"])
    words = re.sub(r"<function \w+Config\.(\w+) at 0x[0-9a-f]+>", r"\1 of the model's configuration", words)
    words = words.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return f"{record['outcome']}: {words[:200]}"


def main() -> None:
    """Try every way on every model and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument(
        "--of", choices=tuple(LISTS), default="transformers", help="The library whose models are tried."
    )
    parser.add_argument("--models", help="Default: those of the library's list.")
    parser.add_argument("--timeout", type=float, default=120.0, help="CPU seconds of one attempt.")
    given = parser.parse_args()
    names = LISTS[given.of].read_text().split() if given.models is None else given.models.split(",")
    models = [name if zoo.is_specification(name) else f"hf:{name}" for name in names]
    for source in dict.fromkeys(model.partition(":")[0] for model in models):
        zoo.import_shared(f"{source}:")
    text = page(measured(given.rows, models, given.timeout))
    if given.output is None:
        print(text)
    else:
        whole_file.write(given.output, text.encode())


if __name__ == "__main__":
    main()
