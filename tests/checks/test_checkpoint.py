"""What a state dict lacks or does not take, and trainings that go on from a checkpoint."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from exportlint.checks.case import ModelCase
from exportlint.checks.checkpoint import afresh, check, files, resume, roundtrip
from exportlint.checks.context import Context, Settings

X = torch.linspace(-1, 1, 8).view(2, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(self.fc(x)))


class Scaled(Net):
    def __init__(self):
        super().__init__()
        self.scale = torch.rand(4)  # scale

    def forward(self, x):
        return super().forward(x) * self.scale


class Seeded(Scaled):
    """Makes the same numbers in each instance."""

    def __init__(self):
        torch.manual_seed(3)
        super().__init__()


class Projected(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("projection", torch.rand(4, 4), persistent=False)  # projection

    def forward(self, x):
        return super().forward(x) @ self.projection


class Listed(Net):
    def __init__(self):
        super().__init__()
        self.more = [nn.Linear(4, 4)]  # more

    def forward(self, x):
        return self.more[0](super().forward(x))


class Counts(Net):
    def __init__(self):
        super().__init__()
        self.calls = 0  # calls

    def forward(self, x):
        self.calls += self.training
        return super().forward(x) * (1 + self.calls)


class TwoNumbers(Net):
    def __init__(self):
        super().__init__()
        self.a = float(torch.rand(()))  # a
        self.b = float(torch.rand(()))  # b

    def forward(self, x):
        return super().forward(x) * self.a + self.b


class Grows(Net):
    def forward(self, x):
        if not hasattr(self, "seen"):
            self.register_buffer("seen", torch.zeros(4))  # seen
        return super().forward(x) + self.seen


class Tied(Net):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 4)
        self.out.weight = self.fc.weight
        self.register_buffer("places", torch.arange(4), persistent=False)

    def forward(self, x):
        return self.out(super().forward(x)) + self.places


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.LazyLinear(3)

    def forward(self, x):
        return self.fc(x)


class Vocabulary:
    pass


class Opaque(Net):
    def get_extra_state(self):  # state
        return Vocabulary()

    def set_extra_state(self, state):
        pass


class Remembers(Net):
    """Keeps a number of its own, as it should be kept."""

    def __init__(self):
        super().__init__()
        self.factor = float(torch.rand(()))

    def forward(self, x):
        return super().forward(x) * self.factor

    def get_extra_state(self):
        return {"factor": self.factor}

    def set_extra_state(self, state):
        self.factor = state["factor"]


class Deaf(nn.Linear):
    """Loads nothing, and does not say so."""

    def _load_from_state_dict(self, *args):
        pass


class Refuses(Net):
    def __init__(self):
        super().__init__()
        self.fc = Deaf(4, 4)


class Clock(Net):
    calls = 0

    def forward(self, x):
        type(self).calls += 1
        return super().forward(x) + self.calls


class Nothing(nn.Module):
    def forward(self, x):
        return x + 1


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("places", torch.arange(4))

    def forward(self, x):
        return (x * self.places).detach()


def seeded(model):
    """A factory of tests, as people write it."""

    def factory():
        torch.manual_seed(0)
        return model().eval()

    return factory


def result_of(model, tmp_path, **settings):
    case = ModelCase(model, (X,), name="net", **settings)
    return check.run(Context(case, Settings((), workdir=str(tmp_path)), lambda _: None))


GOES_ON = f"a training goes on from its checkpoint ({resume.WHAT}) with the same 2 steps, bit for bit"


@pytest.mark.parametrize("model", [Net, Seeded, Tied, Lazy, Remembers])
def test_models_whose_state_dict_is_all(tmp_path, model):
    result = result_of(seeded(model), tmp_path)
    assert (result.outcome, result.findings) == ("passed", ()), result
    assert GOES_ON in result.notes
    assert any("saved as on cuda:0 and loaded on the CPU" in note for note in result.notes)


@pytest.mark.parametrize(
    ("model", "message", "line", "rewrite"),
    [
        (Scaled, "`self.scale` is not in the state dict, and a model", "# scale", 'self.register_buffer("scale", ...)'),
        (Projected, "`self.projection` is not in the state dict, and a model", "# projection", "with persistent=True"),
        (Listed, "`self.more` is not in the state dict, and a model", "# more", "in an nn.ModuleList"),
        (Counts, "`self.calls` is not in the state dict, and a training that", "# calls", "get_extra_state"),
        (Refuses, "load_state_dict leaves `fc.weight`, `fc.bias` as it was", "def forward(self, x):", ""),
    ],
)
@pytest.mark.parametrize("factory", [lambda model: model, seeded], ids=["plain", "seeded"])
def test_what_the_state_dict_lacks_is_named(tmp_path, factory, model, message, line, rewrite):
    result = result_of(factory(model), tmp_path)
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP707", "error")
    assert finding.message.startswith(message)
    assert finding.source.endswith(line)
    assert rewrite in finding.rewrite
    assert "differ" in finding.evidence or finding.evidence == "2 keys of another value"


def test_names_that_decide_together_are_all_named(tmp_path):
    result = result_of(seeded(TwoNumbers), tmp_path)
    assert [finding.message.partition(" is not")[0] for finding in result.findings] == ["`self.a`", "`self.b`"]
    assert [finding.source[-3:] for finding in result.findings] == ["# a", "# b"]


def test_keys_that_a_call_adds(tmp_path):
    result = result_of(seeded(Grows), tmp_path)
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP708", "warning")
    assert finding.evidence == "unexpected: `seen`"
    assert finding.message.startswith("a call changes the keys of the state dict")


def test_what_no_plain_file_holds(tmp_path):
    result = result_of(seeded(Opaque), tmp_path)
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP706", "warning")
    assert finding.source.endswith("# state")
    assert "Unsupported global: GLOBAL " in finding.evidence
    assert ".Vocabulary was not an allowed global" in finding.evidence


@pytest.mark.parametrize(
    ("wrap", "prefix"), [(nn.DataParallel, "module"), (torch.compile, "_orig_mod")], ids=["parallel", "compiled"]
)
def test_a_wrapper_around_the_model(tmp_path, wrap, prefix):
    def factory():
        return wrap(Net().eval())

    result = result_of(factory, tmp_path)
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP703", "warning")
    assert f"begins with `{prefix}.`" in finding.message
    assert f'key.removeprefix("{prefix}.")' in finding.rewrite
    assert f"`model.{prefix}.state_dict()`" in finding.rewrite
    assert GOES_ON in result.notes  # of the model inside


def test_tied_and_unsaved_tensors_are_told_apart(tmp_path):
    notes = result_of(seeded(Tied), tmp_path).notes
    assert "tied, and saved once: fc.weight = out.weight" in notes
    assert "made anew by the constructor, not loaded (non-persistent): places" in notes


def test_a_file_of_a_gpu_needs_to_be_told_where_to_go(tmp_path):
    state, file = Net().state_dict(), tmp_path / "weights.pt"
    files.save(state, file)
    with pytest.raises(RuntimeError, match="on a CUDA device"):
        torch.load(file, weights_only=True)
    loaded = files.load(file)
    assert {key: value.device.type for key, value in loaded.items()} == dict.fromkeys(state, "cpu")
    assert all(torch.equal(loaded[key], value) for key, value in state.items())
    torch.save(state, file)  # outside, nothing pretends
    assert torch.load(file, weights_only=True).keys() == state.keys()


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Nothing, "the state dict is empty: the model has no parameters and no buffers"),
        (Net(), "the case has a module, of which each copy has its weights: a factory makes a fresh one"),
        (lambda made=Net(): made, "the factory returns one model each time, and no fresh one"),  # noqa: B008
        (Clock, "two equal models return different results"),
    ],
)
def test_what_cannot_be_checked(tmp_path, model, reason):
    result = result_of(model, tmp_path)
    assert (result.outcome, result.reason, result.findings) == ("not_checked", reason, ())


def test_a_model_that_does_not_train(tmp_path):
    result = result_of(Whole, tmp_path)
    assert result.outcome == "passed"
    assert "a training checkpoint is not checked: no parameter needs a gradient" in result.notes
    assert "the state dict holds no floating-point numbers, so that each model has the same" in result.notes
    net = result_of(seeded(Net), tmp_path, loss=lambda result: result.detach().sum())
    assert net.notes[-1].startswith("a training checkpoint is not checked: it does not train: RuntimeError: ")


def test_a_model_that_does_not_run(tmp_path):
    result = result_of(lambda: nn.Linear(3, 3), tmp_path)
    assert (result.outcome, result.findings[0].rule) == ("errored", "EXP002")
    assert result.reason.startswith("the eager call fails: RuntimeError: mat1 and mat2")


def test_without_safetensors(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    result = result_of(seeded(Net), tmp_path)
    assert result.outcome == "passed"
    assert "not checked: safetensors is not installed" in result.notes


def test_with_safetensors(tmp_path):
    pytest.importorskip("safetensors")
    assert "saved and loaded with safetensors as well" in result_of(seeded(Tied), tmp_path).notes
    (note,) = [n for n in result_of(seeded(Remembers), tmp_path).notes if "safetensors" in n]
    assert note.startswith("safetensors cannot hold the state dict: ")


def test_the_state_dict_is_checked_with_the_first_method(tmp_path):
    case = ModelCase(seeded(Net), (), name="net", methods={"forward": (X,), "extra_repr": ()})
    first, second = case.expand()
    assert (first.asks_for("checkpoint"), second.asks_for("checkpoint")) == (True, False)
    results = [check.run(Context(c, Settings((), workdir=str(tmp_path)), lambda _: None)) for c in (first, second)]
    assert results[0].outcome == "passed"
    assert results[1].reason == "not asked for: the state dict is checked with net.forward"


def test_a_fresh_model_has_other_numbers_unless_its_constructor_seeds():
    ctx = Context(ModelCase(seeded(Net), (X,), name="net"), Settings(()), lambda _: None)
    assert not torch.equal(ctx.build().fc.weight, afresh.model(ctx).fc.weight)
    ctx = Context(ModelCase(seeded(Seeded), (X,), name="net"), Settings(()), lambda _: None)
    one, other = ctx.build(), afresh.model(ctx)
    assert torch.equal(one.fc.weight, other.fc.weight)
    assert roundtrip.make_differ(one, other)  # so that a load does something
    assert not torch.equal(one.fc.weight, other.fc.weight)


def test_random_numbers_go_on_where_they_were(tmp_path):
    import random

    import numpy as np

    def draw():
        return torch.rand(2).tolist(), random.random(), np.random.rand()

    torch.save(resume.random_state(), tmp_path / "random.pt")
    before = draw()
    assert draw() != before
    resume.set_random_state(torch.load(tmp_path / "random.pt", weights_only=True))
    assert draw() == before


# ---- A file that the case names ------------------------------------------------------------------------------------


def saved(tmp_path, change=lambda state: state, name="weights.pt"):
    file = tmp_path / "given" / name  # apart from what the check writes
    file.parent.mkdir()
    torch.save(change(dict(Net().state_dict())), file)
    return file


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda state: state, "weights.pt loads strictly: 7 keys"),
        (lambda state: {"epoch": 3, "model": state}, 'weights.pt, its ["model"] loads strictly: 7 keys'),
        (
            lambda state: {"optimizer": {"state": {}}, "a": {"b": state}, "ema": {"w": torch.ones(1)}},
            'weights.pt, its ["a"]["b"] loads strictly: 7 keys',
        ),
    ],
)
def test_a_checkpoint_that_fits(tmp_path, change, note):
    result = result_of(seeded(Net), tmp_path, checkpoint=saved(tmp_path, change))
    assert (result.outcome, result.findings) == ("passed", ())
    assert note in result.notes


@pytest.mark.parametrize(
    ("change", "evidence", "rewrite"),
    [
        (
            lambda state: {f"module.{key}": value for key, value in state.items()},
            "keys of the file begin with `module.`",
            'With `state = {key.removeprefix("module."): value for key, value in state.items()}` it loads strictly.',
        ),
        (
            lambda state: {"model": {key.replace("fc.", "dense."): value for key, value in state.items()}},
            "`dense` in the file is `fc` in the model",
            'With `state = torch.load(...)["model"]; state = {re.sub(',
        ),
        (
            lambda state: {**state, "fc.bias": torch.ones(7)},
            "`fc.bias` is [7] in the file and [4] in the model",
            "Register",
        ),
        (lambda state: {k: v for k, v in state.items() if k != "fc.bias"}, "missing: `fc.bias`", "Register"),
    ],
)
def test_a_checkpoint_that_does_not_fit(tmp_path, change, evidence, rewrite):
    result = result_of(seeded(Net), tmp_path, checkpoint=str(saved(tmp_path, change)))
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP708", "warning")
    assert finding.message == "the checkpoint weights.pt does not load into a model of the factory"
    assert finding.evidence.startswith(evidence)
    assert finding.rewrite.startswith(rewrite)


def test_a_checkpoint_that_is_a_whole_model(tmp_path):
    result = result_of(seeded(Net), tmp_path, checkpoint=saved(tmp_path, lambda _: {"model": Net()}))
    (finding,) = result.findings
    assert (finding.rule, finding.severity) == ("EXP706", "warning")
    assert "Unsupported global" in finding.evidence


@pytest.mark.parametrize(
    ("file", "words"), [("none.pt", "FileNotFoundError: "), ("empty.pt", "ValueError: empty.pt holds no tensors")]
)
def test_a_checkpoint_that_is_none(tmp_path, file, words):
    saved(tmp_path, lambda _: {"epoch": 3}, "empty.pt")
    result = result_of(seeded(Net), tmp_path, checkpoint=tmp_path / "given" / file)
    assert result.outcome == "errored"
    assert result.reason.startswith(f"the checkpoint fails: {words}")
    assert "path of a file of weights" in result.findings[0].rewrite


def test_a_checkpoint_of_safetensors(tmp_path):
    safe = pytest.importorskip("safetensors.torch")
    safe.save_file(Net().state_dict(), tmp_path / "w.safetensors")
    result = result_of(seeded(Net), tmp_path, checkpoint=tmp_path / "w.safetensors")
    assert "w.safetensors loads strictly: 7 keys" in result.notes


def test_a_checkpoint_of_safetensors_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    (tmp_path / "w.safetensors").write_bytes(b"")
    result = result_of(seeded(Net), tmp_path, checkpoint=tmp_path / "w.safetensors")
    assert (result.outcome, result.findings) == ("passed", ())
    assert "not checked: w.safetensors needs safetensors, which is not installed" in result.notes


def test_a_checkpoint_that_is_no_path():
    with pytest.raises(TypeError, match="checkpoint of case 'net' must be a path, not int"):
        ModelCase(Net, (X,), name="net", checkpoint=3)
