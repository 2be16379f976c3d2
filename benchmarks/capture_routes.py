"""How many architectures of `transformers` each way to capture a model captures, and whether it is right then.

    python benchmarks/capture_routes.py ROWS.jsonl [--output docs/capture-routes.md] [--types NAME,...]

Small configs with random weights, nothing downloaded; one example call each. Every attempt runs in a child of its own
with a time limit, and adds one line of JSON to ROWS.jsonl; a run that was stopped goes on where it was.
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

TYPES = Path(__file__).with_name("transformers_types.txt")
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
    """The lines of all attempts on these models with these versions; those that are not there are made."""
    made_with, date = versions(), datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    records = [r for r in Lines(rows).records if r["versions"] == made_with]
    done = {(r["model"], r["route"]) for r in records}
    todo = [(model, route) for model in models for route in ROUTES if (model, route) not in done]
    for number, (model, route) in enumerate(todo, 1):
        made = attempted(model, route, timeout)
        records.append({**dataclasses.asdict(made), "versions": made_with, "date": date})
        with rows.open("ab", buffering=0) as file:
            file.write(json.dumps(records[-1], sort_keys=True).encode() + b"\n")
            os.fsync(file.fileno())
        print(f"[{number}/{len(todo)}] {model} {route}: {made.outcome} {made.words[:100]}", flush=True)
    return [r for r in records if r["model"] in models]


def page(records: list[dict[str, Any]], models: list[str]) -> str:
    """The page with all tables."""
    kept = {(r["model"], r["route"]): r for r in records}
    models = [m for m in models if all((m, r) in kept and kept[m, r]["outcome"] != NOT_RUN for r in ROUTES)]
    dates = sorted({r["date"] for r in records})
    made_with = ", ".join(f"{name} {version}" for name, version in records[0]["versions"].items())
    when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    lines = [
        "# Ways to capture a model",
        "",
        "Made by `python benchmarks/capture_routes.py ROWS.jsonl`: model types of `transformers` from small configs,",
        "with random weights, one example call each, on the CPU. Every attempt has a process of its own with a time",
        "limit.",
        "",
        f"{made_with}; {processors()} cores; {when}. {len(models)} model types.",
        "",
        *_rates(kept, models),
        *_claims(kept, models),
        *_each(kept, models),
        *_reasons(kept, models),
    ]
    return "\n".join(lines).strip() + "\n"


def _count(kept: dict[Any, Any], models: list[str], route: str, *outcomes: str) -> int:
    return sum(kept[model, route]["outcome"] in outcomes for model in models)


def _rates(kept: dict[Any, Any], models: list[str]) -> Iterable[str]:
    yield "| way | captured | of all | and right | wrong | refused | crashed or timed out | median seconds |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for route, (name, _) in ROUTES.items():
        right, wrong, refused = (_count(kept, models, route, word) for word in (RIGHT, WRONG, REFUSED))
        lost = len(models) - right - wrong - refused
        seconds = sorted(kept[model, route]["seconds"] for model in models)[len(models) // 2]
        share = f"{100 * (right + wrong) / len(models):.0f} %"
        yield f"| {name} | {right + wrong} | {share} | {right} | {wrong} | {refused} | {lost} | {seconds:.1f} |"
    yield from (
        "",
        "*Right*: the tensors of the result are the eager model's, as `exportlint` compares them. A trace is given",
        "tensors alone and returns tensors alone; what else the call holds is constant. Both ways of `torch.compile`",
        "run with a backend that calls the graph as it is, since what is asked is whether it is captured. The seconds",
        "are those of a whole attempt: build, example, capture, call and comparison.",
        "",
    )
    for route in SECOND:
        found = collections.Counter(kept[m, route]["second"] for m in models if kept[m, route]["outcome"] == RIGHT)
        called = sum(found.values()) - found["none"]
        if called:
            yield f"{ROUTES[route][0]} is right for {called} models that also take a call of other sizes. For that it"
            yield f"is right in {found[RIGHT]}, silently wrong in {found[WRONG]}, and it raises in {found['raises']}."
            yield ""
    broken = [m for m in models if kept[m, "compile"]["graphs"] > 1]
    most = max((kept[m, "compile"]["graphs"] for m in models), default=0)
    yield f"With graph breaks allowed, {len(broken)} models fall into more than one graph, at most into {most}."
    yield ""


def _claims(kept: dict[Any, Any], models: list[str]) -> Iterable[str]:
    def share(route: str, *outcomes: str) -> str:
        return f"{100 * _count(kept, models, route, *outcomes) / len(models):.0f} %"

    broken, whole = share("compile", RIGHT, WRONG), share("fullgraph", RIGHT, WRONG)
    trace, script = share("trace", RIGHT, WRONG), share("script", RIGHT, WRONG)
    rows = {
        "`torch.compile` works for 93 % of 163 open-source models, in training on a GPU": f"{share('compile', RIGHT)} "
        "right with graph breaks allowed, in inference, with a backend that compiles nothing",
        "Dynamo acquires the graph of 99 % of 7,000 projects": f"{broken} with graph breaks allowed, {whole} as one "
        "graph",
        "TorchScript and others struggle to acquire the graph 50 % of the time": f"{trace} by a trace, {script} by a "
        "script",
    }
    yield from (
        "## Beside what was published",
        "",
        "The claims are those of [PyTorch 2.0](https://pytorch.org/get-started/pytorch-2.0/). They are about other",
        "models, sizes and versions, so the numbers stand beside each other and refute nothing.",
        "",
        "| claim | here |",
        "|---|---|",
    )
    yield from (f"| {claim} | {here} |" for claim, here in rows.items())
    yield ""


def _each(kept: dict[Any, Any], models: list[str]) -> Iterable[str]:
    yield from ("## Each model type", "", f"| model type | {' | '.join(ROUTES)} |", "|---" * (len(ROUTES) + 1) + "|")
    for model in models:
        cells = [WORDS.get(word := kept[model, route]["outcome"], word) for route in ROUTES]
        yield f"| {model.removeprefix('hf:')} | {' | '.join(cells)} |"
    yield ""


def _reasons(kept: dict[Any, Any], models: list[str]) -> Iterable[str]:
    yield from ("## Why not", "")
    for route, (name, _) in ROUTES.items():
        failed = [kept[m, route] for m in models if kept[m, route]["outcome"] != RIGHT]
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
    parser.add_argument("--types", help="Default: those of transformers_types.txt.")
    parser.add_argument("--timeout", type=float, default=120.0, help="CPU seconds of one attempt.")
    given = parser.parse_args()
    types = TYPES.read_text().split() if given.types is None else given.types.split(",")
    models = [f"hf:{name}" for name in types]
    zoo.import_shared("hf:")
    records = measured(given.rows, models, given.timeout)
    text = page(records, models)
    if given.output is None:
        print(text)
    else:
        whole_file.write(given.output, text.encode())


if __name__ == "__main__":
    main()
