from __future__ import annotations

import contextlib
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from commands import gone, wait_until

from exportlint.checks.isolation import client
from exportlint.checks.isolation.client import ServerError, WorkerServer
from exportlint.checks.isolation.job import Limits

LIMITS = Limits(cpu_seconds=30, wall_seconds=30, memory_bytes=2 << 30)


def pid_of(server: WorkerServer) -> int:
    assert server._process is not None
    return server._process.pid


def run(server: WorkerServer, job: str, said: list, **arguments):
    return server.run(f"job_samples:{job}", arguments, LIMITS, said.append)


def test_a_server_killed_between_two_jobs_is_started_anew(own):
    said: list = []
    assert run(own, "speaks", said).how == "done"
    first = pid_of(own)
    os.kill(first, signal.SIGKILL)
    assert run(own, "speaks", said).how == "done"
    assert pid_of(own) != first
    assert said == [{"said": "hello"}] * 2


def test_a_server_killed_during_a_job_loses_it_and_what_it_started(own):
    said: list = []
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run, own, "starts_a_process_and_sleeps", said)
        wait_until(lambda: said, 30, "the job said nothing")
        child = psutil.Process(said[0]["left"]).ppid()
        os.kill(pid_of(own), signal.SIGKILL)
        ending = future.result(timeout=20)
    assert (ending.how, ending.words) == ("lost", "was lost with its worker server")
    wait_until(lambda: gone(child), 5, "the job outlives its server")
    wait_until(lambda: gone(said[0]["left"]), 5, "what the job started outlives the server")
    assert run(own, "speaks", said).how == "done"


def test_jobs_at_once_from_several_threads(server):
    def one(i: int) -> list:
        said: list = []
        assert run(server, "speaks", said, word=str(i)).how == "done"
        return said

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(12))) == [[{"said": str(i)}] for i in range(12)]


def test_closing_ends_the_server_and_its_jobs():
    server, said = WorkerServer(), []
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run, server, "starts_a_process_and_sleeps", said)
        wait_until(lambda: said, 30, "the job said nothing")
        pid = pid_of(server)
        server.close()
        assert future.result(timeout=20).how == "lost"
    assert gone(pid)
    wait_until(lambda: gone(said[0]["left"]), 5, "what the job started outlives the server")
    with pytest.raises(ServerError, match="was closed"):
        run(server, "speaks", said)
    server.close()


def test_a_message_handler_that_raises_ends_the_job(server):
    said: list = []

    def refuse(message):
        said.append(message)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        server.run("job_samples:starts_a_process_and_sleeps", {}, LIMITS, refuse)
    wait_until(lambda: gone(said[0]["left"]), 5, "the job goes on although nobody waits for it")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise RuntimeError('broken\\nbuild')", "RuntimeError: broken"),
        ("import no_such_package_of_torch", "No module named 'no_such_package_of_torch'"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_reported(own, tmp_path, monkeypatch, text, words):
    (tmp_path / "torch.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ServerError) as caught:
        own.start()
    message = str(caught.value)
    assert message.startswith("the checks need torch, which cannot be imported: ")
    assert words in message
    assert "\n" not in message


def test_a_server_that_dies_at_its_start_is_reported(own, tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("import os; os._exit(7)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ServerError, match="ended before it was ready"):
        own.start()


def test_a_server_that_hangs_at_its_start_is_reported_and_ended(own, tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("import time; time.sleep(600)")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(client, "START_SECONDS", 1.0)
    started = {p.pid for p in psutil.Process().children()}
    with pytest.raises(ServerError, match="hangs"):
        own.start()
    assert {p.pid for p in psutil.Process().children()} <= started


def test_the_working_directory_is_no_part_of_the_servers_module_path(own, tmp_path, monkeypatch):
    """A file of the user's named as a module of torch's must not reach the server."""
    (tmp_path / "sympy.py").write_text("raise RuntimeError('taken from the working directory')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    own.start()
    assert not gone(pid_of(own))


def test_a_working_directory_that_is_gone(own, tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        run(own, "speaks", [])


def test_the_server_prints_nothing_when_its_owner_leaves_while_it_starts(capfd):
    server = WorkerServer()

    def start():
        with contextlib.suppress(ServerError):
            server.start()

    thread = threading.Thread(target=start)
    thread.start()
    wait_until(lambda: server._control is not None, 10, "the server was not started")
    control = server._control
    assert control is not None
    pid = pid_of(server)
    control.shutdown(2)
    thread.join(timeout=30)
    wait_until(lambda: gone(pid), 10, "the server outlives its owner's interest")
    server.close()
    assert capfd.readouterr() == ("", "")


def of_the_process(server: WorkerServer) -> dict[str, str]:
    return psutil.Process(pid_of(server)).environ()


def test_threads_that_wait_for_work_do_not_spin_and_jobs_are_told_nothing_of_it(own, monkeypatch):
    for name in client.WAITING:
        monkeypatch.delenv(name, raising=False)
    said: list = []
    assert run(own, "tells_surroundings", said).how == "done"
    assert "OMP_WAIT_POLICY" not in said[0]["environment"]
    assert of_the_process(own)["OMP_WAIT_POLICY"] == "passive"


def test_how_threads_wait_is_the_users_choice(own, monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "17")
    own.start()
    assert of_the_process(own)["GOMP_SPINCOUNT"] == "17"
    assert "OMP_WAIT_POLICY" not in of_the_process(own)
