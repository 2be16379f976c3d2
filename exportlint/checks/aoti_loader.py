"""Load a package of AOTInductor in a process of its own, run calls with it, and save what it returns.

It is a script for a fresh interpreter, ``python -I aoti_loader.py FOLDER``, in which only torch is needed: neither
exportlint nor the model's own packages are imported.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

PACKAGE, CALLS, RESULTS, SAID = "aoti.pt2", "aoti_calls.pt", "aoti_results.pt", "aoti.json"


def main(folder: Path) -> None:
    """Say in `SAID` how far it came: the step, the error in one line or ``null``, the seconds that loading took."""
    said: dict[str, Any] = {"step": "read the calls", "error": None, "seconds": 0.0}
    try:
        _run(folder, said)
    except Exception as error:
        text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        said["error"] = f"{type(error).__name__}: {text}"[:300]
    (folder / SAID).write_text(json.dumps(said), encoding="ascii")


def _run(folder: Path, said: dict[str, Any]) -> None:
    import torch
    from torch.utils import _pytree as pytree

    torch.set_num_threads(1)
    calls = torch.load(folder / CALLS, weights_only=True)
    said["step"], began = "load", time.monotonic()
    package = torch._inductor.aoti_load_package(str(folder / PACKAGE))
    said["seconds"], results = time.monotonic() - began, []
    for number, (args, kwargs) in enumerate(calls):
        said["step"] = f"call {number + 1}"
        torch.manual_seed(0)
        with torch.no_grad():
            leaves = pytree.tree_leaves(package(*args, **kwargs))
        results.append([leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves])
    said["step"] = "save the results"
    torch.save(results, folder / RESULTS)
    said["step"] = "end"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
