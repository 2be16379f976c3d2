"""What ``torch.compile`` captures as one graph, what it compiles anew, and whether it is right."""

from __future__ import annotations

import inspect
import time

import pytest
import torch
from torch import nn

from exportlint import joining
from exportlint.checks import compiled, compiled_breaks
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.findings import Finding
from exportlint.rules import catalogue
from exportlint.torch_hooks import breaks

NO_COMPILER = "it is one graph, and right as it is; with the default backend: there is no C++ compiler"


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.calls = 0

    def forward(self, x):
        return self.fc(x)


class Breaks(Plain):
    def forward(self, x):
        print("in")
        y = self.fc(x)
        if y.sum() > 0:
            y = y * 2
        y = y + 1
        return y * time.perf_counter()


class Counts(Plain):
    def forward(self, x):
        self.calls += 1  # read again
        return self.fc(x) * self.calls


class Caches(Plain):
    """Is compiled once more, for the cache that is there from the second call on."""

    cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = torch.ones(3)
        return self.fc(x) * self.cache


class Branches(Plain):
    def forward(self, x):
        return self.fc(x) * (2 if x.shape[0] > 3 else 1)


class Writes(Plain):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        x.mul_(2)
        return self.fc(x) + self.seen


class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("no")


X, LONGER = torch.linspace(-1, 1, 8).view(2, 4), torch.linspace(-1, 1, 20).view(5, 4)


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """TorchInductor as on a machine without a compiler, which takes no time."""
    import torch._inductor.config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with torch._inductor.config.patch({"cpp.cxx": ("/nonexistent/c++",)}):
        yield


def check(model, **settings):
    case = ModelCase(model, (X,), name="net", **settings)
    return compiled.run(Context(case, Settings(()), announce=lambda _: None))


def line_of(model, words):
    lines, first = inspect.getsourcelines(model)
    return next(first + i for i, line in enumerate(lines) if words in line)


def test_every_graph_break_has_its_line_rule_and_number():
    result = check(Breaks)
    assert result.outcome == "failed"
    found = {(f.line, f.rule, f.message.rpartition("(")[2].rstrip(")")) for f in result.findings}
    assert found == {
        (line_of(Breaks, 'print("in")'), "EXP403", "GB0059"),
        (line_of(Breaks, "if y.sum()"), "EXP101", "GB0170"),
        (line_of(Breaks, "time.perf_counter()"), "EXP303", "GB0007"),
    }
    assert {tuple(f.outcomes.items()) for f in result.findings} == {(("compile", "breaks"),)}
    assert "with graph breaks allowed there are 3 graphs" in result.notes


class Numbers(Plain):
    def forward(self, x):
        y = self.fc(x) * x.sum().item()
        y = y[y > 0]
        if (y > 1).any().item():  # decides
            y = y + 1
        return y


def test_what_is_captured_as_one_graph_is_no_break_where_breaks_are_allowed():
    """A number out of a tensor and a size that depends on data break a graph only without ``fullgraph=True``."""
    (found,) = check(Numbers).findings
    assert (found.rule, found.line) == ("EXP101", line_of(Numbers, "# decides"))
    assert "cannot go on here: Could not guard on data-dependent expression" in found.message


def test_where_breaks_cannot_be_listed_the_first_is_told(monkeypatch):
    monkeypatch.setattr(breaks, "why_not", lambda: "this torch explains nothing")
    result = check(Breaks)
    assert [f.rule for f in result.findings] == ["EXP403"]
    assert "this torch explains nothing" in result.notes


def test_this_torch_lists_breaks():
    assert breaks.why_not() is None


def test_what_is_compiled_anew_each_time():
    result = check(Counts)
    (found,) = result.findings
    assert (found.rule, found.line, dict(found.outcomes)) == (
        "EXP501",
        line_of(Counts, "# read again"),
        {"compile": "breaks"},
    )
    assert "torch gives up in call 9: FailOnRecompileLimitHit" in found.evidence
    assert "self.calls == 1" in found.evidence


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize(
    ("model", "note"),
    [
        (Caches, "compiled anew for the same call again: "),
        (Branches, "compiled anew for the second call: tensor 'x' size mismatch at index 0"),
    ],
)
def test_what_is_compiled_once_more_is_a_note(model, note):
    result = check(model, inputs2=(LONGER,))
    assert (result.outcome, result.findings) == ("not_checked", ())
    assert sum(words.startswith("compiled anew for the same call") for words in result.notes) <= 1
    assert any(words.startswith(note) for words in result.notes)


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("model", [Branches, Writes])
def test_without_a_compiler_the_default_backend_is_not_checked(model):
    result = check(model, inputs2=(LONGER,))
    assert (result.outcome, result.findings) == ("not_checked", ())
    assert result.reason.startswith(NO_COMPILER)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda results: [r + 1 if r.dim() == 2 else r for r in results], "output: 6 of 6 values differ"),
        (lambda results: [r * 2 if r.dim() == 0 else r for r in results], "the buffer seen: "),
    ],
)
def test_a_backend_that_is_wrong(monkeypatch, wrong, words):
    def backend(graph, _):
        return lambda *args: wrong(graph.forward(*args))

    monkeypatch.setattr(compiled, "CAPTURED", backend)
    result = check(Writes)
    (found,) = result.findings
    assert (result.outcome, found.rule, dict(found.outcomes)) == ("failed", "EXP004", {"compile": "silent"})
    assert words in found.evidence


@pytest.mark.usefixtures("no_compiler")
def test_tensors_that_hold_others_are_compared():
    from torch.testing._internal.two_tensor import TwoTensor

    class Adds(nn.Module):
        def forward(self, x):
            return x + 1

    case = ModelCase(Adds, (TwoTensor(torch.ones(2, 3), torch.ones(2, 3)),), name="net")
    result = compiled.run(Context(case, Settings(()), announce=lambda _: None))
    assert (result.outcome, result.findings) == ("not_checked", ())
    assert result.reason.startswith(NO_COMPILER)


def test_a_model_that_does_not_run():
    assert check(Fails).outcome == "not_checked"


@pytest.mark.slow
def test_the_default_backend():
    result = check(Branches, inputs2=(LONGER,))
    assert (result.outcome, result.reason, result.findings) == ("passed", "one graph", ())


OTHER_RULES = {  # what the same line also is, in the words of torch.compile
    ("EXP401", "EXP101"): 1,
    ("EXP401", "EXP102"): 1,
    ("EXP303", "EXP102"): 2,
    ("EXP301", "EXP102"): 1,
    ("EXP102", "EXP402"): 1,
    ("EXP201", "EXP402"): 1,
}
if not torch.__version__.startswith("2.13."):
    OTHER_RULES["EXP102", "EXP003"] = 1


def test_breaks_of_the_rules_examples_are_told_by_the_same_rule(tmp_path):
    """Those that the words of torch tell apart otherwise are counted."""
    other: dict[tuple[str, str], int] = {}
    same = 0
    for number, (rule, source) in enumerate(_breaking()):
        error = _error_of(source, tmp_path / f"example_{number}.py")
        if error is None:
            continue
        found = compiled_breaks.of_error(error)
        assert found.place is not None
        assert found.place.file == str(tmp_path / f"example_{number}.py")
        if joining.family(found.rule) == joining.family(rule):
            same += 1
        else:
            other[rule, found.rule] = other.get((rule, found.rule), 0) + 1
    assert other == OTHER_RULES
    assert same > 40


def _breaking():
    for rule in catalogue().values():
        forms = [(rule.outcomes, rule.bad), *((v.outcomes, v.bad) for v in rule.variants.values())]
        forms += [(rule.outcomes_of(near.variant), near.bad) for near in rule.near]
        for outcomes, source in forms:
            if outcomes.get("compile") == "breaks" and rule.code not in ("EXP001", "EXP002"):
                yield rule.code, source


def _error_of(source, file):
    """What the first call raises; ``None`` where that goes well, since only other sizes show it."""
    file.write_text(source)
    namespace = {"__name__": file.stem, "__file__": str(file)}
    exec(compile(source, str(file), "exec"), namespace)
    torch.compiler.reset()
    model = namespace["build"]()
    model.compile(fullgraph=True, backend="eager")
    try:
        with torch.no_grad():
            model(*namespace["inputs"]())
    except Exception as error:
        return error
    return None


def prediction(**outcomes):
    return Finding(
        rule="EXP403", severity="error", message="m", file="m.py", line=3, end_line=3, outcomes=outcomes or {}
    )


@pytest.mark.parametrize(
    ("mode", "outcome", "verdict"),
    [
        ({"export": "fine", "compile": "breaks"}, "passed", "refuted"),
        ({"export": "fine", "compile": "breaks"}, "failed", "not_exercised"),
        ({"export": "breaks", "compile": "fine"}, "passed", "not_exercised"),
    ],
)
def test_a_compile_that_saw_nothing_refutes_what_was_predicted_for_it_alone(mode, outcome, verdict):
    from exportlint.findings import CheckResult

    checks = [CheckResult(name="compile", outcome=outcome)]
    joined = joining.join(checks, [prediction(**mode)], joining.Exercised({"m.py": frozenset({3})}))
    assert joined[-1].findings[0].verdict == verdict


def test_predictions_are_judged_for_the_modes_of_the_checks():
    assert joining.modes_of(("capture", "lint")) == ("export",)
    assert joining.modes_of(("capture", "compile")) == ("export", "compile")
