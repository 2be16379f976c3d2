"""Models that read the grad mode, strides, the process and the like: found where that decides about the numbers."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import textwrap

import pytest
from forking import in_fork

from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings

MARK = "# <-"
# What decides, at the marked line, and a harmless use of the same.
DECIDING = {
    "grad mode": ("return x * 2 if torch.is_grad_enabled() else x * 3  # <-", "x * 3", "x * 2"),
    "grad mode, imported": (
        "from torch import is_grad_enabled\nscale = 2 if is_grad_enabled() else 3  # <-\nreturn x * scale",
        "else 3",
        "else 2",
    ),
    "inference mode": ("return x if torch.is_inference_mode_enabled() else x * 3  # <-", "x * 3", "x"),
    "gradients of an input": ("if x.requires_grad:  # <-\n    x = x * 2\nreturn x", "x * 2", "x * 1"),
    "frozen weights": (
        "if self.weight.requires_grad:  # <-\n    return x * self.weight\nreturn x",
        "return x\n",
        "return x * self.weight\n",
    ),
    "contiguity": ("return x.flatten() if x.is_contiguous() else x.t().flatten()  # <-", "x.t()", "x"),
    "strides": ("return x * x.stride(0)  # <-", "x * x.stride(0)", "x.as_strided(x.shape, (x.stride(0), x.stride(1)))"),
    "process": ("import os\nreturn x * (os.getpid() % 97)  # <-", "x * (os.getpid() % 97)", "x * len([os.getpid()])"),
    "folder": ("import os\nreturn x * len(os.getcwd())  # <-", "x * len(os.getcwd())", "x * len([os.getcwd()])"),
    "folder by its path": (
        "from pathlib import Path\nreturn x * len(str(Path.cwd()))  # <-", "len(str(Path.cwd()))", "len([Path.cwd()])"
    ),
    "command line": ("import sys\nreturn x * len(sys.argv)  # <-", "len(sys.argv)", "len([sys.argv])"),
    "hash of a text": ("return x * (hash('layer') % 97)  # <-", "hash('layer')", "hash(12)"),
    "address": ("return x * (id(self) // 16 % 97)  # <-", "(id(self) // 16 % 97)", "len({id(self): 1})"),
    "threads": (
        "return x * torch.get_num_threads()  # <-", "x * torch.get_num_threads()", "x * len([torch.get_num_threads()])"
    ),
    "processors": ("import os\nreturn x * os.cpu_count()  # <-", "os.cpu_count()", "len([os.cpu_count()])"),
    "default dtype": (
        "scale = 2 if torch.get_default_dtype() == torch.float64 else 1  # <-\nreturn x * scale",
        "scale = 2",
        "scale = 1",
    ),
    "default device": (
        "return x * 2 if torch.get_default_device().type == 'cpu' else x  # <-", "else x", "else x * 2"
    ),
    "determinism": (
        "if torch.are_deterministic_algorithms_enabled():  # <-\n    return x * 2\nreturn x", "x * 2", "x * 1"
    ),
    "flag of a backend": ("return x * 2 if torch.backends.cudnn.benchmark else x  # <-", "x * 2", "x"),
    "platform": (
        "import platform\nreturn x * len(platform.system())  # <-", "platform.system()", "[platform.system()]"
    ),
    "locale": (
        "import locale\nreturn x * 2 if locale.localeconv()['decimal_point'] == ',' else x  # <-", "x * 2", "x"
    ),
}  # fmt: skip
TOLD = {"process", "folder", "command line", "threads", "processors", "determinism", "platform", "locale"}
TOLD |= {"folder by its path", "hash of a text", "default dtype", "default device", "flag of a backend"}

# Good models that read the same, or whose text only looks like it.
HARMLESS = {
    "result in the default dtype": "return x.to(torch.get_default_dtype()) * 2",
    "zeros in the default dtype": (
        "dtype = torch.get_default_dtype()\nreturn torch.cat([x.to(dtype), torch.zeros(4, 1, dtype=dtype)], -1)"
    ),
    "checkpoints where gradients are recorded": (
        "from torch.utils.checkpoint import checkpoint\nif torch.is_grad_enabled() and x.requires_grad:\n"
        "    return checkpoint(torch.exp, x, use_reentrant=False)\nreturn x.exp()"
    ),
    "contiguous first": "if not x.is_contiguous():\n    x = x.contiguous()\nreturn x.view(-1) * 2",
    "view of what may be strided": "return x.view(-1) * 2",
    "gradients kept": "y = x * 2\nif y.requires_grad:\n    y.retain_grad()\nreturn y",
    "frozen in forward": "with torch.no_grad():\n    scale = self.weight.detach().abs().mean()\nreturn x * scale",
    "cache by address": "key = id(self)\nself.seen = {key: 1}\nreturn x * self.seen[key]",
    "words": "return x * 2  # hash( id( argv getpid requires_grad is_contiguous get_num_threads",
    "inference": "with torch.inference_mode(torch.is_inference_mode_enabled()):\n    return x * 2",
}


def model(body):
    return (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.full((4,), 3.0))\n\n    def forward(self, x):\n"
        + textwrap.indent(body, " " * 8)
        + "\n"
    )


def line(body):
    text = f"import torch\nfrom torch import nn\n{model(body)}"
    return [number for number, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)]


def run_all(bodies, folder):
    import torch

    state = importlib.import_module("exportlint.checks.state.check")
    before, results = answers(), {}
    for number, (name, body) in enumerate(bodies.items()):
        path = folder / f"switch_case{number}.py"
        path.write_text(f"import torch\nfrom torch import nn\n{model(body)}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[path.stem])
        case = ModelCase(sys.modules[path.stem].M, args=(torch.linspace(0.1, 1, 16).view(4, 4),))
        result = state.run(Context(case, Settings(("state",)), lambda _: None))
        found = [(f.rule, f.severity == "info", f.line, f.message, f.evidence) for f in result.findings]
        results[name] = (result.outcome, found, result.reason)
    return {**results, "as before": answers() == before}


def answers():
    import builtins
    import os
    import platform

    import torch

    flags = torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic, torch.is_grad_enabled()
    functions = hash, id, os.getcwd, os.getpid, platform.system, torch.get_num_threads, torch.get_default_dtype
    return [*map(builtins.id, functions), list(sys.argv), *flags]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    bodies = {f"bad {name}": body for name, (body, _, _) in DECIDING.items()}
    for name, (body, old, new) in DECIDING.items():
        changed = f"{body}\n".replace(old, new).rstrip("\n")
        assert changed != body
        bodies[f"good {name}"] = changed
    bodies |= {f"harmless {name}": body for name, body in HARMLESS.items()}
    return in_fork(run_all, bodies, tmp_path_factory.mktemp("models"), seconds=120)


@pytest.mark.parametrize("name", DECIDING)
def test_what_decides_about_the_numbers_is_found_at_its_line(results, name):
    outcome, found, _ = results[f"bad {name}"]
    assert [(rule, quiet, at) for rule, quiet, at, _, _ in found] == [
        ("EXP303", False, at) for at in line(DECIDING[name][0])
    ], results[f"bad {name}"]
    assert outcome == "failed"
    assert "values differ" in found[0][4] or "in eager" in found[0][4]


@pytest.mark.parametrize("name", DECIDING)
def test_a_read_without_effect_is_information_at_most(results, name):
    outcome, found, reason = results[f"good {name}"]
    assert outcome == "passed", reason
    assert [(rule, quiet) for rule, quiet, *_ in found] == [("EXP303", True)] * (name in TOLD), found


@pytest.mark.parametrize("name", HARMLESS)
def test_good_models_are_silent(results, name):
    outcome, found, reason = results[f"harmless {name}"]
    assert (outcome, [each for each in found if not each[1]]) == ("passed", []), reason


def test_everything_answers_as_before_afterwards(results):
    assert results["as before"]
