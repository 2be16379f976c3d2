"""Which ways to bake a device are found in which places of a model? Prints a table in Markdown.

    python benchmarks/device_matrix.py [--output FILE.md]

The kinds and the places are those of the tests (``tests/device_kinds.py``). *found*: at the exact line and by the
rule of the table; *other rule*: at the line, by another rule or by several; *elsewhere*: at another line, or more than
that line; *missed*: not at all; *alarm*: the mended twin is reported.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from device_kinds import CONTEXTS, KINDS, MARK, load, mended, within
from forking import in_fork

from exportlint import whole_file


def verdict(name: str, context: str, folder: Path, number: int) -> str:
    """What the check says of a kind in a context."""
    kind = KINDS[name]
    line = 2 + next(n for n, text in enumerate(kind.text.splitlines(), 1) if text.endswith(MARK))
    found, holder = alarms(kind.text, context, folder, f"bad_{context}_{number}")
    silent = not alarms(mended(kind), context, folder, f"good_{context}_{number}")[0]
    told = {(where, at) for _, where, at in found} == {(holder, line)}
    said = "found" if set(found) == {(kind.rule, holder, line)} else "other rule" if told else "elsewhere"
    said = said if found else "missed"
    return said if silent else f"{said}, alarm"


def alarms(text: str, context: str, folder: Path, name: str) -> tuple[list[tuple[str, str, int | None]], str]:
    """The rules and places of the findings that count, and the file that holds the lines."""
    import torch

    from exportlint.checks.context import Context, Settings
    from exportlint.checks.device import check as device

    source, holder = within(text, context, folder, name)
    torch.compiler.reset()  # each case has a process of its own elsewhere, with its own share of recompilations
    result = device.run(Context(load(source, folder, name), Settings(("device",)), lambda _: None))
    places = [(f.rule, Path(f.file or "").name, f.line) for f in result.findings if f.severity != "info"]
    return places, f"{holder}.py"


def of_context(context: str) -> dict[str, str]:
    """The verdicts of all kinds in this context."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        return {name: verdict(name, context, Path(folder), number) for number, name in enumerate(KINDS)}


def table(verdicts: dict[str, dict[str, str]]) -> str:
    """The table, with how it was made."""
    import torch

    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    every: list[Any] = [said for column in verdicts.values() for said in column.values()]
    made = (
        f"`python benchmarks/device_matrix.py`, {date}, torch {torch.__version__}, Python {platform.python_version()}"
    )
    alarmed = sum("alarm" in said for said in every)
    summary = (
        f"{len(KINDS)} kinds in {len(verdicts)} places: {every.count('found')} of {len(every)} found at the exact "
    )
    summary += f"line and by that rule, {alarmed} alarms on their mended twins."
    lines = ["# Ways to bake a device, by place", "", f"{made}; 2 CPU cores, no accelerator.", "", summary, ""]
    lines += [f"| kind | rule | {' | '.join(verdicts)} |", f"|---|---|{'---|' * len(verdicts)}"]
    rows = [f"| {n} | {k.rule} | {' | '.join(v[n] for v in verdicts.values())} |" for n, k in KINDS.items()]
    return "\n".join([*lines, *rows]) + "\n"


def main() -> int:
    """Try every kind in every context; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    text = table({context: in_fork(of_context, context, seconds=600) for context in ("plain", *CONTEXTS)})
    print(text)
    if options.output is not None:
        whole_file.write(options.output, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
