"""Every way in which a job can end, in a child of the server and in a fork of the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import job_samples
import psutil
import pytest
from commands import gone, line_of, wait_until

from exportlint.checks import results
from exportlint.checks.isolation import watch

if TYPE_CHECKING:
    from exportlint.checks.isolation.job import Ending

JOBS = Path(job_samples.__file__)
MIB = 2**20


def place(ending: Ending) -> tuple[str, int] | None:
    found = results.fatal_place(ending.output)
    return found and (found.file, found.line)


def at(text: str) -> tuple[str, int]:
    return str(JOBS), line_of(JOBS, text)


def test_a_job_that_ends_says_what_it_has_to_say(jobs):
    assert jobs.run("speaks", {"word": "gr\u00fcezi \U0001f642\n"}).how == "done"
    assert jobs.said == [{"said": "gr\u00fcezi \U0001f642\n"}]


def test_lone_surrogates_arrive_as_escapes(jobs):
    text = "raise ValueError('\\udc80') # \udc80 \U0001f642"
    assert jobs.run("speaks", {"word": text}).how == "done"
    assert jobs.said == [{"said": text.replace("\udc80", "\\udc80")}]


def test_a_job_sees_surroundings_that_are_not_utf8(jobs, monkeypatch, tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    monkeypatch.setenv("ODD", os.fsdecode(b"\xff"))
    monkeypatch.chdir(folder)
    assert jobs.run("tells_surroundings").how == "done"
    assert (jobs.said[0]["environment"]["ODD"], jobs.said[0]["cwd"]) == ("\\udcff", str(tmp_path / "caf\\udce9"))


def test_messages_arrive_whole_and_in_order(jobs):
    assert jobs.run("says_much").how == "done"
    assert [message["said"] for message in jobs.said] == list(range(200))


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not tell who waits")
def test_the_time_for_which_others_keep_a_job_from_a_processor_does_not_count(jobs):
    processor = min(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    try:
        began = time.monotonic()
        assert jobs.run("computes_on", {"seconds": 1.0, "processor": processor}, wall=1.5).how == "done"
        assert time.monotonic() - began > 1.5
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_an_exception_ends_the_process_with_its_traceback(jobs):
    ending = jobs.run("raises")
    assert (ending.how, ending.code, ending.words) == ("exit", 1, "ended with status 1")
    assert place(ending) == at('raise ValueError("no such thing')


def test_abort(jobs):
    ending = jobs.run("aborts")
    assert (ending.how, ending.code, ending.words) == ("signal", signal.SIGABRT, "was killed by SIGABRT")
    assert place(ending) == at("os.abort()")


def test_cpu_time(jobs):
    ending = jobs.run("spins", cpu=0.5)
    assert (ending.how, ending.words) == ("cpu", "used up its CPU time")
    assert place(ending) == at("sum(range(10_000))")


def test_wall_clock_time(jobs):
    began = time.monotonic()
    ending = jobs.run("sleeps", wall=1)
    assert (ending.how, ending.words) == ("wall", "did not end in time")
    assert jobs.said == [{"said": "asleep"}]
    assert place(ending) == (str(JOBS), line_of(JOBS, 'emit({"said": "asleep"})') + 1)
    assert time.monotonic() - began < 5


def test_wall_clock_time_starts_anew_with_each_check(jobs):
    assert jobs.run("starts_checks", {"seconds": 0.7}, wall=1.2).how == "done"
    assert jobs.run("starts_checks", {"seconds": 1.5}, wall=0.7).how == "wall"


@pytest.mark.parametrize(
    ("job", "line"),
    [("fills_memory", "kept.append(torch.ones(4 << 20))"), ("reserves_memory", "kept.append(torch.zeros(64 << 20))")],
)
def test_memory_written_to_or_only_reserved(jobs, job, line):
    ending = jobs.run(job, memory=512 * MIB)
    assert (ending.how, ending.words) == ("memory", "used up its memory")
    assert place(ending) == at(line)


@pytest.mark.parametrize("status", [0, 7])
def test_exit_without_a_word(jobs, status):
    ending = jobs.run("exits", {"status": status})
    assert (ending.how, ending.code, ending.words) == ("exit", status, f"ended with status {status}")


def test_sys_exit_is_no_end_of_its_own(jobs):
    ending = jobs.run("system_exits")
    assert ending.how == "exit"
    assert place(ending) == at("sys.exit(3)")


def test_output_without_end(jobs, monkeypatch):
    monkeypatch.setattr(watch, "MAX_OUTPUT_BYTES", 8 * MIB)
    ending = jobs.run("prints_without_end")
    assert ending.how == "output"
    assert ending.words.startswith("printed more than")
    assert sum(map(len, ending.output)) <= watch.TAIL_BYTES


def test_last_words(jobs):
    ending = jobs.run("prints_and_dies")
    assert (ending.how, ending.code) == ("signal", signal.SIGKILL)
    assert results.last_words(ending.output) == "last words \u00e9"


@pytest.mark.parametrize(("job", "how"), [("leaves_a_process", "done"), ("starts_a_process_and_sleeps", "wall")])
def test_processes_that_a_job_started_end_with_it(jobs, job, how):
    assert jobs.run(job, wall=1).how == how
    pid = jobs.said[0]["left"]
    wait_until(lambda: gone(pid), 5, f"the process {pid} that the job started still runs")


def test_a_job_sees_the_callers_surroundings(jobs, monkeypatch, tmp_path):
    monkeypatch.setenv("EXPORTLINT_TEST_WORD", "h\u00e9")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "more"))
    assert jobs.run("tells_surroundings").how == "done"
    (said,) = jobs.said
    assert said["environment"] == dict(os.environ)
    assert said["cwd"] == str(tmp_path)
    assert said["path"][0] == str(tmp_path / "more")


def test_no_job_pays_for_what_an_export_imports(jobs):
    assert jobs.run("tells_modules").how == "done"
    assert {"torch", "torch._dynamo", "torch.export"} <= set(jobs.said[0]["modules"])


def test_a_parent_that_has_computed_can_be_forked(jobs):
    """OpenMP's threads do not live on in a child: a parallel region there would wait for them for ever."""
    import torch

    weight = torch.randn(2000, 2000, requires_grad=True)
    (weight @ weight).sum().backward()
    ending = jobs.run("computes", wall=20)
    assert ending.how == "done"
    assert jobs.said[0]["threads"] == 1


def test_file_descriptors_do_not_pile_up(jobs):
    before = psutil.Process().num_fds()
    for _ in range(3):
        jobs.run("speaks")
    assert psutil.Process().num_fds() <= before
