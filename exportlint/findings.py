"""The vocabulary shared by the linter, the checks and the reports: findings, outcomes and readiness.

Everything here is a frozen dataclass without behaviour that needs torch, so that each door can build, read and
write it. The JSON form of `Readiness` is the one from which every report format is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Severity = Literal["error", "warning", "info"]
# How a model is captured: torch.export as it is by default, with strict=True, torch.compile with a whole graph.
Mode = Literal["export", "export-strict", "compile"]
# What a hazard does in a capture mode.
Result = Literal["breaks", "silent", "specialises", "unportable", "fine"]
Outcomes = Mapping[Mode, Result]
Outcome = Literal["passed", "failed", "errored", "crashed", "timed_out", "not_checked"]

# How a prediction of the linter and what the checks saw fit together; see `exportlint.joining`.
Verdict = Literal["confirmed", "refuted", "not_exercised", "missed"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
MODES: tuple[Mode, ...] = get_args(Mode)
RESULTS: tuple[Result, ...] = get_args(Result)


@dataclass(frozen=True, slots=True)
class CheckKind:
    """A check that there is.

    Attributes:
        name: What it is called.
        does: What it does, in one line.
        optional: Whether it runs only where somebody asks for it by name, since it takes long or few need it.
    """

    name: str
    does: str
    optional: bool = False


# In the order in which they run and are shown.
IN_TRAINING = "captured in training mode"  # how a note begins that everybody is shown
CHECK_KINDS = (
    CheckKind("capture", "builds the model, calls it and exports it"),
    CheckKind("reload", "saves the program, then loads and runs it where only torch can be imported"),
    CheckKind("device", "runs the model and the program on a second device"),
    CheckKind("shapes", "calls the program with other sizes and contents"),
    CheckKind("twins", "exports from another example and in another dtype, which must give the same program"),
    CheckKind("state", "calls the model and the program again, also at other times and with other surroundings"),
    CheckKind("steps", "draws sequences of the case's steps"),
    CheckKind("methods", "captures the case's methods together and calls them one after the other"),
    CheckKind("training", "compares the gradients of the case's loss"),
    CheckKind("torchscript", "traces and scripts the model, as older deployments do", optional=True),
    CheckKind("checkpoint", "saves the state dict and a training, and loads them into a fresh model", optional=True),
    CheckKind("opset", "decomposes the program to core ATen, and looks for what runtimes lack", optional=True),
    CheckKind("compile", "captures the model as one graph with torch.compile, and compiles it", optional=True),
    CheckKind("aoti", "compiles the program with AOTInductor, and runs it in another process", optional=True),
    CheckKind("speed", "times eager, the program, the program compiled, and AOTInductor", optional=True),
    CheckKind("quantised", "quantises the model with torchao, exports it and loads it without torchao", optional=True),
    CheckKind("lint", "lays what the linter predicts over what the other checks saw"),
)
CHECKS = tuple(kind.name for kind in CHECK_KINDS)
DEFAULT_CHECKS = tuple(kind.name for kind in CHECK_KINDS if not kind.optional)
EVERY_CHECK = "all"  # stands for the optional ones, too
# The devices for the check ``device``. ``second`` needs no hardware; ``meta`` and ``fake-cuda`` hold no numbers.
DEVICES = ("second", "meta", "fake-cuda", "cuda", "mps", "xpu")
# The runtimes for whose limits the check ``opset`` looks.
PROFILES = ("executorch", "onnx", "aoti")
# In which a case can be checked beside its own.
VARIANTS = ("bfloat16", "float16", "autocast")
RED: frozenset[Outcome] = frozenset({"failed", "errored", "crashed", "timed_out"})

SCHEMA_VERSION = 1


def select_checks(names: Iterable[str]) -> tuple[str, ...]:
    """The checks of these names, in the order in which they run; of ``all`` every one.

    Raises:
        ValueError: When a name is not that of a check, or there is none.
    """
    wanted, known = tuple(names), f"known: {', '.join(CHECKS)}; or {EVERY_CHECK}"
    for name in wanted:
        if name not in (EVERY_CHECK, *CHECKS):
            raise ValueError(f"{name!r} is no check; {known}")
    if not wanted:
        raise ValueError(f"names no check; {known}")
    return CHECKS if EVERY_CHECK in wanted else tuple(name for name in CHECKS if name in wanted)


def are_chosen(checks: tuple[str, ...]) -> bool:
    """Whether somebody chose among the checks that run by default: these lack some of them."""
    return not set(DEFAULT_CHECKS) <= set(checks)


def listed_checks() -> str:
    """What an option that takes names of checks says of its values."""
    optional = ", ".join(kind.name for kind in CHECK_KINDS if kind.optional)
    return f"Default: {','.join(DEFAULT_CHECKS)}. Beside these, only by name or with {EVERY_CHECK}: {optional}."


_SEVERITY: Mapping[Result, Severity | None] = {
    "breaks": "error",
    "silent": "error",
    "specialises": "warning",
    "unportable": "warning",
    "fine": None,
}


def severity(outcomes: Outcomes, modes: Iterable[Mode] = MODES) -> Severity | None:
    """The worst that the outcomes in these modes stand for; ``None`` where nothing happens in any.

    Modes of which nothing is known do not count.
    """
    found = {_SEVERITY[outcomes[mode]] for mode in modes if mode in outcomes}
    return next((word for word in SEVERITIES if word in found), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule at a place.

    Attributes:
        rule: Code of the rule in the catalogue, such as ``EXP101``.
        severity: ``error`` and ``warning`` change the exit status, ``info`` never does. It follows from the outcomes
            in the modes that were asked for (`severity`), unless the finding is advice.
        message: What happens here, in one sentence.
        file: Path with forward slashes, relative to the working directory where the file lies inside it.
        line: First line, counted from 1; ``None`` where no line could be blamed.
        end_line: Last line, counted from 1.
        source: The text of the first line, without its indentation.
        rewrite: What to write instead.
        evidence: What was observed: torch's own words, the shapes that failed, the size of a difference.
        verdict: Of a prediction: ``confirmed`` by a check, ``refuted`` by one, or ``not_exercised``. Of what a check
            saw: ``confirmed`` where it was predicted, ``missed`` where it was not. ``None`` where nothing was joined.
        library: Whether a prediction is about a library's file, not about the project's.
        outcomes: What happens in each capture mode: of a prediction what its rule declares, of an observation what was
            seen in the mode that the check captured in.
        sizes: Of a prediction about sizes: the inputs' sizes that it is about, such as ``x.shape[0]``, where known.
    """

    rule: str
    severity: Severity
    message: str
    file: str | None = None
    line: int | None = None
    end_line: int | None = None
    source: str | None = None
    rewrite: str | None = None
    evidence: str | None = None
    verdict: Verdict | None = None
    library: bool = False
    outcomes: Outcomes = field(default_factory=dict, hash=False)
    sizes: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it changes the exit status: advice, predictions about libraries and refuted ones do not."""
        return self.severity != "info" and not self.library and self.verdict != "refuted"

    @property
    def identity(self) -> tuple[str, str, str]:
        """What the finding is known by in another run, where lines have moved: rule, file, and the text of the line."""
        return self.rule, self.file or "", (self.source or self.message).strip()

    @property
    def place(self) -> str:
        """``file:line``, as far as they are known."""
        if self.file is None:
            return "?"
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A number that a check measured, for plots.

    Attributes:
        of: What was measured. ``error``: in one call, the largest difference between program and eager model, as a part
            of the largest value that eager returns (the check ``shapes``). ``time``: of one way to run the model, as a
            part of eager's time (the check ``speed``).
        value: The number; the middle one where several were measured.
        low: The lower quartile of several.
        high: The upper quartile of several.
        label: What it was measured on, such as the way or the call; may be empty.
        size: Of an error: how many elements the tensors of the call have.
    """

    of: Literal["error", "time"]
    value: float
    low: float
    high: float
    label: str = ""
    size: int = 0

    @classmethod
    def rounded(
        cls, of: Literal["error", "time"], value: float, low: float | None = None, high: float | None = None,
        *, label: str = "", size: int = 0,
    ) -> Measurement:  # fmt: skip
        """A measurement in four digits; `value` alone where there is no spread."""
        numbers = (value, value if low is None else low, value if high is None else high)
        middle, lower, upper = (float(f"{number:.4g}") for number in numbers)
        return cls(of=of, value=middle, low=lower, high=upper, label=label, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A size that should be dynamic, and what the program makes of it.

    Attributes:
        name: The user's words for it, such as ``x.shape[0]``.
        asked: What it may be, in words.
        granted: What it may be in the program, in words.
        narrower: Whether that is less than was asked.
        place: ``file:line`` of the condition that narrows it; empty where none is known.
    """

    name: str
    asked: str
    granted: str
    narrower: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check found out about one model case.

    Attributes:
        name: Name of the check, such as ``capture``.
        outcome: One of `OUTCOMES`. A check that did not run is ``not_checked``, never ``passed``.
        reason: Why the outcome is what it is, in one line; ``None`` for a plain pass.
        seconds: Wall-clock time that the check took.
        findings: What it found, the worst first.
        notes: Further lines for a reader, such as the submodules that do export.
        expected: The reason given for an expected failure, if there is one; such a result is not counted as red.
        stack: Where it failed, in torch's own words: the traceback, or the stack that a dying process printed.
        cached: Whether an earlier run found this out, since when nothing changed that it depends on.
        runs: Whether the model runs, as far as the check knows; where it does not, no further check can say anything.
        numbers: Whether it had numbers to compare; a model without weights has none.
        inferred: How the inputs were inferred, where nobody wrote them down; told with the first check of a case.
        measured: What it measured.
        contract: The sizes that should be dynamic, of the check ``shapes``.
    """

    name: str
    outcome: Outcome
    reason: str | None = None
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    expected: str | None = None
    stack: str | None = None
    cached: bool = False
    runs: bool = True
    numbers: bool = True
    inferred: str | None = None
    measured: tuple[Measurement, ...] = ()
    contract: tuple[Dimension, ...] = ()

    @property
    def red(self) -> bool:
        """Whether the result makes a run fail: a red outcome, or a finding that counts, not expected."""
        if self.expected is not None:
            return False
        return self.outcome in RED or any(f.counts for f in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """All checks of one model case; `target` reads ``path/file.py[:name]``."""

    name: str
    target: str
    checks: tuple[CheckResult, ...] = ()

    @property
    def red(self) -> bool:
        """Whether any check is red."""
        return any(check.red for check in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetError:
    """A TARGET, or a part of it, that could not be loaded, with a message of one line."""

    target: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the run was made with.

    Attributes:
        isolation: Where checks were to run, and what else there is to say of how they ran.
        shard: Which part of all cases the run is about, as ``2/3``; empty for all of them.
        packages: Other packages that models come from, each with its version, as ``timm 1.0.31``.
    """

    exportlint: str
    python: str
    torch: str | None
    platform: str
    date: str
    isolation: str
    devices: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    examples: int = 0
    shard: str = ""
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """One run: the environment, the cases with their checks, and the targets that could not be loaded."""

    environment: Environment
    cases: tuple[CaseResult, ...] = ()
    errors: tuple[TargetError, ...] = ()
    schema_version: int = field(default=SCHEMA_VERSION)

    @property
    def status(self) -> int:
        """Exit status: 0 clean, 1 findings or red checks, 2 a target that could not be loaded."""
        if self.errors:
            return 2
        return int(any(case.red for case in self.cases))
