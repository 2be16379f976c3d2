from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
import zipfile

import pytest

from exportlint.inspecting import InspectError, inspect
from exportlint.inspecting.description import Tensor

FORWARD = "aten::linear"


def test_a_program_tells_inputs_ranges_operators_and_tensors(saved):
    found = inspect(saved / "program.pt2")
    assert found.kind == "program"
    assert found.torch is not None
    (method,) = found.methods
    inputs = {given.name: given.what for given in method.inputs}
    symbol = inputs["x"].split("[")[1].split(",")[0]
    assert inputs["x"] == f"float32 [{symbol}, 4] on cpu"
    assert inputs["other"] == f"float32 [2*{symbol}, 3] on cpu"
    assert inputs["number"].startswith("integer s")
    assert inputs.get("flag", "constant true") == "constant true"
    assert (symbol, 2, 50) in method.ranges
    assert FORWARD in dict(method.operators)
    assert method.devices == ("cpu",)
    assert any(source.endswith("conftest.py") for source in method.sources)
    assert {(t.name, t.role, t.shape) for t in found.tensors} == {
        ("linear.weight", "parameter", (3, 4)),
        ("linear.bias", "parameter", (3,)),
        ("offset", "buffer", (3,)),
        ("constant", "constant", (3,)),
    }
    assert not found.needs
    assert not found.findings


def test_nested_graphs_are_looked_into(tmp_path):
    import torch

    class Branch(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))

    torch.export.save(torch.export.export(Branch(), (torch.ones(2),)), tmp_path / "branch.pt2")
    names = dict(inspect(tmp_path / "branch.pt2").methods[0].operators)
    assert {"aten::sin", "aten::cos", "higher_order::cond"} <= set(names)


def test_operators_and_classes_that_the_loader_must_know_are_findings(tmp_path):
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    def double(x):
        return x * 2

    scale = torch.library.custom_op("inspected::scale", double, mutates_args=(), schema="(Tensor x) -> Tensor")
    scale.register_fake(torch.empty_like)

    class Model(torch.nn.Module):
        def forward(self, x):
            return BaseModelOutput(last_hidden_state=scale(x))

    torch.export.save(torch.export.export(Model(), (torch.ones(2),)), tmp_path / "custom.pt2")
    found = inspect(tmp_path / "custom.pt2")
    assert [(f.rule, f.evidence) for f in found.findings] == [
        ("EXP701", "inspected::scale"),
        ("EXP701", "transformers.modeling_outputs.BaseModelOutput"),
    ]
    code = "import sys, torch; torch.export.load(sys.argv[1])"
    loading = subprocess.run([sys.executable, "-c", code, tmp_path / "custom.pt2"], capture_output=True, check=False)
    assert loading.returncode != 0


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("state.pth", "state-dict", 7),
        ("legacy.pth", "state-dict", 7),
        ("checkpoint.pt", "checkpoint", 8),
        ("module.pt", "module", 7),
        ("numbers.pt", "pickle", 0),
        ("script.pt", "torchscript", 2),
    ],
)
def test_kinds_of_checkpoints(saved, name, kind, count):
    found = inspect(saved / name)
    assert found.kind == kind
    weights = [tensor for tensor in found.tensors if not tensor.name.startswith("0.forward")]  # example inputs
    assert len(weights) == count


@pytest.mark.parametrize("name", ["state.pth", "legacy.pth"])
def test_tensors_are_those_that_torch_loads(saved, name):
    import torch

    loaded = torch.load(saved / name)
    assert {(t.name, t.dtype, t.shape, t.device) for t in inspect(saved / name).tensors} == {
        (key, str(value.dtype).removeprefix("torch."), tuple(value.shape), "cpu") for key, value in loaded.items()
    }


def test_names_of_nested_tensors_lead_to_them(saved):
    found = inspect(saved / "checkpoint.pt").tensors
    assert Tensor(name="half", dtype="bfloat16", shape=(2,), device="cpu") in found
    assert "model.0.weight" in {tensor.name for tensor in found}


def test_what_weights_only_refuses_is_told_before_loading(saved):
    import torch

    for name in ("state.pth", "checkpoint.pt", "legacy.pth"):
        assert not any(p.refused for p in inspect(saved / name).pickles)
        torch.load(saved / name, weights_only=True)
    found = inspect(saved / "module.pt")
    assert "torch.nn.modules.container.Sequential" in found.pickles[0].refused
    assert [f.rule for f in found.findings] == ["EXP701"]
    with pytest.raises(pickle.UnpicklingError):
        torch.load(saved / "module.pt", weights_only=True)


def test_tensors_of_an_accelerator_need_map_location(tmp_path):
    import torch

    torch.save({"w": torch.ones(2)}, tmp_path / "near.pt")
    with zipfile.ZipFile(tmp_path / "near.pt") as old, zipfile.ZipFile(tmp_path / "far.pt", "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith("data.pkl"):
                content = content.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
            new.writestr(info.filename, content)
    found = inspect(tmp_path / "far.pt")
    assert found.tensors[0].device == "cuda:0"
    assert found.needs == ("map_location where there is no cuda",)


def test_the_layout_before_torch_2_8(saved, tmp_path):
    with zipfile.ZipFile(saved / "program.pt2") as new:
        content = new.read("program/models/model.json")
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as old:
        old.writestr("serialized_exported_program.json", content)
        old.writestr("version", "7.3")
    assert FORWARD in dict(inspect(tmp_path / "old.pt2").methods[0].operators)


def test_safetensors_are_read_by_their_header(tmp_path):
    header = {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
        "n": {"dtype": "I64", "shape": [], "data_offsets": [12, 20]},
    }
    encoded = json.dumps(header).encode()
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(20))
    found = inspect(tmp_path / "m.safetensors")
    assert found.kind == "safetensors"
    assert [(t.name, t.dtype, t.shape) for t in found.tensors] == [("w", "bfloat16", (2, 3)), ("n", "int64", ())]
    (tmp_path / "short.safetensors").write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(19))
    with pytest.raises(InspectError, match="'n' does not lie where the header says"):
        inspect(tmp_path / "short.safetensors")


def test_the_table_is_that_of_the_installed_torch(tmp_path):
    import torch

    from exportlint.inspecting import tables

    if tables.table()["torch"] != torch.__version__.partition("+")[0]:
        pytest.skip("the table was made from another torch")
    root = tables.files("exportlint").parent
    script = root / "benchmarks" / "file_facts.py"
    subprocess.run([sys.executable, script, tmp_path / "table.json"], check=True, capture_output=True)
    made = json.loads((tmp_path / "table.json").read_text())
    assert {k: v for k, v in made.items() if k != "namespaces"} == {
        k: v for k, v in tables.table().items() if k != "namespaces"
    }


def test_it_imports_no_torch(saved):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from exportlint.inspecting import inspect\n"
        "for name in sys.argv[1:]: inspect(name)\n"
    )
    files = [str(path) for path in saved.iterdir()]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
