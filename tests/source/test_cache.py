"""What is kept between runs: it gives what a run without it gives, and costs no run."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exportlint.source import units
from exportlint.source.cache import Cache, Contents
from exportlint.source.engine import Effort, Options, examine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exportlint.source.engine import Linted

HEAD = "import torch\nfrom torch import nn\n"


def net(body: str, imports: str = "", base: str = "nn.Module") -> str:
    lines = textwrap.indent(textwrap.dedent(body).strip(), "        ")
    return f"{HEAD}{imports}\n\nclass Net({base}):\n    def forward(self, x: torch.Tensor):\n{lines}\n"


BRANCH = "def {name}(x):\n    return x if x > 0 else -x\n"
SIZED, LOUD = (f"from pkg.helper import {name}\n" for name in ("positive", "negative"))
PLAIN = "def positive(x):\n    return x\n\n\ndef negative(x):\n    return -x\n"
CHILD = f"from pkg.base import Net\n\n\nclass Child(Net):\n    def post(self, y):\n{' ' * 8}"
PROJECT = {
    "__init__.py": "",
    "helper.py": f"{BRANCH.format(name='positive')}\n\n{BRANCH.format(name='negative')}",
    "base.py": net("return self.post(x.relu())"),
    "child.py": f"{CHILD}assert y.any()\n{' ' * 8}return y\n",
    "sized.py": net("return positive(x.shape[0]) + x", SIZED),
    "loud.py": net("return negative(x)", LOUD),
    "alone.py": net("assert x.any()\nreturn x"),
}
EDITS: dict[str, dict[str, str | None]] = {
    "nothing": {},
    "the file itself": {"alone.py": net("return x")},
    "a helper": {"helper.py": PLAIN},
    "a base class": {"base.py": net("return self.post(x.shape)")},
    "a method that a base calls": {"child.py": f"{CHILD}return -y\n"},
    "a caller that starts to pass a tensor": {"sized.py": net("return positive(x)", SIZED)},
    "a caller that is new": {"more.py": net("return positive(x.sum())", SIZED)},
    "a caller that is gone": {"loud.py": None},
    "a new file that shadows an import": {"helper/__init__.py": PLAIN},
    "a base class that is gone": {"base.py": None},
    "a file that is no Python any more": {"helper.py": "def positive(x:\n"},
    "no package any more": {"__init__.py": None},
}


def write(folder: Path, files: Mapping[str, str | None]) -> None:
    for name, text in files.items():
        file = folder / name
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def told(linted: Linted) -> tuple[list[object], list[str]]:
    found = [(str(p.path), p.rule.code, p.range, p.message, p.severity, p.rewrite) for p in linted.predictions]
    return found, [f"{u.path} {u.words}" for u in linted.unanalysed]


@pytest.fixture
def pkg(tmp_path: Path) -> Path:
    write(tmp_path / "pkg", PROJECT)
    return tmp_path / "pkg"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the files that were run."""
    names: list[str] = []
    run = units.Analyst.unit

    def noted(self: units.Analyst, path: Path) -> units.Unit:
        names.append(path.name)
        return run(self, path)

    monkeypatch.setattr(units.Analyst, "unit", noted)
    return names


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("named", ["", "helper.py"])
def test_a_warm_run_gives_what_a_cold_one_gives(pkg: Path, edit: dict[str, str | None], named: str) -> None:
    kept = Effort(cache=pkg.parent / "cache")
    before = told(examine([pkg / named], Options(), kept))
    write(pkg, edit)
    cold = told(examine([pkg / named], Options()))
    assert told(examine([pkg / named], Options(), kept)) == cold
    assert told(examine([pkg / named], Options(), kept)) == cold  # and what that run kept
    assert before[0]


def test_each_edit_but_none_changes_what_is_found(pkg: Path, tmp_path: Path) -> None:
    """Else the test above would say little."""
    before = told(examine([pkg], Options()))
    unchanged = []
    for words, edit in EDITS.items():
        write(tmp_path / words / "pkg", PROJECT)
        write(tmp_path / words / "pkg", edit)
        found = told(examine([tmp_path / words / "pkg"], Options()))
        there = [[str(f).replace(str(tmp_path / words), str(tmp_path)) for f in part] for part in found]
        if there == [[str(f) for f in part] for part in before]:
            unchanged.append(words)
    assert unchanged == ["nothing"]


def test_a_caller_that_starts_to_pass_a_tensor_makes_a_finding_in_a_file_that_did_not_change(pkg: Path) -> None:
    kept = Effort(cache=pkg.parent / "cache")
    assert [p.range.line for p in examine([pkg / "helper.py"], Options(), kept).predictions] == [6]
    write(pkg, EDITS["a caller that starts to pass a tensor"])
    found = examine([pkg / "helper.py"], Options(), kept).predictions
    assert [(p.rule.code, p.range.line) for p in found] == [("EXP101", 2), ("EXP101", 6)]


def test_only_what_a_change_may_concern_is_run_again(pkg: Path, ran: list[str]) -> None:
    kept = Effort(cache=pkg.parent / "cache")
    examine([pkg], Options(), kept)
    assert sorted(ran) == sorted(PROJECT)
    ran.clear()
    examine([pkg], Options(), kept)
    assert ran == []
    write(pkg, EDITS["a helper"])
    examine([pkg], Options(), kept)
    assert sorted(ran) == ["helper.py", "loud.py", "sized.py"]
    ran.clear()
    write(pkg, {"alone.py": net("return x + 1")})
    examine([pkg], Options(), kept)
    assert ran == ["alone.py"]


def test_other_options_are_other_findings(pkg: Path, ran: list[str]) -> None:
    write(pkg, {"foreign.py": net("assert x.any()", "import ours\n", "ours.Thing").replace("forward", "run")})
    kept = Effort(cache=pkg.parent / "cache")
    plain, more = Options(), Options(module_bases=frozenset({"ours.Thing"}), modes=("compile",))
    for options in (plain, more, plain):
        assert told(examine([pkg], options, kept)) == told(examine([pkg], options))
    ran.clear()
    judged = dataclasses.replace(plain, modes=("export-strict",))
    found = told(examine([pkg], judged, kept))
    assert ran == []  # modes only judge what was found
    assert found == told(examine([pkg], judged))


BROKEN = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "another byte": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "longer": lambda data: data + b"\x00",
    "of another version": lambda data: bytes(16) + data[16:],
    "text": lambda data: b"not a cache\n" * 100,
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_damaged_cache_is_as_good_as_none(pkg: Path, damage, ran: list[str]) -> None:
    kept = Effort(cache=pkg.parent / "cache")
    found = told(examine([pkg], Options(), kept))
    files = sorted((pkg.parent / "cache" / "lint").iterdir())
    assert len(files) == 2
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    ran.clear()
    assert told(examine([pkg], Options(), kept)) == found
    assert sorted(ran) == sorted(PROJECT)
    ran.clear()
    assert told(examine([pkg], Options(), kept)) == found
    assert ran == []


def test_nothing_is_kept_where_nothing_can_be(pkg: Path) -> None:
    found = told(examine([pkg], Options()))
    for place in (pkg.parent / "a file" / "cache", Path("/proc/self/cache"), Path("/dev/full/cache")):
        (pkg.parent / "a file").touch()
        assert told(examine([pkg], Options(), Effort(cache=place))) == found
    assert (pkg.parent / "a file").read_bytes() == b""


def test_a_write_that_fails_leaves_the_old_table(pkg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(pkg)
    there = {str(pkg / "alone.py"): units.Unit(defines=True)}
    cache.write("table", there)
    kind = dict[str, units.Unit]

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("exportlint.whole_file.write", full)
    cache.write("table", {**there, str(pkg / "base.py"): units.Unit()})
    assert cache.read("table", kind) == there


def test_the_folder_is_ignored_by_git_and_holds_no_trace_of_files_that_are_gone(pkg: Path) -> None:
    kept = Effort(cache=pkg.parent / "cache")
    examine([pkg], Options(), kept)
    assert (pkg.parent / "cache" / ".gitignore").read_text() == "*\n"
    write(pkg, {"alone.py": None, "base.py": net("return x")})
    examine([pkg], Options(), kept)
    tables = sorted((pkg.parent / "cache" / "lint").iterdir())
    assert len(tables) == 2
    for table in tables:
        assert b"base.py" in table.read_bytes()
        assert b"alone.py" not in table.read_bytes()


def test_contents_are_what_they_are_now(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("1", encoding="utf-8")
    first = Contents().digest(str(file))
    assert Contents().digest(str(file)) == first
    assert (Contents().digest(f"?{file}"), Contents().digest(f"?{tmp_path / 'b.py'}")) == ("+", "-")
    times = file.stat().st_mtime_ns
    file.write_text("2", encoding="utf-8")
    os.utime(file, ns=(times, times))
    assert Contents().digest(str(file)) != first
    assert Contents().digest(str(tmp_path)) == ""


BODIES = [
    "return x",
    "assert x.any()\nreturn x",
    "return helper(x)",
    "return helper(x.shape[0]) + x",
    "return x.item()",
]
FILES = ["a.py", "b.py", "c.py", "sub/__init__.py", "sub/d.py"]
HELPER = "{imports}\ndef helper(x):\n    return {value}\n"


@st.composite
def texts(draw: st.DrawFn) -> str | None:
    if draw(st.integers(0, 4)) == 0:
        return None
    origin = draw(st.sampled_from(["a", "b", "sub.d", "sub", "c"]))
    imports = draw(st.sampled_from(["", f"from pkg.{origin} import helper\n", f"from pkg.{origin} import *\n"]))
    if draw(st.booleans()):
        return HELPER.format(imports=imports, value=draw(st.sampled_from(["x", "-x if x > 0 else x", "float(x)"])))
    base = draw(st.sampled_from(["nn.Module", "Other"]))
    further = "" if base == "nn.Module" else f"from pkg.{draw(st.sampled_from(['a', 'b', 'c']))} import Net as Other\n"
    return net(draw(st.sampled_from(BODIES)), imports + further, base)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(edits=st.lists(st.dictionaries(st.sampled_from(FILES), texts(), min_size=1, max_size=3), min_size=2, max_size=4))
def test_after_any_edits_a_warm_run_gives_what_a_cold_one_gives(
    tmp_path_factory: pytest.TempPathFactory, edits: list[dict[str, str | None]]
) -> None:
    folder = tmp_path_factory.mktemp("edits")
    kept = Effort(cache=folder / "cache")
    write(folder / "pkg", {"__init__.py": ""})
    for edit in edits:
        write(folder / "pkg", edit)
        assert told(examine([folder / "pkg"], Options(), kept)) == told(examine([folder / "pkg"], Options()))


def test_two_runs_at_once_share_a_folder(pkg: Path) -> None:
    command = [sys.executable, "-m", "exportlint", "check", str(pkg), "--isolated", "--output-format", "json"]
    command += ["--cache-dir", str(pkg.parent / "cache")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = {run.communicate()[0] for run in runs}
    assert len(outputs) == 1
    assert "EXP101" in outputs.pop()
    assert not list((pkg.parent / "cache").rglob("*.tmp"))


def test_a_name_that_is_no_text_is_linted_and_not_kept(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"m\xff.py")
    try:
        file.write_text(PROJECT["alone.py"], encoding="utf-8")
    except OSError:
        pytest.skip("this file system has no such names")
    kept = Effort(cache=tmp_path / "cache")
    assert told(examine([file], Options(), kept)) == told(examine([file], Options()))
    assert len(examine([file], Options(), kept).predictions) == 1
