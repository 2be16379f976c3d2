from __future__ import annotations

import pytest

from exportlint import zoo
from exportlint.zoo import hf

torch = pytest.importorskip("torch")

# One of each kind: text, pairs of texts, images, sounds, images in texts, series, states, two models joined; and models
# whose sizes follow from one another in ways of their own.
KINDS = {
    "gpt2": ["input_ids", "attention_mask"],
    "t5": ["input_ids", "attention_mask", "decoder_input_ids"],
    "vit": ["pixel_values"],
    "wav2vec2": ["input_values"],
    "llava": ["input_ids", "attention_mask", "pixel_values"],
    "decision_transformer": ["states", "actions", "rewards", "returns_to_go", "timesteps", "attention_mask"],
    "encoder-decoder/bert+gpt2": ["input_ids", "attention_mask", "decoder_input_ids"],
    "BertForMaskedLM": ["input_ids", "attention_mask"],
    "cvt": ["pixel_values"],
    "efficientnet": ["pixel_values"],
    "align": ["input_ids", "attention_mask", "pixel_values"],
}


@pytest.mark.parametrize("name", KINDS)
def test_a_model_is_small_and_runs_with_the_example_that_was_inferred(name):
    case = zoo.case(f"hf:{name}")
    model = case.model()
    (args, kwargs) = case.example()
    assert args == ()
    assert list(kwargs) == KINDS[name]
    assert not model.training
    assert sum(p.numel() for p in model.parameters()) < 1_000_000
    with torch.no_grad():
        model(**kwargs)


def test_it_is_the_same_model_with_the_same_example_each_time():
    case = zoo.case("hf:gpt2")
    one, two = case.model().state_dict(), case.model().state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert all(torch.equal(a, b) for a, b in zip(case.example()[1].values(), case.example()[1].values(), strict=True))


def test_a_class_decides_on_the_model():
    assert type(zoo.case("hf:BertForMaskedLM").model()).__name__ == "BertForMaskedLM"


def test_a_model_without_an_example_says_how_far_it_came():
    from exportlint.checks.case import NoExampleError
    from exportlint.zoo.hf_inputs import example

    class Demanding(torch.nn.Module):
        config = hf.small_config("bert")

        def forward(self, input_ids):
            raise ValueError("the moon is not full")

    with pytest.raises(
        NoExampleError, match=r"for Demanding: ValueError: the moon is not full\. Write a ModelCase with kwargs"
    ):
        example(Demanding())
