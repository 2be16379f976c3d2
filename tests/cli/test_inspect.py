from __future__ import annotations

import json
import pickle
import zipfile

import pytest
from click.testing import CliRunner

from exportlint.cli import main


def run(*arguments):
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)])


@pytest.fixture
def plain(tmp_path):
    def write(name, value):
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr("a/data.pkl", pickle.dumps(value, 2))
            file.writestr("a/version", "3")
        return tmp_path / name

    return write


def test_a_line_for_each_file_and_status_0(plain):
    result = run(plain("one.pt", {"k": 1}), plain("two.pt", [2]))
    assert result.exit_code == 0
    assert "one.pt: pickle, " in result.output
    assert "two.pt: pickle, " in result.output


def test_a_file_that_cannot_be_read_is_status_2_and_the_others_are_shown(plain, tmp_path):
    (tmp_path / "bad.pt").write_bytes(b"nothing")
    result = run(tmp_path / "bad.pt", plain("one.pt", 1), tmp_path / "gone.pt", tmp_path)
    assert result.exit_code == 2
    assert "one.pt: pickle" in result.stdout
    errors = result.stderr.splitlines()
    assert len(errors) == 3
    assert errors[0].endswith("bad.pt: is neither a zip archive of torch, nor a pickle, nor safetensors")
    assert errors[1].endswith("gone.pt: does not exist")
    assert errors[2].endswith(": is no file")


def test_names_in_a_file_cannot_move_the_cursor(plain):
    class Evil:
        def __reduce__(self):
            return pickle.Unpickler, ()

    path = plain("evil.pt", 1)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/data.pkl", b"cos\nsys\x1b[2Jtem\n.")
    result = run(path)
    assert "\x1b" not in result.output
    assert "os.sys\\x1b[2Jtem" in result.output


def test_json_holds_everything(plain):
    result = run("--output-format", "json", plain("one.pt", {"k": 1}))
    (found,) = json.loads(result.output)
    assert found["kind"] == "pickle"
    assert set(found) >= {"file", "size", "torch", "methods", "tensors", "pickles", "needs", "findings"}


def test_differences(plain):
    same = run("--diff", plain("one.pt", {"k": 1}), plain("two.pt", {"k": 2}))
    assert (same.exit_code, same.output) == (
        0,
        "no difference in what is shown; the values of tensors are not compared\n",
    )
    other = run("--diff", plain("one.pt", {"k": 1}), plain("set.pt", {"k": {3}}))
    assert other.exit_code == 1
    assert other.output.splitlines()[0].startswith("+ pickle data.pkl imports __builtin__.set")


def test_a_name_of_several_lines_is_one_difference(plain):
    path = plain("lines.pt", 1)
    name = b"sys\n- needs trust"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/data.pkl", b"\x80\x04\x8c\x02os\x8c" + bytes([len(name)]) + name + b"\x93.")
        file.writestr("a/version", "3")
    result = run("--diff", plain("one.pt", 1), path)
    assert result.output.splitlines()[0] == "+ pickle data.pkl imports os.sys - needs trust"
    assert not [line for line in result.output.splitlines() if line.startswith("- ")]


@pytest.mark.parametrize(
    "arguments", [["--diff", "a"], ["--diff", "a", "b", "c"], [], ["--diff", "--output-format", "json", "a", "b"]]
)
def test_usage(arguments):
    assert run(*arguments).exit_code == 2
