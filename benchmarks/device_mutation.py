"""How many missing devices does the check ``device`` name? Mutates the installed ``transformers``, one call at a time.

    python benchmarks/device_mutation.py [--sites 100] [--models 40] [--seed 0] [--rows FILE.jsonl] [--output FILE.md]

The sites are factory calls with ``device=`` that a model's forward reaches. Each is tried in a child process: its
``device=`` is taken out of the code of the running function (the files stay as they are) and the check runs on the
model. A site is *named* when a finding that counts lies on its line. What torch's own rules say of each is asked apart:
the mutated model runs on fake tensors of another device, and two devices meet there (*bites*) or not (*portable*).
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import dataclasses
import datetime
import functools
import gc
import importlib.metadata
import json
import os
import platform
import random
import signal
import sys
import types
import warnings
from pathlib import Path
from typing import Any

from exportlint import whole_file
from exportlint.zoo import hf

SECONDS = 300  # of computing, for each process
# Model types of which a seed chooses.
TYPES = (
    *("bert", "gpt2", "llama", "t5", "vit", "bart", "opt", "gpt_neox", "gptj", "mistral", "qwen2"),
    *("qwen3", "phi3", "gemma", "gemma2", "olmo2", "bloom", "mpt", "codegen", "biogpt", "deberta"),
    *("deberta-v2", "distilbert", "roberta", "electra", "albert", "mobilebert", "roformer", "mbart"),
    *("m2m_100", "pegasus", "blenderbot", "marian", "umt5", "longt5", "convbert", "mpnet", "xlm"),
    *("flaubert", "ctrl", "openai-gpt", "cohere", "glm", "persimmon", "stablelm", "starcoder2", "granite"),
    *("clip", "siglip", "beit", "deit", "dinov2", "whisper", "wav2vec2", "hubert", "fnet"),
    *("nystromformer", "roc_bert", "ernie", "modernbert", "rwkv", "big_bird", "layoutlm", "canine"),
    *("luke", "xglm", "plbart"),
)
EXPLAINED = """*By torch's own rules* is found without the check: the mutated model runs on fake tensors of another
device, in a process of its own. *bites*: a tensor of the CPU meets one of the device where it may not. *portable*: the
model runs there to its end, so that there is nothing to name; the table says which operators took tensors of both, as
`index` does. *unknown*: fake tensors cannot run the model. *named*: the check fails, with a finding at exactly the
mutated line. *elsewhere*: it fails with findings at other lines only. *silent*: it finds nothing above information."""
RULES = ("bites", "portable", "unknown")
SAID = ("named", "elsewhere", "silent", "died")
FACTORIES = frozenset(
    {
        "arange",
        "zeros",
        "ones",
        "full",
        "empty",
        "tensor",
        "linspace",
        "eye",
        "rand",
        "randn",
        "randint",
        "triu_indices",
    }
)


@dataclasses.dataclass(frozen=True, order=True)
class Site:
    """A factory call with ``device=``; `dim` is the largest number of dimensions that it returned."""

    file: str
    line: int
    dim: int

    @property
    def place(self) -> str:
        """The place, from the package's folder on."""
        return f"{self.file.rpartition('site-packages/')[2]}:{self.line}"


def calls_with_device(file: str) -> dict[int, ast.Call]:
    """Factory calls that name a device, by line; lines with several are left out."""
    found: dict[int, list[ast.Call]] = collections.defaultdict(list)
    for node in ast.walk(ast.parse(Path(file).read_bytes())):
        if is_factory(node) and any(k.arg == "device" for k in node.keywords):
            found[node.lineno].append(node)
    return {line: nodes[0] for line, nodes in found.items() if len(nodes) == 1}


def is_factory(node: Any) -> bool:
    """Whether the node is a call such as ``torch.arange(...)``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FACTORIES


def reached(kind: str) -> list[list[Any]]:
    """The sites that an eager run of the model reaches, as plain data."""
    import torch
    from torch.overrides import TorchFunctionMode

    from exportlint import places

    dims: dict[tuple[str, int], int] = {}

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if getattr(func, "__name__", "") in FACTORIES and isinstance(result, torch.Tensor):
                place = places.caller(sys._getframe(1))
                if place is not None:
                    key = (place.file, place.line)
                    dims[key] = max(dims.get(key, 0), result.dim())
            return result

    model, kwargs = hf.model(kind), hf.example(kind)
    with torch.no_grad(), Watch():
        model(**kwargs)
    return [[file, line, dim] for (file, line), dim in dims.items() if line in calls_with_device(file)]


@contextlib.contextmanager
def without_device(site: Site) -> Any:
    """Within it, the running code of the site's file lacks this one ``device=``."""
    tree = ast.parse(Path(site.file).read_bytes())
    for node in ast.walk(tree):
        if is_factory(node) and node.lineno == site.line:
            node.keywords = [k for k in node.keywords if k.arg != "device"]
    new = {(code.co_name, code.co_firstlineno): code for code in codes(compile(tree, site.file, "exec"))}
    changed: list[tuple[types.FunctionType, types.CodeType]] = []
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType) and os.path.realpath(function.__code__.co_filename) == site.file:
            code = new.get((function.__code__.co_name, function.__code__.co_firstlineno))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                changed.append((function, function.__code__))
                function.__code__ = code
    try:
        yield
    finally:
        for function, code in changed:
            function.__code__ = code


def codes(code: types.CodeType) -> Any:
    """The code objects within a module's, itself included."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def try_site(kind: str, site: Site) -> dict[str, Any]:
    """What the check says of the model with the site mutated."""
    from exportlint.checks.case import ModelCase
    from exportlint.checks.context import Context, Settings
    from exportlint.checks.device import check as device

    hf.example(kind)  # imports the code that is to be mutated
    case = ModelCase(functools.partial(hf.model, kind), kwargs=hf.example(kind), name=kind)
    with without_device(site):
        result = device.run(Context(case, Settings(("device",)), lambda _: None))
    alarms = [f for f in result.findings if f.severity != "info"]
    lines = [(str(Path(f.file or "").resolve()), f.line) for f in alarms]
    said = "named" if (site.file, site.line) in lines else "elsewhere" if alarms else "silent"
    at = next((f for f, line in zip(alarms, lines, strict=True) if line == (site.file, site.line)), None)
    return {"said": said, "reason": at.rule if at is not None else result.reason or ""}


def by_torch(kind: str, site: Site) -> dict[str, Any]:
    """Whether the mutated model runs on fake tensors of another device, by torch's own rules for mixed devices."""
    import torch

    from exportlint.devices import second_device
    from exportlint.devices.twin import fake_module

    example = hf.example(kind)
    model = hf.model(kind).requires_grad_(False)
    ((), kwargs), mode = fake_module(model, ((), example), second_device())
    meetings = watching()
    try:
        with without_device(site), torch.no_grad(), mode, meetings:
            model(**kwargs)
    except Exception as error:
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        met = "two different devices" in str(error) or "same device" in str(error)
        return {"torch": "bites" if met else "unknown", "met": words}
    return {
        "torch": "portable",
        "met": f"both in {', '.join(meetings.operators)}" if meetings.operators else "no meeting",
    }


def watching() -> Any:
    """A mode that notes the operators that take a tensor of the CPU, not 0-dim, beside one of another device."""
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.operators: dict[str, None] = {}

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            leaves = pytree.arg_tree_leaves(*args, **(kwargs or {}))
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            ours = any(t.device.type == "cpu" and t.dim() for t in tensors)
            if ours and any(t.device.type != "cpu" for t in tensors):
                self.operators[func.name().removeprefix("aten::")] = None
            return func(*args, **(kwargs or {}))

    return Watching()


def in_child(function: Any, *args: Any) -> Any:
    """What the function returns in a forked child, or how the child died."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            said = function(*args)
        except Exception as error:
            said = {"died": f"{type(error).__name__}: {error}".splitlines()[0][:150]}
        with os.fdopen(write, "w") as out:
            json.dump(said, out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as source:
        text = source.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else {"died": f"the process ended with status {status}"}


def choose(count: int, models: int, seed: int) -> list[tuple[str, Site]]:
    """Sites of models in turn; lines of shared files that were chosen for another model come last."""
    rng = random.Random(seed)
    kinds = list(TYPES)
    rng.shuffle(kinds)
    by_model: dict[str, list[Site]] = {}
    for kind in kinds:
        found = reached(kind) if len(by_model) < models else []  # in this process, so that children find it imported
        if found:
            by_model[kind] = [Site(*site) for site in found]
            rng.shuffle(by_model[kind])
    chosen: list[tuple[str, Site]] = []
    used: collections.Counter[str] = collections.Counter()
    while len(chosen) < count and any(by_model.values()):
        for kind, sites in by_model.items():
            if sites:
                site = min(sites, key=lambda site: used[site.place])
                sites.remove(site)
                used[site.place] += 1
                chosen.append((kind, site))
    return chosen[:count]


def tried(kind: str, site: Site) -> dict[str, Any]:
    """What the check and torch say of the site, each in a process of its own."""
    said = {"said": "died", "torch": "unknown", "reason": "", "met": ""}
    said |= in_child(try_site, kind, site)
    said |= in_child(by_torch, kind, site)
    return {"model": kind, "site": site.place, "dim": site.dim, **said}


def table(rows: list[dict[str, Any]], wanted: int) -> str:
    """The result as Markdown."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers"))
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    made = f"`python benchmarks/device_mutation.py`, {date}, {versions}, Python {platform.python_version()}"
    cells = [
        f"| {row['model']} | {row['site']} | {row['dim']} | {row['torch']} | {row['said']} "
        f"| {clean(row['reason'] if row['said'] != 'silent' else row['met'])} |"
        for row in rows
    ]
    lines = ["# Missing devices by mutation", "", f"{made}; 2 CPU cores, no accelerator.", "", summary(rows, wanted)]
    lines += ["", *counts(rows), "", EXPLAINED, ""]
    lines += [
        "| model | site | dimensions | by torch's own rules | the check | |",
        "|---|---|---:|---|---|---|",
        *cells,
    ]
    return "\n".join(lines) + "\n"


def counts(rows: list[dict[str, Any]]) -> list[str]:
    """What the check said by what torch's own rules say, as a table."""
    tally = collections.Counter((row["dim"] > 0, row["torch"], row["said"]) for row in rows)
    heads = [(f"{rule}{'' if sized else ', 0-dim'}", sized, rule) for sized in (True, False) for rule in RULES]
    heads = [head for head in heads if any(tally[head[1], head[2], said] for said in SAID)]
    lines = [f"| by torch's own rules | {' | '.join(SAID)} | all |", f"|---|{'---:|' * (len(SAID) + 1)}"]
    for words, sized, rule in heads:
        numbers = [tally[sized, rule, said] for said in SAID]
        lines.append(f"| {words} | {' | '.join(map(str, numbers))} | {sum(numbers)} |")
    return lines


def summary(rows: list[dict[str, Any]], wanted: int) -> str:
    """How many sites are named: of those that bite by torch's own rules, and of all that are not 0-dim."""
    sized = [row for row in rows if row["dim"] > 0]
    named = [row for row in sized if row["said"] == "named"]
    biting = [row for row in sized if row["torch"] == "bites"]
    hit = sum(row["torch"] == "bites" for row in named)
    excluded = ", ".join(f"{sum(row['torch'] == rule for row in sized)} are {rule}" for rule in RULES[1:])
    portable = [row for row in rows if row["torch"] == "portable"]
    wrong = sum(row["said"] in ("named", "elsewhere") for row in portable)
    of = "" if len(rows) == wanted else f", of {wanted} that the seed chose"
    return f"""{len(rows)} sites in {len({row["model"] for row in rows})} models{of}.

- **Of the {len(biting)} sites that bite, {hit} are named at the exact line ({percent(hit, biting)}).** They are those
  of {len(sized)} that are not 0-dim in which two devices meet; of the rest {excluded}.
- Of all {len(sized)} that are not 0-dim, whether they bite or not, {len(named)} are named
  ({percent(len(named), sized)}). This cannot reach 100 %: the check does not name what does no harm.
- Of the {len(portable)} portable sites, 0-dim ones too, {wrong} raise an alarm."""


def percent(part: int, whole: list[Any]) -> str:
    """The share in percent."""
    return f"{100 * part / max(1, len(whole)):.1f} %"


def read(path: Path) -> list[dict[str, Any]]:
    """What earlier runs tried; a site is tried anew where the process of the check died."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for row in rows if row["said"] != "died"]


def clean(reason: str) -> str:
    """The reason as it fits into a cell, without the machine's folders."""
    text = reason.replace("|", "/")
    before, found, after = text.partition("site-packages/")
    return (before.rpartition(" ")[0] + " " + after).strip()[:160] if found else text[:160]


def main() -> int:
    """Choose the sites, try each, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=Path, help="what was tried is added here, and not tried again")
    parser.add_argument("--only-table", action="store_true", help="of what was tried already")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    rows = [] if options.rows is None or not options.rows.exists() else read(options.rows)
    known = {(row["model"], row["site"]) for row in rows}
    for kind, site in [] if options.only_table else choose(options.sites, options.models, options.seed):
        if (kind, site.place) not in known:
            rows.append(tried(kind, site))
            print(" ".join(str(value) for value in rows[-1].values()), flush=True)
            if options.rows is not None:
                with options.rows.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    text = table(rows, options.sites)
    print(text.partition("| model |")[0])
    if options.output is not None:
        whole_file.write(options.output, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
