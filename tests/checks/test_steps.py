"""Sequences of calls: a decoder with caches, and faults that no first call shows."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import pytest
import torch
from forking import in_fork
from torch import nn

from exportlint.checks import loading, methods, steps
from exportlint.checks.case import Method, ModelCase, Moment, Step
from exportlint.checks.context import Context, Settings, call, unchanged
from exportlint.checks.runner import Options, Runner

FOLDER = Path(__file__).parents[2] / "fixtures" / "decoding"
NEW_TOKENS = 16


def context(case, tmp_path=Path(), examples=3):
    return Context(case, Settings(("steps",), examples=examples, workdir=str(tmp_path)), lambda _: None)


def cases(file):
    return {case.name: case for case in loading.cases_of(str(FOLDER / file))}


@pytest.fixture(scope="module")
def cached():
    found = cases("cached_decoder.py")
    return sys.modules["cached_decoder"], found


@pytest.fixture(scope="module")
def captions(cached):
    """Image features, and the captions that ``generate`` makes of them."""
    module, _ = cached
    model = module.captioner()
    pixels = torch.randn(module.BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        features = model.encoder(pixels).last_hidden_state
        tokens = model.generate(pixels, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False)
    assert tokens.shape == (module.BATCH, NEW_TOKENS + 1)
    assert len(tokens.unique()) > 6  # captions vary
    return features, tokens


@pytest.mark.slow
@pytest.mark.parametrize("name", ["static.prefill", "dynamic"])
def test_decoders_with_caches_pass(cached, name):
    result = steps.run(context(cached[1][name]))
    assert (result.outcome, result.findings) == ("passed", ())
    assert "sequences of up to 16" in result.reason


def test_a_static_cache_decodes_what_generate_does(cached, captions):
    module, found = cached
    features, tokens = captions
    program = context(found["static.decode"]).program()
    run, made = program.module(), tokens[:, :1]
    with unchanged(program):
        for position in range(NEW_TOKENS):
            logits = call(run, ((made[:, -1:], torch.tensor([position]), features), {}))
            made = torch.cat((made, module.greedy(logits)), 1)
    assert torch.equal(made, tokens)


def test_a_dynamic_cache_decodes_what_generate_does(cached, captions):
    module, found = cached
    features, tokens = captions
    run, cache = context(found["dynamic"]).program().module(), module.DynamicCache()
    with torch.no_grad():  # a program takes no cache of length 0
        logits, cache = module.DynamicDecoder()(tokens[:, :1], features, cache)
    made = torch.cat((tokens[:, :1], module.greedy(logits)), 1)
    for _ in range(NEW_TOKENS - 1):
        logits, cache = call(run, ((made[:, -1:], features, cache), {}))
        made = torch.cat((made, module.greedy(logits)), 1)
    assert torch.equal(made, tokens)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("position-in-python", "self.wpe(position_ids)"),
        ("stale-cache", "curr_cache.update("),
        ("mask-of-the-first-step", "attention_mask.view("),
    ],
)
def test_faults_of_later_calls_are_shrunk_to_two(name, source):
    result = steps.run(context(cases("broken_decoder.py")[name]))
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP004", "error")
    assert finding.message.endswith("in a sequence of 2 calls")
    assert finding.evidence.startswith(("decode, decode: ", "decode, decode again: "))
    assert source in finding.source
    assert "they part in decoder.transformer" in finding.evidence


def test_methods_that_are_saved_share_no_cache(cached, tmp_path):
    result = methods.run(context(cached[1]["static.prefill"], tmp_path))
    (finding,) = result.findings
    assert (result.outcome, finding.severity) == ("failed", "warning")
    assert "decode does not see what the others wrote" in finding.message
    assert finding.source.startswith("def decode(")
    assert any("are used by more than one method" in note for note in result.notes)
    assert any("of it more than once" in note for note in result.notes)
    assert not list(tmp_path.iterdir())


class Memory(nn.Module):
    """Remembers its last input in a buffer, and forgets its third call in one way or another."""

    def __init__(self, fault=""):
        super().__init__()
        self.fault, self.calls = fault, 0
        self.register_buffer("kept", torch.zeros(3))

    def forward(self, x):
        y = x + self.kept
        self.kept.copy_(x)
        if self.fault == "third":
            self.calls += 1
            y = y * 2 if self.calls > 2 else y
        if self.fault == "buffer":
            self.calls += 1
            self.kept.mul_(self.calls)
        if self.fault == "fails" and x.sum() > 1e6:
            raise ValueError("too large")
        return y


def drawn(moment: Moment):
    return (torch.randn(3, generator=torch.Generator().manual_seed(moment.seed)),)


def memory(fault="", **settings):
    return ModelCase(lambda: Memory(fault), (torch.ones(3),), name="memory", steps={"go": Step(drawn)}, **settings)


def test_buffers_follow():
    result = steps.run(context(memory()))
    assert (result.outcome, result.notes) == ("passed", ())


def test_the_shortest_sequence_is_told():
    result = steps.run(context(memory("third")))
    assert result.findings[0].message.endswith("in a sequence of 3 calls")
    assert re.match(r"go, go( again)?, go( again)?: output: 3 of 3 values differ", result.findings[0].evidence)


def test_a_buffer_that_no_result_shows_yet():
    result = steps.run(context(memory("buffer")))
    assert "the buffer kept: " in result.findings[0].evidence
    assert result.findings[0].message.endswith("in a sequence of 2 calls")


def test_a_reset_drops_what_is_carried():
    seen = []

    def noted(moment):
        seen.append(moment.count if moment.last is None else (moment.count, tuple(moment.last.shape)))
        return drawn(moment)

    case = dataclasses.replace(memory(), steps={"go": Step(noted), "reset": None})
    assert steps.run(context(case)).outcome == "passed"
    assert set(seen) >= {0, (1, (3,)), (2, (3,))}


def test_a_step_that_cannot_be_made_is_the_cases_fault():
    def wrong(moment):
        raise KeyError("last")  # wrong

    result = steps.run(context(dataclasses.replace(memory(), steps={"go": Step(wrong)})))
    assert (result.outcome, result.findings[0].rule) == ("errored", "EXP002")
    assert result.findings[0].source.endswith("# wrong")
    assert result.findings[0].rewrite.startswith("Let the step return arguments")


def test_steps_that_make_no_call_show_nothing():
    result = steps.run(context(dataclasses.replace(memory(), steps={"go": Step(lambda _: None), "reset": None})))
    assert (result.outcome, result.findings) == ("not_checked", ())
    assert result.reason == "no step made a call: each returned None whenever it was asked for its arguments"


@pytest.mark.slow
def test_what_is_not_asked_for_is_not_shown():
    case = ModelCase(nn.Linear, (torch.ones(2, 3),), name="linear")
    object.__setattr__(case, "model", lambda: nn.Linear(3, 3))
    assert steps.run(context(case)).reason == "not asked for: the case names no steps"

    def child() -> None:  # the check device registers the second device
        with Runner(Options(examples=0, isolation="none")) as runner:
            names = [check.name for check in runner.check_object(case, "t").checks]
            assert not {"steps", "methods", "training"} & set(names)
        with Runner(Options(checks=("steps",), examples=2, isolation="none")) as runner:
            (check,) = runner.check_object(case, "t").checks
            assert (check.name, check.outcome) == ("steps", "not_checked")

    in_fork(child)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 256)

    def encode(self, x):
        return self.linear(x)

    def decode(self, x):
        return self.linear(x).relu()


def test_methods_without_state_pass(tmp_path):
    x = torch.ones(1, 256)
    case = ModelCase(Two, methods={"encode": (x,), "decode": Method((x,))})
    first, second = case.expand()
    result = methods.run(context(first, tmp_path))
    assert (result.outcome, result.findings) == ("passed", ())
    assert result.reason.startswith("2 methods in a file of ")
    assert result.notes[0] == "2 tensors of 257.0 KiB are used by more than one method"
    assert "257.0 KiB of it more than once" in result.notes[1]
    assert methods.run(context(second, tmp_path)).reason == "not asked for: the methods are checked with Two.encode"


class Stages(nn.Module):
    """An encoder and a decoder around one buffer, in which one thing is done otherwise while it is captured."""

    def __init__(self, fault=""):
        super().__init__()
        self.fault = fault
        self.linear = nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(4))
        self.register_buffer("count", torch.zeros(()))

    def now(self, fault):
        return self.fault == fault and torch.compiler.is_exporting()

    def encode(self, x):
        self.cache.copy_(self.linear(x) * (2 if self.now("buffer") else 1))  # written
        return x + 1

    def prefill(self, x, into):
        into[1:] = x[1:] * (3 if self.now("argument") else 2)  # into
        return self.cache + x

    def decode(self, x):
        if self.fault == "second" and not torch.compiler.is_exporting():
            self.cache.mul_(2)
        self.count.add_(1)
        return self.cache.clone() if self.now("memory") else self.cache  # shared


@pytest.mark.parametrize(
    ("fault", "method", "words", "where", "line"),
    [
        ("buffer", "encode", "encode: the buffer cache: 4 of 4 values differ", "mul (aten.mul.Tensor)", "# written"),
        ("argument", "prefill", "encode, prefill: input 1: 3 of 4", "mul (aten.mul.Tensor)", "# into"),
        ("memory", "decode", "output shares its memory with cache in eager, with nothing else", "", "def decode"),
        ("second", "decode", "encode, prefill, decode: output: 4 of 4 values differ", "", "def decode"),
        ("", "", "", "", ""),
    ],
)
def test_methods_are_compared_as_steps_are(tmp_path, fault, method, words, where, line):
    x = torch.linspace(1, 2, 4)
    case = ModelCase(
        lambda: Stages(fault), methods={"encode": (x,), "prefill": (x, x.clone()), "decode": (x,)}, name="stages"
    )
    result = methods.run(context(case.expand()[0], tmp_path))
    (finding,) = result.findings
    if not fault:  # right as long as the programs share their buffers, which those in a file do not
        assert finding.message.startswith("saved in one file, the methods no longer share state: prefill")
        assert "at [3]: " in finding.evidence
        return
    assert finding.message == f"the program of {method} does something else than the method, called after the others"
    assert words in finding.evidence
    assert where in finding.evidence
    assert not where or f"they part in Stages.{method} itself" in finding.evidence
    assert line in finding.source


class Apart(nn.Module):
    """A method with a buffer of its own, which the other leaves alone; both use the linear."""

    def __init__(self, lost=False):
        super().__init__()
        self.linear, self.lost = nn.Linear(4, 4), lost
        self.register_buffer("past", torch.zeros(4))

    def encode(self, x):
        if self.lost and not torch.compiler.is_exporting():
            self.past.add_(1)
        return self.linear(x)

    def decode(self, x):
        self.past.add_(x)
        return self.linear(self.past)


def _apart(tmp_path, *, lost):
    x = torch.linspace(1, 2, 4)
    case = ModelCase(lambda: Apart(lost), methods={"encode": (x,), "decode": (x,)}, name="apart")
    return methods.run(context(case.expand()[0], tmp_path))


def test_a_buffer_that_a_method_leaves_alone_is_not_compared_after_its_calls(tmp_path):
    result = _apart(tmp_path, lost=False)
    assert (result.outcome, result.findings) == ("passed", ())
    assert "2 tensors of 80 bytes are used by more than one method" in result.notes  # the linear's, and not the buffer


def test_a_buffer_that_only_the_eager_method_writes_is_compared(tmp_path):
    (finding,) = _apart(tmp_path, lost=True).findings
    assert finding.message == "the program of encode does something else than the method, called after the others"
    assert "the buffer past: 4 of 4 values differ" in finding.evidence


def test_steps_of_methods_share_what_they_share_in_eager():
    case = ModelCase(
        Stages, methods={"encode": (X4,), "decode": (X4,)}, steps={"decode": Step(lambda _: (X4,), method="decode")}
    )
    result = steps.run(context(case.expand()[0]))
    assert (result.outcome, result.findings) == ("passed", ())


X4 = torch.linspace(1, 2, 4)


def test_a_method_keeps_the_modes_of_the_modules_inside():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5).eval()

        def go(self, x):
            return self.drop(x)

    (case,) = ModelCase(Inside, methods={"go": (torch.ones(8),)}).expand()
    model = context(case).build()
    assert (model.training, model.model.training, model.model.drop.training) == (True, True, False)


def test_a_program_begins_as_the_model_does():
    """Its buffers are the model's, and looking for what the capture left behind calls the model."""

    class Leaves(Memory):
        def forward(self, x):
            self.seen = x * 2  # a tensor without data is left behind
            return super().forward(x)

    ctx = context(ModelCase(Leaves, (torch.ones(3),)))
    assert torch.equal(dict(ctx.program().named_buffers())["kept"], torch.zeros(3))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"steps": {"a": 1}}, "steps['a'] of case 'c' must be a Step, not int"),
        ({"steps": {"a": None}}, "steps of case 'c' holds no Step"),
        ({"steps": {"a": Step(drawn, "go")}}, "steps['a'] of case 'c' calls 'go', which is no method of it"),
        ({"steps": {"a": Step(drawn)}, "methods": {"go": ()}}, "calls 'forward', which is no method of it"),
        ({"steps": 3}, "steps of case 'c' must be a mapping, not int"),
        ({"variants": ("int8",)}, "'int8' is no variant; known: bfloat16, float16, autocast"),
        ({"variants": "bfloat16"}, "variants of case 'c' must be a tuple of names, not str"),
        ({"loss": 1}, "loss of case 'c' must be a function, not int"),
        ({"canonical": 1}, "canonical of case 'c' must be a function, not int"),
    ],
)
def test_mistakes_in_a_case(given, words):
    with pytest.raises((TypeError, ValueError)) as caught:
        ModelCase(Memory, name="c", **given)
    assert words in str(caught.value)


class Counts(nn.Module):
    """What differs between eager and program is planted by asking whether there is a capture."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(64))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        stale = 0.0 if self.calls > 1 and not torch.compiler.is_exporting() else 0.05
        self.cache.copy_(x.sin() + stale)
        return x + 1


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, into):
        self.calls += 1
        into[1:] = into[1:] * (-1.0 if self.calls > 1 and not torch.compiler.is_exporting() else 1.0)
        return x + 1


class Shares(Counts):
    def forward(self, x):
        self.calls += 1
        self.cache.add_(0)
        return self.cache if self.calls > 1 and not torch.compiler.is_exporting() else self.cache.clone()


X = torch.linspace(-3, 3, 64)
LATER = [
    (Counts, (X,), "the buffer cache: 64 of 64 values differ"),
    (Writes, (X, torch.tensor([2e6, 1.0, 1.0, 1.0, 1.0])), "input 1: 4 of 5 values differ"),
    (Shares, (X,), "shares its memory with cache in eager, with nothing else in the program"),
]


@pytest.mark.parametrize(
    ("model", "args", "words", "variants"),
    [(*later, ()) for later in LATER] + [(*later, ("bfloat16",)) for later in LATER if later[0] is not Writes],
)
def test_what_later_calls_leave_behind_is_judged_as_results_are(model, args, words, variants):
    case = ModelCase(model, args, steps={"next": Step(lambda _: args)}, variants=variants).expand()[-1]
    result = steps.run(context(case))
    assert result.outcome == "failed"
    assert words in result.findings[0].evidence
