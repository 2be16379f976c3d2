"""Devices other than the second one: without numbers, real ones as far as they are there."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import torch
import torch._dynamo  # here, so that not each forked child has to
from device_kinds import load, model
from forking import in_fork
from torch._subclasses import fake_tensor
from torch.export.passes import move_to_device_pass

from exportlint.checks import loader
from exportlint.checks.context import Context, Settings, call
from exportlint.checks.device import check as device
from exportlint.checks.device import elsewhere as device_elsewhere
from exportlint.checks.device import programs as device_programs
from exportlint.checks.device import saved as device_saved
from exportlint.checks.device import twin as device_twin
from exportlint.checks.device.places import WITHOUT_NUMBERS, Elsewhere
from exportlint.checks.device.programs import unmovable
from exportlint.checks.device.report import Report
from exportlint.devices import posing, second_device

FOLLOWS = model("return self.f(x) + torch.ones(4, device=x.device)", "self.f = nn.Linear(4, 4)")
MISSING = model("m = torch.ones(4)\nreturn self.f(x) + m", "self.f = nn.Linear(4, 4)")
READS = model("return x * x.sum().item()")
COUNTS = "self.register_buffer('n', torch.zeros(4))"


def alarms(result):
    return [finding for finding in result["findings"] if finding[1] != "info"]


def check(case, *devices):
    result = device.run(Context(case, Settings(("device",), devices=devices), lambda _: None))
    findings = [(f.rule, f.severity, f.file.rpartition("/")[2], f.line, f.message) for f in result.findings]
    return {"outcome": result.outcome, "reason": result.reason, "findings": findings, "notes": list(result.notes)}


@pytest.mark.parametrize("name", ["meta"])
def test_a_device_without_numbers(tmp_path, name):
    good = in_fork(lambda: check(load(FOLLOWS, tmp_path, "follows"), name))
    assert (good["outcome"], alarms(good), good["notes"]) == ("passed", [], [])
    bad = in_fork(lambda: check(load(MISSING, tmp_path, "missing"), name))
    assert [(rule, severity, line) for rule, severity, _, line, _ in alarms(bad)] == [("EXP202", "warning", 8)]


def test_what_meta_cannot_run_is_not_checked(tmp_path):
    result = in_fork(lambda: check(load(READS, tmp_path, "reads"), "meta"))
    assert (result["outcome"], alarms(result)) == ("not_checked", [])
    assert result["reason"].startswith(
        "meta cannot run the model: RuntimeError: Tensor.item() cannot be called on meta"
    )


def test_fake_cuda(report, source):
    """In processes of exportlint's own: where there is cuda, a fork of one that has asked for it cannot start it."""
    head = "import torch\nfrom torch import nn\n\n"
    tail = "\n\ndef build():\n    return M()\n\n\ndef inputs():\n    return (torch.ones(2, 4),)\n"
    bad, good = (source(head + text + tail, name) for text, name in ((MISSING, "missing.py"), (FOLLOWS, "follows.py")))
    ran = report(bad, good, "--checks", "device", "--devices", "fake-cuda")
    found, clean = (case["checks"][0] for case in ran.data["cases"])
    assert [(f["rule"], f["line"]) for f in found["findings"] if f["severity"] != "info"] == [("EXP202", 9)]
    assert (clean["outcome"], [f for f in clean["findings"] if f["severity"] != "info"]) == ("passed", [])


def test_where_the_device_cannot_be_started_it_is_not_checked(tmp_path):
    words = "Cannot re-initialize CUDA in forked subprocess."

    def run():
        def refuse(_):
            raise RuntimeError(words)

        fake_tensor.init_gpu_context = refuse
        return check(load(FOLLOWS, tmp_path, "follows"), "fake-cuda")

    result = in_fork(run)
    assert (result["outcome"], alarms(result)) == ("not_checked", [])
    assert result["reason"] == f"fake-cuda: the model and its inputs cannot be moved there: RuntimeError: {words}"


def test_a_device_that_is_not_there_is_not_checked(tmp_path):
    def run():
        return check(load(FOLLOWS, tmp_path, "follows"), "second", "npu", "npu")

    result = in_fork(run)
    assert (result["outcome"], alarms(result)) == ("not_checked", [])
    words = "npu: this machine, or this build of torch, has no such device"
    assert result["reason"] == f"second: passed; not checked: {words}"
    assert result["notes"] == [words]


SECOND = Elsewhere("second", "second", numbers=True)


def run_on(context, report, where):
    """What the check does on a real device: the eager model, then its programs."""
    device_elsewhere.present = lambda _: True
    expected = device_elsewhere.run_elsewhere(context, report, where)
    if expected is not None and not report.stuck():
        eager = device_twin.tensors(call(context.build(), context.example()))
        device_programs.run_programs(context, report, where, expected, eager)


def there(case, prepare=lambda: None):
    """What the steps for a real device say, on the second device, which has numbers and refuses to mix devices."""

    def run():
        second_device()
        prepare()
        report = Report()
        context = Context(case, Settings(("device",), workdir=str(Path(sys.modules[case.name].__file__).parent)), print)
        run_on(context, report, SECOND)
        findings = [(f.rule, f.severity, f.line, f.message, f.evidence) for f in report.findings.values()]
        return findings, report.notes, report.unchecked, [program["how"] for program in report.saved]

    return in_fork(run)


BOTH = ["exported on second", "moved to second"]


@pytest.mark.parametrize("text", [FOLLOWS, model("self.n += 1\nreturn x * self.n", COUNTS)])
def test_a_good_model_runs_there_and_is_kept_for_another_process(tmp_path, text):
    assert there(load(text, tmp_path, "good")) == [[], [], None, BOTH]


def test_a_tensor_that_stays_behind_is_a_finding(tmp_path):
    findings, *_, saved = there(load(MISSING, tmp_path, "missing"))
    assert [finding[:3] for finding in findings] == [["EXP202", "warning", 8]]
    assert saved == []


def test_one_tensor_passed_twice_stays_one_tensor(tmp_path):
    text = "class M(nn.Module):\n    def forward(self, q, k):\n        return q if q is k else q + k\n"
    case = load(text, tmp_path, "identity")
    x = torch.ones(2, 4)
    assert there(dataclasses.replace(case, args=lambda: (x, x))) == [[], [], None, BOTH]


REFUSES = "if x.device.type != 'cpu':\n    raise {}\nreturn x"


def test_a_line_that_raises_there_only_is_a_finding(tmp_path):
    case = load(model(REFUSES.format("ValueError('lengths should be on the CPU')")), tmp_path, "refuses")
    findings, notes, unchecked, _ = there(case)
    message = "the model runs on the CPU, and this line raises on second"
    assert findings == [["EXP002", "warning", 9, message, "ValueError: lengths should be on the CPU"]]
    assert (notes, unchecked) == ([], None)


def test_numpy_is_a_finding(tmp_path):
    findings, *_ = there(load(model("return x + x.numpy().sum()"), tmp_path, "to_numpy"))
    assert [finding[:3] for finding in findings] == [["EXP401", "warning", 8]]


@pytest.mark.parametrize(
    "error",
    [
        "NotImplementedError('no kernel for this device')",
        "RuntimeError('CUDA error: device-side assert triggered')",
        "RuntimeError('a && b INTERNAL ASSERT FAILED at engine.cpp:1')",
        "ImportError('needs triton')",
    ],
)
def test_what_the_device_or_torch_lacks_is_not_checked(tmp_path, error):
    findings, notes, unchecked, _ = there(load(model(REFUSES.format(error)), tmp_path, "lacks"))
    assert (findings, notes) == ([], [])
    assert unchecked.startswith("second cannot run the model: ")


def test_a_model_that_raises_at_its_second_call_is_not_blamed(tmp_path):
    text = "CALLS = []\n" + model("CALLS.append(1)\nif len(CALLS) < 2:\n    raise ValueError('early')\nreturn x")
    findings, _, unchecked, _ = there(load(text, tmp_path, "early"))
    assert (findings, unchecked) == ([], "second cannot run the model: ValueError: early")


@pytest.mark.parametrize(
    "text",
    [
        "import time\n" + model("return x * (time.perf_counter_ns() % 1000003)"),
        "CALLS = []\n" + model("CALLS.append(1)\nreturn x * len(CALLS)"),
    ],
)
def test_what_differs_from_call_to_call_is_not_blamed_on_the_device(tmp_path, text):
    findings, notes, unchecked, saved = there(load(text, tmp_path, "unsteady"))
    assert (findings, unchecked, saved) == ([], None, [])
    assert notes == ["the eager model differs from call to call on second: its programs were not run there"]


def test_a_program_that_is_wrong_on_the_cpu_is_not_run_there(tmp_path):
    text = model("if torch.compiler.is_exporting():\n    return x\nreturn x + 1")
    findings, notes, *_ = there(load(text, tmp_path, "wrong"))
    assert findings == []
    assert notes == ["the program's result differs from the eager model's on the CPU already: not run elsewhere"]
    text = model("return self.code(x)", "self.code = nn.Linear(4, 4)")  # a name that torch.fx keeps for itself
    assert there(load(text, tmp_path, "reserved")) == [[], [], None, []]


EXPORTED_THERE = "if torch.compiler.is_exporting() and x.device.type != 'cpu':\n    "


@pytest.mark.parametrize(
    ("body", "rule", "line", "message"),
    [
        ("return x", "EXP004", 8, "the program that was exported on second returns something else than"),
        (
            "torch._assert_async(x.sum() > 9e9, 'small')",
            "EXP004",
            9,
            "the program that was exported on second does not",
        ),
        ("x = x + torch.ones(4, device='cpu')", "EXP201", 9, "hardcoded: `torch.ones` puts the tensor on cpu"),
        ("raise ValueError('no')", "EXP003", 9, "torch.export cannot capture this line, on second and not on the CPU"),
    ],
)
def test_a_program_that_is_wrong_there_only_is_a_finding(tmp_path, body, rule, line, message):
    findings, _, unchecked, saved = there(load(model(f"{EXPORTED_THERE}{body}\nreturn x + 1"), tmp_path, "differs"))
    assert [finding[:3] for finding in findings] == [[rule, "warning", line]]
    assert findings[0][3].startswith(message)
    assert (unchecked, saved) == (None, ["moved to second"])


def test_what_the_pass_leaves_behind_is_advice(tmp_path):
    text = model("with torch.autocast(x.device.type, dtype=torch.bfloat16):\n    y = x @ x.t()\nreturn y.float()")
    findings, notes, _, saved = there(load(text, tmp_path, "autocast"))
    assert [finding[:3] for finding in findings] == [["EXP205", "info", 9]]
    assert (notes, saved) == ([], ["exported on second"])


def moved_otherwise(change):
    """A pass of torch's that does this to the moved program."""
    from torch.export import passes

    original = passes.move_to_device_pass

    def move(program, device):
        moved = original(program, device)
        change(moved)
        return moved

    passes.move_to_device_pass = move


def test_what_the_pass_breaks_is_advice_at_the_node(tmp_path):
    """As on a device whose kernels lay their results out otherwise: a view, chosen on the CPU, is none there."""

    def view():
        def change(program):
            node = next(node for node in program.graph.nodes if node.target is torch.ops.aten.reshape.default)
            node.target = torch.ops.aten.view.default

        moved_otherwise(change)

    case = load(model("y = x.t() * 2\nreturn y.reshape(8)"), tmp_path, "laid_out")
    ((rule, severity, line, message, evidence),), notes, _, saved = there(case, view)
    assert (rule, severity, line, notes, saved) == ("EXP205", "info", 9, [], ["exported on second"])
    assert message == "the program, moved to second by move_to_device_pass, does not run there"
    assert "view size is not compatible" in evidence


def test_a_pass_that_fails_is_advice(tmp_path):
    def fail():
        def change(_):
            raise RuntimeError("SpecViolation")

        moved_otherwise(change)

    findings, notes, *_ = there(load(FOLLOWS, tmp_path, "follows"), fail)
    message = "move_to_device_pass cannot move the program to second"
    assert findings == [["EXP205", "info", 7, message, "RuntimeError: SpecViolation"]]
    assert notes == []


def test_the_line_of_a_node_that_cannot_be_moved(tmp_path):
    text = "from torch.nn.attention.flex_attention import flex_attention\n" + model(
        "q = x[None, None]\nreturn flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s - (i - j).abs())"
    )
    case = load(text, tmp_path, "flex")
    program = torch.export.export(case.model(), case.args())
    with pytest.raises(RuntimeError, match="vmap"):
        move_to_device_pass(program, "meta")
    assert unmovable(program, "meta").line == 10
    assert unmovable(torch.export.export(torch.nn.ReLU(), case.args()), "meta") is None


def test_a_model_that_cannot_be_moved_there_is_not_checked(tmp_path):
    def run():
        second_device()
        report = Report()
        case = load(model("return x", "self.f = nn.Linear(4, 4, device='meta')"), tmp_path, "nowhere")
        run_on(Context(case, Settings(("device",)), print), report, SECOND)
        return report.findings, report.unchecked

    findings, unchecked = in_fork(run)
    assert findings == {}
    assert unchecked.startswith(
        "second: the model and its inputs cannot be moved there: NotImplementedError: Cannot copy"
    )


def saved_and_loaded(case, folder, change=lambda _: None):
    """What is said of programs that were kept, changed, and loaded in another process."""

    def run():
        report = Report()
        ctx = Context(case, Settings(("device",), workdir=str(folder)), lambda _: None)
        run_on(ctx, report, Elsewhere("cpu", "cpu", numbers=True))
        assert [program["how"] for program in report.saved] == ["exported on cpu", "moved to cpu"]
        change(report.saved)
        device_saved.record(ctx, report)
        heard = {}
        loader.job_elsewhere(heard.update, str(folder))
        result = device_saved.conclude(report.result(), heard["loaded"], "ended")
        findings = [(f.rule, f.severity, f.line, f.message, f.evidence) for f in result.findings]
        return result.outcome, result.reason, findings, list(result.notes)

    return in_fork(run)


def test_kept_programs_are_loaded_in_another_process(tmp_path):
    assert saved_and_loaded(load(FOLLOWS, tmp_path, "follows"), tmp_path) == ["passed", "2 programs rerun", [], []]


def test_a_program_that_differs_once_it_is_loaded_is_a_finding(tmp_path):
    def change(saved):
        saved[0]["expected"] = [tensor + 1 for tensor in saved[0]["expected"]]

    outcome, reason, findings, notes = saved_and_loaded(load(FOLLOWS, tmp_path, "follows"), tmp_path, change)
    message = "the program that was exported on cpu fails there once it is saved and loaded in another process"
    assert [finding[:4] for finding in findings] == [["EXP004", "warning", 7, message]]
    assert findings[0][4].startswith("compare: output[0]: 8 of 8 values differ")
    assert (outcome, reason.partition(": ")[2], notes) == ("failed", message, [])


@pytest.mark.parametrize(
    ("broken", "outcome", "found"),
    [((0,), "failed", [["EXP701", "warning", 7]]), ((1,), "passed", [["EXP205", "info", 7]]), ((0, 1), "passed", [])],
)
def test_a_program_that_cannot_be_loaded(tmp_path, broken, outcome, found):
    """One is a finding, or advice where it was moved; that none can be loaded is not the device's matter."""

    def change(saved):
        for i in broken:
            (tmp_path / saved[i]["file"]).write_bytes(b"no program")

    said, _, findings, notes = saved_and_loaded(load(FOLLOWS, tmp_path, "follows"), tmp_path, change)
    assert [finding[:3] for finding in findings] == found
    assert all(evidence.startswith("load: ") for *_, evidence in findings)
    assert said == outcome
    assert [note.startswith(device_saved.UNLOADABLE) for note in notes] == [True] * (not found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a fork cannot start cuda")
def test_fake_cuda_where_the_build_lacks_it(tmp_path):
    init = "self.f = nn.Linear(4, 4)\nself.register_buffer('i', torch.tensor([1, 0]))"
    body = "y = self.f(x)[self.i, :3].contiguous()\ny[:, 0] = 1.0\ny = y[y[:, 1] > 0]\nreturn y + torch.ones(3{})"
    good = in_fork(lambda: check(load(model(body.format(", device=x.device"), init), tmp_path, "indexes"), "fake-cuda"))
    assert (good["outcome"], good["reason"], alarms(good)) == ("passed", None, [])
    bad = in_fork(lambda: check(load(model(body.format(""), init), tmp_path, "mixes"), "fake-cuda"))
    assert [(rule, line) for rule, _, _, line, _ in alarms(bad)] == [("EXP202", 12)]


KEPT_BY_DEVICE = (
    "import functools\n\n\n@functools.lru_cache\ndef scale(n, device):\n    return torch.arange(n, device=device)\n\n\n"
)


def played(case, kind, *devices):
    """The check, where the second device plays a real one: posing as it and meta leave tensors behind in a cache."""

    def run():
        second_device()
        posing.TYPES = (kind,)
        device_elsewhere.present = lambda _: True
        device.elsewhere = {"real": SECOND, "meta": WITHOUT_NUMBERS["meta"]}.__getitem__
        return check(case, *devices)

    return in_fork(run)


@pytest.mark.parametrize("body", ["return x * scale(4, x.device)", "return x * scale(4, x.device.type)"])
def test_what_a_pretended_device_leaves_behind_is_not_seen_by_a_real_one(tmp_path, body):
    """As a model of transformers does, which keeps coordinates by device."""
    case = load(KEPT_BY_DEVICE + model(body), tmp_path, "keeps")
    result = played(case, "second", "real")
    assert (alarms(result), result["notes"], result["outcome"]) == ([], [], "passed")


def test_what_a_device_without_numbers_leaves_behind_is_not_seen_by_a_real_one(tmp_path):
    keeps = "kept = {}\n\n\n"
    body = (
        "if x.device.type != 'cpu':\n    return x * kept.setdefault('scale', torch.ones(4, device=x.device))\nreturn x"
    )
    case = load(keeps + model(body), tmp_path, "keeps_any")
    result = played(case, "mps", "meta", "real")
    assert ([f for f in alarms(result) if f[0] != "EXP204"], result["outcome"]) == ([], "passed")
