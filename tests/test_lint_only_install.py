"""The linter installed without torch, under other Pythons: `make test` makes environments of those that are there."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHONS = sorted(ROOT.glob(".venv-lint-*/bin/python"))


@pytest.fixture(params=PYTHONS or [None], ids=[p.parents[1].name for p in PYTHONS] or ["none"])
def run(request):
    if request.param is None:
        pytest.skip("no other Python is present: see LINT_VERSIONS in the Makefile")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [request.param, "-m", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    return run


def test_the_planted_faults_are_found_without_torch(run):
    assert run("torch").returncode == 1  # it is not there
    ran = run("exportlint", "check", "fixtures/captioning_broken", "--output-format", "json")
    found = {(Path(f["filename"]).name, f["code"]) for f in json.loads(ran.stdout)}
    expected = json.loads((ROOT / "fixtures/captioning_broken/expected.json").read_text())
    assert found == {(fault["file"], fault["rule"]) for fault in expected}
    assert ran.returncode == 1
    assert ran.stderr == ""


def test_a_rule_is_explained(run):
    ran = run("exportlint", "rule", "EXP101")
    assert "branch-on-tensor" in ran.stdout
    assert ran.returncode == 0


def test_a_report_says_what_is_missing(run):
    ran = run("exportlint", "report", "fixtures/captioning_broken/first_token.py")
    assert "the checks need torch: pip install 'exportlint[pytest]'" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
    assert ran.returncode == 2


def test_fixes_are_written_without_torch(run, tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
        "        return f'{x * torch.arange(4)}', x + torch.zeros(\n            4,  # four\n        )\n"
    )
    ran = run("exportlint", "check", str(model), "--fix", "--isolated", "--no-cache")
    told = "1 finding fixed in 1 file, and 1 more that came to light by that\n"  # both are in one line
    assert (ran.returncode, ran.stderr) == (0, told), ran.stdout
    assert "4,  # four\n            device=x.device,\n        )" in model.read_text()
