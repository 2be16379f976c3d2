"""Dtypes that follow the inputs, or decide what is computed: in the program they are constants."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn

from exportlint.checks import twins
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings

THERE = " where exported in bfloat16"
MIXED = "RuntimeError: expected m1 and m2 to have the same dtype, but got: c10::BFloat16 != float"
REFUSED = "RuntimeError: Tensor dtype mismatch! Expected: Float, Got: c10::BFloat16"


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.scale = torch.ones(8) * 2
        self.register_buffer("frequencies", 1.0 / (100 ** (torch.arange(0, 8, 2).float() / 8)))
        self.register_buffer("mean", torch.zeros(8))


class SoftmaxInFloat(Parts):
    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        return torch.softmax(scores, -1, dtype=torch.float32).to(x.dtype) @ self.v(x)  # 0


class RmsNorm(Parts):
    def forward(self, x):
        h = x.to(torch.float32)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.norm.weight * h.to(x.dtype)  # 0


class LayerNormInFloat(Parts):
    def forward(self, x):
        return F.layer_norm(x.float(), (8,), self.norm.weight.float(), self.norm.bias.float()).type_as(x)  # checked


class Rotary(Parts):
    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[1], device=x.device).float(), self.frequencies.float())
        turn = torch.cat([angles, angles], -1).cos().to(x.dtype)  # 0
        return x * turn


class CastsBackToItsWeights(Parts):
    def forward(self, x):
        h = x * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.norm.weight.dtype in (torch.float16, torch.bfloat16):
            h = h.to(self.norm.weight.dtype)  # 0
        return self.q(self.norm.weight * h)


class Mask(Parts):
    def forward(self, x):
        n = x.shape[1]
        low = torch.full((n, n), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device)  # 0
        return torch.softmax(x @ x.transpose(-1, -2) + low.triu(1), -1) @ x


class Attention(Parts):
    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


class FloatOut(Parts):
    def forward(self, x):
        return self.q(x).float()  # checked


class ClampsHalf(Parts):
    def forward(self, x):
        h = self.q(x)
        return h.clamp(-65504, 65504) if h.dtype == torch.float16 else h


class NoAutocast(Parts):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return (x.float() @ x.float().transpose(-1, -2)).to(x.dtype)  # 0


class Factory(Parts):
    def forward(self, x):
        return x @ torch.eye(8, dtype=x.dtype, device=x.device)  # 0


class OutsideTheState(Parts):
    def forward(self, x):
        return self.q(x) * self.scale


class MadeConstant(Parts):
    def forward(self, x):
        return self.q(x) * torch.tensor([1.0, 2, 3, 4, 0.1, 0.2, 0.3, 0.4], dtype=x.dtype)  # 0


class InPlace(Parts):
    def forward(self, x):
        y = self.q(x).clone()
        y[:, 0] = 0
        y[:, 1:].mul_(2)
        return self.k(y.add_(1))


class Epsilon(Parts):
    def forward(self, x):
        return F.layer_norm(x, (8,), eps=1e-6 if x.dtype == torch.float32 else 1e-3)  # 0


class OnlyWidens(Parts):
    def forward(self, x):
        if x.dtype != torch.float32:
            x = x.float()  # 0
        return F.gelu(x).mean(1)


class Router(Parts):
    def forward(self, x):
        weights, chosen = self.q(x).float().softmax(-1).topk(2, -1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)  # 0
        return (F.one_hot(chosen, 8).to(x.dtype) * weights.unsqueeze(-1)).sum(-2) * x  # 1


class RunningMean(Parts):
    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean((0, 1)), alpha=0.1)
        return x - self.mean


class Dropout(Parts):
    def forward(self, x):
        return F.dropout(self.q(x), 0.5, training=True)


FINE = [
    SoftmaxInFloat,
    RmsNorm,
    LayerNormInFloat,
    Rotary,
    CastsBackToItsWeights,
    Mask,
    Attention,
    FloatOut,
    ClampsHalf,
    NoAutocast,
    Factory,
    OutsideTheState,
    MadeConstant,
    InPlace,
    Epsilon,
    OnlyWidens,
    Router,
    RunningMean,
    Dropout,
]


class Chooses(Parts):
    def forward(self, x):
        return x.exp() if x.dtype == torch.float32 else x * 2  # 0


class Clamps(Parts):
    def forward(self, x):
        h = self.q(x)
        if h.dtype != torch.float32:  # 0
            h = h.clamp(-0.1, 0.1)
        return self.k(h)


class ByBits(Parts):
    def forward(self, x):
        fast = torch.finfo(x.dtype).bits < 32
        return F.hardsigmoid(self.q(x)) * 2 if fast else self.q(x).sigmoid()  # 0


class Table(Parts):
    def forward(self, x):
        return self.q(x) * {torch.float32: 1.0, torch.bfloat16: 4.0}[x.dtype]  # 0


class BytesPerElement(Parts):
    def forward(self, x):
        return self.q(x) * x.element_size()  # 0


class OfSubmodule(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Chooses()

    def forward(self, x):
        return self.inner(x)


DECIDED = [Chooses, Clamps, ByBits, Table, BytesPerElement]


class NeedsFloat(nn.Module):
    def forward(self, x):
        return x @ torch.ones(8, 2)  # needs float


def line_of(marker, kind=None):
    """The line that ends in this comment, in the class where one is given."""
    lines = Path(__file__).read_text().splitlines()
    first = next((i for i, line in enumerate(lines) if kind and line.startswith(f"class {kind.__name__}(")), 0)
    last = next((i for i, line in enumerate(lines) if i > first and line.startswith("class ")), 0) if kind else 0
    found = [i + 1 for i in range(first, last or len(lines)) if lines[i].endswith(f"# {marker}")]
    return found[0] if found else None


def check(kind):
    torch.manual_seed(1)
    case = ModelCase(lambda: kind().eval(), args=(torch.randn(2, 6, 8),), name=kind.__name__)
    return twins.run(Context(case, Settings(("twins",)), lambda _: None))


@pytest.mark.parametrize("kind", FINE)
def test_what_follows_the_dtype_is_information_at_its_line(kind):
    result = check(kind)
    assert (result.outcome, result.notes) == ("passed", ()), result
    assert {finding.severity for finding in result.findings} <= {"info"}
    lines = [line_of(str(number), kind) for number in range(2)] + [line_of("checked", kind)]
    assert [finding.line for finding in result.findings] == [line for line in lines if line is not None]


@pytest.mark.parametrize("kind", DECIDED)
def test_a_dtype_that_decides_about_the_numbers_is_a_warning(kind):
    result = check(kind)
    assert [(f.rule, f.severity, f.line) for f in result.findings if f.severity != "info"] == [
        ("EXP207", "warning", line_of("0", kind))
    ], result
    assert result.outcome == "failed"
    assert result.reason.endswith("bfloat16 computes something else here, and the program keeps the choice for float32")
    assert "of which rounding explains 0.00" in result.findings[0].evidence


def test_a_decision_of_a_submodule_is_blamed_there():
    assert [(f.severity, f.line) for f in check(OfSubmodule).findings] == [("warning", line_of("0", Chooses))]


@pytest.mark.parametrize(
    ("kind", "dtypes", "cast"),
    [
        (RmsNorm, f"aten.to.dtype: float32, and bfloat16{THERE}", f"raises {REFUSED}"),
        (Factory, f"aten.eye.default: float32, and bfloat16{THERE}", f"raises {MIXED}"),
        (MadeConstant, f"a constant of float32, and of bfloat16{THERE}", "returns float32 where {} bfloat16"),
        (OnlyWidens, f"no cast, and float32{THERE}", "returns bfloat16 where {} float32"),
        (FloatOut, "", f"raises {REFUSED}"),
    ],
)
def test_the_evidence_says_what_the_cast_program_does(kind, dtypes, cast):
    words = "the program, cast to bfloat16, " + cast.format("the eager model returns")
    assert [finding.evidence for finding in check(kind).findings] == ["; ".join([dtypes, words] if dtypes else [words])]


def test_the_program_is_left_as_it_was():
    torch.manual_seed(1)
    ctx = Context(ModelCase(RunningMean, args=(torch.randn(2, 6, 8),)), Settings(("twins",)), lambda _: None)
    before = {name: value.clone() for name, value in ctx.program().state_dict.items()}
    twins.run(ctx)
    after = ctx.program().state_dict
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) and value.dtype == after[name].dtype for name, value in before.items())


def test_a_model_for_float32_alone_is_a_note():
    result = check(NeedsFloat)
    assert (result.outcome, result.findings) == ("not_checked", ())
    assert result.reason.startswith("the model does not run, or is not captured, in bfloat16: RuntimeError")
    assert result.reason.endswith(f"test_twin_dtype.py:{line_of('needs float')})")


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = {**SMALL, "vocab_size": 64}
HEADS = {"num_key_value_heads": 2, "head_dim": 8}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
SPEECH = {"d_model": 32, **LAYERS, "num_mel_bins": 8, "max_source_positions": 20, "vocab_size": 64, "pad_token_id": 0}
IMAGE = {**SMALL, "image_size": 16, "patch_size": 8}
IDS, SHORT = torch.arange(12).view(2, 6) + 1, torch.arange(8).view(2, 4) + 1
PIXELS = torch.linspace(-1, 1, 2 * 3 * 16 * 16).view(2, 3, 16, 16)
MODELS = {
    "LlamaForCausalLM": ("LlamaConfig", {**TEXT, "num_key_value_heads": 2}, {"input_ids": IDS}),
    "BertForMaskedLM": ("BertConfig", TEXT, {"input_ids": IDS}),
    "GPT2LMHeadModel": ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64}, {"input_ids": IDS}),
    "MixtralForCausalLM": (
        "MixtralConfig", {**TEXT, "num_key_value_heads": 2, "num_local_experts": 4}, {"input_ids": IDS}
    ),
    "GemmaForCausalLM": ("GemmaConfig", {**TEXT, **HEADS}, {"input_ids": IDS}),
    "Qwen3ForCausalLM": ("Qwen3Config", {**TEXT, **HEADS}, {"input_ids": IDS}),
    "MambaForCausalLM": (
        "MambaConfig",
        {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 64, "state_size": 4},
        {"input_ids": IDS},
    ),
    "T5ForConditionalGeneration": (
        "T5Config",
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 64},
        {"input_ids": IDS, "decoder_input_ids": SHORT},
    ),
    "BloomForCausalLM": (
        "BloomConfig", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64}, {"input_ids": IDS}
    ),
    "ViTForImageClassification": ("ViTConfig", IMAGE, {"pixel_values": PIXELS}),
    "CLIPModel": (
        "CLIPConfig",
        {"text_config": {**TEXT, "eos_token_id": 2, "max_position_embeddings": 16}, "vision_config": IMAGE},
        {"input_ids": IDS, "pixel_values": PIXELS},
    ),
    "WhisperForConditionalGeneration": (
        "WhisperConfig",
        {**SPEECH, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "bos_token_id": 1, "eos_token_id": 2},
        {"input_features": torch.linspace(-1, 1, 640).view(2, 8, 40), "decoder_input_ids": SHORT},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_deliberate_islands_of_float32_are_no_alarm(name):
    import transformers

    config, settings, inputs = MODELS[name]

    def build():
        kind = getattr(transformers, name)
        return kind(getattr(transformers, config)(**settings, use_cache=False)).eval()

    case = ModelCase(build, kwargs=inputs, name=name)
    result = twins.run(Context(case, Settings(("twins",)), lambda _: None))
    assert (result.outcome, result.reason, result.notes) == ("passed", "dtype", ()), result
    assert {finding.severity for finding in result.findings} <= {"info"}
