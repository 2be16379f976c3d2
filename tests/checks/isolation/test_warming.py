from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os
from pathlib import Path

import torch
from exportlint.checks.isolation import warming

def threads():
    return len(list(Path("/proc/self/task").iterdir()))

torch.manual_seed(5)
before, state = threads(), torch.get_rng_state()
warming.warm_up()
print(threads() - before, torch.equal(state, torch.get_rng_state()))

pid = os.fork()
if pid == 0:
    torch.set_num_threads(2)
    big = torch.ones(1500, 1500)
    print(int((big @ big)[0, 0]), int(big.cos().exp().sum() > 0), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""


def test_a_child_of_a_warm_process_computes_with_several_threads():
    done = subprocess.run([sys.executable, "-uc", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["0 True", "1500 1"], done.stderr


def test_a_warm_server_exports_without_torchs_first_time(server):
    from exportlint.checks.isolation.job import Limits

    limits, said = Limits(cpu_seconds=60, wall_seconds=60, memory_bytes=2 << 30), []
    job = "job_samples:tells_what_an_export_imports"
    assert server.run(job, {}, limits, said.append, keep="cold").how == "done"
    assert said.pop() != {"imported": []}
    assert server.run(job, {}, limits, said.append, warm=True).how == "done"
    assert server.run(job, {}, limits, said.append, use="cold", warm=True).how == "done"
    assert said == [{"imported": []}] * 2
