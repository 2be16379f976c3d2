"""Reads of the environment and questions about files are heard, and what they stand in for works as before."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from exportlint.checks import watched
from exportlint.checks.watched import ASKED, EVERYTHING, Callers

QUESTIONS = (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks)


@pytest.fixture
def heard(monkeypatch, tmp_path):
    """What code that is not torch's asks, as long as the test runs."""
    notes: list = []
    kind, sets = type(os.environ), [set(known) for known in QUESTIONS]
    for name in ASKED:
        monkeypatch.setattr(os, name, getattr(os, name))
    callers = Callers((watched.__file__, str(Path(pytest.__file__).parents[1])))
    watched.watch_environment(notes.append, callers)
    watched.watch_questions(lambda path: notes.append(path if isinstance(path, int) else os.fspath(path)), callers)
    yield notes
    os.environ.__class__ = kind
    os.environb.__class__ = kind
    for known, before in zip(QUESTIONS, sets, strict=True):
        known.clear()
        known.update(before)


READS = {
    "get": (lambda: os.environ.get("SOME_SCALE"), "SOME_SCALE"),
    "getenv": (lambda: os.getenv("SOME_SCALE", "1"), "SOME_SCALE"),
    "in": (lambda: "SOME_SCALE" in os.environ, "SOME_SCALE"),
    "an item": (lambda: os.environ.setdefault("HOME", ""), "HOME"),
    "bytes": (lambda: os.environb.get(b"SOME_SCALE"), "SOME_SCALE"),
    "getenvb": (lambda: os.getenvb(b"SOME_SCALE"), "SOME_SCALE"),
    "copy": (os.environ.copy, EVERYTHING),
    "dict": (lambda: dict(os.environ), EVERYTHING),
    "keys": (lambda: list(os.environ.keys()), EVERYTHING),
    "items": (lambda: sorted(os.environ.items()), EVERYTHING),
    "values": (lambda: list(os.environ.values()), EVERYTHING),
    "a loop": (lambda: [name for name in os.environ if name.startswith("SOME")], EVERYTHING),
    "unpacking": (lambda: {**os.environ}, EVERYTHING),
    "expandvars": (lambda: os.path.expandvars("$SOME_SCALE"), "SOME_SCALE"),
}


@pytest.mark.parametrize(("read", "name"), READS.values(), ids=READS)
def test_reads_of_the_environment(heard, read, name):
    read()
    assert name in heard


def test_that_there_is_an_environment_names_no_variable(heard):
    assert os.environ
    assert len(os.environ) > 0
    assert EVERYTHING not in heard


ABOUT = {
    "exists": lambda path: path.exists(),
    "os.path.exists": os.path.exists,
    "is_file": lambda path: path.is_file(),
    "is_dir": lambda path: path.is_dir(),
    "getsize": os.path.getsize,
    "access": lambda path: os.access(path, os.R_OK),
    "islink": os.path.islink,
    "which": lambda path: shutil.which("given", path=path.parent),
}


@pytest.mark.parametrize("ask", ABOUT.values(), ids=ABOUT)
def test_questions_about_a_file(heard, tmp_path, ask):
    (tmp_path / "given").write_text("")
    ask(tmp_path / "given")
    assert str(tmp_path / "given") in heard


def test_folders_above_a_path_that_is_resolved_are_not_asked_about(heard, tmp_path):
    given = tmp_path / "given"
    given.resolve()
    os.path.realpath(given)
    assert {Path(path) for path in heard} <= {given}


def test_the_answers_are_what_they_were(heard, tmp_path):
    file = tmp_path / "given"
    file.write_text("four")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert os.stat("given", dir_fd=folder).st_size == 4
        assert os.stat(folder).st_size > 0  # noqa: PTH116
    finally:
        os.close(folder)
    assert heard == [folder]
    with pytest.raises(FileNotFoundError):
        os.stat(tmp_path / "none")  # noqa: PTH116
    assert os.stat in os.supports_follow_symlinks
    assert os.stat in os.supports_dir_fd
    assert Path(shutil.copytree(tmp_path, tmp_path / "copy")).joinpath("given").read_text() == "four"
    shutil.rmtree(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_torch_is_between_and_its_compilers_are_not():
    import torch

    folder = os.path.dirname(torch.__file__)  # noqa: PTH120
    callers = Callers((folder + os.sep,))

    class Frame:
        def __init__(self, file, back=None):
            self.f_code = type("Code", (), {"co_filename": os.path.join(*file)})()  # noqa: PTH118
            self.f_back = back

    user = Frame(("/project", "model.py"))
    loading, compiling = Frame((folder, "jit", "_serialization.py"), user), Frame((folder, "_inductor", "x.py"), user)
    assert callers.asking(loading) is None
    assert callers.asking(loading, through_torch=True) is user
    assert callers.asking(compiling, through_torch=True) is None
    assert callers.asking(Frame((os.__file__,), user)) is user
    assert callers.asking(Frame(("<frozen importlib._bootstrap>",), user)) is None
