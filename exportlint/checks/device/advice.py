"""Part of the check ``device``: advice on lines that write down a device or leave it out, without harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint import blame

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from exportlint.checks.device.report import Report
    from exportlint.devices.provenance import Made, Provenance

_MOST = 20


def advise_untried(report: Report, provenance: Provenance) -> None:
    """Tell of devices that are written down or missing, where there is no second device to see whether they bite."""
    for made in _by_line(provenance, "literal", "missing"):
        rule, what = _said(made)
        report.add(blame.finding(rule, f"{what}; whether that bites was not tried", made.place, outcome=None))


def advise_harmless(report: Report, provenance: Provenance) -> None:
    """Tell of literal devices that do not bite: the tensors are 0-dim, an index, or moved before they meet any."""
    for made in _by_line(provenance, "literal"):
        rule, what = _said(made)
        message = f"{what}; nothing here meets it that it may not meet on another device"
        rewrite = "It may stay as it is."
        report.add(blame.finding(rule, message, made.place, outcome="fine", rewrite=rewrite))


def advise_returned(report: Report, provenance: Provenance, result: Sequence[torch.Tensor]) -> None:
    """Tell of tensors that the model returns on the CPU from the second device; 0-dim ones are as good there.

    Args:
        report: Where the advice goes.
        provenance: What watched the run on the second device.
        result: The tensors that it returned.
    """
    from exportlint.devices.provenance import Made

    for tensor in result:
        origin = provenance.origin(tensor) if tensor.device.type == "cpu" and tensor.dim() else None
        if isinstance(origin, Made) and origin.label != "followed":
            rule, what = _said(origin)
            message = f"{what}, and it is returned: the caller gets a tensor of the CPU whatever the inputs are on"
            report.add(blame.finding(rule, message, origin.place, outcome="fine"))


def _by_line(provenance: Provenance, *labels: str) -> list[Made]:
    """The first such call of each line that makes a tensor on the CPU."""
    lines = {
        made.place: made
        for made in reversed(provenance.calls)
        if made.label in labels and made.place is not None and made.device in (None, "cpu")
    }
    return list(reversed(lines.values()))[:_MOST]


def _said(made: Made) -> tuple[str, str]:
    if made.label == "literal":
        return "EXP201", f"`{made.call}` writes down the device {made.device}"
    what = f"`{made.call}`" if "." in made.call else made.call
    return "EXP202", f"{what} is given no device"
