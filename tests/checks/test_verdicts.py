"""Verdicts that are kept: every edit that matters makes them void, and no other does."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import threading
import time
import warnings
from pathlib import Path

import pytest

from exportlint.checks import inductor, verdicts
from exportlint.checks.dependencies import Dependencies
from exportlint.checks.opset import profiles
from exportlint.checks.runner import NamedCase, Options, Runner
from exportlint.checks.verdicts import Verdicts
from exportlint.findings import CheckResult

MODEL = """
import ctypes, importlib.metadata, json, os, pathlib
import torch
import fastops
from layers.base import Base
from layers import helpers

HERE = pathlib.Path(__file__).parent
SIZE = json.loads((HERE / "config.json").read_text())["size"]
OVERRIDE = HERE / "local.json"
ctypes.CDLL(str(HERE / "ops.so"))


class Model(Base):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, SIZE)
        self.linear.load_state_dict(torch.load(HERE / "weights.pt", map_location="cpu"))
        self.scale = helpers.scale(len(os.listdir(HERE / "shards"))) * float(os.environ.get("MODEL_SCALE", "1"))
        self.version = importlib.metadata.version("fastops")
        try:
            self.scale *= json.loads(OVERRIDE.read_text())["scale"]
        except FileNotFoundError:
            pass
        if os.getenv("MODEL_DEBUG"):
            self.scale = 0

    def forward(self, x):
        from layers import late

        return late.finish(self.linear(x)) * self.scale


def build():
    return Model()


def inputs():
    return (torch.ones(2, 3),)
"""

FILES = {
    "model.py": MODEL,
    "config.json": '{"size": 4}',
    "layers/__init__.py": "",
    "layers/base.py": "from torch import nn\n\nclass Base(nn.Module):\n    pass\n",
    "layers/helpers.py": "def scale(number):\n    return 2.0 * number\n",
    "layers/late.py": "def finish(x):\n    return x.relu()\n",
    "layers/unused.py": "VALUE = 1\n",
    "shards/a.txt": "",
    "conftest.py": "",
    "README.md": "# model\n",
    "test_other.py": "def test_nothing(): pass\n",
    "lib/fastops.py": "VALUE = 1\n",
    "lib/fastops-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: fastops\nVersion: 1.0\n",
    "lib/other-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n",
}
CASE = NamedCase("model.py", "model", {}, alone=True)
CHECKS = ("capture", "lint")


def write(root: Path) -> None:
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    a_library = next(Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("_heapq*.so"))
    shutil.copy(a_library, root / "ops.so")
    import torch

    torch.manual_seed(0)
    torch.save(torch.nn.Linear(3, 4).state_dict(), root / "weights.pt")
    past = time.time() - 60
    for file in root.rglob("*"):
        os.utime(file, (past, past))


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A project that was checked once, and the folder of its verdicts."""
    root = tmp_path_factory.mktemp("verdicts")
    write(root / "project")
    with pytest.MonkeyPatch.context() as patch:
        at(patch, root / "project")
        with Runner(Options(checks=CHECKS), Verdicts(root / "kept")) as runner:
            result = runner.check_named(CASE, also=(str(root / "project" / "conftest.py"),))
    assert [(check.name, check.outcome, check.cached) for check in result.checks] == [
        ("capture", "passed", False),
        ("lint", "passed", False),
    ]
    return root


def at(patch: pytest.MonkeyPatch, project: Path) -> None:
    patch.chdir(project)
    patch.syspath_prepend(project / "lib")
    for name in ("MODEL_SCALE", "MODEL_DEBUG"):
        patch.delenv(name, raising=False)


@pytest.fixture
def project(checked, tmp_path, monkeypatch):
    """The project in another place, as a fresh checkout is."""
    shutil.copytree(checked / "project", tmp_path / "project")
    at(monkeypatch, tmp_path / "project")
    return tmp_path / "project"


def kept(checked: Path, options: Options | None = None, conftests: tuple[str, ...] = ("conftest.py",)) -> bool:
    """Whether both verdicts hold; that only one does would be a fault of its own."""
    also = tuple(str(Path(name).absolute()) for name in conftests)
    with Runner(options or Options(checks=CHECKS), Verdicts(checked / "kept")) as runner:
        found = runner.kept(CASE, also=also)
    assert set(found) in (set(), set(CHECKS))
    assert all(result.cached for result in found.values())
    return bool(found)


def text(name: str, content: str):
    return lambda project, patch: (project / name).write_text(content)


def variable(name: str, value: str):
    return lambda project, patch: patch.setenv(name, value)


def append(name: str):
    def edit(project, patch):
        with (project / name).open("ab") as file:
            file.write(b"\0")

    return edit


def replaced(name: str):
    def edit(project, patch):
        (project / "new").write_text((project / name).read_text() + "# by another editor\n")
        (project / "new").replace(project / name)

    return edit


def attribute(name: str, value):
    return lambda project, patch: patch.setattr(verdicts, name, lambda *_: value)


def same_size_and_time(project, patch):
    file = project / "layers" / "helpers.py"
    status = file.stat()
    file.write_text(file.read_text().replace("2.0", "3.0"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def upgraded(project, patch):
    old = project / "lib" / "fastops-1.0.dist-info"
    old.rename(old.with_name("fastops-2.0.dist-info"))
    metadata = old.with_name("fastops-2.0.dist-info") / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.0", "2.0"))


MATTER = {
    "the model": text("model.py", MODEL + "\n# changed\n"),
    "a configuration in JSON": text("config.json", '{"size":  4}'),
    "the base class": text("layers/base.py", FILES["layers/base.py"] + "    x = 1\n"),
    "a helper": text("layers/helpers.py", "def scale(number):\n    return 3.0 * number\n"),
    "a helper of the same size and time": same_size_and_time,
    "a module that forward imports": text("layers/late.py", "def finish(x):\n    return x.tanh()\n"),
    "the package": text("layers/__init__.py", "VALUE = 1\n"),
    "weights": append("weights.pt"),
    "a rebuilt extension": append("ops.so"),
    "a file put in its place": replaced("layers/helpers.py"),
    "a configuration that was not there": text("local.json", '{"scale": 2}'),
    "a configuration that is gone": lambda project, patch: (project / "config.json").unlink(),
    "a module that is gone": lambda project, patch: (project / "layers" / "late.py").unlink(),
    "a file more in a folder that is listed": text("shards/b.txt", ""),
    "a file less there": lambda project, patch: (project / "shards" / "a.txt").unlink(),
    "the conftest": text("conftest.py", "import os\n"),
    "a variable that the model reads": variable("MODEL_SCALE", "2"),
    "a variable that it asked for in vain": variable("MODEL_DEBUG", "1"),
    "a variable of torch": variable("TORCH_LOGS", "+dynamo"),
    "another variable of torch": variable("PYTORCH_JIT", "0"),
    "the CPU's capability": variable("ATEN_CPU_CAPABILITY", "default"),
    "a package's source": text("lib/fastops.py", "VALUE = 2\n"),
    "an upgraded package": upgraded,
    "torch": attribute("torch_build", "another"),
    "exportlint": attribute("own_source", "another"),
    "another machine": attribute("_cpu", "avx512f"),
    "a symbolic link to something else": lambda project, patch: (
        (project / "config.json").unlink(),
        (project / "big.json").write_text('{"size": 8}'),
        (project / "config.json").symlink_to("big.json"),
    ),
}

DO_NOT_MATTER = {
    "nothing, in another checkout": lambda project, patch: None,
    "the README": text("README.md", "# a better model\n"),
    "a test of something else": text("test_other.py", "def test_something(): pass\n"),
    "a module that is not imported": text("layers/unused.py", "VALUE = 2\n"),
    "a new file": text("notes.txt", ""),
    "a new module": text("layers/further.py", ""),
    "the time of a file": lambda project, patch: os.utime(project / "model.py"),
    "the same content again": text("config.json", FILES["config.json"]),
    "a variable that nobody reads": variable("EDITOR", "vi"),
    "the variable that pytest sets": variable("PYTEST_CURRENT_TEST", "another"),
    "another package": text("lib/other-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: other\nVersion: 2.0\n"),
    "compiled files": lambda project, patch: [shutil.rmtree(folder) for folder in project.rglob("__pycache__")],
}


@pytest.mark.parametrize("edit", MATTER.values(), ids=MATTER)
def test_an_edit_that_matters(checked, project, monkeypatch, edit):
    verdicts.surroundings.cache_clear()
    assert kept(checked)
    edit(project, monkeypatch)
    verdicts.surroundings.cache_clear()
    assert not kept(checked)


@pytest.fixture(autouse=True)
def _no_stale_surroundings():
    yield
    verdicts.surroundings.cache_clear()


@pytest.mark.parametrize("edit", DO_NOT_MATTER.values(), ids=DO_NOT_MATTER)
def test_an_edit_that_does_not_matter(checked, project, monkeypatch, edit):
    edit(project, monkeypatch)
    verdicts.surroundings.cache_clear()
    assert kept(checked)


def test_there_are_enough_edits():
    assert len(MATTER) >= 25
    assert len(DO_NOT_MATTER) >= 10


# What a model asks while it is built, and the edit after which its verdict must not hold.
ASKED_ABOUT = {
    "HERE.joinpath('a').exists()": text("a", ""),
    "HERE.joinpath('given-b').is_file()": lambda project, patch: (project / "given-b").unlink(),
    "os.path.isdir(HERE / 'c')": lambda project, patch: (project / "c").mkdir(),
    "(HERE / 'given-d').stat().st_size": text("given-d", "longer"),
    "os.access(HERE / 'given-e', os.X_OK)": lambda project, patch: (project / "given-e").chmod(0o755),
    "os.path.islink(HERE / 'f')": lambda project, patch: (project / "f").symlink_to("given-b"),
    "(os.chdir(HERE), os.path.exists('g'))": text("g", ""),
    "sqlite3.connect(HERE / 'given-h').close()": append("given-h"),
    "torch.jit.load(HERE / 'scripted.pt')": append("scripted.pt"),
    "list(HERE.glob('*.i'))": text("further.i", ""),
}
COPIES = "dict(os.environ)"

ASKING = """
import os, pathlib, socket, sqlite3, subprocess
import torch

HERE = pathlib.Path(__file__).parent


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.found = str({line})

    def forward(self, x):
        return x + 1


def build():
    return Model()


def inputs():
    return (torch.ones(2, 3),)
"""


def asking(project: Path, *lines: str) -> Runner:
    """Check a model that asks; the runner, which may look for what was kept."""
    project.mkdir()
    (project / "model.py").write_text(ASKING.format(line=f"({', '.join(lines)})"))
    for letter in "bdeh":
        (project / f"given-{letter}").write_text("")
    import torch

    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        torch.jit.script(torch.nn.Linear(1, 1)).save(project / "scripted.pt")
    past = time.time() - 60
    for file in project.rglob("*"):
        os.utime(file, (past, past))
    with pytest.MonkeyPatch.context() as patch:
        at(patch, project)
        with Runner(Options(checks=("capture",)), Verdicts(project.parent / "kept")) as runner:
            result = runner.check_named(CASE)
    assert [(check.outcome, check.reason) for check in result.checks] == [("passed", None)]
    return runner


def still_kept(folder: Path) -> bool:
    with Runner(Options(checks=("capture",)), Verdicts(folder)) as runner:
        return bool(runner.kept(CASE))


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    root = tmp_path_factory.mktemp("asked")
    asking(root / "project", *ASKED_ABOUT)
    return root


@pytest.mark.parametrize("edit", ASKED_ABOUT.values(), ids=ASKED_ABOUT)
def test_what_is_asked_about_matters(asked, tmp_path, monkeypatch, edit):
    shutil.copytree(asked / "project", tmp_path / "project")
    at(monkeypatch, tmp_path / "project")
    assert still_kept(asked / "kept")
    edit(tmp_path / "project", monkeypatch)
    assert not still_kept(asked / "kept")


def test_every_variable_matters_where_the_environment_is_copied(tmp_path, monkeypatch):
    asking(tmp_path / "project", COPIES)
    at(monkeypatch, tmp_path / "project")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    assert still_kept(tmp_path / "kept")
    monkeypatch.setenv("SOME_SCALE", "2")
    assert not still_kept(tmp_path / "kept")


UNSEEN = {
    "a process": ("subprocess.run(['true'])", "starts a process"),
    "a command": ("os.system('true')", "starts a process"),
    "a fork": ("os.waitpid(os.fork() or os._exit(0), 0)", "starts a process"),
    "another machine": ("socket.socket(socket.AF_UNIX).connect_ex('nobody')", "connects to another process or machine"),
}


@pytest.mark.parametrize(("line", "how"), UNSEEN.values(), ids=UNSEEN)
def test_verdicts_that_hang_on_what_is_not_seen_are_not_kept_and_it_is_said(tmp_path, monkeypatch, line, how):
    monkeypatch.chdir(tmp_path)
    runner = asking(tmp_path / "project", line)
    assert not any((tmp_path / "kept").rglob("*.json"))
    where = 1 + ASKING.partition("{line}")[0].count("\n")
    assert [note.replace(str(tmp_path / "project") + os.sep, "") for note in runner.notes] == [
        f"verdicts on model.py are not kept: model.py:{where} {how}"
    ]


IN_FORWARD = """
import os
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        scale = float(os.environ.get("SOME_SCALE", "1")) + len(dict(os.environ).get("SOME_SCALE", ""))
        return x * scale if os.path.exists(__file__) else x


def build():
    return Model()


def inputs():
    return (torch.ones(2, 3),)
"""


@pytest.mark.slow
def test_what_is_captured_is_the_same_while_reads_are_recorded(tmp_path, monkeypatch):
    at(monkeypatch, tmp_path)
    (tmp_path / "model.py").write_text(IN_FORWARD)
    checks = ("capture", "compile")

    def outcomes(verdicts: Verdicts | None):
        with Runner(Options(checks=checks), verdicts) as runner:
            return [(check.outcome, check.reason) for check in runner.check_named(CASE).checks]

    assert outcomes(Verdicts(tmp_path / "kept")) == outcomes(None)


@pytest.mark.parametrize(
    "options",
    [
        Options(checks=CHECKS, devices=("meta",)),
        Options(checks=CHECKS, tolerance=(1e-3, 0.0)),
    ],
    ids=["devices", "tolerance"],
)
def test_settings_that_matter(checked, project, options):
    assert not kept(checked, options)


def test_one_conftest_more(checked, project):
    (project / "layers" / "conftest.py").write_text("")
    assert not kept(checked, conftests=("conftest.py", "layers/conftest.py"))


def test_examples_matter_to_shapes_alone():
    kept_for = Verdicts(Path("nowhere"))
    few, many = Runner(Options(examples=1), kept_for), Runner(Options(examples=50), kept_for)
    same = {
        name
        for name in ("capture", "shapes")
        if few._key(CASE, name, kept_for, ()) == many._key(CASE, name, kept_for, ())
    }
    assert same == {"capture"}


def test_what_a_check_may_use_where_it_is_installed_is_part_of_its_key(monkeypatch):
    kept_for = Verdicts(Path("nowhere"))
    runner = Runner(Options(profiles=("onnx", "aoti")), kept_for)
    names = ("capture", "checkpoint", "opset")
    before = {name: runner._key(CASE, name, kept_for, ()) for name in names}
    assert before == {name: runner._key(CASE, name, kept_for, ()) for name in names}
    monkeypatch.setattr(profiles, "version", lambda package: f"99 of {package}")
    assert [runner._key(CASE, name, kept_for, ()) == before[name] for name in names] == [True, False, False]
    plain = Runner(Options(), kept_for)._key(CASE, "opset", kept_for, ())
    assert plain not in (before["opset"], runner._key(CASE, "opset", kept_for, ()))


RESULT = CheckResult(name="capture", outcome="failed", reason="because")


def test_verdicts_for_several_states_are_kept_and_the_oldest_goes(tmp_path):
    file, folder = tmp_path / "model.py", Verdicts(tmp_path / "kept")
    for number in range(verdicts.MOST_VERDICTS + 1):
        file.write_text(f"x = {number}")
        folder.keep("k" * 40, RESULT, Dependencies(files=(str(file),)), time.time() + 60)
    held = []
    for number in range(verdicts.MOST_VERDICTS + 1):
        file.write_text(f"x = {number}")
        held.append(Verdicts(tmp_path / "kept").find("k" * 40) is not None)
    assert held == [False, *[True] * verdicts.MOST_VERDICTS]


@pytest.mark.parametrize("part", ["variables", "packages", "folders"])
def test_verdicts_of_other_surroundings_with_the_same_files_are_kept_side_by_side(tmp_path, monkeypatch, part):
    (tmp_path / "data").mkdir()
    installed = f"{verdicts._installed()}msgspec/__init__.py"
    seen = Dependencies(files=(installed,), folders=(str(tmp_path / "data"),), variables=("MODEL_SCALE",))

    def be(state: int) -> None:
        monkeypatch.setenv("MODEL_SCALE", str(state if part == "variables" else 0))
        monkeypatch.setattr(verdicts, "_version", lambda _: str(state if part == "packages" else 0))
        if part == "folders":
            (tmp_path / "data" / "more").write_text("") if state else (tmp_path / "data" / "more").unlink(
                missing_ok=True
            )

    folder = Verdicts(tmp_path / "kept")
    for state in (0, 1):
        be(state)
        folder.keep("k" * 40, RESULT, seen, time.time() + 60)
        folder.keep("k" * 40, RESULT, seen, time.time() + 60)  # again, which takes no further place
    assert len(folder._read("k" * 40)) == 2
    for state in (0, 1):
        be(state)
        assert folder.find("k" * 40) is not None


def test_a_file_that_changed_while_its_worker_ran_keeps_nothing(tmp_path):
    file, folder = tmp_path / "model.py", Verdicts(tmp_path / "kept")
    file.write_text("")
    folder.keep("k" * 40, RESULT, Dependencies(files=(str(file),)), time.time() - 60)
    assert folder.find("k" * 40) is None


def test_values_of_variables_are_not_written_down(tmp_path, monkeypatch):
    monkeypatch.setenv("MODEL_TOKEN", "very-secret")
    folder = Verdicts(tmp_path)
    folder.keep("k" * 40, RESULT, Dependencies(variables=("MODEL_TOKEN",)), time.time())
    (file,) = tmp_path.rglob("k*.json")
    assert "very-secret" not in file.read_text()
    assert folder.find("k" * 40) == CheckResult(name="capture", outcome="failed", reason="because", cached=True)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'[{"result": {}}]', b"null"])
def test_a_corrupt_file_holds_nothing_and_is_written_anew(tmp_path, content):
    folder = Verdicts(tmp_path)
    folder.keep("k" * 40, RESULT, Dependencies(), time.time())
    (file,) = tmp_path.rglob("k*.json")
    file.write_bytes(content)
    assert folder.find("k" * 40) is None
    folder.keep("k" * 40, RESULT, Dependencies(), time.time())
    assert folder.find("k" * 40) is not None


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "kept").write_text("a file")
    folder = Verdicts(tmp_path / "kept")
    folder.keep("k" * 40, RESULT, Dependencies(), time.time())
    assert folder.trouble is not None
    assert folder.trouble.startswith(f"verdicts are not kept in {tmp_path / 'kept'}: ")
    with folder.only_one("case"):
        assert folder.find("k" * 40) is None


def test_old_verdicts_are_removed(tmp_path):
    Verdicts(tmp_path).keep("a" * 40, RESULT, Dependencies(), time.time())
    (old,) = tmp_path.rglob("a*.json")
    long_ago = time.time() - (verdicts.DAYS_KEPT + 1) * 86400
    os.utime(old, (long_ago, long_ago))
    Verdicts(tmp_path).keep("b" * 40, RESULT, Dependencies(), time.time())
    assert not old.exists()


def test_the_folder_is_left_out_of_version_control_and_backups(tmp_path):
    Verdicts(tmp_path / "kept").keep("a" * 40, RESULT, Dependencies(), time.time())
    assert (tmp_path / "kept" / ".gitignore").read_text() == "*\n"
    assert (tmp_path / "kept" / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_a_case_is_checked_by_one_at_a_time(tmp_path):
    order: list[str] = []

    def second():
        with Verdicts(tmp_path).only_one("case"):
            order.append("second")

    with Verdicts(tmp_path).only_one("case"):
        thread = threading.Thread(target=second)
        thread.start()
        with Verdicts(tmp_path).only_one("another"):
            time.sleep(0.3)
            order.append("first")
    thread.join(timeout=10)
    assert order == ["first", "second"]


CRASHING = """
import os, sys, torch

class Model(torch.nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():
            os.abort()
        return x

def build(): return Model()
def inputs(): return (torch.ones(2),)
"""


SMALL = """
import torch

def build(): return torch.nn.Softmax(-1)
def inputs(): return (torch.ones(2, 4),)
"""


def test_a_crash_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(CRASHING)
    with Runner(Options(checks=("capture",)), Verdicts(tmp_path / "kept")) as runner:
        assert runner.check_named(CASE).checks[0].outcome == "crashed"
        assert runner.kept(CASE) == {}


def test_times_and_what_the_machine_lacks_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(SMALL)
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with Runner(Options(checks=("capture", "aoti", "speed")), Verdicts(tmp_path / "kept")) as runner:
        capture, aoti, speed = runner.check_named(CASE).checks
        assert (capture.outcome, aoti.reason, speed.outcome) == ("passed", inductor.NO_COMPILER, "passed")
        assert set(runner.kept(CASE)) == {"capture"}


def test_what_is_kept_is_json_without_paths_of_this_machine(checked):
    for file in (checked / "kept" / "v1").rglob("*.json"):
        (stored, *_) = json.loads(file.read_text())
        assert {"here:model.py", "here:config.json", "here:layers/base.py", "here:local.json"} <= stored["files"].keys()
        assert stored["files"]["here:local.json"] == "absent"
        assert {"MODEL_SCALE", "MODEL_DEBUG"} <= stored["variables"].keys()
        assert str(checked) not in file.read_text()
        assert sys.prefix not in file.read_text()
