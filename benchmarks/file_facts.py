"""Write what ``exportlint inspect`` knows of torch's files: ``exportlint/inspecting/torch_files.json``.

    python benchmarks/file_facts.py [OUTPUT]

Inspecting imports no torch, so what it must know is read here from the installed torch: the numbers of dtypes in saved
programs, the dtype of each class of storage, the names that ``torch.load(weights_only=True)`` accepts, and the
namespaces of the operators that come with torch.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from torch._export.serde import serialize
from torch._weights_only_unpickler import _get_allowed_globals

TABLE = Path(__file__).parent.parent / "exportlint" / "inspecting" / "torch_files.json"


def dtypes() -> dict[str, str]:
    """Name of the dtype by its number in a saved program."""
    numbers = serialize._TORCH_TO_SERIALIZE_DTYPE
    return {str(int(number)): str(dtype).removeprefix("torch.") for dtype, number in numbers.items()}


def storages() -> dict[str, str]:
    """Name of the dtype by the class of storage that a checkpoint names."""
    found = torch.storage._dtype_to_storage_type_map()
    return {name: str(dtype).removeprefix("torch.") for dtype, name in found.items()}


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", nargs="?", type=Path, default=TABLE)
    output = parser.parse_args().output
    operators = {name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names()}
    table = {
        "torch": torch.__version__.partition("+")[0],
        "dtypes": dtypes(),
        "storages": storages(),
        "weights_only": sorted(_get_allowed_globals()),
        "namespaces": sorted(operators | {"higher_order", "prim"}),
    }
    temporary = output.with_suffix(".tmp")
    temporary.write_text(json.dumps(table, indent=0) + "\n", encoding="utf-8")
    temporary.replace(output)
    print(f"{output}: torch {table['torch']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
