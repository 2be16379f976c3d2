"""What the classes of one file say of others, and of what is not known to run."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Options, examine, lint

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "import torch\nfrom torch import nn\n"
HELPER = f"{HEAD}\n\ndef positive(x):\n    if x > 0:\n        return x\n    return -x\n"
CALLER = f"""{HEAD}from pkg.helper import positive


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        return positive(x.sum(){{more}})
"""


def package(root: Path, **files: str) -> Path:
    folder = root / "pkg"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def found(*paths: Path, **options: bool) -> list[tuple[str, str, int, str]]:
    return [(p.path.name, p.rule.code, p.range.line, p.severity) for p in lint(paths, Options(**options))]


def test_a_helper_in_another_file_has_the_finding_alone_and_in_the_folder(tmp_path: Path) -> None:
    folder = package(tmp_path, helper=HELPER, model=CALLER.format(more=""))
    wanted = [("helper.py", "EXP101", 6, "error")]
    assert found(folder) == wanted
    assert found(folder / "helper.py") == wanted
    assert found(folder / "model.py") == []
    assert found(folder / "model.py", folder / "helper.py", whole_project=False) == wanted
    assert found(folder / "helper.py", whole_project=False) == []


def test_a_caller_decides_what_a_helper_that_it_reaches_through_another_is_given(tmp_path: Path) -> None:
    between = "from pkg.helper import positive\n\n\ndef through(x):\n    return positive(x)\n"
    caller = CALLER.replace("pkg.helper import positive", "pkg.between import through").replace("positive(", "through(")
    folder = package(tmp_path, helper=HELPER, between=between, model=caller.format(more=".dim()"))
    assert found(folder / "helper.py") == []
    (folder / "model.py").write_text(caller.format(more=""), encoding="utf-8")
    assert found(folder / "helper.py") == [("helper.py", "EXP101", 6, "error")]


def test_what_another_file_was_generated_from_is_told_there(tmp_path: Path) -> None:
    model = CALLER.format(more="").replace("pkg.helper", "helper").replace("positive(x.sum())", "x if x.any() else -x")
    generated = f"# This file was automatically generated from pkg/modular_net.py.\n{model}"
    folder = package(tmp_path, modular_net=model, modeling_net=generated)
    assert [name for name, *_ in found(folder)] == ["modeling_net.py"]
    assert found(folder / "modular_net.py") == []
    asked = examine([folder], Options(), asked=[folder / "modular_net.py"]).predictions
    assert [p.path.name for p in asked] == ["modeling_net.py", "modular_net.py"]


def net(body: str, init: str = "", above: str = "") -> str:
    given = textwrap.indent(textwrap.dedent(body).strip(), "        ")
    made = f"    def __init__(self, config, p=0.5, image_size=224):\n        super().__init__()\n        {init}\n\n"
    return f"{HEAD}{above}\n\nclass Net(nn.Module):\n{made}    def forward(self, x: torch.Tensor, y=None):\n{given}\n"


def severities(tmp_path: Path, text: str) -> list[tuple[str, str, str]]:
    file = tmp_path / "model.py"
    file.write_text(text, encoding="utf-8")
    result = examine([file], Options())
    assert not result.unanalysed
    return [(p.rule.code, p.variant, p.severity) for p in result.predictions]


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("if y is not None and x.sum() > 0:\n    x = -x\nreturn x", "info"),
        ("if x is not None and x.sum() > 0:\n    x = -x\nreturn x", "error"),
        ("if self.p and x.sum() > 0:\n    x = -x\nreturn x", "error"),
        ("if self.p:\n    if x.sum() > 0:\n        x = -x\nreturn x", "error"),
        ("return x if self.p or x.sum() > 0 else -x", "error"),
        ("return x if y is None or x.sum() > 0 else -x", "info"),
        ("return (-x if x.sum() > 0 else x) if self.p else x", "error"),
        ("return (-x if x.sum() > 0 else x) if y is None else x", "info"),
        ("return self.p or x if x.sum() > 0 else x", "error"),
        ("match self.p:\n    case 2 if x.sum() > 0:\n        return x\nreturn -x", "info"),
        ("match self.p:\n    case 2:\n        return x if x.sum() > 0 else -x\nreturn -x", "error"),
    ],
)
def test_an_error_is_claimed_only_of_what_the_line_surely_runs(tmp_path: Path, body: str, severity: str) -> None:
    assert severities(tmp_path, net(body, "self.p = p")) == [("EXP101", "", severity)]


def test_what_a_helper_does_is_not_in_doubt_because_the_line_of_the_call_is(tmp_path: Path) -> None:
    helper = "\n\ndef f(x):\n    if x.sum() > 0:\n        return x\n    return -x\n"
    assert severities(tmp_path, net("return x if y is None else f(x)", "self.p = p", helper)) == [
        ("EXP101", "", "error")
    ]


@pytest.mark.parametrize(("init", "severity"), [("self.p = p", "info"), ("self.a = nn.Linear(4, 4)", "error")])
def test_random_decisions_of_a_class_without_state_augment_data(tmp_path: Path, init: str, severity: str) -> None:
    body = "if torch.rand(1) < 0.5:\n    x = -x\nreturn x"
    assert severities(tmp_path, net(body, init)) == [("EXP101", "", severity)]


@pytest.mark.parametrize(
    ("init", "count"),
    [
        ("self.rate = [r.item() for r in torch.linspace(0, 1, 3)][1]", 0),
        ("self.rate = torch.linspace(0, 1, 3)[1]", 1),
    ],
)
def test_a_number_that_the_constructor_read_out_is_a_constant(tmp_path: Path, init: str, count: int) -> None:
    assert len(severities(tmp_path, net("return x if self.rate == 0.0 else -x", init))) == count


CHECK = "b, c, h, w = x.shape\nif h != self.size[0] or w != self.size[1]:\n    raise ValueError\nreturn x"
CONFIGURED = [("EXP301", "configured", "warning")]


@pytest.mark.parametrize(
    ("body", "init", "wanted"),
    [
        (CHECK, "self.size = config.image_size", CONFIGURED),
        (CHECK, "self.size = (config.image_size, config.image_size)", CONFIGURED),
        (CHECK, "self.size = pair(image_size)", CONFIGURED),
        (CHECK.replace("!=", "<"), "self.size = config.image_size", []),
        ("b, c, h, w = x.shape\nassert c == self.size\nreturn x", "self.size = config.channels", []),
        ("assert x.shape[1] == self.size\nreturn x", "self.size = config.channels", []),
        ("torch._assert(x.shape[2] == self.size, 'size')\nreturn x", "self.size = image_size", CONFIGURED),
        ("if x.shape[2] != self.w.shape[1]:\n    x = -x\nreturn x", "self.w = nn.Parameter(config.w)", CONFIGURED),
        ("if x.shape[2] != y.shape[1]:\n    x = -x\nreturn x", "self.w = config.w", []),
    ],
)
def test_a_dimension_compared_with_what_the_constructor_fixes(
    tmp_path: Path, body: str, init: str, wanted: list[tuple[str, str, str]]
) -> None:
    above = (
        "from itertools import repeat\n\n\ndef ntuple(n):\n    def parse(x):\n        return tuple(repeat(x, n))\n\n"
    )
    assert severities(tmp_path, net(body, init, f"{above}    return parse\n\n\npair = ntuple(2)\n")) == wanted


def test_what_follows_from_a_loop_that_no_capture_enters_is_not_told_again(tmp_path: Path) -> None:
    body = "for i in (x > 0).nonzero():\n    if i.sum() == 3:\n        x = -x\nreturn x"
    assert severities(tmp_path, net(body, "self.p = p")) == [("EXP102", "", "error")]


@pytest.mark.parametrize("name", ["pkg.helper.capturing", "ours.capturing"])
def test_a_function_that_the_settings_call_a_tracing_predicate_is_true(tmp_path: Path, name: str) -> None:
    origin = name.rpartition(".")[0]
    body = f"{HEAD}from {origin} import capturing\n\n\nclass Net(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    body += "        if not capturing():\n            assert x.any()\n        return x\n"
    folder = package(tmp_path, helper="import os\n\n\ndef capturing():\n    return os.path.exists('x')\n", model=body)
    file = folder / "model.py"
    assert [p.rule.code for p in lint([file], Options())] == ["EXP101"]
    assert lint([file], Options(tracing_predicates=frozenset({name}))) == ()


@pytest.mark.parametrize(("name", "count"), [("forward", 0), ("backward", 1)])
def test_a_forward_that_a_decorator_of_the_class_replaces_does_not_run(tmp_path: Path, name: str, count: int) -> None:
    decorator = f"def replacing(cls):\n    cls.{name} = lambda self, x: x\n    return cls\n\n\n"
    text = net("return x if x.any() else -x", "self.p = p", f"\n\n{decorator}@replacing").replace(
        "@replacing\n\n\n", "@replacing\n"
    )
    assert len(severities(tmp_path, text)) == count


@pytest.mark.parametrize(("case", "severity"), [(False, "info"), (True, "warning")])
def test_a_size_that_becomes_a_number_is_advice_where_no_case_says_that_it_varies(
    tmp_path: Path, case: bool, severity: str
) -> None:
    text = f"{HEAD}\n\nclass Net(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    text += "        return x * int(x.shape[0])\n"
    if case:
        text += "\n\ndef build():\n    return Net()\n\n\ndef inputs():\n    return (torch.ones(2, 4),)\n"
        text += "\n\ndef inputs2():\n    return (torch.ones(3, 4),)\n"
    assert severities(tmp_path, text) == [("EXP301", "number", severity)]
