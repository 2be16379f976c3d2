"""Runs over a part of the cases, for several machines, and their union."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from exportlint.findings import CaseResult, Environment, Readiness

T = TypeVar("T")
# What parts of one run have in common; machines may differ in their platform.
SAME = ("exportlint", "torch", "python", "devices", "checks", "examples", "packages")


class MergeError(Exception):
    """Runs that are no parts of one; the message is one line, fit for a user."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` parts; `number` is counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The part that ``2/3`` names.

        Raises:
            ValueError: When the text names none.
        """
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"{text!r} is no part of a run: write 1/3, 2/3 or 3/3 for thirds")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """The items of this part: every `count`-th, so that neighbours, which are often alike in cost, are spread."""
        return items[self.number - 1 :: self.count]


def merge(runs: Mapping[Path, Readiness]) -> Readiness:
    """The run of which these are the parts.

    Cases come in the order in which one run would have had them.

    Args:
        runs: The parts, each with the file that it was read from. Whole runs over different targets may be merged too.

    Raises:
        MergeError: When parts are missing, were made otherwise, or hold the same case.
    """
    first_file, first = next(iter(runs.items()))
    for file, run in runs.items():
        for field in SAME:
            was, now = getattr(first.environment, field), getattr(run.environment, field)
            if was != now:
                raise MergeError(f"{file} was made with {field} {_shown(now)}, {first_file} with {_shown(was)}")
    _no_case_twice(runs)
    return dataclasses.replace(
        first,
        environment=_environment([run.environment for run in runs.values()]),
        cases=_in_order(_by_part(runs)),
        errors=tuple(dict.fromkeys(error for run in runs.values() for error in run.errors)),
    )


def _no_case_twice(runs: Mapping[Path, Readiness]) -> None:
    seen: dict[tuple[str, str], Path] = {}
    for file, run in runs.items():
        for case in run.cases:
            other = seen.setdefault((case.target, case.name), file)
            if other != file:
                raise MergeError(f"{file} and {other} both hold the case {case.name} of {case.target}")


def _by_part(runs: Mapping[Path, Readiness]) -> list[Readiness]:
    """The runs by number of their part.

    Raises:
        MergeError: When one is missing or there twice.
    """
    parts: dict[Shard, Path] = {}
    for file, run in runs.items():
        if not run.environment.shard:
            continue
        try:
            shard = Shard.parse(run.environment.shard)
        except ValueError:
            raise MergeError(f"{file}: {run.environment.shard!r} is no part of a run") from None
        other = parts.setdefault(shard, file)
        if other != file:
            raise MergeError(f"{file} and {other} are both part {shard}")
    for count in sorted({shard.count for shard in parts}):
        missing = [str(Shard(i, count)) for i in range(1, count + 1) if Shard(i, count) not in parts]
        if missing:
            raise MergeError(f"part {missing[0]} is missing" + (f", and {len(missing) - 1} more" * (len(missing) > 1)))
    numbered = {file: (shard.count, shard.number) for shard, file in parts.items()}
    return [runs[file] for file in sorted(runs, key=lambda file: numbered.get(file, (0, 0)))]


def _in_order(runs: Iterable[Readiness]) -> tuple[CaseResult, ...]:
    """The cases of parts in turn, since a part has every n-th; those of whole runs one after the other."""
    found: list[CaseResult] = []
    turns: dict[str, list[tuple[CaseResult, ...]]] = {}
    for run in runs:
        _, _, count = run.environment.shard.partition("/")
        if count:
            turns.setdefault(count, []).append(run.cases)
        else:
            found += run.cases
    for parts in turns.values():
        longest = max(map(len, parts))
        found += [part[i] for i in range(longest) for part in parts if i < len(part)]
    return tuple(found)


def _environment(environments: Sequence[Environment]) -> Environment:
    return dataclasses.replace(
        environments[0],
        platform="; ".join(dict.fromkeys(e.platform for e in environments)),
        isolation="; ".join(dict.fromkeys(e.isolation for e in environments)),
        date=max(e.date for e in environments),
        shard="",
    )


def _shown(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text or "none"
