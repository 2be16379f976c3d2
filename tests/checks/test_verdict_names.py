"""What an export environment leaves in a program has a name, by which findings begin or which they hold."""

from __future__ import annotations

import importlib

import pytest
from device_kinds import load, model
from forking import in_fork

from exportlint.checks.context import Context, Settings
from exportlint.checks.jobs import module_of

BODIES = {
    "hardcoded: ": ("device", "EXP201", model('return x + torch.ones(4, device="cpu")')),
    "missing device: ": ("device", "EXP202", model("return x + torch.ones(4)")),
    "is a tensor outside the state dict": ("device", "EXP203", model("return x + self.t", "self.t = torch.ones(4)")),
    "is a dict that holds a tensor outside the state dict": (
        "device",
        "EXP203",
        model("return x + self.t['a']", "self.t = {'a': torch.ones(4)}"),
    ),
    "branch on device: ": ("device", "EXP204", model("return x * 2 if x.is_cuda else x")),
    "followed but baked: ": ("device", "EXP205", model("return x + torch.ones(4, device=x.device)")),
    "index lost: ": ("device", "EXP205", model("return x + torch.ones(4, device=x.device.type)")),
    "dtype baked: ": ("twins", "EXP207", model("return x + torch.ones(4, dtype=x.dtype)")),
    "state baked: ": ("state", "EXP303", "import time\n" + model("return x * (time.time() % 7)")),
    "state baked: self.calls": ("state", "EXP501", model("self.calls += 1\nreturn x * self.calls", "self.calls = 0")),
}


WITH_INDEX = model("return x + torch.ones(4, device=str(x.device))")


def check_all(folder):
    bodies = {**BODIES, "index kept": ("device", "", WITH_INDEX)}
    results = {}
    for number, (words, (name, _, text)) in enumerate(bodies.items()):
        module = importlib.import_module(module_of(name))
        case = load(text, folder, f"named{number}")
        result = module.run(Context(case, Settings((name,)), lambda _: None))
        results[words] = [(f.rule, f.message, f.severity) for f in result.findings]
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return in_fork(check_all, tmp_path_factory.mktemp("models"), seconds=180)


@pytest.mark.parametrize("words", BODIES)
def test_a_finding_says_what_it_is(results, words):
    assert [rule for rule, message, _ in results[words] if words in message] == [BODIES[words][1]], results[words]


def test_an_index_that_is_lost_is_advice(results):
    assert [severity for _, message, severity in results["index lost: "] if "index lost" in message] == ["info"]
    assert not any("index lost" in message for _, message, _ in results["index kept"])
