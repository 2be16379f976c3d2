"""What the check `device` asks of results on two devices."""

from __future__ import annotations

import torch

from exportlint import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.checks.device import twin
from exportlint.parity.reference import Reference


def test_results_are_compared_once_and_judged_by_the_float64_run(monkeypatch):
    asked = []
    monkeypatch.setattr(twin, "compare", lambda *_, **given: asked.append(given))
    ctx = Context(ModelCase(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), Settings(("device",)), lambda _: None)
    assert twin.difference(ctx, [torch.ones(2)], [torch.zeros(2)]) is None
    assert [(sorted(given), type(given["reference"])) for given in asked] == [(["reference"], Reference)]
