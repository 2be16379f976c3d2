from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readiness_samples import ENVIRONMENT, passing

from exportlint.findings import CaseResult, Readiness, TargetError
from exportlint.report.sharding import MergeError, Shard, merge


def whole(count, errors=()):
    cases = tuple(CaseResult(name=str(i), target=f"{i}.py") for i in range(count))
    return Readiness(environment=ENVIRONMENT, cases=cases, errors=errors)


def parts(run, count):
    shards = [Shard(i, count) for i in range(1, count + 1)]
    return {
        Path(f"{shard.number}.json"): replace(
            run, cases=tuple(shard.of(run.cases)), environment=replace(run.environment, shard=str(shard))
        )
        for shard in shards
    }


@given(st.integers(0, 20), st.integers(1, 7), st.randoms())
def test_the_parts_of_a_run_are_the_run(cases, count, random):
    files = list(parts(whole(cases), count).items())
    random.shuffle(files)
    assert merge(dict(files)) == whole(cases)


@given(st.lists(st.integers()), st.integers(1, 9))
def test_each_item_is_in_one_part_and_parts_are_alike_in_size(items, count):
    found = [Shard(i, count).of(items) for i in range(1, count + 1)]
    assert sorted(item for part in found for item in part) == sorted(items)
    assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize("text", ["", "0/2", "3/2", "1/0", "1", "a/b", "-1/2", "1/2/3", "1 /2", "1/9999999"])
def test_what_names_no_part(text):
    with pytest.raises(ValueError, match=r"is no part of a run: write 1/3"):
        Shard.parse(text)


def test_a_part_reads_as_it_was_written():
    assert Shard.parse("2/3") == Shard(2, 3)
    assert str(Shard(2, 3)) == "2/3"


def test_a_part_that_is_missing_or_there_twice():
    files = parts(whole(5), 3)
    first, second, third = files
    with pytest.raises(MergeError, match=r"^part 2/3 is missing$"):
        merge({first: files[first], third: files[third]})
    with pytest.raises(MergeError, match=r"^part 1/3 is missing, and 1 more$"):
        merge({second: files[second]})
    with pytest.raises(MergeError, match=r"both hold the case 0 of 0\.py"):
        merge({**files, Path("again.json"): files[first]})
    with pytest.raises(MergeError, match=r"are both part 1/3"):
        merge({**files, Path("again.json"): replace(files[first], cases=())})


def test_parts_that_were_made_otherwise():
    files = parts(whole(2), 2)
    second = files[Path("2.json")]
    other = replace(second, environment=replace(second.environment, torch="2.14.1"))
    with pytest.raises(MergeError, match=r"^2.json was made with torch 2.14.1, 1.json with 2.13.0\+cpu$"):
        merge({**files, Path("2.json"): other})


def test_a_file_that_says_nonsense_of_its_part():
    run = replace(whole(1), environment=replace(ENVIRONMENT, shard="one"))
    with pytest.raises(MergeError, match=r"^a\.json: 'one' is no part of a run$"):
        merge({Path("a.json"): run})


def test_whole_runs_over_different_targets_come_one_after_the_other():
    other = replace(passing(), environment=replace(ENVIRONMENT, platform="Darwin", date="2026-02-01T00:00:00Z"))
    merged = merge({Path("a.json"): whole(2), Path("b.json"): other})
    assert [case.name for case in merged.cases] == ["0", "1", "model"]
    assert (merged.environment.platform, merged.environment.date) == ("Linux x86_64; Darwin", "2026-02-01T00:00:00Z")


def test_an_error_that_every_part_met_is_told_once():
    error = TargetError(target="nowhere.py", message="no such file")
    assert merge(parts(whole(2, (error,)), 2)).errors == (error,)
