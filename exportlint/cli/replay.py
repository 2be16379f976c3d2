"""``exportlint replay``: run a saved program node by node."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from exportlint.cli.paths import GivenPath
from exportlint.cli.report_options import MOST_SECONDS, Amount, Refused
from exportlint.text import counted, one_line, visible

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.checks.isolation.job import Ending, Message

GUARDS = "_guards_fn"  # the node in which a program looks at its arguments


@click.command()
@click.argument("file", type=GivenPath(), metavar="FILE.pt2")
@click.option(
    "--inputs", type=GivenPath(), metavar="FILE.pt",
    help="The arguments, as torch.save writes them: a tuple, a mapping of keyword arguments, or a pair of both.  "
    "[default: those that the program was captured with]",
)  # fmt: skip
@click.option("--import", "imports", multiple=True, metavar="MODULE",
              help="Import this first, such as what registers operators. May be repeated.")  # fmt: skip
@click.option("--no-guards", is_flag=True, help="Run on where the program itself refuses the arguments.")
@click.option("--timeout", default=300.0, show_default=True, type=Amount(1, MOST_SECONDS), help="Seconds to compute.")
@click.option("--verbose", "-v", is_flag=True, help="Show each node with its line, and what it was given and returns.")
def replay(
    file: Path, inputs: Path | None, imports: tuple[str, ...], no_guards: bool, timeout: float, verbose: bool
) -> None:
    """Run a saved program node by node, and tell where it fails.

    Of the node that fails, its source line as it was recorded at the capture, the shapes that it was given and the
    error are told. The file is loaded by torch.export.load, in a process of its own: only replay what you trust, and
    look at other files with exportlint inspect.

    Exit status: 0 it ran, 1 it failed, 2 it cannot be loaded, or the inputs are not those of the program.
    """
    for path in (file, *([inputs] if inputs is not None else [])):
        if not path.is_file():
            raise Refused(f"{visible(str(path))}: {_why_no_file(path)}")
    if not zipfile.is_zipfile(file):  # seen before torch is loaded
        raise Refused(f"{visible(str(file))} is no saved program; torch.export.save writes one")
    told = Told(str(file), verbose)
    arguments = {
        "file": str(file.resolve()),
        "inputs": "" if inputs is None else str(inputs.resolve()),
        "imports": list(imports),
        "guards": not no_guards,
        "needs": _needs(file),
    }
    ending = _run(arguments, timeout, told)
    if told.refused is not None:
        raise Refused(one_line(visible(told.refused), 500))
    sys.exit(told.end(ending))


def _why_no_file(path: Path) -> str:
    if path.is_dir():
        return "is a folder"
    return "is no plain file, such as one of torch.save" if path.exists() else "no such file"


def _needs(file: Path) -> dict[str, list[str]]:
    """Operators that the program calls and classes that it takes or returns: what may be missing to load it."""
    from exportlint.inspecting import InspectError, inspect

    try:
        methods = inspect(file).methods
    except InspectError:  # loading tells more
        return {}
    return {
        "operators": sorted({name for method in methods for name, _ in method.operators if "::" in name}),
        "classes": sorted({name for method in methods for name in method.containers}),
    }


def _run(arguments: dict[str, Any], timeout: float, told: Told) -> Ending:
    from exportlint.checks import requirements
    from exportlint.checks.isolation import inline
    from exportlint.checks.isolation.client import ServerError, WorkerServer
    from exportlint.checks.isolation.job import Limits

    try:
        requirements.require_torch()
        if sys.platform != "linux":
            from exportlint.checks import replaying

            return inline.run(lambda emit: replaying.job(emit, **arguments), told.hear)
        server = WorkerServer()
        try:
            limits = Limits.for_timeout(timeout, jobs=1)
            return server.run("exportlint.checks.replaying:job", arguments, limits, told.hear)
        finally:
            server.close()
    except (requirements.MissingRequirementError, ServerError) as error:
        raise Refused(str(error)) from error


@dataclass
class Told:
    """What the worker said, printed as it comes.

    Attributes:
        file: What the program is called.
        verbose: Whether each node is printed.
        refused: Why there is nothing to run, in one line.
    """

    file: str
    verbose: bool
    refused: str | None = None
    stage: str = "loading"
    nodes: int = 0
    node: dict[str, Any] | None = None
    failed: dict[str, Any] | None = None
    outputs: list[str] | None = None
    notes: list[str] = field(default_factory=list)

    def hear(self, message: Message) -> None:
        """Take note of a message."""
        self.stage, self.nodes = message.get("stage", self.stage), message.get("nodes", self.nodes)
        self.refused = message.get("refused", self.refused)
        self.node, self.failed = message.get("node", self.node), message.get("failed", self.failed)
        self.outputs = message.get("outputs", self.outputs)
        ran = message.get("ran")
        if ran is None or self.node is None:
            return
        if ran["nan"]:
            self.notes.append(f"the first NaN is made by {_place(self.node)}")
        if self.verbose:
            given = ", ".join(self.node["arguments"])
            _print(f"{self.node['number']:5d} {self.node['name']} = {self.node['target']}({given})")
            _print(f"      -> {ran['value']}  {1e3 * ran['seconds']:.2f} ms  {self.node['line']}".rstrip())

    def end(self, ending: Ending) -> int:
        """Print what came of it; the exit status."""
        for note in self.notes:
            _print(note)
        if self.failed is not None:
            self._tell_failure(self.failed, self.failed["error"])
        elif self.outputs is not None:
            _print(f"{self.file}: {counted(self.nodes, 'node')} ran; it returns {', '.join(self.outputs) or 'nothing'}")
            return 0
        elif self.node is not None:
            self._tell_failure(self.node, f"the process {ending.words}")
        else:
            _print(f"{self.file}: the process {ending.words} while it was {self.stage}")
        return 1

    def _tell_failure(self, node: dict[str, Any], error: str) -> None:
        if node["name"] == GUARDS:
            _print(f"{self.file}: the program refuses these inputs: {error}")
            return
        _print(f"{self.file}: node {node['number']} of {self.nodes} fails: {node['name']} ({node['target']})")
        _print(f"  at {node['line'] or 'a line that was not recorded'}")
        _print(f"  given {', '.join(node['arguments']) or 'nothing'}")
        _print(f"  {error}")


def _place(node: dict[str, Any]) -> str:
    where = f" at {node['line']}" if node["line"] else ""
    return f"node {node['number']}, {node['name']} ({node['target']}){where}"


def _print(line: str) -> None:
    indent = len(line) - len(line.lstrip())
    click.echo(" " * indent + one_line(visible(line), 2000))
