"""Files whose author means harm, or that were cut off: one line, bounded memory, and nothing is written or run."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exportlint.inspecting import InspectError, inspect, pickles


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def laughs(levels: int) -> bytes:
    """A pickle of nested tuples, which would take 10 ** levels steps to walk."""
    value: object = "ha"
    for _ in range(levels):
        value = (value,) * 10
    return pickle.dumps(value)


def test_a_pickle_that_would_run_a_command_is_only_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        content = pickle.dumps({"model": Bomb()}, protocol)
        path = archive(tmp_path / f"bomb{protocol}.pt", {"a/data.pkl": content, "a/version": "3"})
        found = inspect(path)
        name = f"{os.system.__module__}.system"
        assert name in found.pickles[0].refused
        assert name in found.needs[0]
    assert not (tmp_path / "exploded").exists()


def test_a_pickle_of_shared_tuples_is_walked_once(tmp_path):
    found = inspect(archive(tmp_path / "laughs.pt", {"a/data.pkl": laughs(40), "a/version": "3"}))
    assert found.kind == "pickle"


def test_a_pickle_that_holds_itself(tmp_path):
    value: list = []
    value.append(value)
    found = inspect(archive(tmp_path / "self.pt", {"a/data.pkl": pickle.dumps(value)}))
    assert not found.tensors


def test_deep_pickles(tmp_path):
    content = b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."
    assert not inspect(archive(tmp_path / "deep.pt", {"a/data.pkl": content})).tensors


def test_what_is_read_is_bounded_whatever_is_declared(tmp_path):
    path = archive(tmp_path / "zeros.pt2", {"a/models/model.json": bytes(80 << 20)}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(InspectError, match="declares 83886080 bytes"):
        inspect(path)
    content = bytearray(path.read_bytes())
    for place in (content.rfind(b"PK\x01\x02") + 24,):  # the declared size, in the list of members
        content[place : place + 4] = struct.pack("<I", 1000)
    (tmp_path / "lies.pt2").write_bytes(content)
    with pytest.raises(InspectError, match=r"model\.json"):
        inspect(tmp_path / "lies.pt2")


def test_a_hundred_thousand_members(tmp_path):
    path = tmp_path / "many.pt"
    with zipfile.ZipFile(path, "w") as file:
        for number in range(70_000):
            file.writestr(f"a/{number}", b"")
    with pytest.raises(InspectError, match="announces 70000 members"):
        inspect(path)


def test_huge_announcements(tmp_path):
    path = archive(tmp_path / "huge.pt", {"a/data.pkl": pickle.dumps(1)})
    content = bytearray(path.read_bytes())
    end = content.rfind(b"PK\x05\x06")
    content[end + 12 : end + 16] = struct.pack("<I", 0xFFFFFFF0)
    path.write_bytes(content)
    with pytest.raises(InspectError, match="too much to read"):
        inspect(path)
    header = struct.pack("<Q", 1 << 62) + b"{"
    (tmp_path / "huge.safetensors").write_bytes(header + bytes(100))
    with pytest.raises(InspectError):
        inspect(tmp_path / "huge.safetensors")


@pytest.mark.parametrize("name", ["../../escape.pkl", "/etc/escape.pkl", "a/../../data.pkl"])
def test_members_that_point_elsewhere_write_nothing(tmp_path, name):
    path = archive(tmp_path / "slip.pt", {"a/data.pkl": pickle.dumps({"k": 1}), name: b"x"})
    with contextlib.suppress(InspectError):
        inspect(path)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["slip.pt"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"PK",
        b"PK\x03\x04" + bytes(40),
        b"\x80",
        b"\x80\x02",
        b"\x80\x02}",
        b"{}",
        bytes(100),
        b"#!/bin/sh\n",
    ],
)
def test_what_is_no_model(tmp_path, content):
    (tmp_path / "file.pt").write_bytes(content)
    with pytest.raises(InspectError):
        inspect(tmp_path / "file.pt")


def program(parameter: bytes, values: bytes = b"{}") -> bytes:
    graph = b'"graph": {"nodes": [], "tensor_values": ' + values + b"}"
    signature = b'"signature": {"input_specs": [{"parameter": ' + parameter + b"}]}"
    return b'{"graph_module": {' + graph + b", " + signature + b"}}"


WEIGHT = b'{"arg": {"name": "w"}, "parameter_name": "w"}'


def test_the_program_that_others_differ_from_is_read(tmp_path):
    found = inspect(archive(tmp_path / "plain.pt2", {"a/models/model.json": program(WEIGHT)}))
    assert [tensor.name for tensor in found.tensors] == ["w"]


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"{",
        b"[" * 200_000,
        b'{"graph_module": 3}',
        b'{"graph_module": {"graph": 1}}',
        program(b"{}"),
        program(WEIGHT, b'{"w": {"sizes": [3]}}'),
        program(WEIGHT, b'{"w": {"sizes": [{"as_int": Infinity}]}}'),
    ],
)
def test_programs_of_another_form(tmp_path, content):
    path = archive(tmp_path / "odd.pt2", {"a/models/model.json": content, "a/archive_format": "pt2"})
    with pytest.raises(InspectError):
        inspect(path)


def test_safetensors_without_end(tmp_path):
    header = b'{"w": {"dtype": "F32", "shape": [Infinity], "data_offsets": [0, 4]}}'
    (tmp_path / "odd.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(InspectError, match="nothing usable about the tensor 'w'"):
        inspect(tmp_path / "odd.safetensors")


@pytest.mark.parametrize("name", ["program.pt2", "state.pth", "legacy.pth", "module.pt", "script.pt"])
def test_files_that_are_cut_off_anywhere(saved, tmp_path, name):
    content = (saved / name).read_bytes()
    for length in range(0, len(content), max(1, len(content) // 40)):
        (tmp_path / name).write_bytes(content[:length])
        with pytest.raises(InspectError):
            inspect(tmp_path / name)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_files_with_wrong_bytes_are_read_or_refused(saved, tmp_path_factory, data):
    name = data.draw(st.sampled_from(["program.pt2", "state.pth", "legacy.pth", "script.pt", "module.pt"]))
    content = bytearray((saved / name).read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "wrong.bin"
    path.write_bytes(content)
    with contextlib.suppress(InspectError):  # anything else fails
        inspect(path)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.binary(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_every_pickle_of_plain_values_is_read(value):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = pickles.read(pickle.dumps(value, protocol))
        names = {str(name) for name in found.imports}
        assert names <= {"_codecs.encode", "__builtin__.bytes", "builtins.bytes"}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_are_a_surprise(content):
    with contextlib.suppress(InspectError):
        pickles.read(b"\x80\x04" + content)


def test_every_opcode_is_known():
    known = {*pickles._ACTIONS, *pickles._CONSTANTS, *pickles._LITERALS, "PROTO", "FRAME", "STOP", "READONLY_BUFFER"}
    assert {opcode.name for opcode in pickletools.opcodes} == known


def test_memory_stays_bounded(tmp_path):
    path = archive(tmp_path / "laughs.pt", {"a/data.pkl": b"\x80\x02" + b"]" * 3_900_000 + b"."})
    code = (
        "import resource, sys; from exportlint.inspecting import inspect, InspectError\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "try:\n    inspect(sys.argv[1])\nexcept InspectError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


def test_streams_end_at_their_bound(monkeypatch):
    from exportlint import inspecting

    monkeypatch.setattr(inspecting, "MEMBER", 100)
    stream = inspecting._Bounded(io.BytesIO(pickle.dumps("x" * 1000)))
    with pytest.raises(InspectError, match="longer than 100 bytes"):
        pickles.read(stream)
