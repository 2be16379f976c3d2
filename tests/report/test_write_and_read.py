from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from readiness_samples import passing, sample

from exportlint.report import FORMATS, read, write


def names(folder):
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("suffix", sorted(FORMATS))
def test_write_makes_one_file_that_others_may_read(tmp_path, suffix):
    path = tmp_path / f"readiness{suffix}"
    path.write_text("older")
    write(sample(), path)
    assert path.read_text(encoding="utf-8") == FORMATS[suffix](sample())
    assert names(tmp_path) == [path.name]
    other = tmp_path / "other"
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode


def test_read_gives_back_what_was_written(tmp_path):
    path = tmp_path / "readiness.JSON"
    write(sample(), path)
    assert read(path) == sample()


@pytest.mark.parametrize("name", ["readiness.txt", "readiness", ".json"])
def test_unknown_suffix_lists_the_known_ones(tmp_path, name):
    with pytest.raises(ValueError, match=r"\.html, \.json, \.md, \.sarif, \.xml$") as info:
        write(sample(), tmp_path / name)
    assert name in str(info.value)
    assert names(tmp_path) == []


def test_failed_write_leaves_nothing_and_spoils_nothing(tmp_path, monkeypatch):
    path = tmp_path / "readiness.json"
    path.write_text("older")

    def refuse(self, target):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        write(sample(), path)
    assert names(tmp_path) == ["readiness.json"]
    assert path.read_text() == "older"


def test_missing_folder_and_folder_in_the_way_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist"):
        write(sample(), tmp_path / "nowhere" / "r.md")
    (tmp_path / "r.html").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write(sample(), tmp_path / "r.html")


def test_link_is_followed(tmp_path):
    (tmp_path / "real.json").write_text("older")
    (tmp_path / "link.json").symlink_to("real.json")
    write(passing(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert read(tmp_path / "real.json") == passing()


VALID = FORMATS[".json"](passing())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a readiness file: an object with schema_version was expected"),
        (b"{}", "not a readiness file: an object with schema_version was expected"),
        (b'{"schema_version": 99}', "schema version 99 is not the one that can be read, 1"),
        (b'{"schema_version": "1"}', "schema version '1' is not the one"),
        (b'{"schema_version": 1}', "missing required field `environment`"),
        (VALID.replace('"capture"', "3", 1).encode(), r"Expected `str`, got `int` - at `\$.environment.checks"),
        (VALID.replace('"outcome": "passed"', '"outcome": "fine"', 1).encode(), r"'fine' - at `\$.cases\[0\].checks"),
    ],
)
def test_read_refuses_with_one_line(tmp_path, content, message):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as info:
        read(path)
    assert str(info.value).startswith(f"{path}: ")
    assert "\n" not in str(info.value)


def test_a_compressed_file_is_read(tmp_path):
    path = tmp_path / "r.json.gz"
    path.write_bytes(gzip.compress(VALID.encode()))
    assert read(path) == passing()


@pytest.mark.parametrize(
    "content",
    [
        VALID.encode(),
        gzip.compress(VALID.encode())[:-20],
        gzip.compress(VALID.encode())[:15] + b"zzzz",
        gzip.compress(b"{"),
    ],
    ids=["not compressed", "cut off", "broken", "no JSON"],  # the bytes hold the time, and workers name tests alike
)
def test_what_is_not_compressed_well_is_refused_with_one_line(tmp_path, content):
    path = tmp_path / "r.json.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"r\.json\.gz: ") as info:
        read(path)
    assert "\n" not in str(info.value)


def test_no_more_is_unpacked_than_memory_holds(tmp_path, monkeypatch):
    monkeypatch.setattr("exportlint.report.MOST_BYTES", 1000)
    path = tmp_path / "r.json.gz"
    path.write_bytes(gzip.compress(VALID.encode() + b" " * 2000))
    with pytest.raises(ValueError, match="holds more than"):
        read(path)


def test_read_takes_fields_of_later_minor_versions(tmp_path):
    path = tmp_path / "later.json"
    path.write_text(VALID.replace('"name": "model"', '"name": "model", "added_later": [1]'), encoding="utf-8")
    assert read(path) == passing()


def test_status_survives(tmp_path):
    for readiness, status in ((passing(), 0), (replace(sample(), errors=()), 1), (sample(), 2)):
        write(readiness, tmp_path / "r.json")
        assert read(tmp_path / "r.json").status == readiness.status == status
