"""TorchInductor, the default backend of ``torch.compile`` and the compiler behind AOTInductor: what it needs here."""

from __future__ import annotations

import re
from typing import Any

from exportlint.text import said

# Processes that compile would outlive the call, and what a child of a worker starts is ended with it.
OPTIONS: dict[str, Any] = {"compile_threads": 1}
NO_COMPILER = "there is no C++ compiler, which TorchInductor needs"
REFUSED = re.compile(r"InvalidCxxCompiler|No working C\+\+ compiler|Compiler: .* is not found")


def lacks(error: BaseException) -> str | None:
    """What this machine lacks, where that is why the exception was raised."""
    text = f"{type(error).__name__}: {said(error)}"
    return NO_COMPILER if REFUSED.search(text) else None
