"""Programs compiled ahead of time, and run in another process."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from exportlint.checks import aoti
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings, unchanged

X, LONGER = torch.linspace(-1, 1, 8).view(2, 4), torch.linspace(-1, 1, 20).view(5, 4)


class Net(nn.Module):
    def __init__(self, buffer=(4,)):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(buffer))

    def forward(self, x, *, mask=None):
        self.seen += 1
        y = self.fc(x).softmax(-1) + self.seen
        return {"y": y if mask is None else y * mask, "sum": x.sum()}


class Small(Net):
    """With a buffer of one element, whose change a package of torch 2.13 on the CPU forgets."""

    def __init__(self):
        super().__init__((1,))


class Number(Net):
    def forward(self, x):
        return self.fc(x), x.shape[0]


class Branches(Net):
    def forward(self, x):
        return self.fc(x) if x.sum() > 0 else x


def context(tmp_path, model, args=(X,), kwargs=None, **settings):
    case = ModelCase(model, args, kwargs or {}, name="net", **settings)
    return Context(case, Settings((), workdir=str(tmp_path)), announce=lambda _: None)


def test_without_a_compiler_nothing_is_checked(tmp_path, monkeypatch):
    import torch._inductor.config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with torch._inductor.config.patch({"cpp.cxx": ("/nonexistent/c++",)}):
        result = aoti.run(context(tmp_path, Net))
    assert (result.outcome, result.reason) == ("not_checked", "there is no C++ compiler, which TorchInductor needs")


@pytest.mark.parametrize(
    ("model", "args", "reason"),
    [
        (Branches, (X,), "the model is not captured"),
        (Number, (X,), "the model returns what is no tensor"),
    ],
)
def test_what_cannot_be_checked(tmp_path, model, args, reason):
    result = aoti.run(context(tmp_path, model, args))
    assert (result.outcome, result.reason) == ("not_checked", reason)


def test_a_package_that_cannot_be_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(aoti, "package", lambda _, path: path.write_bytes(b"PK\x05\x06" + bytes(18)))
    result = aoti.run(context(tmp_path, Net))
    (found,) = result.findings
    assert (result.outcome, found.rule, found.message) == ("failed", "EXP004", "the package cannot be loaded")
    assert dict(found.outcomes) == {"export": "breaks"}
    assert found.file.endswith("test_aoti.py")


def test_a_loader_that_dies(tmp_path, monkeypatch):
    loader = tmp_path / "dies.py"
    loader.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(aoti, "package", lambda _, path: path.write_bytes(b""))
    monkeypatch.setattr(aoti.aoti_loader, "__file__", str(loader))
    result = aoti.run(context(tmp_path, Net))
    assert (result.outcome, result.findings[0].evidence) == ("crashed", "ended with SIGSEGV")


def test_what_inductor_refuses_is_a_finding(tmp_path, monkeypatch):
    def refuse(*_):
        raise RuntimeError("LoweringException: no lowering for this")

    monkeypatch.setattr(aoti, "package", refuse)
    result = aoti.run(context(tmp_path, Net))
    assert (result.outcome, result.findings[0].rule) == ("failed", "EXP003")
    assert "no lowering for this" in result.findings[0].evidence


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.calls = nn.Linear(4, 4), 0

    def forward(self, x):
        self.calls += 1  # counts
        return self.fc(x) * self.calls


def packaged(program, monkeypatch, frozen):
    """Stand for a package which returns what the program does, or the first result for ever."""

    def run(ctx):
        with unchanged(program):
            module, results = program.module(), []
            for args, kwargs in torch.load(ctx.path(aoti.CALLS)):
                leaves = torch.utils._pytree.tree_leaves(module(*args, **kwargs))
                results.append([leaf.detach().clone() for leaf in leaves])
        torch.save([results[0]] * len(results) if frozen else results, ctx.path(aoti.RESULTS))
        return {"error": None, "seconds": 0.0}

    monkeypatch.setattr(aoti, "package", lambda _, path: path.write_bytes(b""))
    monkeypatch.setattr(aoti, "_loaded", run)


def test_state_that_the_program_already_lacks_is_told_at_its_line(tmp_path, monkeypatch):
    ctx = context(tmp_path, Counts)
    packaged(ctx.program(), monkeypatch, frozen=False)
    (found,) = aoti.run(ctx).findings
    with open(__file__, encoding="utf-8") as file:  # noqa: PTH123
        line = next(number for number, text in enumerate(file, 1) if "# counts" in text)
    assert (found.rule, found.message, found.line) == ("EXP501", aoti.BAKED, line)
    assert found.evidence.startswith("call 2: output[0]: 8 of 8 values differ")


def test_state_that_the_package_alone_forgets_is_a_wrong_result(tmp_path, monkeypatch):
    ctx = context(tmp_path, Small)
    packaged(ctx.program(), monkeypatch, frozen=True)
    (found,) = aoti.run(ctx).findings
    assert (found.rule, found.message) == ("EXP004", "the package computes something else than the eager model")


@pytest.mark.slow
def test_a_package_gives_what_eager_gives(tmp_path):
    shapes = {"x": {0: Dim.DYNAMIC}, "mask": None}
    result = aoti.run(context(tmp_path, Net, (X,), {"mask": torch.ones(4)}, inputs2=(LONGER,), dynamic_shapes=shapes))
    assert (result.outcome, result.findings) == ("passed", ())
    assert result.reason.startswith("compiled in ")


@pytest.mark.slow
@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="seen with torch 2.13")
def test_a_package_that_forgets_what_it_wrote(tmp_path):
    result = aoti.run(context(tmp_path, Small))
    (found,) = result.findings
    assert (found.message, dict(found.outcomes)) == (
        "the package computes something else than the eager model",
        {"export": "silent"},
    )
    assert found.evidence.startswith("call 2: output[0]: 8 of 8 values differ, by at most 1")
