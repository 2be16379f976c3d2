"""Children of the worker server that are kept to be forked, once they have imported what many jobs import."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import psutil
from commands import gone, wait_until

from exportlint.checks.isolation.job import Limits
from exportlint.checks.isolation.server import KEPT

LIMITS = Limits(cpu_seconds=30, wall_seconds=30, memory_bytes=2 << 30)


def run(server, job, said, *, limits=LIMITS, keep="", use="", **arguments):
    return server.run(f"job_samples:{job}", arguments, limits, said.append, keep=keep, use=use)


def keep(server, word, job="imports", **options):
    """Keep a child; its process."""
    said: list = []
    assert run(server, job, said, keep=word, word=word, **options).how == "done"
    return said[0]["pid_of_kept"] if said else None


def imported(server, word):
    said: list = []
    assert run(server, "tells_what_is_imported", said, use=word).how == "done"
    return said[0]["imported"], said[0]["parent"]


def test_jobs_are_forked_from_the_child_that_is_kept_and_change_nothing_in_it(own):
    pids = {word: keep(own, word) for word in ("one", "two")}
    for word in ("one", "two", "one"):
        assert imported(own, word) == ([word], pids[word])
    assert imported(own, "a third")[0] == []


def test_a_child_that_started_a_thread_is_not_kept(own):
    keep(own, "one", "imports_and_starts_a_thread")
    assert imported(own, "one")[0] == []


def test_a_child_whose_job_fails_is_not_kept(own):
    said: list = []
    assert run(own, "raises", said, keep="one").how == "exit"
    assert imported(own, "one")[0] == []


def test_a_child_that_was_killed_is_done_without(own):
    pid = keep(own, "one")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: gone(pid), 5, "it was not killed")
    assert imported(own, "one")[0] == []
    pid = keep(own, "one")
    assert imported(own, "one") == (["one"], pid)


def test_a_child_is_kept_for_the_same_surroundings(own, monkeypatch, tmp_path):
    pid = keep(own, "one")
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another")
    assert imported(own, "one") == (["one"], pid)
    monkeypatch.setenv("WIDTH", "3")
    assert imported(own, "one")[0] == []
    monkeypatch.delenv("WIDTH")
    assert imported(own, "one") == (["one"], pid)
    monkeypatch.chdir(tmp_path)
    assert imported(own, "one")[0] == []


def test_one_too_many_is_let_go_and_ends_after_its_last_job(own):
    first, said = keep(own, "first"), list[dict]()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run, own, "sleeps_for", said, use="first", seconds=4)
        wait_until(lambda: said, 10, "the job said nothing")
        for i in range(KEPT):
            keep(own, f"number {i}")
        assert imported(own, "first")[0] == []
        assert future.result(timeout=20).how == "done"
    assert said[-1] == {"said": "awake"}
    wait_until(lambda: gone(first), 5, "it is kept all the same")
    assert imported(own, "number 0")[0] == ["number 0"]


def test_limits_of_the_job_that_imported_are_not_those_of_later_ones(own):
    tight = Limits(cpu_seconds=1, wall_seconds=30, memory_bytes=300 << 20)
    keep(own, "one", limits=tight)
    said: list = []
    assert run(own, "allocates", said, use="one", mebibytes=600).how == "done"
    assert run(own, "allocates", said, use="one", mebibytes=600, limits=tight).how == "memory"
    assert run(own, "computes", said, use="one").how == "done"


def test_a_job_in_a_child_of_a_kept_one_is_stopped_and_its_end_is_told(own):
    keep(own, "one")
    said: list = []
    assert run(own, "aborts", said, use="one").words == "was killed by SIGABRT"
    assert run(own, "exits", said, use="one", status=3).words == "ended with status 3"
    short = Limits(cpu_seconds=30, wall_seconds=1, memory_bytes=2 << 30)
    assert run(own, "sleeps", said, use="one", limits=short).how == "wall"


def test_all_end_with_the_server(own):
    pid, said = keep(own, "one"), list[dict]()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run, own, "sleeps", said, use="one")
        wait_until(lambda: said, 10, "the job said nothing")
        job = psutil.Process(pid).children()[0].pid
        os.kill(own._process.pid, signal.SIGKILL)
        assert future.result(timeout=20).how == "lost"
    wait_until(lambda: gone(pid), 5, "the kept child outlives its server")
    wait_until(lambda: gone(job), 5, "the job outlives its server")


def test_what_a_job_started_ends_with_the_caller(own):
    keep(own, "one")
    said: list = []
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run, own, "starts_a_process_and_sleeps", said, use="one")
        wait_until(lambda: said, 10, "the job said nothing")
        own._control.close()  # as the end of the caller does
        wait_until(lambda: gone(said[0]["left"]), 10, "what the job started outlives the caller")
        own._control = None
        future.result(timeout=20)
