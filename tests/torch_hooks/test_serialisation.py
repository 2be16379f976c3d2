"""Programs that are saved and loaded once more."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn
from torch._export.serde import serialize
from torch.export import Dim

from exportlint.torch_hooks import serialisation


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, *, scale=2):
        self.seen += 1
        halves = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)).chunk(2, -1)
        return {"out": self.layer(x) * scale, "halves": halves, "rows": x.shape[0]}


@pytest.fixture(scope="module")
def program():
    torch.manual_seed(0)
    return torch.export.export(Model(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim("rows")}}, strict=False)


def saved(program) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def test_this_torch_is_known():
    assert serialisation.why_not() is None


def test_the_file_is_the_same_byte_for_byte(program):
    plain = saved(program)
    with serialisation.quick():
        assert saved(program) == plain


def test_the_loaded_program_is_the_same(program):
    data, x = saved(program), torch.randn(5, 4)
    plain = torch.export.load(io.BytesIO(data))
    with serialisation.quick():
        quick = torch.export.load(io.BytesIO(data))
    assert str(quick) == str(plain)
    expected, actual = plain.module()(x), quick.module()(x)
    assert torch.equal(expected["out"], actual["out"])
    assert actual["rows"] == expected["rows"] == 5


def test_no_canonical_form_is_made(program, monkeypatch):
    made = []
    canonicalize = serialize.canonicalize
    monkeypatch.setattr(serialize, "canonicalize", lambda *args: made.append(args) or canonicalize(*args))
    with serialisation.quick():
        saved(program)
    assert made == []
    saved(program)
    assert len(made) == 1


def test_torch_is_as_it_was_after_an_error():
    before = vars(serialize).copy()
    with pytest.raises(RuntimeError, match="file"), serialisation.quick():
        raise RuntimeError("no file")
    assert vars(serialize)["typing"] is before["typing"]
    assert vars(serialize)["canonicalize"] is before["canonicalize"]


def test_a_torch_that_uses_the_canonical_form_is_left_alone(program, monkeypatch):
    def serialize_it(self, exported_program):
        return canonicalize(exported_program)  # noqa: F821 - as torch would

    serialisation.why_not.cache_clear()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(serialize.ExportedProgramSerializer, "serialize", serialize_it)
            before = serialize.canonicalize
            assert "another way" in serialisation.why_not()
            with serialisation.quick():
                assert serialize.canonicalize is before
    finally:
        serialisation.why_not.cache_clear()
