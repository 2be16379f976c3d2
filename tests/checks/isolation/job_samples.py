"""Jobs for the tests of worker processes: each ends in another way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path


def speaks(emit, word="hello"):
    emit({"said": word})


def starts_checks(emit, seconds):
    for name in ("one", "two", "three"):
        emit({"check": name})
        time.sleep(seconds)


def raises(emit):
    raise ValueError("no such thing\nand a second line")


def aborts(emit):
    os.abort()


def spins(emit):
    while True:
        sum(range(10_000))


def computes_on(emit, seconds, processor):
    """Take this much CPU time on one processor."""
    os.sched_setaffinity(0, {processor})
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def sleeps(emit):
    emit({"said": "asleep"})
    time.sleep(600)


def exits(emit, status):
    os._exit(status)


def system_exits(emit):
    sys.exit(3)


def fills_memory(emit):
    import torch

    kept = []
    while True:
        kept.append(torch.ones(4 << 20))


def reserves_memory(emit):
    import torch

    kept = []
    while True:
        kept.append(torch.zeros(64 << 20))


def prints_without_end(emit):
    while True:
        print("all work and no play " * 500)


def leaves_a_process(emit):
    started = subprocess.Popen(["sleep", "600"])
    emit({"left": started.pid})


def starts_a_process_and_sleeps(emit):
    started = subprocess.Popen(["sleep", "600"])
    emit({"left": started.pid})
    time.sleep(600)


def tells_surroundings(emit):
    emit({"environment": dict(os.environ), "cwd": str(Path.cwd()), "path": sys.path, "argv": sys.argv})


def tells_modules(emit):
    emit({"modules": sorted(sys.modules)})


def computes(emit):
    import torch

    torch.manual_seed(0)
    emit({"sum": float((torch.randn(600, 600) @ torch.randn(600, 600)).sum()), "threads": torch.get_num_threads()})


def prints_and_dies(emit):
    os.write(2, "last words é\n".encode())
    os.kill(os.getpid(), 9)


def says_much(emit):
    for i in range(200):
        emit({"said": i, "padding": "x" * 10_000})


IMPORTED: list[str] = []


def imports(emit, word):
    IMPORTED.append(word)
    emit({"pid_of_kept": os.getpid()})


def imports_and_starts_a_thread(emit, word):
    IMPORTED.append(word)
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


def tells_what_is_imported(emit):
    IMPORTED.append("changed")
    emit({"imported": IMPORTED[:-1], "parent": os.getppid()})


def allocates(emit, mebibytes):
    emit({"allocated": len(bytearray(mebibytes << 20))})


def sleeps_for(emit, seconds):
    emit({"said": "dozing"})
    time.sleep(seconds)
    emit({"said": "awake"})


def tells_what_an_export_imports(emit):
    import torch

    before = set(sys.modules)
    with torch.no_grad():
        torch.export.export(torch.nn.Linear(2, 3), (torch.ones(4, 2),), strict=False).module()(torch.ones(4, 2))
    emit({"imported": [name for name in sys.modules if name.startswith("torch") and name not in before]})
