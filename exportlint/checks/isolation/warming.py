"""A small model is exported, saved, loaded and run in the worker server, so that no child pays for torch's first time.

torch imports a part of itself, and fills tables of its own, when it exports, saves or loads for the first time. This
process computes with one thread here: a team of threads would be missing in the children.
"""

from __future__ import annotations

import io

import torch
from torch import nn
from torch.export import Dim

from exportlint.devices import hooks
from exportlint.rules import catalogue


class _Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layer(x).view(x.shape[0], 2, 2) + torch.arange(2, device=x.device)
        return made


def warm_up() -> None:
    """Do once what nearly every check does."""
    torch.set_num_threads(1)
    catalogue()
    hooks.factories()
    shapes = ({0: Dim.DYNAMIC},)
    file = io.BytesIO()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        program = torch.export.export(_Small(), (torch.ones(3, 4),), dynamic_shapes=shapes, strict=False)
        torch.export.save(program, file)
        file.seek(0)
        torch.export.load(file).module()(torch.ones(2, 4))
