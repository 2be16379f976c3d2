"""Parts of a check that run in a child of its process."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from exportlint.checks.isolation import apart

LEFT: list[int] = []


def test_what_a_part_leaves_behind_is_gone():
    def part():
        LEFT.append(1)
        return {"left": LEFT, "pid": os.getpid(), "threads": torch.get_num_threads()}

    said = apart.run(part)
    assert (said["left"], LEFT, said["threads"]) == ([1], [], 1)
    assert said["pid"] != os.getpid()


def test_a_part_computes_after_a_big_operator_of_its_parent():
    big = torch.ones(700, 700)
    assert (big @ big).sum().item() == apart.run(lambda: (big @ big).sum().item())


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
        (lambda: os._exit(7), "ended with status 7"),
        (lambda: os._exit(0), "ended with status 0"),
        (lambda: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_part_that_dies(part, words):
    with pytest.raises(apart.DiedError, match=words):
        apart.run(part)


def test_a_part_that_runs_out_of_memory():
    def part():
        raise MemoryError

    with pytest.raises(MemoryError):
        apart.run(part)


def test_where_forks_are_unsafe_it_runs_here(monkeypatch):
    monkeypatch.setattr(apart.sys, "platform", "darwin")
    assert apart.run(os.getpid) == os.getpid()
