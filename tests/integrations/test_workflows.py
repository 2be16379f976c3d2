"""The action and the recipes: they are what their readers parse, and the commands in them are commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from exportlint.rules.examples import example

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
DOCS = ROOT / "docs" / "continuous-integration.md"
BRANCH = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")


def steps() -> list[dict]:
    return yaml.safe_load(ACTION.read_text())["runs"]["steps"]


def test_no_input_is_pasted_into_a_script() -> None:
    assert all("${{" not in step.get("run", "") for step in steps())
    assert all("shell" in step for step in steps() if "run" in step)


def test_every_input_is_used_and_described() -> None:
    held = yaml.safe_load(ACTION.read_text())
    used = set(re.findall(r"inputs\.([\w-]+)", yaml.safe_dump(held["runs"])))
    assert used == set(held["inputs"])
    assert all(value["description"] for value in held["inputs"].values())


def lint_step(tmp_path: Path, text: str, args: str, end: str = "") -> str:
    """Run the step ``Lint`` by bash, with exportlint where the step before it would install it."""
    (tmp_path / "model.py").write_text(text)
    (tmp_path / "found.sarif").write_text("of another run")
    command = tmp_path / "exportlint" / "bin" / "exportlint"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\n"{sys.executable}" -m exportlint "$@"\n{end}')
    command.chmod(0o755)
    (step,) = [step for step in steps() if step.get("id") == "lint"]
    environment = {
        **os.environ,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "PATHS": "model.py",
        "ARGS": args,
        "SARIF": "found.sarif",
    }
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("text", "status"), [(BRANCH, "1"), ("x = 1\n", "0")])
def test_the_script_of_the_action_lints(tmp_path: Path, text: str, status: str) -> None:
    printed = lint_step(tmp_path, text, "--mode export --mode compile")
    assert (tmp_path / "output").read_text() == f"status={status}\nwritten=true\n"
    assert printed.count("::error ") == int(status)
    assert (tmp_path / "found.sarif").read_text().count('"ruleId"') == int(status)


@pytest.mark.parametrize(("args", "end", "written"), [("--select EXP1O1", "", ""), ("", "exit 2", "written=true\n")])
def test_the_action_uploads_whatever_was_written(tmp_path: Path, args: str, end: str, written: str) -> None:
    lint_step(tmp_path, BRANCH, args, end)
    assert (tmp_path / "output").read_text() == f"status=2\n{written}"
    (upload,) = [step for step in steps() if "upload-sarif" in step.get("uses", "")]
    own = "(github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository)"
    assert " ".join(upload["if"].split()) == (
        f"inputs.upload-sarif == 'true' && steps.lint.outputs.written == 'true' && {own}"
    )


def recipes() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)


def test_recipes_are_yaml() -> None:
    assert len(recipes()) == 4
    for recipe in recipes():
        assert yaml.safe_load(recipe)


@pytest.mark.parametrize(("text", "status"), [("x = 1\n", 0), (BRANCH, 1), (None, 2)])
def test_the_script_of_the_gitlab_recipe_writes_its_reports(tmp_path: Path, text: str | None, status: int) -> None:
    (tmp_path / "model.py").write_text(text or "x = 1\n")
    if text is None:  # what is refused is told in both reports
        (tmp_path / "old").mkdir()
        (tmp_path / "old" / "model.py").write_text("x = 1\n")
        (tmp_path / "old" / "exportlint.toml").write_text("selct = 1\n")
    job = yaml.safe_load(recipes()[-1])["exportlint"]
    commands = [line for line in job["script"] if line.startswith("exportlint check")]
    script = "\n".join([f'exportlint() {{ "{sys.executable}" -m exportlint "$@"; }}', *commands])
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, check=False)
    assert (len(commands), done.returncode) == (2, status)
    assert all((tmp_path / report).is_file() for report in job["artifacts"]["reports"].values())
