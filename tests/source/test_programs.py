"""The program around the models: what saves and loads is run too, and the place is where the fault was made."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source import programs
from exportlint.source.engine import Options, examine, lint

if TYPE_CHECKING:
    from pathlib import Path

NET = """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)

"""


def found(tmp_path: Path, text: str, *, preview: bool = False) -> list[tuple[str, str]]:
    """Codes, each with the line that is meant."""
    file = tmp_path / "train.py"
    file.write_text(NET + textwrap.dedent(text), encoding="utf-8")
    lines = file.read_text(encoding="utf-8").splitlines()
    return [(p.rule.code, lines[p.range.line - 1].strip()) for p in lint([file], Options(preview=preview))]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def train(path):\n    net = DDP(Net())\n    torch.save(net.state_dict(), path)\n", "torch.save("),
        ("net = nn.DataParallel(Net())\ntorch.save(dict(model=net.state_dict()), 'a.pt')\n", "torch.save("),
        (
            (
                "def save(model, path):\n    torch.save(model.state_dict(), path)\n\n"
                "if __name__ == '__main__':\n    save(nn.DataParallel(Net()), 'a.pt')\n"
            ),
            "save(nn.DataParallel(",
        ),
        (
            (
                "def save(model, path):\n    write({'net': model.state_dict()}, path)\n\n"
                "def write(what, path):\n    torch.save(what, path)\n\n"
                "def train(path):\n    net = torch.nn.DataParallel(Net())\n    save(net, path)\n"
            ),
            "save(net, path)",
        ),
        (
            (
                "class Trainer:\n    def __init__(self):\n        self.net = DDP(Net())\n\n"
                "    def keep(self, path):\n        torch.save({'net': self.net.state_dict()}, path)\n\n"
                "def main():\n    Trainer().keep('a.pt')\n"
            ),
            "torch.save({'net': self.net",
        ),
    ],
    ids=["distributed", "in a script", "handed to a helper", "by two helpers", "kept on an object"],
)
def test_the_state_dict_of_a_wrapper_is_found_where_it_is_handed_on(tmp_path: Path, text: str, line: str) -> None:
    ((code, place),) = found(tmp_path, text)
    assert code == "EXP703"
    assert place.startswith(line)


@pytest.mark.parametrize(
    "text",
    [
        "def train(path):\n    net = DDP(Net())\n    torch.save(net.module.state_dict(), path)\n",
        (
            "def train(path):\n    net = DDP(Net())\n    kept = net.module if hasattr(net, 'module') else net\n"
            "    torch.save(kept.state_dict(), path)\n"
        ),
        (
            "def train(path):\n    net = DDP(Net())\n    if isinstance(net, (nn.DataParallel, DDP)):\n"
            "        weights = net.module.state_dict()\n    else:\n        weights = net.state_dict()\n"
            "    torch.save(weights, path)\n"
        ),
        (
            "def train(path):\n    net = DDP(Net())\n"
            "    weights = {k.replace('module.', ''): v for k, v in net.state_dict().items()}\n"
            "    torch.save(weights, path)\n"
        ),
        "def save(model, path):\n    torch.save(model.state_dict(), path)\n\ndef main():\n    save(Net(), 'a.pt')\n",
        "def train(net, path):\n    torch.save(net.state_dict(), path)\n",
    ],
    ids=["unwrapped", "unwrapped if wrapped", "asked for its kind", "prefix taken away", "no wrapper", "unknown"],
)
def test_other_state_dicts_are_not(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text) == []


def test_a_whole_module_is_found_in_what_is_saved(tmp_path: Path) -> None:
    text = "def keep(path, epoch):\n    net = Net()\n    torch.save([net, epoch], path)\n    torch.save(epoch, path)\n"
    assert found(tmp_path, text) == [("EXP702", "torch.save([net, epoch], path)")]


def test_a_module_that_saves_itself(tmp_path: Path) -> None:
    text = "class Other(Net):\n    def keep(self, path):\n        torch.save(self, path)\n"
    assert found(tmp_path, text) == [("EXP702", "torch.save(self, path)")]


@pytest.mark.parametrize(
    ("load", "hit"),
    [
        ("torch.load(path)", True),
        ("torch.load(path)['model']", True),
        ("torch.load(path, weights_only=True).get('model')", True),
        ("torch.load(path, 'cpu')", False),
        ("torch.load(path, map_location=where)", False),
        ("torch.load(path, **options)", False),
        ("read(path)", False),
    ],
)
def test_what_is_loaded_without_a_device_and_given_to_a_model(tmp_path: Path, load: str, hit: bool) -> None:
    text = f"def resume(model, path, where, read, options):\n    state = {load}\n    model.load_state_dict(state)\n"
    assert [code for code, _ in found(tmp_path, text)] == ["EXP704"] * hit


@pytest.mark.parametrize(
    ("load", "oldest", "hit"),
    [
        ("torch.load(path, 'cpu')", (2, 5), True),
        ("torch.load(path, map_location='cpu')['model']", (1, 13), True),
        ("torch.load(path, map_location='cpu')", (2, 6), False),
        ("torch.load(path, map_location='cpu')", None, False),
        ("torch.load(path, 'cpu', weights_only=False)", (2, 5), False),
        ("torch.load(path, **options)", (2, 5), False),
    ],
)
def test_what_a_release_of_torch_before_2_6_loads_otherwise(
    tmp_path: Path, load: str, oldest: tuple[int, int] | None, hit: bool
) -> None:
    file = tmp_path / "programs.py"
    file.write_text(f"import torch\n\ndef resume(model, path, options):\n    model.load_state_dict({load})\n")
    predictions = lint([file], Options(torch_version=oldest))
    assert [(p.rule.code, p.severity) for p in predictions] == [("EXP710", "warning")] * hit


@pytest.mark.parametrize(("kept", "codes"), [("best", []), ("last", ["EXP704"])])
def test_what_a_function_saved_itself_comes_back_to_the_same_devices(
    tmp_path: Path, kept: str, codes: list[str]
) -> None:
    text = f"""
def train(net, best, last):
    for step in range(9):
        torch.save(net.state_dict(), {kept})
    net.load_state_dict(torch.load(best))
"""
    assert [code for code, _ in found(tmp_path, text)] == codes


@pytest.mark.parametrize(
    ("owner", "codes"), [("self.lr_scheduler", []), ("grad_scaler", []), ("optimizer", ["EXP704"])]
)
def test_states_that_hold_no_tensors_are_on_no_device(tmp_path: Path, owner: str, codes: list[str]) -> None:
    text = f"def resume(self, grad_scaler, optimizer, path):\n    {owner}.load_state_dict(torch.load(path))\n"
    assert [code for code, _ in found(tmp_path, text)] == codes


def test_what_is_loaded_for_something_else_is_not_said_to_hold_weights(tmp_path: Path) -> None:
    assert found(tmp_path, "def examples(path):\n    return torch.load(path)\n") == []


def test_a_load_that_is_not_strict_is_preview_and_quiet_where_its_result_is_looked_at(tmp_path: Path) -> None:
    text = "def resume(net, weights):\n    net.load_state_dict(weights, strict=False)\n"
    assert found(tmp_path, text) == []
    assert [code for code, _ in found(tmp_path, text, preview=True)] == ["EXP705"]
    looked = (
        "def resume(net, weights):\n    missing, _ = net.load_state_dict(weights, strict=False)\n    print(missing)\n"
    )
    assert found(tmp_path, looked, preview=True) == []


def test_what_is_captured_is_told_once_and_by_the_rules_of_capture(tmp_path: Path) -> None:
    text = "def keep(net, x):\n    if x.sum() > 0:\n        torch.save(net.state_dict(), 'a.pt')\n"
    assert found(tmp_path, text) == []


def test_code_that_cannot_be_analysed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("nothing left")

    monkeypatch.setattr(programs.entries, "run_entry", fail)
    file = tmp_path / "train.py"
    file.write_text(NET + "def keep(net):\n    torch.save(net, 'a.pt')\n", encoding="utf-8")
    (left_out,) = examine([file], Options()).unanalysed
    assert left_out.words == "function keep was not analysed: ZeroDivisionError: nothing left"


@pytest.mark.parametrize(
    ("made", "codes"),
    [
        ("torch.jit.script(nn.Linear(4, 4))", ["EXP901"]),
        ("torch.jit.load('act.pt')", ["EXP904", "EXP901"]),
        ("torch.jit.load('act.pt') if config.fast else nn.Linear(4, 4)", ["EXP904"]),
        ("torch.jit.script(helper)", []),
        ("torch.jit.script(config.act)", []),
    ],
)
def test_scripted_modules_in_a_model(tmp_path: Path, made: str, codes: list[str]) -> None:
    text = f"""
def helper(x):
    return x * 2


class Other(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.act = {made}

    def forward(self, x: torch.Tensor):
        return self.act(x)
"""
    assert [code for code, _ in found(tmp_path, text)] == codes


@pytest.mark.parametrize(
    ("returned", "hit"),
    [
        ("x", True),
        ("x[:, 1:]", True),
        ("(y, x)", True),
        ("x.transpose(0, 1)", True),
        ("y", False),
        ("x[y > 0]", False),
        ("x.relu()", False),
        ("x.clone()", False),
    ],
)
def test_what_a_branch_returns(tmp_path: Path, returned: str, hit: bool) -> None:
    text = f"""
class Other(nn.Module):
    def forward(self, x: torch.Tensor):
        def then(x):
            y = x * 3
            return {returned}

        return torch.cond(x.sum() > 0, then, lambda x: x * 2, (x,))
"""
    codes = [code for code, _ in found(tmp_path, text)]
    assert codes == ["EXP802"] * hit + ["EXP803"] * (returned == "(y, x)")


def test_a_branch_that_binds_its_input_anew_or_that_python_takes(tmp_path: Path) -> None:
    text = """
class Other(nn.Module):
    def forward(self, x: torch.Tensor):
        def then(x):
            x = x * 3
            return x

        y = torch.cond(x.sum() > 0, then, lambda x: x * 2, (x,))
        return y + torch.cond(x.shape[0] > 1, lambda x: x, lambda x: x * 2, (x,))
"""
    assert found(tmp_path, text) == []


@pytest.mark.parametrize(
    ("statements", "codes"),
    [
        ("pickle.dumps(net)", ["EXP702"]),
        ("pickle.dumps(net.state_dict())", []),
        ("joblib.dump(value={'net': net}, filename='a.joblib')", ["EXP702"]),
        ("cloudpickle.dump([net], open('a.pkl', 'wb'))", ["EXP702"]),
        ("json.dumps({'width': 4})\n    torch.save(4, 'a.pt')", []),
        ("torch.save(obj=net, f='a.pt')", ["EXP702"]),
        ("kept = {}\n    kept['net'] = net\n    torch.save(kept, 'a.pt')", ["EXP702"]),
        ("kept = {}\n    kept['net'] = net.state_dict()\n    torch.save(kept, 'a.pt')", []),
        ("torch.save(getattr(net, 'module', net), 'a.pt')", ["EXP702"]),
        ("torch.save(getattr(net, 'module', net).state_dict(), 'a.pt')", []),
        ("net = nn.DataParallel(net)\n    torch.save(getattr(net, 'module', net).state_dict(), 'a.pt')", []),
        ("pickle.dumps(nn.DataParallel(net).state_dict())", ["EXP703"]),
        ("torch.save(torch.compile(net).state_dict(), 'a.pt')", ["EXP703"]),
        ("torch.save(torch.compile(net)._orig_mod.state_dict(), 'a.pt')", []),
        (("sd = torch.compile(net).state_dict()\n    sd = {k.removeprefix('_orig_mod.'): v for k, v in sd.items()}\n"
         "    torch.save(sd, 'a.pt')"), []),
        ("torch.jit.freeze(torch.jit.script(net)).save('a.pt')", ["EXP904"]),
        ("torch.jit.script(net)", []),
    ],
)  # fmt: skip
def test_what_is_written_to_files(tmp_path: Path, statements: str, codes: list[str]) -> None:
    imports = "import json\nimport pickle\nimport cloudpickle\nimport joblib\n"
    text = f"{imports}\n\ndef keep():\n    net = Net()\n    {statements}\n"
    assert [code for code, _ in found(tmp_path, text)] == codes
