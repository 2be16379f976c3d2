"""--export-observe: the calls that existing tests make are checked, and the tests do not notice."""

from __future__ import annotations

import pytest
from plugin_runs import run

TESTS = """
import gc
import weakref
import pytest

class Net(nn.Module):
    def __init__(self, out=4):
        super().__init__()
        self.linear = nn.Linear(3, out)

    def forward(self, x, scale=1.0):
        return self.linear(x) * scale

@pytest.mark.parametrize("rows", [1, 2, 5])
def test_sizes(rows):
    assert Net()(torch.ones(rows, 3)).shape == (rows, 4)

def test_another_configuration():
    Net(7)(torch.ones(2, 3))

def test_more_configurations_than_are_taken():
    Net(8)(torch.ones(2, 3))

def test_gate():
    Gate()(torch.ones(2, 3))

def test_torchs_own_module():
    nn.Linear(3, 3)(torch.ones(2, 3))

def test_that_fails():
    with pytest.raises(RuntimeError):
        Net()(torch.ones(2, 4))

def test_random_numbers():
    torch.manual_seed(0)
    Net()
    expected = torch.rand(1)
    torch.manual_seed(0)
    Net()(torch.ones(2, 3))
    assert torch.equal(torch.rand(1), expected)

def test_models_die():
    model = Net()
    model(torch.ones(2, 3))
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None

def test_capture():
    program = torch.export.export(Net(), (torch.ones(2, 3),))
    assert not any("clone" in str(node.target) for node in program.graph.nodes)

def test_compile():
    model = Net()
    compiled = torch.compile(lambda x: model(x), fullgraph=True, backend="eager")
    assert torch.equal(compiled(torch.ones(2, 3)), model(torch.ones(2, 3)))

def test_vmap():
    assert torch.vmap(Net())(torch.ones(4, 3)).shape == (4, 4)

def test_gradients():
    model, x = Net(), torch.ones(2, 3, requires_grad=True)
    model(x).sum().backward()
    assert x.grad is not None
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("observe")
    (folder / "pyproject.toml").write_text("[tool.exportlint.pytest]\nobserve-limit = 2\n")
    return run(folder, TESTS, "--export-observe", "--export-checks=capture,shapes")


def observed(done):
    return {name: said for name, said in done.tests.items() if name.endswith(("[capture]", "[shapes]"))}


def test_the_tests_stay_as_they_are(done):
    tests = {name: said.outcome for name, said in done.tests.items() if name not in observed(done)}
    assert len(tests) == 14
    assert set(tests.values()) == {"passed"}


def test_there_is_a_case_for_each_class_and_configuration_up_to_the_limit(done):
    assert {name: said.outcome for name, said in observed(done).items()} == {
        "Net[capture]": "passed",
        "Net[shapes]": "passed",
        "Net-2[capture]": "passed",
        "Net-2[shapes]": "skipped",
        "Gate[capture]": "failed",
        "Gate[shapes]": "skipped",
    }
    assert "not observed: Net: more than 2 configurations" in done.out


def test_a_failure_names_the_line_and_the_test_that_called(done):
    text = done.tests["Gate[capture]"].text
    assert text.startswith("Gate: capture failed: EXP101 at test_models.py:")
    assert "\n\ncalled by test_models.py::test_gate\nrepeat: pytest test_models.py::test_gate " in text
    assert done.status == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
def test_only_the_classes_that_are_named_also_with_workers(tmp_path):
    done = run(tmp_path, TESTS, "--export-observe=Ga*", "--export-checks=capture", "-n", "2", "-k", "gate or sizes")
    assert {name: said.outcome for name, said in done.tests.items()} == {
        "test_sizes[1]": "passed",
        "test_sizes[2]": "passed",
        "test_sizes[5]": "passed",
        "test_gate": "passed",
        "Gate[capture]": "failed",
    }


def test_a_name_that_no_call_met_is_told(tmp_path):
    arguments = ("--export-observe=Lin*,nets.Gone", "--export-checks=capture", "-k", "torchs_own or sizes")
    done = run(tmp_path, TESTS, *arguments)
    assert "--export-observe: no test called a module 'nets.Gone'" in done.out
    assert "'Lin*'" not in done.out
    assert done.status == pytest.ExitCode.OK
