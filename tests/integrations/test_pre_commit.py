"""The hook, run by pre-commit itself on a scratch repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exportlint.rules.examples import example

pytest.importorskip("pre_commit")
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
BRANCH = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")
RAMP = example("def forward(self, x):\n    return x * torch.arange(x.size(1))")
CLEAN = example("def forward(self, x):\n    return x.relu()")


def pre_commit(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pre_commit", *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=300
    )


def test_pre_commit_accepts_the_hooks() -> None:
    ran = pre_commit("validate-manifest", ".pre-commit-hooks.yaml", cwd=ROOT)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="pre-commit clones the repository, and this is none")
def test_the_hook_fails_for_what_is_found_and_passes_else(tmp_path: Path) -> None:
    """pre-commit clones this repository, makes an environment and has pip install it there.

    Without network, what exportlint depends on is not installed anew but taken from the environment of the tests.
    """
    repository = tmp_path / "repository"
    repository.mkdir()
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run([*git, "init", "-q"], cwd=repository, check=True)
    (repository / "exportlint.toml").write_text('extend-exclude = ["third_party"]\n')
    (repository / "third_party").mkdir()
    for name, text in (("bad.py", BRANCH), ("good.py", CLEAN), ("third_party/bad.py", BRANCH), ("notes.txt", BRANCH)):
        (repository / name).write_text(text)
    subprocess.run([*git, "add", "."], cwd=repository, check=True)
    environment = {
        "PRE_COMMIT_HOME": str(tmp_path / "home"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path.endswith("-packages")),
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # this is how pip spells that it should not isolate
        "PIP_NO_INDEX": "1",
    }

    def hook(*files: str, name: str = "exportlint") -> subprocess.CompletedProcess[str]:
        return pre_commit("try-repo", str(ROOT), name, "--verbose", "--files", *files, cwd=repository, **environment)

    found = hook("bad.py", "good.py", "third_party/bad.py", "notes.txt")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "--> bad.py:" in found.stdout
    assert "1 error" in found.stdout
    assert "2 files checked" in found.stdout
    assert "third_party" not in found.stdout
    passed = hook("good.py")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "1 file checked, no findings" in passed.stdout
    (repository / "ramp.py").write_text(RAMP)
    subprocess.run([*git, "add", "."], cwd=repository, check=True)
    fixed = hook("ramp.py", name="exportlint-fix")
    assert fixed.returncode == 1, fixed.stdout + fixed.stderr  # files were modified by the hook
    assert "1 finding fixed in 1 file" in fixed.stdout
    assert "device=x.device" in (repository / "ramp.py").read_text()
