"""Inputs of models for which nobody wrote an example call."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from exportlint.checks import inference, jobs
from exportlint.checks.case import ModelCase, NoExampleError
from exportlint.checks.context import Settings
from exportlint.checks.runner import Options, Runner


class Says(nn.Module):
    example_input_array = torch.ones(3, 5)

    def forward(self, x):
        return x * 2


class SaysByMethod(nn.Module):
    def example_inputs(self):
        return {"x": torch.ones(4), "scale": 2.0}

    def forward(self, x, scale):
        return x * scale


class Image(nn.Module):
    """Its head wants images of 64 x 64, which is not what is tried first."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.head = nn.Linear(4 * 64 * 64, 2)

    def forward(self, pixels):
        return self.head(self.conv(pixels).flatten(1))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, ids, attention_mask, scale: float, *, double: bool):
        return self.table(ids) * attention_mask[..., None] * scale * (2 if double else 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 4, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]


class Numbers(nn.Module):
    def forward(self, count: int):
        return torch.ones(count)


class Unknown(nn.Module):
    def forward(self, graph):
        return graph.nodes


class Tricky(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x["features"])


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (Says, "inputs inferred from example_input_array and tried out: (3, 5); and once more with 4 rows"),
        (
            SaysByMethod,
            "inputs inferred from example_inputs and tried out: x=(4,), scale=2.0; and once more with 5 rows",
        ),
        (
            Image,
            "inputs inferred from the first layer, Conv2d and tried out: (2, 3, 64, 64); and once more with 3 rows",
        ),
        (
            Tokens,
            "inputs inferred from the first layer, Embedding and the annotations and tried out: "  # noqa: ISC004
            "(2, 8), (2, 8), 1.0, double=False; and once more with 3 rows of length 9",
        ),
        (Recurrent, "inputs inferred from the first layer, GRU and tried out: (2, 8, 6); and once more with 3 rows"),
        (
            Numbers,
            "inputs inferred from the annotations and tried out: 1; no other size is checked: no tensor to make larger",
        ),
    ],
)
def test_inputs_are_found_and_said(factory, words):
    case = inference.case_of(factory, "model")
    assert case.about() == words
    args, kwargs = case.example()
    factory()(*args, **kwargs)


def test_tokens_lie_in_the_vocabulary():
    (ids, *_), _ = inference.case_of(Tokens, "model").example()
    assert ids.dtype == torch.long
    assert ids.max() < 5


def test_a_config_of_transformers_says_what_is_needed():
    transformers = pytest.importorskip("transformers")

    def small():
        config = transformers.BertConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        )
        return transformers.BertModel(config).eval()

    case = inference.case_of(small, "bert")
    assert case.about().startswith("inputs inferred from the config and tried out: input_ids=(2, 8)")


def test_what_was_tried_in_vain_is_said():
    with pytest.raises(NoExampleError, match=r"no layer says a size\. Write a ModelCase with args"):
        inference.case_of(Unknown, "model").example()
    with pytest.raises(NoExampleError, match=r"tried: the first layer, Linear \(\w+Error\)"):
        inference.case_of(Tricky, "model").example()


@pytest.mark.parametrize("checks", [("capture", "shapes", "device"), ("device",)])
def test_a_factory_without_an_example_is_an_error_of_the_first_check_and_no_finding(checks):
    with Runner(Options(checks=checks)) as runner:
        result = runner.check_object(inference.case_of(Unknown, "model"), "t")
    first, *others = result.checks
    reason = "no example inputs could be inferred; tried: forward's parameters say nothing, and no layer says a size. "
    assert (first.outcome, first.reason, first.findings) == ("errored", reason + "Write a ModelCase with args", ())
    assert [(check.outcome, check.reason) for check in others] == [("not_checked", "the model does not run")] * len(
        others
    )


RETURNED = "the factory fails: TypeError: the factory of case 'm' returned"


def no_weights():
    raise OSError("no weights here")


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (lambda: torch.nn.ReLU, f"{RETURNED} the class ReLU, not an nn.Module: let it return ReLU()"),
        (lambda: None, f"{RETURNED} None, not an nn.Module: a return is missing"),
        (os.getcwd, f"{RETURNED} str, not an nn.Module"),
        (no_weights, "the factory fails: OSError: no weights here"),
    ],
)
def test_a_factory_that_makes_no_model_is_what_fails(factory, reason):
    with Runner(Options(checks=("capture", "shapes"))) as runner:
        result = runner.check_object(inference.case_of(factory, "m"), "t")
    capture, shapes = result.checks
    assert (capture.outcome, capture.reason) == ("errored", reason)
    assert (shapes.outcome, shapes.reason) == ("not_checked", "the model does not run")


def test_the_first_check_says_what_was_inferred_and_of_other_cases_how_they_were_made():
    written = ModelCase(Says, (torch.ones(3, 5),), about=lambda: "no inputs inferred")
    for case, inferred in ((inference.case_of(Says, "says"), True), (written, False)):
        sent = []
        jobs.check(sent.append, case, Settings(("capture", "twins")))
        first, second = (message["result"] for message in sent if "result" in message)
        assert first["notes"][-1] == case.about()
        assert first["inferred"] == (case.about() if inferred else None)
        assert second["inferred"] is None
