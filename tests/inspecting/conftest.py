"""Files to look into, made by the torch that runs the tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A folder with a file of each kind."""
    import torch
    from torch import nn
    from torch.export import Dim

    folder = tmp_path_factory.mktemp("saved")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)
            self.register_buffer("offset", torch.ones(3))
            self.constant = torch.ones(3)

        def forward(self, x, other, number, flag=True):
            return self.linear(x) * number + self.offset + self.constant, other + 1

    batch = Dim("batch", min=2, max=50)
    program = torch.export.export(
        Model().eval(),
        (torch.randn(4, 4), torch.randn(8, 3), 7),
        dynamic_shapes={"x": {0: batch}, "other": {0: 2 * batch}, "number": Dim.AUTO},
    )
    torch.export.save(program, folder / "program.pt2")
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    states = {"model": model.state_dict(), "epoch": 3, "best": [1.0, None], "half": torch.ones(2, dtype=torch.bfloat16)}
    torch.save(model.state_dict(), folder / "state.pth")
    torch.save(states, folder / "checkpoint.pt")
    torch.save(model, folder / "module.pt")
    torch.save(model.state_dict(), folder / "legacy.pth", _use_new_zipfile_serialization=False)
    torch.save({"a": 1}, folder / "numbers.pt")
    torch.jit.save(torch.jit.trace(nn.Linear(4, 3), torch.randn(2, 4)), folder / "script.pt")
    return folder
