from __future__ import annotations

import contextlib
import io
import json
import os
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


class Touches:
    def __reduce__(self):
        return os.mkdir, ("touched",)


def rewritten(old, new, change):
    """A copy of an archive, in which ``change(name, content)`` gives each member's name and content."""
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(new, "w") as target:
        for info in source.infolist():
            target.writestr(*change(info.filename, source.read(info)))
    return new


def harmful(protocol=2, *, zipped=True):
    import torch

    buffer = io.BytesIO()
    if zipped:
        torch.save(Touches(), buffer, pickle_protocol=protocol)
        return buffer.getvalue()
    return pickle.dumps(Touches(), protocol)


@pytest.mark.parametrize("content", [harmful(), harmful(0, zipped=False), harmful(4, zipped=False)])
@pytest.mark.parametrize("name", ["weight_0", "WEIGHT_0"])
def test_weights_that_a_program_has_pickled_are_named(saved, tmp_path, monkeypatch, content, name):
    import torch

    def change(member, found):
        if member.endswith("weights_config.json"):
            config = json.loads(found)
            entry = next(e for e in config["config"].values() if e["path_name"] == "weight_0")
            entry.update(use_pickle=True, path_name=name)
            found = json.dumps(config)
        return member, content if member.endswith("/weight_0") else found

    path = rewritten(saved / "program.pt2", tmp_path / "hidden.pt2", change)
    system = f"{os.mkdir.__module__}.mkdir"
    found = inspect(path)
    assert [p.imports for p in found.pickles if p.name == f"data/weights/{name}"] == [(system,)]
    assert found.needs == (f"torch.export.load, which imports and calls {system}: only from who you trust",)
    assert [(f.rule, f.evidence) for f in found.findings] == [("EXP701", system)]
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(Exception):  # what was made is no tensor
        torch.export.load(path)
    assert (tmp_path / "touched").is_dir()


@pytest.mark.parametrize("name", ["tensor_7", "custom_obj_0", "opaque_obj_0"])
def test_constants_that_a_program_has_pickled_are_named(saved, tmp_path, name):
    def change(member, found):
        if member.endswith("constants_config.json"):
            entry = {"path_name": name, "use_pickle": name.startswith("tensor"), "is_param": False}
            found = json.dumps({"config": {"k": entry}})
        return member, found

    path = rewritten(saved / "program.pt2", tmp_path / "hidden.pt2", change)
    with pytest.raises(InspectError, match=f"data/constants/{name} is missing"):
        inspect(path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(f"program/data/constants/{name}", harmful())
    assert [f.evidence for f in inspect(path).findings] == [f"{os.mkdir.__module__}.mkdir"]


def test_weights_of_a_class_of_ones_own_are_found_whatever_their_size(tmp_path, monkeypatch):
    import torch
    from torch.testing._internal.two_tensor import TwoTensor

    from exportlint.inspecting import archive

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            plain = torch.ones(300, 300)
            self.weight = torch.nn.Parameter(TwoTensor(plain, plain.clone()), requires_grad=False)

        def forward(self, x):
            return x @ self.weight

    torch.export.save(torch.export.export(Model(), (torch.ones(2, 300),)), tmp_path / "own.pt2")
    monkeypatch.setattr(archive, "MEMBER", 300_000)  # the weights are longer
    found = inspect(tmp_path / "own.pt2")
    name = "torch.testing._internal.two_tensor.TwoTensor"
    assert any(name in pickle.imports for pickle in found.pickles)
    assert any(name in finding.evidence for finding in found.findings)


def test_classes_of_torchscript_in_a_program_need_who_registers_them(tmp_path):
    content = pickle.dumps(1, 2)[:2] + b"c__torch__.torch.classes.lib\nStack\n)\x81."
    program = {"graph_module": {"graph": {"nodes": [], "tensor_values": {}}, "signature": {"input_specs": []}}}
    config = {"config": {"k": {"path_name": "custom_obj_0", "use_pickle": True}}}
    with zipfile.ZipFile(tmp_path / "m.pt2", "w") as file:
        file.writestr("m/models/model.json", json.dumps(program))
        file.writestr("m/data/constants/model_constants_config.json", json.dumps(config))
        file.writestr("m/data/constants/custom_obj_0", content)
    found = inspect(tmp_path / "m.pt2")
    assert found.needs == ("whoever registers the classes lib.Stack with torch.classes",)
    assert not found.findings


def test_each_pickle_of_a_file_without_archive_is_looked_into(saved, tmp_path):
    content = (saved / "legacy.pth").read_bytes()
    first = len(pickle.dumps(0x1950A86A20F9469CFC6C, 2)) + len(pickle.dumps(1001, 2))
    end = content.index(b".", first + 2) + 1  # about the machine
    path = tmp_path / "odd.pth"
    path.write_bytes(content[:first] + harmful(2, zipped=False) + content[end:])
    assert f"{os.mkdir.__module__}.mkdir" in inspect(path).pickles[0].refused


def test_text_beside_a_program_is_no_pickle(saved, tmp_path):
    path = tmp_path / "extra.pt2"
    path.write_bytes((saved / "program.pt2").read_bytes())
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("program/extra/notes.pt", "words")
    assert not inspect(path).findings


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
