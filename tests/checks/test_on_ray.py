"""Cases as tasks of a Ray cluster, whose nodes the tests start on this machine; skipped where ray is not installed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from commands import exportlint, wait_until

from exportlint.checks.on_ray import Needs, NoClusterError, RayExecutor

# Each case tells that it runs, and in which process, and waits until the test lets it go on.
CASES = """
import os, pathlib, time, torch
from exportlint import ModelCase

def made(name):
    pathlib.Path(f"started-{name}-{os.getpid()}").touch()
    while not pathlib.Path(f"go-{name}").exists():
        time.sleep(0.1)
    return torch.nn.Linear(2, 2)

a, b, c = (ModelCase(lambda n=n: made(n), (torch.ones(2, 2),), name=n) for n in "abc")
"""


def test_where_ray_is_missing_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        NoClusterError, match=r"^--executor ray needs the package ray: pip install 'exportlint\[ray\]'$"
    ):
        RayExecutor("auto", Needs())


def test_without_ray_or_its_cluster_the_status_is_2(tmp_path):
    (tmp_path / "cases.py").write_text(CASES)
    ran = exportlint("report", "cases.py", "--executor", "ray", cwd=tmp_path, env={"RAY_ADDRESS": ""})
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(("error: --executor ray needs the package ray", "error: no Ray cluster can be reached"))
    assert ran.err.count("\n") == 1


def test_where_nothing_answers_that_is_told_at_once():
    pytest.importorskip("ray")
    with pytest.raises(NoClusterError, match=r"^no Ray cluster can be reached at 127\.0\.0\.1:1: .*refused"):
        RayExecutor("127.0.0.1:1", Needs())


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """A cluster whose head runs nothing; nodes are added by the test."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    (tmp_path / "cases.py").write_text(CASES)
    little = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **little})
    made.node = lambda: made.add_node(num_cpus=1, memory=2 * 2**30, **little)
    yield made
    made.shutdown()


def started(folder, name="*"):
    return list(folder.glob(f"started-{name}-*"))


def go(folder, names):
    for name in names:
        (folder / f"go-{name}").touch()


def run(cluster, folder, *arguments):
    command = [sys.executable, "-m", "exportlint", "report", "cases.py", "--checks", "capture", "--case-memory", "1"]
    return subprocess.Popen(
        [*command, "--executor", f"ray:{cluster.address}", "--output", "r.json", *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ,
    )  # fmt: skip


@pytest.mark.slow
def test_cases_run_on_both_nodes_and_those_of_a_lost_node_are_run_again(cluster, tmp_path):
    _, second = cluster.node(), cluster.node()
    process = run(cluster, tmp_path)
    try:
        wait_until(lambda: len(started(tmp_path)) == 2, 120, "two cases do not run at once")  # one CPU a node
        cluster.remove_node(second, allow_graceful=False)
        go(tmp_path, "abc")
        out, _ = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 0, out
    assert "3 cases, 3 checks: 3 passed" in out
    names = sorted(path.name.split("-")[1] for path in started(tmp_path))
    again = {name for name in names if names.count(name) > 1}
    assert len(again) == 1  # the case of the lost node ran twice


@pytest.mark.slow
def test_a_cluster_without_room_is_told(cluster, tmp_path):
    cluster.node()
    process = run(cluster, tmp_path, "--case-cpus", "4")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert out == "error: no node of the Ray cluster has what a case takes: 4 CPU, 1 GiB\n"


@pytest.mark.slow
def test_results_stream_back_and_an_interrupt_keeps_them(cluster, tmp_path):
    cluster.node()
    go(tmp_path, "ab")
    process = run(cluster, tmp_path)
    kept = tmp_path / ".exportlint_cache" / "unfinished"
    try:
        wait_until(lambda: any(f.read_bytes().count(b"\n") == 2 for f in kept.glob("*.jsonl")), 120, "nothing is kept")
        wait_until(lambda: started(tmp_path, "c"), 60, "the third case does not start")
        process.terminate()
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, out
    go(tmp_path, "c")
    ran = exportlint(
        "report", "cases.py", "--checks", "capture", "--case-memory", "1", "--resume",
        "--executor", f"ray:{cluster.address}", cwd=tmp_path,
    )  # fmt: skip
    assert ran.status == 0, ran.err
    assert "3 cases, 3 checks: 3 passed" in ran.out
    assert len(started(tmp_path, "a")) == 1
