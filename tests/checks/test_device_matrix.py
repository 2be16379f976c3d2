"""Each way to bake a device, in each place of a model: found at its line, and silent once it is mended."""

from __future__ import annotations

import functools

import pytest
import torch
from device_kinds import CONTEXTS, KINDS, MARK, load, mended, within
from forking import in_fork

from exportlint.checks.context import Context, Settings
from exportlint.checks.device import check as device


def alarms(text, context, folder, name):
    """Rules, files and lines of the findings that count, and what was not checked."""
    source, holder = within(text, context, folder, name)
    torch.compiler.reset()  # each case has a process of its own elsewhere, with its own share of recompilations
    result = device.run(Context(load(source, folder, name), Settings(("device",)), lambda _: None))
    found = [(f.rule, f.file.rpartition("/")[2], f.line) for f in result.findings if f.severity != "info"]
    return {"found": found, "outcome": result.outcome, "reason": result.reason, "holder": f"{holder}.py"}


def of_context(context, folder):
    """What the check says of all kinds in this context, bad and mended."""
    results = {}
    for number, (name, kind) in enumerate(KINDS.items()):
        results[f"bad {name}"] = alarms(kind.text, context, folder, f"bad_{context}_{number}")
        results[f"good {name}"] = alarms(mended(kind), context, folder, f"good_{context}_{number}")
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of a context, found when they are first asked for."""

    @functools.cache
    def of(context):
        return in_fork(of_context, context, tmp_path_factory.mktemp(context), seconds=400)

    return of


def line_of(kind):
    return 2 + next(n for n, text in enumerate(kind.text.splitlines(), 1) if text.endswith(MARK))


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", KINDS)
def test_it_is_found_there(results, name, context):
    result = results(context)[f"bad {name}"]
    assert result["found"] == [[KINDS[name].rule, result["holder"], line_of(KINDS[name])]], result


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", KINDS)
def test_its_mended_twin_is_silent_there(results, name, context):
    assert results(context)[f"good {name}"]["found"] == []
