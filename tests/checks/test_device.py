"""The check on models that bake a device, each with a twin that does not: found at the line, and silent."""

from __future__ import annotations

import sys

import pytest
from device_kinds import KINDS, MARK, PORTABLE, load, mended, model
from forking import in_fork

from exportlint.checks.context import Context, Settings


def check(case, *devices):
    """The result of the check as plain data: outcome, reason, findings, notes."""
    from exportlint.checks.device import check as device

    stages = []
    result = device.run(Context(case, Settings(("device",), devices=devices or ("second",)), stages.append))
    findings = [(f.rule, f.severity, f.file.rpartition("/")[2], f.line, f.message) for f in result.findings]
    return {
        "outcome": result.outcome,
        "reason": result.reason,
        "findings": findings,
        "evidence": [finding.evidence for finding in result.findings],
        "notes": result.notes,
        "stages": stages,
    }


def run_all(texts, folder):
    results = {}
    for number, (name, text) in enumerate(texts.items()):
        results[name] = check(load(text, folder, f"case{number}"))
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    texts = {f"bad {name}": kind.text for name, kind in KINDS.items()}
    texts |= {f"good {name}": mended(kind) for name, kind in KINDS.items()}
    texts |= {f"portable {name}": text for name, text in PORTABLE.items()}
    return in_fork(run_all, texts, tmp_path_factory.mktemp("models"), seconds=300)


def alarms(result):
    return [finding for finding in result["findings"] if finding[1] != "info"]


@pytest.mark.parametrize("name", KINDS)
def test_a_baked_device_is_found_at_its_line(results, name):
    kind, result = KINDS[name], results[f"bad {name}"]
    line = 2 + next(n for n, text in enumerate(kind.text.splitlines(), 1) if text.endswith(MARK))
    assert [(rule, at) for rule, _, _, at, _ in alarms(result)] == [(kind.rule, line)], result
    assert result["outcome"] == "failed"
    assert result["reason"].endswith(alarms(result)[0][4])


@pytest.mark.parametrize("name", KINDS)
def test_its_mended_twin_is_silent(results, name):
    result = results[f"good {name}"]
    assert (result["outcome"], alarms(result), result["notes"]) == ("passed", [], []), result


@pytest.mark.parametrize("name", PORTABLE)
def test_what_may_stay_on_the_cpu_is_silent(results, name):
    result = results[f"portable {name}"]
    assert (result["outcome"], alarms(result), result["notes"]) == ("passed", [], []), result


def test_what_follows_and_is_baked_is_information(results):
    result = results["good missing"]
    assert [(rule, severity, line) for rule, severity, _, line, _ in result["findings"]] == [("EXP205", "info", 8)]


def test_the_stages_are_announced(results):
    stages = list(dict.fromkeys(results["portable device read"]["stages"]))
    assert stages == [
        "eager run on the CPU", "build", "inputs", "eager runs posing as cuda and mps",
        "second device", "eager run on the second device", "export", "export on the second device",
        "run of the program on the CPU", "run of the program that was exported on the second device",
        "move of the program to the second device", "run of the moved program",
    ]  # fmt: skip


def test_a_helper_in_another_module_is_blamed(tmp_path):
    (tmp_path / "helper_of_masks.py").write_text(
        "import torch\n\nTABLE = torch.ones(4)\n\n\ndef mask(n):\n    return torch.ones(n)\n"
    )

    def run():
        sys.path.insert(0, str(tmp_path))
        text = "import helper_of_masks\nfrom helper_of_masks import mask\n"
        return check(load(text + model("return x * mask(4) + helper_of_masks.TABLE"), tmp_path, "uses_helper"))

    found = [(rule, file, line) for rule, _, file, line, _ in in_fork(run)["findings"]]
    assert found == [("EXP202", "helper_of_masks.py", 7), ("EXP203", "helper_of_masks.py", 3)]


def test_all_faults_of_a_model_are_listed_once(tmp_path):
    text = model(
        "for _ in range(3):\n    x = x + torch.ones(4)\nreturn x * self.t + torch.eye(4)[0]", "self.t = torch.ones(4)"
    )
    result = in_fork(lambda: check(load(text, tmp_path, "many_faults")))
    assert [(rule, line) for rule, _, _, line, _ in alarms(result)] == [("EXP202", 9), ("EXP203", 6), ("EXP202", 10)]


def test_a_model_that_does_not_run_is_not_checked(tmp_path):
    result = in_fork(lambda: check(load(model("return x @ x"), tmp_path, "broken")))
    assert result["outcome"] == "not_checked"
    assert result["reason"].startswith("the model does not run on the CPU: RuntimeError: mat1 and mat2")


def test_an_operator_that_the_second_device_cannot_do_is_not_checked(tmp_path):
    result = in_fork(lambda: check(load(model("return x + x.to_sparse_csr().sum()"), tmp_path, "compresses")))
    assert (result["outcome"], alarms(result)) == ("not_checked", [])
    assert result["reason"].startswith("the second device cannot run the model: UnsupportedOperatorError: the second")


@pytest.mark.parametrize(
    "body",
    [
        "v = x[1:]\nif v.untyped_storage().data_ptr() != x.untyped_storage().data_ptr():\n    x = x + 1",
        "y = torch.empty(0, device=x.device)\ny.set_(x.untyped_storage())\nx = x + y.sum()",
    ],
)
def test_memory_is_shared_there_as_it_is_here(tmp_path, body):
    result = in_fork(lambda: check(load(model(f"{body}\nreturn x"), tmp_path, "shares_memory")))
    assert (result["outcome"], alarms(result)) == ("passed", []), result


def test_a_generator_of_the_cpu_is_named_where_it_is_used(tmp_path):
    text = model("g = torch.Generator()\nreturn x + torch.rand(4, device=x.device, generator=g)")
    (found,) = alarms(in_fork(lambda: check(load(text, tmp_path, "generator_here"))))
    assert found[:2] + found[3:] == [
        "EXP202", "warning", 9, "a generator of the CPU is to draw numbers for a tensor that follows the inputs",
    ]  # fmt: skip
    text = text.replace("Generator()", "Generator(x.device)")
    assert alarms(in_fork(lambda: check(load(text, tmp_path, "generator_there")))) == []


def test_a_generator_that_moved_draws_no_numbers_for_the_cpu(tmp_path):
    """cuda refuses it where the numbers are drawn, although they are moved before they meet any."""
    text = model("g = torch.Generator(x.device)\nreturn x + torch.rand(4, generator=g).to(x.device)")
    (found,) = alarms(in_fork(lambda: check(load(text, tmp_path, "drawn_here"))))
    assert found == [
        "EXP202", "warning", "drawn_here.py", 9,
        "a generator that follows the inputs to a device is to draw numbers for a tensor of the CPU",
    ]  # fmt: skip
    text = text.replace("Generator(x.device)", "Generator()")
    assert alarms(in_fork(lambda: check(load(text, tmp_path, "drawn_there")))) == []


PACKED = "n = torch.full((2,), 3, dtype=torch.int64, device=x.device)\n"
PACK = PACKED + "return nn.utils.rnn.pack_padded_sequence(x[..., None], n{}, batch_first=True).data"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (PACK, "`lengths` of aten::_pack_padded_sequence"),
        (PACK.replace(", batch_first", ", enforce_sorted=False, batch_first"), "`lengths` of aten::_pack_padded"),
        (
            PACKED + "return torch.tensor_split(x, (n // 3).cumsum(0){}, dim=1)[0]",
            "expected tensor_indices_or_sections",
        ),
        (PACKED + "return nn.utils.rnn.PackedSequence(x[:1], (n[:1] // 3){}).data", "batch_sizes should always be on"),
    ],
)
def test_what_has_to_be_on_the_cpu_and_follows_the_inputs(tmp_path, body, words):
    """CUDA refuses it, so does the second device; whether the model can be captured is another matter."""
    result = in_fork(lambda: check(load(model(body.format("")), tmp_path, "follows_too_far")))
    assert [(rule, severity, line) for rule, severity, _, line, _ in alarms(result)] == [("EXP002", "warning", 9)]
    assert result["outcome"] == "failed"
    assert words in result["evidence"][0]
    result = in_fork(lambda: check(load(model(body.format(".cpu()")), tmp_path, "stays_on_the_cpu")))
    assert [(rule, line) for rule, _, _, line, _ in alarms(result)] == []


SCRIPTED = (
    "class Inner(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.f = nn.Linear(4, 4)\n"
    "        self.register_buffer('b', torch.ones(4))\n\n"
    "    def forward(self, x: torch.Tensor):\n        return self.f(x) + {}\n\n\n"
)


@pytest.mark.parametrize(
    ("init", "head"),
    [
        ("self.f = nn.LazyLinear(3)", ""),
        ("self.f = torch.jit.script(Inner())", SCRIPTED.format("self.b")),
        ("self.f = torch.jit.trace(Inner(), torch.ones(2, 4))", SCRIPTED.format("self.b")),
    ],
)
def test_unusual_modules_run_there(tmp_path, init, head):
    bad = head + model("m = torch.ones(1, 4)  # <-\nreturn self.f(x) + {}", init)
    good, bad = bad.format("x.sum()"), bad.format("m.sum(0)[:1]")
    result = in_fork(lambda: check(load(good, tmp_path, "unusual")))
    assert (result["outcome"], result["reason"], alarms(result)) == ("passed", None, [])
    found = alarms(in_fork(lambda: check(load(bad, tmp_path, "unusual_bad"))))
    line = 2 + next(n for n, text in enumerate(bad.splitlines(), 1) if text.endswith(MARK))
    assert [(rule, at) for rule, _, _, at, _ in found] == [("EXP202", line)]


def test_what_a_scripted_module_makes_is_named_where_it_is_called(tmp_path):
    text = SCRIPTED.format("torch.ones(4)") + model("return self.f(x)  # <-", "self.f = torch.jit.script(Inner())")
    found = alarms(in_fork(lambda: check(load(text, tmp_path, "scripted"))))
    line = 2 + next(n for n, text in enumerate(text.splitlines(), 1) if text.endswith(MARK))
    assert [(rule, at) for rule, _, _, at, _ in found] == [("EXP202", line)]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("return (self.m @ x.t()).t()", "tensors of the layout torch.sparse_csr"),
        (
            "return (torch.eye(4, device=x.device).to_sparse_csr() @ x.t()).t()",
            "tensors of the layout torch.sparse_csr",
        ),
        ("return torch.nested.nested_tensor([x[0], x[1]]).to_padded_tensor(0.0)", "nested tensors"),
    ],
)
def test_what_the_second_device_cannot_hold_is_not_checked(tmp_path, body, what):
    init = "self.register_buffer('m', torch.eye(4).to_sparse_csr())" if "self.m" in body else "pass"
    result = in_fork(lambda: check(load(model(body, init), tmp_path, "layouts")))
    assert (result["outcome"], alarms(result)) == ("not_checked", [])
    assert result["reason"].endswith(f"UnsupportedOperatorError: the second device holds no {what}")


def test_a_backward_pass_is_not_checked(tmp_path):
    text = model("return torch.func.grad(lambda t: (t * t).sum())(x)")
    result = in_fork(lambda: check(load(text, tmp_path, "gradient")))
    reason = "the second device cannot run the model: it has no backward pass"
    assert (result["outcome"], result["reason"], alarms(result)) == ("not_checked", reason, [])


def with_another_backend(text, name, folder, *devices):
    import torch

    torch.utils.rename_privateuse1_backend("npu")
    return check(load(text, folder, name), *devices)


def with_an_old_torch(text, name, folder, *devices):
    import torch

    torch.__version__ = "2.9.1"
    return check(load(text, folder, name), *devices)


WITHOUT = {
    "another backend, npu, owns the device type PrivateUse1 in this process": with_another_backend,
    "the second device needs torch 2.10 or newer, this is 2.9.1": with_an_old_torch,
}
INSTEAD = "; instead of the second device meta was tried, which holds no numbers"


@pytest.mark.parametrize("why", WITHOUT)
def test_without_the_second_device_meta_stands_in(tmp_path, why):
    run = WITHOUT[why]
    result = in_fork(run, model("return x + torch.ones(4, device=x.device)"), "follows", tmp_path)
    assert (result["outcome"], result["reason"]) == ("not_checked", why + INSTEAD)
    assert [(rule, line) for rule, _, _, line, _ in result["findings"]] == [("EXP205", 8)]
    for given, rule in (("device='cuda'", "EXP201"), ("device='cpu'", "EXP201"), ("dtype=x.dtype", "EXP202")):
        result = in_fork(run, model(f"return x + torch.ones(4, {given})"), "bakes", tmp_path)
        assert result["outcome"] == "failed"
        assert [(rule, severity, line) for rule, severity, _, line, _ in alarms(result)] == [(rule, "warning", 8)]
        assert why + INSTEAD in result["notes"]


def test_without_the_second_device_labels_are_shown(tmp_path):
    """Meta stops at the first mixture, and sees nothing of what is moved. Here it was asked for."""
    text = model("y = torch.ones(4).to(x)\nx = x + torch.eye(4)[0]\nreturn x + torch.ones(4, device='cpu') + y")
    result = in_fork(with_another_backend, text, "labels", tmp_path, "second", "meta")
    found = [(rule, severity, line) for rule, severity, _, line, _ in result["findings"]]
    assert found == [("EXP202", "warning", 9), ("EXP202", "info", 8), ("EXP201", "info", 10)]
    assert result["notes"] == ["another backend, npu, owns the device type PrivateUse1 in this process"]


def test_a_literal_that_does_not_bite_is_information(tmp_path):
    text = model("y = torch.ones(4, device='cpu').to(x)\nreturn x * torch.full((), 2.0, device='cpu') + y")
    result = in_fork(lambda: check(load(text, tmp_path, "harmless")))
    found = [(rule, severity, line) for rule, severity, _, line, _ in result["findings"] if rule == "EXP201"]
    assert (result["outcome"], found) == ("passed", [("EXP201", "info", 8), ("EXP201", "info", 9)])
    assert result["findings"][0][4].endswith("; nothing here meets it that it may not meet on another device")


def test_a_tensor_that_is_returned_on_the_cpu_is_information(tmp_path):
    text = model("return x + 1, torch.arange(4), x.cpu() * 2, torch.ones(4, device=x.device), torch.tensor(1)")
    result = in_fork(lambda: check(load(text, tmp_path, "returned")))
    found = [(rule, severity, line) for rule, severity, _, line, _ in result["findings"] if rule != "EXP205"]
    assert (result["outcome"], sorted(found)) == ("passed", [("EXP201", "info", 8), ("EXP202", "info", 8)])
    assert all("it is returned" in words for rule, _, _, _, words in result["findings"] if rule != "EXP205")


def test_what_rounding_makes_of_other_kernels_is_no_difference(tmp_path):
    """The cells of a recurrent net are computed otherwise there, and what follows magnifies the last bits."""
    text = model("return (self.f(x[..., None].expand(2, 4, 3))[0] * {}).sin()", "self.f = nn.GRU(3, 16, num_layers=2)")
    result = in_fork(lambda: check(load(text.format(3000), tmp_path, "magnified")))
    assert (result["outcome"], result["reason"], alarms(result)) == ("passed", None, [])
    text = text.format("3000 + 1e-4 * torch.full_like(x.sum(), x.device.type == 'second')")
    result = in_fork(lambda: check(load(text, tmp_path, "other_numbers")))
    assert result["outcome"] == "not_checked"
    assert "on the second device differs from the CPU's" in result["reason"]


def test_a_branch_on_the_device_that_rounds_otherwise_is_information(tmp_path):
    body = (
        "y = x.flip(1).cumsum(1).flip(1)[:, :1] if x.is_cuda else x.sum(1, keepdim=True)\nreturn ((y + 1) * {}).sin()"
    )
    found = in_fork(lambda: check(load(model(body.format(1e3)), tmp_path, "rounds")))["findings"]
    assert [(rule, severity, line) for rule, severity, _, line, _ in found] == [("EXP204", "info", 8)]
    found = in_fork(lambda: check(load(model(body.replace("x.sum", "x[1:].sum").format(1)), tmp_path, "bites")))
    assert [(rule, severity, line) for rule, severity, _, line, _ in alarms(found)] == [("EXP204", "warning", 8)]


def test_numbers_that_change_from_run_to_run_are_not_compared(tmp_path):
    text = "import time\n" + model("return x + time.perf_counter_ns() % 100000")
    result = in_fork(lambda: check(load(text, tmp_path, "clock")))
    assert result["outcome"] == "passed"
    assert result["notes"] == ["the result differs from run to run on the CPU, so the devices were not compared"]


@pytest.mark.parametrize("sign", ["", "-"])
def test_branches_of_cond_are_checked_whichever_is_taken(tmp_path, sign):
    body = (
        f"return torch.cond({sign}x.sum() > 0, lambda t: t + torch.ones(4, device='cpu'),\n"
        "                  lambda t: t + self.t, (x,))"
    )
    result = in_fork(lambda: check(load(model(body, "self.t = torch.ones(4)"), tmp_path, f"cond{len(sign)}")))
    assert sorted((rule, line) for rule, _, _, line, _ in alarms(result)) == [("EXP201", 8), ("EXP203", 6)]


def test_a_question_for_the_machine_while_the_model_is_made(tmp_path):
    text = model("return x * self.n", "self.n = {}() + 2")
    result = in_fork(lambda: check(load(text.format("torch.cuda.device_count"), tmp_path, "asks")))
    assert [(rule, severity, line) for rule, severity, _, line, _ in alarms(result)] == [("EXP204", "warning", 6)]
    assert alarms(result)[0][4] == "branch on device: where cuda is available something else is computed here"
    result = in_fork(lambda: check(load(text.format("torch.accelerator.device_count"), tmp_path, "asks_any")))
    assert [(rule, line) for rule, _, _, line, _ in alarms(result)] == [("EXP204", 6)]
    result = in_fork(lambda: check(load(text.format("int"), tmp_path, "asks_nothing")))
    assert (result["outcome"], result["findings"]) == ("passed", [])


ONE_DEVICE = (
    "d = torch.device('cuda') if x.is_cuda else torch.device('cpu')\n"
    "return x + torch.ones(4, device=d) + torch.ones(4).to(d)"
)


def test_a_model_that_knows_cuda_and_the_cpu_alone_is_not_checked(tmp_path):
    result = in_fork(lambda: check(load(model(ONE_DEVICE), tmp_path, "knows_cuda")))
    assert (result["outcome"], alarms(result)) == ("not_checked", [])
    assert "knows cuda and the CPU alone" in result["reason"]
    (told, *_) = [finding for finding in result["findings"] if finding[0] == "EXP201"]
    assert told[1] == "info"
    assert told[4].endswith("on cpu; it follows the inputs to cuda, and to no other device")
    bad = ONE_DEVICE + " + torch.ones(4)"
    result = in_fork(lambda: check(load(model(bad), tmp_path, "knows_cuda_and_forgets_it")))
    assert "EXP202" in {rule for rule, *_ in alarms(result)}


def test_a_branch_that_cannot_be_followed_is_not_checked(tmp_path):
    body = "if x.is_cuda:\n    import there_is_no_such_kernel\nreturn x * 2"
    result = in_fork(lambda: check(load(model(body), tmp_path, "own_kernel")))
    assert (result["outcome"], alarms(result)) == ("not_checked", [])
    assert result["reason"].endswith("the model raises ModuleNotFoundError: No module named 'there_is_no_such_kernel'")


def test_a_card_that_is_asked_for_what_it_can_is_a_branch(tmp_path):
    body = "if x.is_cuda and torch.cuda.get_device_capability(x.device)[0] >= 8:\n    x = x.bfloat16()\nreturn x * 2"
    (found,) = alarms(in_fork(lambda: check(load(model(body), tmp_path, "capable"))))
    assert (found[0], found[3]) == ("EXP204", 8)


@pytest.mark.parametrize(
    "body",
    [
        "a, b = torch.meshgrid(x[0], torch.arange(3.0), indexing='ij')\nreturn a + b",
        "return torch.stft(x.repeat(1, 64), 64, 16, window=torch.hann_window(64), return_complex=True).abs()",
    ],
)
def test_what_torch_itself_refuses_to_mix_is_named_where_it_was_made(tmp_path, body):
    (found,) = alarms(in_fork(lambda: check(load(model(body), tmp_path, "mixes"))))
    assert (found[0], found[3]) == ("EXP202", 8)
    assert "missing device" in found[4]


def test_nested_tensors_are_not_checked(tmp_path):
    body = "n = torch.nested.nested_tensor(list(x), layout=torch.jagged)\nreturn torch.nested.to_padded_tensor(n, 0.0)"
    result = in_fork(lambda: check(load(model(body), tmp_path, "jagged")))
    assert (result["outcome"], alarms(result)) == ("not_checked", [])


def test_parameters_in_a_plain_list_belong_into_one_that_the_module_knows(tmp_path):
    def rewrites():
        from exportlint.checks.device import check as device

        case = load(model("return self.parts[0](x)", "self.parts = [nn.Linear(4, 4)]"), tmp_path, "plain_list")
        settings = Settings(("device",), devices=("second",))
        return [f.rewrite for f in device.run(Context(case, settings, lambda stage: None)).findings]

    (rewrite,) = in_fork(rewrites)
    assert "nn.ModuleList" in rewrite
