"""The command `exportlint report` as a user runs it."""

from __future__ import annotations

import json
import os
import re
import resource
from typing import TYPE_CHECKING, Any

import pytest
from commands import ROOT, Ran, exportlint, line_of, places

from exportlint import report
from exportlint.findings import CHECK_KINDS, Environment, Readiness

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = Environment(exportlint="0", python="3", torch=None, platform="p", date="d", isolation="auto")
CHECKS = ("capture", "reload", "device", "shapes")
BROKEN = ROOT / "fixtures" / "captioning_broken"

GOOD = """
import torch

def build():
    return torch.nn.Linear(3, 2)

def inputs():
    return (torch.ones(2, 3),)
"""


def run(folder: Path, *arguments: str | Path, **options: Any) -> Ran:
    """Run the command in a folder and read its JSON report back."""
    file = folder / "r.json"
    ran = exportlint("report", *arguments, "--output", file, cwd=folder, **options)
    return Ran(ran.status, ran.out, ran.err, json.loads(file.read_text()) if file.is_file() else {})


# ---- The planted faults -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> Ran:
    return run(tmp_path_factory.mktemp("broken"), BROKEN)


def test_each_planted_fault_is_found_at_its_line_and_nothing_else(broken):
    expected = {(f["rule"], f["file"], f["line"]) for f in json.loads((BROKEN / "expected.json").read_text())}
    assert len(expected) == 5
    found = {place for case in broken.data["cases"] for check in case["checks"] for place in places(check)}
    assert found == expected
    assert broken.status == 1
    assert broken.err == ""


def test_each_planted_fault_is_found_by_the_check_that_can_see_it(broken):
    failed = {
        (case["name"], c["name"])
        for case in broken.data["cases"]
        for c in case["checks"]
        if c["name"] in CHECKS and places(c)
    }
    assert failed == {
        ("causal_mask", "device"),
        ("cross_attention", "capture"),
        ("first_token", "shapes"),
        ("patch_positions", "device"),
        ("token_positions", "shapes"),
    }


def test_the_terminal_shows_each_planted_fault_with_its_line(broken):
    for fault in json.loads((BROKEN / "expected.json").read_text()):
        place = f"{fault['file']}:{fault['line']}"
        (line,) = [line for line in broken.out.splitlines() if place in line and fault["rule"] in line]
        assert "captioning_broken" in line


def test_targets_and_checks_of_the_report(broken):
    assert [case["target"] for case in broken.data["cases"]] == [
        str(BROKEN / f"{name}.py")
        for name in ("causal_mask", "cross_attention", "first_token", "patch_positions", "token_positions")
    ]
    for case in broken.data["cases"]:
        assert [check["name"] for check in case["checks"]][:4] == list(CHECKS)


@pytest.mark.slow
def test_the_captioner_passes_all_checks_and_transformers_says_nothing(tmp_path):
    ran = run(tmp_path, ROOT / "fixtures" / "captioning")
    outcomes = {(case["name"], c["name"], c["outcome"]) for case in ran.data["cases"] for c in case["checks"]}
    assert outcomes >= {(case, check, "passed") for case in ("encoder", "decoder") for check in CHECKS}
    assert {outcome for _, _, outcome in outcomes} == {"passed"}
    assert ran.status == 0
    assert ran.err == ""
    assert not [place for case in ran.data["cases"] for check in case["checks"] for place in places(check)]
    assert not [line for line in ran.lines if "warn" in line.lower() and "0 warnings" not in line]


# ---- Isolation modes ----------------------------------------------------------------------------------------------


def same_everywhere(folder: Path, *arguments: str | Path) -> set[Any]:
    said = {}
    for mode in ("server", "fork", "none"):
        place = folder / mode
        place.mkdir()
        said[mode] = run(place, *arguments, "--isolation", mode).outcomes()
    assert said["server"] == said["fork"] == said["none"]
    return said["server"]


@pytest.mark.slow
def test_outcomes_are_the_same_in_every_isolation_mode(tmp_path):
    found = same_everywhere(tmp_path, BROKEN, "--checks", "capture,device,shapes", "--examples", "4")
    assert {outcome for _, _, outcome, _ in found} == {"passed", "failed", "not_checked"}


@pytest.mark.slow
def test_a_program_is_loaded_elsewhere_in_every_isolation_mode(tmp_path):
    found = same_everywhere(tmp_path, BROKEN / "patch_positions.py", "--checks", "reload")
    assert found == {("patch_positions", "reload", "passed", ())}


# ---- Targets that cannot be loaded ----------------------------------------------------------------------------------

FILES = {
    "good.py": GOOD,
    "syntax.py": "def build(:\n    pass\n",
    "raises.py": "x = 1\nraise ValueError('no such config\\nand more')\n",
    "exits.py": "import sys\nsys.exit(3)\n",
    "aborts.py": "import os\nos.abort()\n",
    "vanishes.py": "import os\nos._exit(0)\n",
    "interrupts.py": "raise KeyboardInterrupt\n",
    "nothing.py": "x = 1\n",
    "half.py": "def build():\n    pass\n",
    "lacks.py": "import no_such_package\n",
    "wrong.py": "from exportlint import ModelCase\ncase = ModelCase(3)\n",
    "nul.py": "x = 1\0\n",
    "twice.py": (
        "from exportlint import ModelCase\nimport torch\n"
        "a = ModelCase(torch.nn.ReLU, (torch.ones(1),), name='same')\n"
        "b = ModelCase(torch.nn.ReLU, (torch.ones(1),), name='same')\n"
    ),
    "notes.txt": "no Python",
    "empty/readme.md": "no Python either",
}

SAME_NAME = "twice.py has more than one model case named 'same': give each a name of its own"
# What the message of each TARGET must say.
MESSAGES = {
    "syntax.py": "syntax.py cannot be imported: SyntaxError: invalid syntax (syntax.py, line 1)",
    "raises.py": "raises.py cannot be imported: ValueError: no such config (at raises.py:2)",
    "exits.py": "exits.py cannot be imported: SystemExit: 3 (at exits.py:2)",
    "aborts.py": "aborts.py cannot be loaded: its process was killed by SIGABRT",
    "vanishes.py": "vanishes.py cannot be loaded: its process ended with status 0",
    "interrupts.py": "interrupts.py cannot be loaded: its process ended",
    "nothing.py": "nothing.py holds no model case: no ModelCase, no @export_case and no build() with inputs()",
    "half.py": "half.py holds no model case",
    "lacks.py": "lacks.py cannot be imported: ModuleNotFoundError: No module named 'no_such_package' (at lacks.py:1)",
    "wrong.py": "wrong.py cannot be imported: TypeError: model must be an nn.Module or a factory of one, not int",
    "nul.py": "nul.py cannot be imported: SyntaxError: source code string cannot contain null bytes",
    "twice.py": SAME_NAME,
    "twice.py:same": SAME_NAME,
    "notes.txt": "notes.txt is no Python file",
    "empty": "empty holds no model case",
    "missing.py": "missing.py does not exist",
    "no/such/folder": "no/such/folder does not exist",
    "no_such_module": "no_such_module is neither a file, a folder nor a module that can be found",
    "no_such_module:name": "no_such_module:name is neither a file, a folder nor a module that can be found",
    "json": "json holds no model case",
    "good.py:unknown": "good.py holds no model case 'unknown'; it has: good",
    "missing.py:name": "missing.py:name does not exist",
    "": "'' is no target",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture(scope="module")
def unloadable(tmp_path_factory) -> Ran:
    folder = tmp_path_factory.mktemp("unloadable")
    write(folder, FILES)
    return run(folder, *MESSAGES, "good.py", "--checks", "capture")


@pytest.mark.parametrize("target", MESSAGES)
def test_a_target_that_cannot_be_loaded_has_one_clear_line(unloadable, target):
    message = unloadable.errors[target]
    assert message.startswith(MESSAGES[target])
    assert "\n" not in message


def test_what_can_be_loaded_is_still_checked(unloadable):
    assert unloadable.status == 2
    assert unloadable.check("good", "capture")["outcome"] == "passed"
    assert len(unloadable.data["errors"]) == len(MESSAGES)


def test_no_traceback_reaches_the_user(unloadable):
    assert "Traceback" not in unloadable.out + unloadable.err
    assert unloadable.err == ""


# ---- Models that do not run -----------------------------------------------------------------------------------------

MODELS = """
import os
import sys
import torch
from torch import nn
from exportlint import ModelCase, export_case

X = torch.ones(2, 3)


def factory_raises():
    raise ValueError("no weights here")


def factory_of_none():
    return None


def factory_of_text():
    return "a model"


def inputs_raise():
    raise KeyError("batch")


class Raising(nn.Module):
    def forward(self, x):
        return x @ torch.ones(7, 7)


class Aborting(nn.Module):
    def forward(self, x):
        os.abort()


class Leaving(nn.Module):
    def forward(self, x):
        os._exit(0)


class Exiting(nn.Module):
    def forward(self, x):
        sys.exit("enough")


class Reserving(nn.Module):
    def forward(self, x):
        return x + torch.zeros(1 << 44).sum()


class AbortsWhenCaptured(nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():
            os.abort()
        return x + 1


class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


case = [
    ModelCase(factory_raises, (X,)),
    ModelCase(factory_of_none, (X,)),
    ModelCase(factory_of_text, (X,)),
    ModelCase(nn.ReLU, inputs_raise, name="inputs_raise"),
    ModelCase(nn.ReLU, lambda: 7, name="inputs_of_number"),
    ModelCase(nn.ReLU, (X,), lambda: [1], name="kwargs_of_list"),
    ModelCase(nn.ReLU, (X, X), name="too_many_inputs"),
    ModelCase(nn.ReLU, (X,), name="inputs2_raise", inputs2=inputs_raise),
    ModelCase(nn.ReLU, (X,), name="inputs2_too_many", inputs2=(X, X)),
    ModelCase(nn.ReLU, (X,), name="range_of_nothing", value_ranges={"ids": (0, 3)}),
    ModelCase(Raising, (X,)),
    ModelCase(Aborting, (X,)),
    ModelCase(Leaving, (X,)),
    ModelCase(Exiting, (X,)),
    ModelCase(Reserving, (X,)),
    ModelCase(AbortsWhenCaptured, (X,)),
    ModelCase(Branching, (X,), name="fails_as_expected", expected_failures={"capture": "see ticket 7"}),
    ModelCase(nn.ReLU, (X,), name="passes_unexpectedly", expected_failures={"capture": "see ticket 8"}),
    ModelCase(nn.ReLU, (X,), name="fine"),
]
"""

RUNS_NOT = "the model does not run"

# Outcome, words of the reason, rule, and a text of the line.
FAILURES = {
    "factory_raises": ("errored", "the factory fails: ValueError: no weights here", "EXP002", "raise ValueError"),
    "factory_of_none": ("errored", "not an nn.Module: a return is missing", "EXP002", "def factory_of_none"),
    "factory_of_text": ("errored", "returned str, not an nn.Module", "EXP002", "def factory_of_text"),
    "inputs_raise": ("errored", "the example inputs cannot be made: KeyError: 'batch'", "EXP002", "raise KeyError"),
    "inputs_of_number": ("errored", "must be a tuple of positional arguments, not int", "EXP002", "lambda: 7"),
    "kwargs_of_list": ("errored", "must be a mapping, not list", "EXP002", "lambda: [1]"),
    "too_many_inputs": ("errored", "takes 2 positional arguments but 3 were given", "EXP002", None),
    "Raising": ("errored", "the eager call fails: RuntimeError: mat1 and mat2", "EXP002", "x @ torch.ones(7, 7)"),
    "Aborting": ("crashed", "the process was killed by SIGABRT during the eager call", "EXP002", None),
    "Leaving": ("crashed", "the process ended with status 0 during the eager call", "EXP002", None),
    "Exiting": ("crashed", "which ends the process: SystemExit: enough", "EXP002", 'sys.exit("enough")'),
    "Reserving": ("crashed", "the process used up its memory during the eager call", "EXP002", "torch.zeros(1 << 44)"),
    "AbortsWhenCaptured": ("crashed", "the process was killed by SIGABRT during the export", "EXP003", None),
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> tuple[Ran, Path]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "models.py").write_text(MODELS)
    return run(folder, "models.py", "--checks", "capture,shapes", "--examples", "0"), folder / "models.py"


@pytest.mark.parametrize("name", FAILURES)
def test_a_model_that_does_not_run(models, name):
    ran, file = models
    outcome, words, rule, text = FAILURES[name]
    check = ran.check(name, "capture")
    assert check["outcome"] == outcome
    assert words in check["reason"]
    assert "\n" not in check["reason"]
    (finding,) = check["findings"]
    assert (finding["rule"], finding["severity"]) == (rule, "error")
    if text is not None:
        assert (finding["file"], finding["line"]) == ("models.py", line_of(file, text))
    if rule == "EXP002":
        assert ran.check(name, "shapes")["outcome"] == "not_checked"
        assert ran.check(name, "shapes")["reason"] == RUNS_NOT


# Check, beginning of the rewrite, and text of the line; of some only the file is known.
REWRITES = {
    "factory_raises": ("capture", "Make the factory return a module", "raise ValueError"),
    "inputs_raise": ("capture", "Let the case give a tuple of positional arguments", "raise KeyError"),
    "inputs_of_number": ("capture", "Let the case give a tuple of positional arguments", "lambda: 7"),
    "inputs2_raise": ("shapes", "Let inputs2, and each call of more_inputs, be a tuple", "raise KeyError"),
    "inputs2_too_many": ("shapes", "Give the call arguments that the model accepts", None),
    "range_of_nothing": ("shapes", "Name the inputs in value_ranges", None),
}


@pytest.mark.parametrize("name", REWRITES)
def test_a_fault_of_the_case_has_its_rewrite_and_its_file(models, name):
    ran, file = models
    check, rewrite, text = REWRITES[name]
    (finding,) = ran.check(name, check)["findings"]
    assert (finding["rule"], finding["file"]) == ("EXP002", "models.py")
    assert finding["rewrite"].startswith(rewrite)
    assert finding["line"] == (line_of(file, text) if text is not None else None)


@pytest.mark.parametrize(("name", "nth"), [("Aborting", 0), ("AbortsWhenCaptured", 1)])
def test_a_crash_is_placed_at_its_line(models, name, nth):
    ran, file = models
    lines = [i for i, line in enumerate(file.read_text().splitlines(), 1) if "os.abort()" in line]
    (finding,) = ran.check(name, "capture")["findings"]
    assert (finding["file"], finding["line"]) == ("models.py", lines[nth])


def test_a_second_call_that_cannot_be_made_concerns_the_check_that_needs_it(models):
    ran, _ = models
    assert ran.check("inputs2_raise", "capture")["outcome"] == "passed"
    shapes = ran.check("inputs2_raise", "shapes")
    assert (shapes["outcome"], [f["rule"] for f in shapes["findings"]]) == ("errored", ["EXP002"])
    assert shapes["reason"].startswith("the arguments of a further call cannot be made: ")


def test_models_that_run_keep_their_results(models):
    ran, _ = models
    assert ran.status == 1
    assert ran.check("fine", "capture")["outcome"] == "passed"
    assert [case["name"] for case in ran.data["cases"]][-1] == "fine"
    assert ran.data["errors"] == []


def test_no_traceback_of_a_model_reaches_the_user(models):
    ran, _ = models
    assert "Traceback" not in ran.out + ran.err
    assert ran.err == ""


def test_an_expected_failure(models):
    ran, _ = models
    check = ran.check("fails_as_expected", "capture")
    assert (check["outcome"], check["expected"]) == ("failed", "see ticket 7")


def test_an_unexpected_pass(models):
    ran, _ = models
    check = ran.check("passes_unexpectedly", "capture")
    assert (check["outcome"], check["expected"]) == ("failed", None)
    assert check["reason"] == "passes although it is expected to fail (see ticket 8): remove the expectation"


# ---- Options --------------------------------------------------------------------------------------------------------


@pytest.fixture
def good(tmp_path) -> Path:
    (tmp_path / "good.py").write_text(GOOD)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing argument 'TARGET...'"),
        (("good.py", "--checks", "capture,sorcery"), "'sorcery' is no check; known: capture, reload, device, shapes"),
        (("good.py", "--checks", ","), "names no check; known: capture"),
        (("good.py", "--profile", "tf"), "'tf' is no profile; known: executorch, onnx, aoti"),
        (("good.py", "--devices", "cuda:7"), "'cuda:7' is no device; known: second"),
        (("good.py", "--output", "r.pdf"), "r.pdf: the suffix must be one of .html, .json, .md, .sarif, .xml"),
        (("good.py", "--output", "no/folder/r.json"), "no/folder/r.json: there is no folder no/folder"),
        (("good.py", "--output", "folder.json"), "folder.json is a folder"),
        (("good.py", "--output", "/dev/full"), "/dev/full: the suffix must be one of"),
        (("good.py", "--examples", "-1"), "-1 is not in the range"),
        (("good.py", "--timeout", "0"), "0.0 is not in the range"),
        (("good.py", "--case-memory", "nan"), "nan is not in the range"),
        (("good.py", "--case-cpus", "inf"), "inf is not in the range"),
        (("good.py", "--timeout", "nan"), "nan is not in the range"),
        (("good.py", "--timeout", "inf"), "inf is not in the range"),
        (("good.py", "--jobs", "0"), "0 is not in the range"),
        (("good.py", "--isolation", "docker"), "'docker' is not one of"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(good, arguments, words):
    (good / "folder.json").mkdir()
    ran = exportlint("report", *arguments, cwd=good)
    assert ran.status == 2
    assert words in ran.err.replace("'.html', '.json', '.md', '.sarif', '.xml'", ".html, .json, .md, .sarif, .xml")
    assert ran.out == ""
    assert "Traceback" not in ran.err


def test_an_expected_failure_alone_is_clean_and_more_jobs_change_nothing(tmp_path):
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "good.py").write_text(GOOD)
    ran = run(
        tmp_path, "models.py:fails_as_expected", "good.py", "models.py:fine", "--jobs", "2", "--checks", "capture"
    )
    assert ran.status == 0, ran.out
    assert [(case["name"], case["target"]) for case in ran.data["cases"]] == [
        ("fails_as_expected", "models.py:fails_as_expected"),
        ("good", "good.py"),
        ("fine", "models.py:fine"),
    ]


def test_outputs_that_cannot_be_written(good):
    """The others are written, what was there stays, and nothing is left beside it."""
    (good / "r.html").write_text("old")

    def small_files():  # as on a disk that is nearly full; the page is larger
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

    outputs = ("--output", "/proc/r.json", "--output", "r.html", "--output", "r.md")
    little = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }  # caches would be cut short
    ran = exportlint(
        "report", "good.py", "--checks", "capture", *outputs, cwd=good, preexec_fn=small_files, environment=little
    )
    assert ran.status == 2
    assert [line.rpartition(":")[0] for line in ran.err.splitlines()] == [
        "error: /proc/r.json cannot be written",
        "error: r.html cannot be written",
    ]
    assert (good / "r.html").read_text() == "old"
    assert "good" in (good / "r.md").read_text()
    assert {p.name for p in good.iterdir()} - {"__pycache__", ".exportlint_cache"} == {"good.py", "r.html", "r.md"}


def test_an_output_that_is_no_regular_file_is_refused_and_not_replaced(good):
    """A rename would put a report in the place of a device or pipe."""
    os.mkfifo(good / "pipe")
    (good / "r.json").symlink_to("pipe")
    ran = exportlint("report", "good.py", "--checks", "capture", "--output", "r.json", cwd=good)
    assert (good / "pipe").is_fifo()
    assert ran.status == 2
    assert "r.json is no regular file" in ran.err
    with pytest.raises(OSError, match="no regular file"):
        report.write(Readiness(environment=ENVIRONMENT), good / "r.json")
    assert (good / "pipe").is_fifo()


def test_a_module_as_target_and_an_upper_case_suffix(good):
    package = good / "shop"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "models" / "__init__.py").write_text("WIDTH = 3\n")
    (package / "models" / "first.py").write_text(GOOD.replace("Linear(3", "Linear(WIDTH").replace(
        "import torch", "import torch\nfrom . import WIDTH\nfrom shop.models import WIDTH as again", 1))  # fmt: skip
    ran = exportlint(
        "report", "shop.models.first", "shop/models/first.py", "--checks", "capture", "-o", "R.JSON", cwd=good
    )
    assert ran.status == 0, ran.lines
    data = json.loads((good / "R.JSON").read_text())
    assert [(case["name"], case["target"]) for case in data["cases"]] == [
        ("first", "shop.models.first"),
        ("first", "shop/models/first.py"),
    ]


def test_the_report_runs_where_torch_is_not_importable(good):
    """Not a crash but a line, for each target."""
    (good / "elsewhere").mkdir()
    (good / "elsewhere" / "torch.py").write_text("raise ImportError('libtorch is missing')\n")
    ran = run(
        good,
        "good.py",
        "--checks",
        "capture",
        env={"PYTHONPATH": os.pathsep.join([str(good / "elsewhere"), os.environ.get("PYTHONPATH", "")])},
    )
    assert ran.status == 2
    words = "the checks need torch, which cannot be imported: ImportError: libtorch is missing"
    assert ran.errors == {"good.py": words}
    assert "Traceback" not in ran.out + ran.err


def test_the_checks_are_listed_with_what_they_do(tmp_path):
    ran = exportlint("report", "--list-checks", cwd=tmp_path)
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines] == [kind.name for kind in CHECK_KINDS]
    assert all(kind.does in line for kind, line in zip(CHECK_KINDS, lines, strict=True))


@pytest.mark.parametrize(("page", "row"), [("README.md", r"^\| `(\w+)` \|"), ("docs/checks.md", r"^### (\w+)$")])
def test_the_documentation_tells_of_each_check(page, row):
    told = re.findall(row, (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert {kind.name for kind in CHECK_KINDS} <= set(told)
