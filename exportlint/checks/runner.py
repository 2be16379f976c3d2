"""Runs the checks of model cases in worker processes and turns what comes back, or does not, into results."""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from exportlint import joining, zoo
from exportlint.checks import inductor, jobs, lint, loader, loading, reload, requirements, results, upstream, variants
from exportlint.checks.context import Settings
from exportlint.checks.dependencies import Dependencies
from exportlint.checks.device import saved as device_saved
from exportlint.checks.fresh import FreshInterpreters
from exportlint.checks.isolation import fork, inline
from exportlint.checks.isolation.client import WorkerServer
from exportlint.checks.isolation.job import Ending, Limits
from exportlint.checks.opset import profiles
from exportlint.checks.prediction import Predictor
from exportlint.checks.prepared import Prepared
from exportlint.checks.shapes import journal
from exportlint.checks.silence import Silence
from exportlint.checks.verdicts import portable
from exportlint.findings import CHECKS, DEFAULT_CHECKS, RED, CaseResult, CheckResult, are_chosen
from exportlint.places import Place, display_path
from exportlint.text import OWN_FAULT, own_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exportlint.checks.case import ModelCase
    from exportlint.checks.isolation.job import Emit, Message
    from exportlint.checks.other_python import OtherPython
    from exportlint.checks.verdicts import Verdicts

Isolation = Literal["auto", "server", "fork", "none"]
# The second device is registered for a whole process, so its check has one of its own.
OWN_PROCESS = frozenset({"device"})
TIMED = frozenset({"speed"})  # what these say is of one run


class LoadError(Exception):
    """A TARGET cannot be loaded; the message is one line, fit for a user."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller wants.

    Attributes:
        checks: Names of the checks, in the order of `findings.CHECKS`.
        examples: Examples that hypothesis draws for each case.
        devices: Devices for the check ``device``.
        timeout: Seconds of computing for one check.
        jobs: Cases that are checked at once.
        isolation: Where the checks run.
        tolerance: Relative and absolute tolerance for cases that have none of their own.
        memory: GiB that one case may take beyond what its process begins with. Default: most of the machine's.
        variants: Variants that every case has beside its own.
        profiles: Runtimes whose limits count in the check ``opset``.
        others: Interpreters of other environments in which the check ``reload`` loads the program, too.
    """

    checks: tuple[str, ...] = DEFAULT_CHECKS
    examples: int = 20
    devices: tuple[str, ...] = ("second",)
    timeout: float = 300.0
    jobs: int = 1
    isolation: Isolation = "auto"
    tolerance: tuple[float, float] | None = None
    memory: float | None = None
    variants: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    others: tuple[OtherPython, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedCase:
    """A case of a TARGET: workers find it by this name."""

    target: str
    name: str
    expected: Mapping[str, str]
    alone: bool = False
    asks: tuple[str, ...] = CHECKS  # the checks that have something to do

    @property
    def label(self) -> str:
        """A TARGET that stands for the case: ``path/file.py``, with its name where the file holds others too."""
        if zoo.is_specification(self.target):
            return self.name
        source, chosen = loading.split(self.target)
        return source if self.alone and chosen is None else f"{source}:{self.name}"


@dataclass
class Heard:
    """What one job has said."""

    results: dict[str, CheckResult] = field(default_factory=dict)
    provisional: CheckResult | None = None
    check: str | None = None
    stage: str | None = None
    cases: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    loaded: dict[str, Any] | None = None
    head: Place | None = None
    exercised: joining.Exercised | None = None
    depends: dict[str, Dependencies] = field(default_factory=dict)

    def on_message(self, message: Message) -> None:
        """Take note of a message."""
        if "check" in message:
            self.check, self.stage, self.provisional = message["check"], None, None
        elif "result" in message:
            result = msgspec.convert(message["result"], CheckResult)
            self.results[result.name] = result
        elif "provisional" in message:
            self.provisional = msgspec.convert(message["provisional"], CheckResult)
        self.stage = message.get("stage", self.stage)
        self.cases = message.get("cases", self.cases)
        self.error = message.get("target_error", self.error)
        self.loaded = message.get("loaded", self.loaded)
        if "head" in message:
            self.head = Place(*message["head"])
        if "exercised" in message:
            self.exercised = msgspec.convert(message["exercised"], joining.Exercised)
        if "depends" in message:
            self.depends[message["depends"].pop("on")] = msgspec.convert(message["depends"], Dependencies)


@dataclass
class Progress:
    """The checks of one case: what is known, and what it depends on."""

    done: dict[str, CheckResult]
    depends: dict[str, Dependencies] = field(default_factory=dict)
    exercised: joining.Exercised = field(default_factory=lambda: joining.Exercised({}))
    source: str = ""
    unmade: str | None = None  # what did not come to its end before the model was called


class Runner:
    """Runs checks; a context manager, since it owns a worker server and other processes."""

    def __init__(self, options: Options, verdicts: Verdicts | None = None) -> None:
        self.options = options
        self.verdicts = verdicts
        self.notes: list[str] = []
        self._server = WorkerServer()
        self._slots = threading.BoundedSemaphore(max(1, options.jobs))
        self._fresh_done = False
        self._lock = threading.Lock()
        self._prepared = Prepared(self._prepare)
        self._predictor = Predictor(joining.modes_of(options.checks))
        self._silence = Silence()
        self._fresh = FreshInterpreters()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process that the runner started."""
        self._server.close()
        self._fresh.close()

    def list_cases(self, target: str) -> list[NamedCase]:
        """The cases of a file or module, or those that ``hf:NAME`` and the like stand for.

        Raises:
            LoadError: When it cannot be imported, or holds no case.
        """
        heard = Heard()
        with self._slots:
            arguments = {"target": target, "variants": list(self.options.variants)}
            ending = self._run_named("list_cases", arguments, heard.on_message)
        if heard.error is not None:
            raise LoadError(heard.error)
        if ending.how != "done":
            words = results.last_words(ending.output)
            raise LoadError(f"{target} cannot be loaded: its process {ending.words}" + (f": {words}" if words else ""))
        if zoo.is_specification(target):  # a name with wildcards becomes one target for each model
            asked = self.options.variants
            return [self._named(variants.without(case["name"], asked), case, alone=True) for case in heard.cases]
        alone = len(heard.cases) == 1
        return [self._named(target, case, alone=alone) for case in heard.cases]

    @staticmethod
    def _named(target: str, case: dict[str, Any], *, alone: bool) -> NamedCase:
        return NamedCase(target, case["name"], case["expected"], alone, tuple(case["asks"]))

    def check_named(self, case: NamedCase, *, also: tuple[str, ...] = ()) -> CaseResult:
        """Run the checks of a case that workers can find by its name.

        Args:
            case: The case.
            also: Absolute paths of files on which its verdicts depend, beside those that the worker reads.

        Raises:
            LoadError: When the case can no longer be loaded.
        """

        def run(settings: Settings, emit: Emit) -> Ending:
            return self._run_case(case, settings, emit)

        if self.verdicts is None or not self._by_server():
            checks = self._check(run, Progress({}, source=loading.split(case.target)[0]))
        else:
            with self.verdicts.only_one(case.label):
                checks = self._check_what_is_new(run, case, self.verdicts, also)
        shown = (check for check in checks if check.name in case.asks or not _never_ran(check, self.options))
        placed = results.in_file(tuple(shown), loading.split(case.target)[0])
        marked = results.with_expectations(placed, case.expected)
        return CaseResult(name=case.name, target=case.label, checks=marked)

    def kept(self, case: NamedCase, *, also: tuple[str, ...] = ()) -> dict[str, CheckResult]:
        """The verdicts on a case that are kept and still hold, by check.

        Args:
            case: The case.
            also: As for `check_named`.
        """
        verdicts = self.verdicts
        if verdicts is None:
            return {}
        found = {name: verdicts.find(self._key(case, name, verdicts, also)) for name in self.options.checks}
        return {name: result for name, result in found.items() if result is not None}

    def _check_what_is_new(
        self, run: Callable[[Settings, Emit], Ending], case: NamedCase, verdicts: Verdicts, also: tuple[str, ...]
    ) -> tuple[CheckResult, ...]:
        """Run the checks of which no verdict is kept, and keep theirs."""
        kept = self.kept(case, also=also)
        progress, began = Progress(dict(kept), source=loading.split(case.target)[0]), time.time()
        checks = self._check(run, progress)
        if not any(check.outcome in ("crashed", "timed_out") for check in checks):  # others may be as they are for it
            for check in checks:
                depends = progress.depends.get(check.name)
                if depends is not None and depends.unseen:
                    file, _, how = depends.unseen[0].rpartition(":")
                    self._note(f"verdicts on {case.label} are not kept: {display_path(file)}:{how}")
                elif depends is not None and check.name not in kept and not _of_one_run(check):
                    verdicts.keep(
                        self._key(case, check.name, verdicts, also), check, depends | Dependencies(files=also), began
                    )
        if verdicts.trouble is not None:
            self._note(verdicts.trouble)
        return checks

    def _key(self, case: NamedCase, check: str, verdicts: Verdicts, also: tuple[str, ...]) -> str:
        options = self.options
        settings: dict[str, Any] = {"devices": options.devices, "tolerance": options.tolerance}
        settings["also"] = sorted(portable(file) for file in also)
        if check in ("shapes", "steps"):
            settings["examples"] = options.examples
        if check == "reload":
            settings["others"] = [(other.path, other.words) for other in options.others]
        if check == "opset":
            settings["profiles"] = profiles.surroundings(options.profiles)
        if check == "checkpoint":
            settings["safetensors"] = profiles.version("safetensors")
        if check == joining.NAME:
            settings["checks"] = options.checks
        return verdicts.key(case.label, check, settings)

    def _by_server(self) -> bool:
        return self.options.isolation in ("auto", "server") and sys.platform == "linux"

    def check_object(self, case: ModelCase, target: str, source: str = "") -> CaseResult:
        """Run the checks of a case that exists only in this process.

        Args:
            case: The case.
            target: What the result calls its target.
            source: The file that makes the case, where it is known: faults of the case itself are placed there.
        """

        def run(settings: Settings, emit: Emit) -> Ending:
            return self._run_here(lambda e: jobs.check(e, case, settings), emit)

        checks = self._check(run, Progress({}, source=source))
        shown = (check for check in checks if case.asks_for(check.name) or not _never_ran(check, self.options))
        checks = results.in_file(tuple(shown), source)
        marked = results.with_expectations(checks, case.expected_failures)
        return CaseResult(name=case.name, target=target, checks=marked)

    def _limits(self) -> Limits:
        memory = None if self.options.memory is None else int(self.options.memory * 2**30)
        return Limits.for_timeout(self.options.timeout, jobs=max(1, self.options.jobs), memory_bytes=memory)

    def _prepare(self, target: str, further: list[str]) -> bool:
        """Import what a target needs in a child of the server that is kept; whether that went well."""
        arguments = {"target": target, "libraries": further, "record": self.verdicts is not None}
        job = "exportlint.checks.libraries:prepare"
        ending = self._server.run(job, arguments, self._limits(), lambda _: None, keep=target, warm=True)
        return ending.how == "done"

    def _run_case(self, case: NamedCase, settings: Settings, emit: Emit) -> Ending:
        """Run checks in a child of one that has imported what earlier cases of the target did, where there is one."""
        arguments = {"target": case.target, "name": case.name, "settings": msgspec.to_builtins(settings)}
        if not self._by_server():
            return self._run_here(lambda e: jobs.check_named(e, **arguments), emit)

        def listen(message: Message) -> None:
            if "libraries" in message:
                self._prepared.learn(case.target, message["libraries"])
            else:
                emit(message)

        prepared = self._prepared.name_for(case.target, case.name)
        job = "exportlint.checks.libraries:check_named"
        return self._server.run(job, arguments, self._limits(), listen, use=prepared, warm=True)

    def _run_named(self, job: str, arguments: dict[str, Any], emit: Emit) -> Ending:
        if self._by_server():
            return self._server.run(f"exportlint.checks.jobs:{job}", arguments, self._limits(), emit)
        return self._run_here(lambda e: getattr(jobs, job)(e, **arguments), emit)

    def _run_here(self, job: Callable[[Emit], None], emit: Emit) -> Ending:
        """Run a job in a forked child, or in this process where that is asked for or forking is unsafe."""
        try:
            requirements.require_torch()
        except requirements.MissingRequirementError as error:
            raise LoadError(str(error)) from error
        if self.options.isolation != "none":
            unsafe = fork.why_unsafe()
            if unsafe is None:
                return fork.run(job, self._limits(), emit)
            self._note(f"checks ran in the caller's process, without limits: {unsafe}")
        return inline.run(job, emit)

    def _note(self, note: str) -> None:
        with self._lock:
            if note not in self.notes:
                self.notes.append(note)

    def _check(self, run: Callable[[Settings, Emit], Ending], progress: Progress) -> tuple[CheckResult, ...]:
        """Run the checks that are not done group by group; each group has a process of its own."""
        done, options = progress.done, self.options
        with tempfile.TemporaryDirectory(prefix="exportlint-") as workdir:
            record = self.verdicts is not None and self._by_server()
            base = Settings(
                (), options.examples, options.devices, workdir,
                record=record, tolerance=options.tolerance, variants=options.variants,
                profiles=options.profiles,
            )  # fmt: skip
            for group in self._groups():
                self._run_group(run, base, group, progress)
            if "reload" in done and done["reload"].reason == reload.PENDING:
                done["reload"] = self._load(done["reload"], workdir)
            if "device" in done and device_saved.pending(workdir):
                done["device"] = self._load_elsewhere(done["device"], workdir, done.get("reload"))
        with self._lock:
            shown = [done[name] for name in options.checks if not _left_out(done[name], options)]
            checks = tuple(self._silence.apply(check) for check in shown)
        if joining.NAME in done and done[joining.NAME].reason == lint.PENDING:
            return self._join(checks, progress)
        return checks

    def _join(self, checks: tuple[CheckResult, ...], progress: Progress) -> tuple[CheckResult, ...]:
        """The checks with what the linter predicted for the lines that ran."""
        began = time.monotonic()
        exercised = progress.exercised
        observed = tuple(check for check in checks if check.name != joining.NAME)
        try:
            with self._lock:
                predicted = self._predictor.predict(exercised.lines, progress.source)
                notes = self._predictor.notes(exercised.lines, progress.source)
        except Exception as error:
            return (*observed, CheckResult(name=joining.NAME, outcome="errored", reason=own_fault(error)))
        *others, result = joining.join(upstream.explained(observed, predicted), predicted, exercised)
        return (*others, dataclasses.replace(result, notes=notes, seconds=round(time.monotonic() - began, 3)))

    def _groups(self) -> list[tuple[str, ...]]:
        shared = tuple(name for name in self.options.checks if name not in OWN_PROCESS)
        own = [(name,) for name in self.options.checks if name in OWN_PROCESS]
        return [group for group in [shared, *own] if group]

    def _run_group(
        self,
        run: Callable[[Settings, Emit], Ending],
        base: Settings,
        group: tuple[str, ...],
        progress: Progress,
    ) -> None:
        """Run checks in one process; when one dies, the others go on in another."""
        done, replayed = progress.done, ""
        drawn_call: CheckResult | None = None  # in which the check was ended, as long as it was not replayed
        while pending := [name for name in group if name not in done]:
            given_up = [self._given_up(name, progress) for name in pending]
            if None not in given_up:
                done.update({result.name: result for result in given_up if result is not None})
                break
            capture = done.get("capture")
            settings = dataclasses.replace(
                base, checks=tuple(pending), captured=capture is None or capture.outcome not in RED
            )
            if pending[0] == "shapes":
                settings = dataclasses.replace(settings, died=replayed)
            heard, began = Heard(), time.monotonic()
            with self._slots:
                ending = run(settings, heard.on_message)
            if heard.error is not None:
                raise LoadError(heard.error)
            done.update(heard.results)
            progress.depends.update(heard.depends)
            progress.exercised = heard.exercised or progress.exercised
            if ending.how == "done":
                continue
            died = heard.check if heard.check is not None and heard.check not in done else pending[0]
            stands = heard.provisional or drawn_call
            if stands is not None and stands.name == died:
                done[died] = _cut_short(stands, ending, time.monotonic() - began)
            elif died == "shapes" and (entry := journal.read(base.workdir)) is not None:
                replayed = ending.words
                drawn_call = results.of_drawn_call(died, entry.who, entry.words, entry.code, ending)
            elif died not in done:
                result = results.of_death(died, heard.stage, ending, heard.head)
                done[died] = dataclasses.replace(result, seconds=round(time.monotonic() - began, 3))
                progress.unmade = heard.stage if _hung_before_any_call(ending, heard) else None

    def _given_up(self, name: str, progress: Progress) -> CheckResult | None:
        """The result of a check that is not tried, since another found what stands in its way; else ``None``."""
        capture = progress.done.get("capture")
        if capture is not None and not capture.runs:
            return jobs.does_not_run(name)
        if progress.unmade is not None:
            return results.not_made(name, progress.unmade, self.options.timeout)
        return None

    def _load(self, first: CheckResult, workdir: str) -> CheckResult:
        """The second half of the check ``reload``."""
        began = time.monotonic()
        heard, ending, fresh = self._in_another_process("job", workdir)
        seconds = round(first.seconds + time.monotonic() - began, 3)
        result = reload.conclude(first, heard.loaded, ending.words, seconds)
        if fresh:
            result = dataclasses.replace(result, notes=(*result.notes, "in a fresh interpreter"))
        for other in self.options.others:
            heard, seconds_at_most = Heard(), self._limits().wall_seconds
            with self._slots:
                ending = self._fresh.run("job", workdir, seconds_at_most, heard.on_message, other.path)
            result = reload.conclude_elsewhere(result, first, other.words, heard.loaded, ending.words)
        return dataclasses.replace(result, seconds=round(first.seconds + time.monotonic() - began, 3))

    def _load_elsewhere(self, first: CheckResult, workdir: str, reloaded: CheckResult | None) -> CheckResult:
        """The second half of the check ``device``, unless ``reload`` says that loading changes what is computed.

        That a class is missing there is no reason: the programs of this check are saved without their classes.
        """
        if reloaded is not None and reloaded.outcome in RED and not (reloaded.reason or "").startswith("load: "):
            return device_saved.not_loaded(first)
        began = time.monotonic()
        heard, ending, _ = self._in_another_process("job_elsewhere", workdir)
        seconds = round(first.seconds + time.monotonic() - began, 3)
        return dataclasses.replace(device_saved.conclude(first, heard.loaded, ending.words), seconds=seconds)

    def _in_another_process(self, job: str, workdir: str) -> tuple[Heard, Ending, bool]:
        """A job of the loader: once a run in a fresh interpreter, as the answer says; else in a child of the server."""
        heard = Heard()
        with self._lock:
            fresh = not self._fresh_done or self.options.isolation in ("fork", "none") or sys.platform != "linux"
            self._fresh_done = True
        with self._slots:
            if fresh:
                seconds = self._limits().wall_seconds
                return heard, self._fresh.run(job, workdir, seconds, heard.on_message), True
            name, path = f"exportlint.checks.loader:{job}", _installed_path()
            known = {"folder": workdir, "allowed": sorted(loader.allowed_packages())}
            ending = self._server.run(name, known, self._limits(), heard.on_message, path=path)
        return heard, ending, False


def _hung_before_any_call(ending: Ending, heard: Heard) -> bool:
    """Whether the model, or its inputs, took too long to make: each check would wait for them again."""
    return ending.how in ("wall", "cpu") and heard.stage in results.BEFORE_ANY_CALL


def _never_ran(check: CheckResult, options: Options) -> bool:
    """Whether a check that a case does not ask for did not come to run, so that it could not say that."""
    return not are_chosen(options.checks) and check.outcome == "not_checked"


def _left_out(check: CheckResult, options: Options) -> bool:
    """Whether a check is not shown: the case does not ask for it, and neither does the caller."""
    asked = are_chosen(options.checks) or check.outcome != "not_checked"
    return not asked and (check.reason or "").startswith(results.NOT_ASKED)


def _of_one_run(check: CheckResult) -> bool:
    """Whether another run may say something else: exportlint failed, the machine lacks something, or time was taken."""
    words = check.reason or ""
    lacks = any(missing in words for missing in ("is not installed", inductor.NO_COMPILER))
    return check.name in TIMED or lacks or words.startswith(OWN_FAULT)


def _installed_path() -> list[str]:
    """The parts of the module path that belong to the interpreter's installation, and exportlint's own."""
    roots = tuple({os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)})
    own = str(Path(__file__).resolve().parents[2])
    return [own, *(entry for entry in sys.path if entry and os.path.realpath(entry).startswith(roots))]


def _cut_short(result: CheckResult, ending: Ending, seconds: float) -> CheckResult:
    note = f"looking for further failures was cut short: the process {ending.words}"
    return dataclasses.replace(result, notes=(*result.notes, note), seconds=round(seconds, 3))
