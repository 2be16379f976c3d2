"""The generated tables agree with the installed torch, and the scripts that write them still write them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from exportlint.source.facts import facts

ROOT = Path(__file__).resolve().parents[2]
KNOWN = facts()


def installed() -> str:
    torch = pytest.importorskip("torch")
    return str(torch.__version__).partition("+")[0]


@pytest.mark.parametrize(
    ("name", "returns", "factory"),
    [
        ("torch.arange", "tensor", True),
        ("torch.tensor", "tensor", True),
        ("torch.zeros_like", "tensor", False),
        ("torch.max", "tensor|tensors", False),
        ("torch.topk", "tensors", False),
        ("torch.equal", "bool", False),
        ("torch.nn.functional.relu", "tensor", False),
        ("torch.linalg.norm", "tensor", False),
        ("torch.einsum", "tensor", False),
    ],
)
def test_what_functions_return(name: str, returns: str, factory: bool) -> None:
    operator = KNOWN.functions[name]
    assert (operator.returns, operator.factory) == (returns, factory)


def test_data_dependent_outputs_are_known() -> None:
    assert {"nonzero", "unique", "masked_select", "argwhere", "bincount"} <= KNOWN.data_dependent_size
    assert not {"sort", "topk", "sum", "view", "where_self"} & KNOWN.data_dependent_size
    assert {"item", "equal", "allclose"} <= KNOWN.data_dependent_value


def test_what_keeps_shape_and_what_reduces() -> None:
    assert {"relu", "float", "clone", "sin"} <= KNOWN.keeps_shape
    assert not {"squeeze", "nonzero", "sum", "t"} & KNOWN.keeps_shape
    assert {"sum", "mean", "max", "any", "norm"} <= KNOWN.reductions


def test_module_classes() -> None:
    assert KNOWN.is_module("torch.nn.Linear")
    assert KNOWN.is_module("transformers.PreTrainedModel")
    assert KNOWN.is_module("transformers.modeling_utils.PreTrainedModel")
    assert KNOWN.is_module("lightning.pytorch.LightningModule")
    assert not KNOWN.is_module("transformers.AutoTokenizer")
    assert not KNOWN.is_module("torch.autograd.Function")
    assert "torch.nn.Linear" in KNOWN.modules_with_parameters
    assert "torch.nn.ReLU" not in KNOWN.modules_with_parameters
    assert {"values", "indices", "Vh"} <= KNOWN.result_fields


@pytest.mark.slow
def test_the_operator_table_is_what_the_script_writes(tmp_path: Path) -> None:
    if installed() != KNOWN.torch:
        pytest.skip(f"the table is of torch {KNOWN.torch}, {installed()} is installed")
    output = tmp_path / "operators.json"
    script = ROOT / "benchmarks" / "torch_facts.py"
    subprocess.run([sys.executable, str(script), str(output)], check=True, capture_output=True)
    shipped = json.loads((ROOT / "exportlint" / "torch_facts" / "operators.json").read_text(encoding="utf-8"))
    assert json.loads(output.read_text(encoding="utf-8")) == shipped
