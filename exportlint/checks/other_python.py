"""Interpreters of other environments, with another torch, in which a saved program is loaded as well."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

SECONDS = 120.0  # that an interpreter may take to import torch, on a slow disk
_ASK = "import platform, torch; print('torch ' + torch.__version__ + ', Python ' + platform.python_version())"


@dataclass(frozen=True, slots=True)
class OtherPython:
    """An interpreter.

    Attributes:
        path: Where it is.
        words: Its torch and its version.
    """

    path: str
    words: str


def identify(path: str) -> OtherPython:
    """Ask an interpreter which torch it has.

    Raises:
        ValueError: When it is none, or has no torch, in one line.
    """
    file = Path(path).absolute()  # no link is followed: a virtual environment is known by its own
    if not file.is_file() or not os.access(file, os.X_OK):
        raise ValueError(f"{path} is no program that can be run")
    try:
        ran = subprocess.run(
            [str(file), "-I", "-c", _ASK], capture_output=True, text=True, errors="backslashreplace", timeout=SECONDS,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"{path} does not run: {str(error).splitlines()[0]}") from error
    words = ran.stdout.strip()
    if ran.returncode or not words.startswith("torch "):
        last = (ran.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise ValueError(f"{path} cannot import torch: {last}")
    return OtherPython(str(file), words.splitlines()[-1])
