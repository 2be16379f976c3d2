"""What ways to run a model take, beside each other."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from torch import nn

from exportlint.checks import speed
from exportlint.checks.case import Method, ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.findings import are_chosen, select_checks

X = torch.linspace(-1, 1, 8).view(2, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x).softmax(-1)

    def half(self, x):
        return self.fc(x) / 2


class Float32Only(Net):
    def forward(self, x):
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        return self.fc(x)


class Branches(Net):
    def forward(self, x):
        return self.fc(x) if x.sum() > 0 else x


def eagerly(ctx):
    return ctx.build()


def refuses(_):
    raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found")


def context(tmp_path, model=Net, **settings):
    case = ModelCase(model, (X,), name="net", **settings)
    return Context(case, Settings((), workdir=str(tmp_path)), announce=lambda _: None)


def ways(monkeypatch, **seconds):
    """Ways that all call the eager model, and take as long as is said; ``None`` refuses."""
    made = {getattr(speed, name): value for name, value in seconds.items()}
    monkeypatch.setattr(speed, "WAYS", {name: refuses if value is None else eagerly for name, value in made.items()})
    monkeypatch.setattr(speed, "_seconds", lambda _, way, __: made[way.name] * next(load))
    load = itertools.cycle([1.0, 1.01, 0.99])  # what else the machine does


def note(result, start):
    return next(words for words in result.notes if words.startswith(start))


def numbers(words):
    return [float(number) for number in re.findall(r"\d+\.\d+", words)]


def test_ratios_are_those_of_the_times(tmp_path, monkeypatch):
    ways(monkeypatch, EAGER=0.01, EXPORTED=0.01, COMPILED=0.03, PACKAGED=0.005)
    result = speed.run(context(tmp_path))
    assert (result.outcome, result.findings) == ("passed", ())
    for name, least, most in (("exported", 0.9, 1.1), ("exported and compiled", 2.9, 3.1), ("AOTInductor", 0.4, 0.6)):
        assert least < numbers(note(result, f"{name}: "))[0] < most
    assert 9.8 < numbers(note(result, "eager: "))[0] < 10.2
    assert 2.9 < numbers(note(result, "compiling the program made it slower: "))[0] < 3.1
    assert note(result, "bfloat16, eager: ")


def test_that_compiling_is_faster_is_not_told_as_slower(tmp_path, monkeypatch):
    ways(monkeypatch, EAGER=0.01, EXPORTED=0.01, COMPILED=0.004, PACKAGED=None)
    result = speed.run(context(tmp_path))
    assert not any("slower" in words for words in result.notes)
    assert note(result, "AOTInductor: ") == (
        "AOTInductor: not measured: there is no C++ compiler, which TorchInductor needs"
    )


def test_a_model_that_does_not_run_in_the_other_dtype(tmp_path, monkeypatch):
    ways(monkeypatch, EAGER=0.01, EXPORTED=0.01, COMPILED=0.01, PACKAGED=None)
    result = speed.run(context(tmp_path, Float32Only))
    assert note(result, "bfloat16") == "bfloat16: the model does not run in it: TypeError: float32 only"


def test_where_no_other_way_is_had_nothing_is_checked(tmp_path, monkeypatch):
    ways(monkeypatch, EAGER=0.01, EXPORTED=None, COMPILED=None, PACKAGED=None)
    assert speed.run(context(tmp_path)).outcome == "not_checked"


def test_a_model_that_is_not_captured(tmp_path):
    result = speed.run(context(tmp_path, Branches))
    assert (result.outcome, result.reason) == ("not_checked", "the model is not captured")


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="a matrix product may need other memory")
def test_memory_is_that_of_the_call(tmp_path):
    class Takes(Net):
        def forward(self, x):
            return torch.ones(16, 2**20).sum() + x

    ctx = context(tmp_path, Takes)
    way = speed.Way(speed.EAGER, ctx.build())
    peak = speed._peak(ctx, way)
    if peak is None:
        pytest.skip("this kernel tells no high-water mark")
    assert 60 * 2**20 < peak < 80 * 2**20


def test_methods_are_measured_in_the_other_dtype_too():
    whole = ModelCase(Net, (X,), name="net", methods={"half": Method((X,))})
    (part,) = whole.expand()
    other = speed._in_other_dtype(part)
    assert other.name == "net[bfloat16].half"
    assert speed._in_other_dtype(other) is None


def test_each_round_has_all_ways_and_short_calls_are_repeated(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(speed, "WAYS", {speed.EAGER: eagerly, speed.EXPORTED: eagerly})
    monkeypatch.setattr(speed, "_seconds", lambda _, way, repeats: asked.append((way.name, repeats)) or 1e-4)
    found = speed._measured(context(tmp_path))
    assert {len(way.times) for way in found.values()} == {speed.ROUNDS}
    assert set(asked[2 * speed.WARM_CALLS :]) == {(speed.EAGER, 10), (speed.EXPORTED, 10)}


def test_it_is_asked_for_beside_others():
    checks = select_checks(["capture", "speed"])
    assert checks == ("capture", "speed")
    assert are_chosen(checks)


@pytest.mark.slow
def test_all_ways(tmp_path):
    result = speed.run(context(tmp_path))
    assert result.outcome == "passed"
    for start in ("", "bfloat16, "):
        for name in speed.WAYS:
            assert "first result after" in note(result, f"{start}{name}: ")
    labels = [measurement.label for measurement in result.measured]
    assert labels == [f"{start}{name}" for start in ("", "bfloat16, ") for name in speed.WAYS if name != speed.EAGER]


def test_the_option_adds_the_check(report, tmp_path):
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\n\n\n"
        "def build():\n    return nn.Linear(4, 4)\n\n\ndef inputs():\n    return (torch.ones(2, 4),)\n"
    )
    without = {"CXX": "/nonexistent/c++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    ran = report(tmp_path / "model.py", "--checks", "capture", "--speed", cwd=tmp_path, env=without)
    found = ran.check("model", "speed")
    assert (ran.status, found["outcome"]) == (0, "passed")
    assert "AOTInductor: not measured: there is no C++ compiler, which TorchInductor needs" in found["notes"]
    labels = {measured["label"] for measured in found["measured"]}  # a model of one matrix product compiles without C++
    assert labels >= {"exported", "bfloat16, exported"}
    assert all(0 < m["low"] <= m["value"] <= m["high"] for m in found["measured"])
