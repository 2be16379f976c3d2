"""What the first call reads of its surroundings: whether that matters, and the program keeps the answer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from exportlint import blame, places
from exportlint.checks.context import seed_everything, unchanged
from exportlint.checks.state import files, writes
from exportlint.checks.state.elsewhere import Elsewhere
from exportlint.checks.state.surroundings import OTHER_SEEDS, OTHER_VALUES, SHIFTS, Read, Twin
from exportlint.checks.wrong_result import told, values_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.case import Inputs
    from exportlint.checks.state.inquiry import Inquiry
    from exportlint.places import Place

MAX_FILES = 6  # that are given other contents
MAX_LINES = 5  # of reads of one kind

_TRIED = {
    "clock": "its result was the same at each time that was tried",
    "random": "its result was the same with each seed that was tried",
    "entropy": "its result was the same in two calls",
    "environment": "its result was the same with each value that was tried",
    "file": "the program keeps what it held",
    "path": "its result was the same with each answer that was tried",
}
_CALLED = {"environment": "the environment variable ", "file": "the file ", "path": "what the file system says of "}


class Reads:
    """What was read, and what of it matters.

    Args:
        inquiry: The model case, once the first call was watched.
        first: What that call returned.
    """

    def __init__(self, inquiry: Inquiry, first: Any) -> None:
        self.inquiry, self.first, self.elsewhere = inquiry, first, Elsewhere(inquiry)
        self.frozen: set[Place] = set()  # the lines whose reads matter

    def judge(self) -> None:
        """Confirm what was read by twins; what has no effect is information."""
        if not self.inquiry.reads:
            return
        clocks, base = self.inquiry.of_kind("clock"), self.first
        for shift in SHIFTS:
            twin = Twin(clock=True, shift=shift)
            self._confirm(clocks, base, twin, "at another time")
        for seed in OTHER_SEEDS:
            twin = Twin(clock=bool(clocks), seed=seed)
            words = "with another seed of Python's and numpy's random numbers"
            self._confirm(self.inquiry.of_kind("random"), base, twin, words)
        for name in dict.fromkeys(read.what for read in self.inquiry.of_kind("environment")):
            self._judge_variable(name, base, bool(clocks))
        self._judge_files(base, bool(clocks))
        drawn = self.inquiry.of_kind("entropy")
        if drawn and self.inquiry.compare(base, self.elsewhere.under(Twin(clock=bool(clocks)))) is not None:
            for read in drawn:
                self._frozen(read, "the eager model differs from itself with the same seeds")
        if any(read.what == "torch.manual_seed" for read in self.inquiry.reads):
            self._judge_seed()
        self._inform()

    def _confirm(self, reads: list[Read], base: Any, twin: Twin, words: str) -> None:
        """A finding for each line whose read changes what the eager model, and not the program, returns."""
        places = dict.fromkeys(read.place for read in reads)
        left = [place for place in places if place not in self.frozen]
        difference = self.elsewhere.confirmed(base, twin) if left else None
        if difference is None:
            return
        alone = list(places) if len(places) == 1 else [p for p in left if self.elsewhere.matters(p, base, twin)]
        together = list(places) if len(left) == len(places) else []  # else those that were found explain it
        for read in reads:
            if read.place in (alone or together)[:MAX_LINES]:
                self._frozen(read, f"{words}: {difference}")

    def _judge_variable(self, name: str, base: Any, clock: bool) -> None:
        reads = [read for read in self.inquiry.of_kind("environment") if read.what == name]
        mentioned = [text for read in reads for text in writes.strings_around(read.place) if text != name]
        for value in dict.fromkeys([*OTHER_VALUES, *mentioned[:MAX_LINES]]):
            difference = self.elsewhere.confirmed(base, Twin(clock=clock, variable=(name, value)))
            if difference is not None:
                words = f"with {name} {'not set' if value is None else f'set to {value!r}'}: {difference}"
                for read in reads:
                    self._frozen(read, words)
                return

    def _judge_files(self, base: Any, clock: bool) -> None:
        """A finding for the lines that read a file, or ask for it, where another answer changes the result."""
        reads = [*self.inquiry.of_kind("file"), *self.inquiry.of_kind("path")]
        for path in list(dict.fromkeys(read.path for read in reads))[:MAX_FILES]:
            here = [read for read in reads if read.path == path]
            mentioned = [text for read in here for text in writes.strings_around(read.place)][:MAX_LINES]
            with tempfile.TemporaryDirectory() as folder:
                for words, file in files.others(path, Path(folder), mentioned):
                    twin = Twin(clock=clock, file=file)
                    difference = self.elsewhere.confirmed(base, twin)
                    if difference is not None:
                        alone = [
                            read for read in here if len(here) == 1 or self.elsewhere.matters(read.place, base, twin)
                        ]
                        reads_it = [read for read in here if read.kind == here[0].kind]
                        for read in (alone or reads_it)[:MAX_LINES]:
                            self._frozen(read, f"{words}: {difference}")
                        break

    def _judge_seed(self) -> None:
        """``torch.manual_seed`` in forward runs once, at the capture: the program draws by the caller's seed."""
        ctx, program = self.inquiry.ctx, self.inquiry.program

        def reseeded(function: Callable[..., Any], inputs: Inputs) -> Any:
            seed_everything()
            torch.manual_seed(OTHER_SEEDS[0])
            with torch.no_grad():
                return function(*inputs[0], **inputs[1])

        expected = reseeded(self.inquiry.build(), ctx.example())
        with unchanged(program):
            difference = self.inquiry.compare(expected, reseeded(self.inquiry.module, ctx.example()))
        if difference is None:
            return
        found = values_part(ctx, program, ctx.example(), model=self.inquiry.build(), called=reseeded)
        evidence, _ = told(f"after another seed: {difference}", found, None)
        message = "torch.manual_seed runs while the model is captured and never in the program"
        for read in self.inquiry.reads:
            if read.what == "torch.manual_seed":
                self.inquiry.add("EXP303", message, read.place, evidence, "Seed in the caller.")

    def _frozen(self, read: Read, evidence: str) -> None:
        self.frozen.add(read.place)
        what = f"{_CALLED[read.kind]}{read.what}" if read.kind in _CALLED else f"`{read.what}`"
        message = f"state baked: {what} is read once, while the model is captured, and the program keeps the answer"
        rewrites = {
            "clock": "Pass the time in as a tensor.",
            **dict.fromkeys(_CALLED, "Read it in __init__, or pass it in."),
        }
        self.inquiry.add(
            "EXP303", message, read.place, evidence, rewrites.get(read.kind, "Draw it with torch, or pass it in.")
        )

    def _inform(self) -> None:
        """Reads without an effect that was seen, in the project's own files."""
        told = {(f.file, f.line) for f in self.inquiry.findings}
        opened = {(read.place, read.path) for read in self.inquiry.of_kind("file")}
        reads = [read for read in self.inquiry.reads if read.kind != "path" or (read.place, read.path) not in opened]
        quiet = [r for r in reads if r.kind != "seed" and not places.is_installed(r.place.file)]
        for read in quiet[: 2 * MAX_LINES]:
            message = f"{_CALLED.get(read.kind, '')}{read.what} is read when the model runs; {_TRIED[read.kind]}"
            found = blame.finding("EXP303", message, read.place, outcome="fine")
            if (found.file, found.line) not in told:
                self.inquiry.findings.append(found)
