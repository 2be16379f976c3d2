"""The second device as people use it in tests of their own: the example of the README, and where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from forking import in_fork

README = Path(__file__).parent.parent.parent / "README.md"


def example():
    """The example's names; its code is the README's."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (code,) = [block for block in blocks if "exportlint.devices" in block]
    names: dict = {}
    exec(code, names)
    return names


def test_the_example_of_the_readme_passes():
    in_fork(example()["test_follows_its_inputs"])


def test_the_example_fails_for_a_tensor_that_stays():
    def run():
        from exportlint.devices import DeviceMismatchError

        class Stays(torch.nn.Linear):
            def forward(self, x):
                return super().forward(x) + torch.ones(2)

        torch.nn.Linear = Stays
        with pytest.raises(DeviceMismatchError, match="second:0 and cpu"):
            example()["test_follows_its_inputs"]()

    in_fork(run)


def test_an_old_torch_is_named():
    def run():
        torch.__version__ = "2.9.1"
        from exportlint.devices import SecondDeviceUnavailableError

        words = r"^the second device needs torch 2\.10 or newer, this is 2\.9\.1$"
        with pytest.raises(SecondDeviceUnavailableError, match=words):
            example()["test_follows_its_inputs"]()

    in_fork(run)
