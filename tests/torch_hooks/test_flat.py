"""Programs without the classes of their arguments and results."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import run
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from exportlint.torch_hooks import flat


class Batch(NamedTuple):
    """A class that torch cannot save."""

    a: torch.Tensor
    b: torch.Tensor


class Output:
    """A class that whoever loads the program would have to have."""

    def __init__(self, x, rest):
        self.x, self.rest = x, rest


pytree.register_pytree_node(
    Output, lambda o: ([o.x, o.rest], None), lambda parts, _: Output(*parts), serialized_type_name="test_flat.Output"
)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, batch, *, mask=None, n=3):
        self.seen += 1
        return Output(self.f(batch.a) + batch.b * n, {"a": batch.a, "none": mask, "number": 7})


BATCH = Batch(torch.ones(3, 4), torch.full((3, 4), 2.0))
ROWS = {0: Dim("rows", min=2)}
DYNAMIC = {"batch": Batch(ROWS, ROWS), "mask": None, "n": None}


def exported(dynamic=None):
    torch.manual_seed(0)
    return torch.export.export(Model(), (BATCH,), {"mask": None, "n": 3}, dynamic_shapes=dynamic, strict=False)


LOAD = """
import sys, torch
program, call = torch.export.load(sys.argv[1]), torch.load(sys.argv[2])
result = program.module()(*call["inputs"])
assert [type(leaf) for leaf in result] == [torch.Tensor, torch.Tensor, type(None), int], result
assert torch.equal(result[0], call["expected"])
"""


@pytest.mark.parametrize("dynamic", [None, DYNAMIC])
def test_it_is_saved_loaded_and_run_without_the_classes(tmp_path, dynamic):
    program = exported(dynamic)
    with pytest.raises(NotImplementedError, match="TreeSpec of namedtuple"):
        torch.export.save(program, tmp_path / "structured.pt2")
    torch.export.save(flat.flattened(program), tmp_path / "flat.pt2")
    rows = 3 if dynamic is None else 5
    batch = Batch(torch.ones(rows, 4), torch.ones(rows, 4))
    expected = program.module()(batch, mask=None, n=3)
    call = {"inputs": [*batch, None, 3], "expected": expected.x.detach()}
    torch.save(call, tmp_path / "call.pt")
    command = [sys.executable, "-I", "-c", LOAD, str(tmp_path / "flat.pt2"), str(tmp_path / "call.pt")]
    ended = run(command, capture_output=True, text=True, cwd=Path(tmp_path), check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_program_itself_stays_as_it_was():
    program = exported()
    flat.flattened(program)
    assert isinstance(program.module()(BATCH, mask=None, n=3), Output)
    assert program.call_spec.out_spec.type is Output


def test_a_torch_that_keeps_structures_otherwise(monkeypatch):
    program = exported()
    assert flat.why_not(program) is None
    monkeypatch.setattr(flat.copy, "copy", lambda same: same)
    monkeypatch.setattr(type(program), "module_call_graph", property(lambda _: []))
    why = f"torch {torch.__version__} keeps the structure of arguments in another way than exportlint knows"
    assert flat.why_not(program) == why
    assert flat.flattened(program) is program
