"""Files whose author means harm, or that were cut off: one line, bounded memory, and nothing is written or run."""

from __future__ import annotations

import contextlib
import io
import json
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


PROGRAM = {"graph_module": {"graph": {"nodes": [], "tensor_values": {}}, "signature": {"input_specs": []}}}
MANY = b"\x80\x02(" + b"]" * 3_900_000 + b"l."


def zeros_in_all(path):
    members = {f"a/data/sample_inputs/{n}.pt": pickle.dumps(bytes(60 << 20), 4) for n in range(8)}
    return archive(path, {"a/models/model.json": json.dumps(PROGRAM), **members}, zipfile.ZIP_DEFLATED)


def values_in_all(path):
    values = b'{"a":[' + b"[]," * 20_000_000 + b"[]]}"
    return archive(path, {f"a/models/{name}.json": values for name in "ab"}, zipfile.ZIP_DEFLATED)


def pickles_in_all(path):
    members = {f"a/data/sample_inputs/{n}.pt": MANY for n in range(3)}
    return archive(path, {"a/models/model.json": json.dumps(PROGRAM), **members}, zipfile.ZIP_DEFLATED)


def one_pickle(path):
    return archive(path, {"a/data.pkl": MANY}, zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize("make", [zeros_in_all, values_in_all, pickles_in_all, one_pickle])
def test_memory_stays_bounded_over_all_members(tmp_path, make):
    code = (
        "import resource, sys; from exportlint.inspecting import inspect, InspectError\n"
        "resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20))\n"
        "try:\n    inspect(sys.argv[1])\nexcept InspectError as error:\n    print(error)\n"
    )
    ran = [sys.executable, "-c", code, make(tmp_path / "bomb.pt2")]
    done = subprocess.run(ran, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.startswith("what describes the model ")


def opcodes(*parts: object) -> bytes:
    """A pickle of a mapping, of opcodes as they are."""
    return b"\x80\x02}(" + b"".join(part if isinstance(part, bytes) else text(str(part)) for part in parts) + b"u."


def text(words: str) -> bytes:
    return b"X" + struct.pack("<I", len(words)) + words.encode()


def tensor(shape: bytes = b"(K\x02t", device: bytes | None = None) -> bytes:
    device = text("cpu") if device is None else device
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + device + b"K\x02tQ"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + shape + b"(K\x01t\x89c_\nd\n)RtR"


def shared_tuples() -> bytes:
    """Opcodes of a tuple whose text is 10 ** 12 characters long."""
    levels = [b"0(h" + bytes([n]) + (b"h" + bytes([n])) * 9 + b"tq" + bytes([n + 1]) for n in range(12)]
    return b"(K\x01tq\x00" + b"".join(levels)


HUGE = b"\x8b" + struct.pack("<i", 3000) + b"\x01" * 3000  # an integer of 7224 digits


def test_the_pickle_that_others_differ_from_is_a_state_dict(tmp_path):
    found = inspect(archive(tmp_path / "plain.pt", {"a/data.pkl": opcodes("k", tensor())}))
    assert [(t.name, t.shape, t.device) for t in found.tensors] == [("k", (2,), "cpu")]


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02" + shared_tuples() + b")R.",
        b"\x80\x04" + shared_tuples() + text("a") + b"\x93.",
        opcodes("k", tensor(device=shared_tuples())),
        opcodes("k", tensor(device=HUGE)),
        opcodes(HUGE, tensor()),
    ],
)
def test_objects_whose_text_has_no_end_are_not_told_as_text(tmp_path, content):
    found = inspect(archive(tmp_path / "laughs.pt", {"a/data.pkl": content}))
    assert len(repr(found)) < 2000


def test_sizes_that_no_tensor_has(tmp_path):
    path = archive(tmp_path / "huge.pt", {"a/data.pkl": opcodes("k", tensor(shape=b"(" + HUGE + b"t"))})
    with pytest.raises(InspectError, match="a size that no tensor can have"):
        inspect(path)


@pytest.mark.parametrize("function", ["Add", "Mul"])
def test_expressions_without_end_are_not_resolved(tmp_path, function):
    words = f"{function}(" * 100_000 + "1" + ")" * 100_000
    values = {"w": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": words}}], "device": {"type": "cpu"}}}
    content = program(WEIGHT, json.dumps(values).encode())
    found = inspect(archive(tmp_path / "deep.pt2", {"a/models/model.json": content}))
    assert len(found.tensors[0].shape[0]) < 200


def test_a_long_comment_does_not_hide_how_many_members_there_are(tmp_path):
    count = 400_000
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0)
    members = b"".join(entry + b"%08d" % number for number in range(count))
    head = b"PK\3\4" + bytes(26)
    large = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(members), len(head))
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(head) + len(members), 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 46, 0, 65_535) + b"c" * 65_535
    (tmp_path / "hidden.pt").write_bytes(head + members + large + locator + end)
    with pytest.raises(InspectError, match="announces 400000 members"):
        inspect(tmp_path / "hidden.pt")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_is_damage_however_a_member_is_compressed(tmp_path, compression):
    path = archive(tmp_path / "odd.pt", {"a/data.pkl": pickle.dumps(list(range(300)))}, compression)
    content = path.read_bytes()
    begin = content.index(b"data.pkl") + 8
    for place in range(begin, begin + 24):
        path.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
        with contextlib.suppress(InspectError):  # anything else fails
            inspect(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_torch_does_not_compress_so_is_not_decompressed(tmp_path, compression, monkeypatch):
    path = archive(tmp_path / "other.pt", {"a/data.pkl": pickle.dumps({"k": 1})}, compression)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(InspectError, match="neither writes nor reads"):
        inspect(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["a/data.pkl", "a/DATA.pkl"])
def test_of_members_of_one_name_none_is_taken(tmp_path, name):
    path = archive(tmp_path / "twice.pt", {"a/data.pkl": pickle.dumps({"k": 1})})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, pickle.dumps(Bomb()))
    with pytest.raises(InspectError, match="is there 2 times"):
        inspect(path)


def test_what_no_reader_foresaw_is_malformed(tmp_path, monkeypatch):
    from exportlint import inspecting

    def fail(*_):
        raise ZeroDivisionError("nobody thought of that")

    monkeypatch.setattr(inspecting.checkpoint, "kind_of", fail)
    with pytest.raises(InspectError, match="ZeroDivisionError: nobody thought of that"):
        inspect(archive(tmp_path / "odd.pt", {"a/data.pkl": pickle.dumps(1)}))


def safetensors_file(path, header, room):
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(room))
    return path


def entry(shape, begin, end):
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "room", "words"),
    [
        ({"w": entry([-1, -1], 0, 4)}, 4, "nothing usable"),
        ({"w": entry(["1"], 0, 4)}, 4, "nothing usable"),
        ({"w": entry([1], 0, 4.0)}, 4, "nothing usable"),
        ({"w": entry([True], 0, 4)}, 4, "nothing usable"),
        ({"w": entry([1 << 70, 0], 0, 0)}, 0, "nothing usable"),
        ({"v": entry([1], 0, 4), "w": entry([1], 0, 4)}, 4, "lies over another"),
        ({"v": entry([1], 0, 4), "w": entry([1], 8, 12)}, 12, "does not follow"),
        ({"w": entry([1], 0, 4)}, 8, "belong to no tensor"),
        ({"__metadata__": "x", "w": entry([1], 0, 4)}, 4, "__metadata__"),
        ({"__metadata__": {"n": 3}, "w": entry([1], 0, 4)}, 4, "__metadata__"),
    ],
)
def test_safetensors_that_their_own_reader_refuses(tmp_path, header, room, words):
    safetensors = pytest.importorskip("safetensors")
    path = safetensors_file(tmp_path / "odd.safetensors", header, room)
    with pytest.raises(safetensors.SafetensorError):
        safetensors.safe_open(path, "pt")
    with pytest.raises(InspectError, match=words):
        inspect(path)


def test_safetensors_that_name_a_tensor_twice(tmp_path):
    header = b'{"w": %b, "w": %b}' % ((json.dumps(entry([1], 0, 4)).encode(),) * 2)  # which the format forbids
    with pytest.raises(InspectError, match="comes twice"):
        inspect(safetensors_file(tmp_path / "twice.safetensors", header, 4))


def test_a_program_without_a_name(tmp_path):
    path = archive(tmp_path / "nameless.pt2", {"a/models/.json": json.dumps(PROGRAM), "a/archive_format": "pt2"})
    with pytest.raises(InspectError, match="without a name"):
        inspect(path)


def test_streams_end_at_their_bound():
    from exportlint.inspecting.budget import Budget, Stream

    budget = Budget(bytes=100)
    stream = Stream(io.BytesIO(pickle.dumps("x" * 1000)), budget)
    with pytest.raises(InspectError, match="longer than"):
        pickles.read(stream, "the pickle", budget)
