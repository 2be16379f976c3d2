"""Runs for the tests of the report: one with everything in it, and a strategy of runs with hostile strings."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from exportlint.findings import (
    OUTCOMES,
    SEVERITIES,
    CaseResult,
    CheckResult,
    Dimension,
    Environment,
    Finding,
    Measurement,
    Readiness,
    TargetError,
)

HOSTILE = (
    "[bold red]x[/bold red]",
    "[/]",
    "[link=https://example.org]x",
    ":smile:",
    "a|b`c``d```e",
    "```\n# heading",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</details></td></table>",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[31mred\x1b]8;;https://example.org\x07",
    "\x00\x08\x7f\x9b",
    "\ud800 lone",
    "\u202eesrever",
    "\u2028\u2029\u0085",
    "line\r\nbreak\rand\ttab",
    "- item",
    "1. item",
    "@someone #12 &amp; ~~x~~ $y$ \\|",
    "é漢字🙂",
    "x" * 5000,
    "",
)

texts = st.sampled_from(HOSTILE) | st.text(
    st.characters(exclude_categories=()),
    max_size=20,
)
words = st.none() | texts
lines = st.none() | st.integers(min_value=1, max_value=10**6)
seconds = st.sampled_from([float("nan"), float("inf"), -1.0, 0.0, 1e300, 0.25])
rules = st.sampled_from(["EXP101", "EXP201", "EXP205", "EXP999"]) | texts


def few(strategy):
    return st.lists(strategy, max_size=2).map(tuple)


findings = st.builds(
    Finding,
    rule=rules,
    severity=st.sampled_from(SEVERITIES),
    message=texts,
    file=words,
    line=lines,
    end_line=lines,
    source=words,
    rewrite=words,
    evidence=words,
    verdict=st.sampled_from([None, "confirmed", "refuted", "missed", "not_exercised"]),
)
numbers = seconds | st.floats()
measurements = st.builds(
    Measurement,
    of=st.sampled_from(["error", "time"]),
    value=numbers,
    low=numbers,
    high=numbers,
    label=texts,
    size=st.integers(min_value=-1, max_value=2**70),
)
dimensions = st.builds(
    Dimension, name=texts, asked=texts, granted=texts, narrower=st.booleans(), place=texts | st.just("")
)
checks = st.builds(
    CheckResult,
    name=st.sampled_from(["capture", "shapes", "lint"]) | texts,
    outcome=st.sampled_from(OUTCOMES),
    reason=words,
    seconds=seconds,
    findings=few(findings),
    notes=few(texts),
    expected=words,
    measured=few(measurements),
    contract=few(dimensions),
)
environments = st.builds(
    Environment,
    exportlint=texts,
    python=texts,
    torch=words,
    platform=texts,
    date=texts,
    isolation=texts,
    devices=few(texts),
    checks=few(texts),
    examples=st.integers(min_value=0, max_value=2**40),
)
readinesses = st.builds(
    Readiness,
    environment=environments,
    cases=few(st.builds(CaseResult, name=texts, target=texts, checks=few(checks))),
    errors=few(st.builds(TargetError, target=texts, message=texts)),
)

ENVIRONMENT = Environment(
    exportlint="0.1.0",
    python="3.11.4",
    torch="2.13.0+cpu",
    platform="Linux x86_64",
    date="2026-01-02T03:04:05Z",
    isolation="server",
    devices=("cpu", "second"),
    checks=("capture", "reload", "device", "shapes"),
    examples=20,
)
BRANCH = Finding(
    rule="EXP101",
    severity="error",
    message="The branch asks a tensor for its truth value.",
    file="models/decoder.py",
    line=21,
    end_line=21,
    source="if not keep.all():",
    rewrite="Mask without asking.",
    evidence="GuardOnDataDependentSymNode: Could not guard on Eq(u0, 1)\nsecond line\nthird line\nfourth line",
)
LITERAL = Finding(
    rule="EXP201",
    severity="warning",
    message="The mask is made on the CPU.",
    file="models/mask.py",
    line=7,
    source='torch.ones(3, device="cpu")',
)
BAKED = tuple(
    Finding(
        rule="EXP205",
        severity="info",
        message=f"The device of call {line} is baked.",
        file=f"/opt/venv/lib/python3.11/site-packages/library/part{line % 6}.py",
        line=line,
    )
    for line in range(1, 25)
)


def sample() -> Readiness:
    """Every outcome, an expected failure, notes, and a target that could not be loaded."""
    decoder = (
        CheckResult(name="capture", outcome="failed", reason="torch's words", findings=(BRANCH,), notes=("q exports",)),
        CheckResult(name="reload", outcome="not_checked", reason="the capture failed"),
        CheckResult(name="device", outcome="failed", findings=(BRANCH, LITERAL), seconds=1.5),
        CheckResult(name="shapes", outcome="not_checked", reason="the capture failed"),
    )
    encoder = (
        CheckResult(name="capture", outcome="passed", seconds=0.5, notes=("a note",)),
        CheckResult(name="device", outcome="passed", findings=BAKED),
    )
    unlucky = (
        CheckResult(name="capture", outcome="crashed", reason="killed by signal 6"),
        CheckResult(name="reload", outcome="errored", reason="the worker did not start"),
        CheckResult(name="shapes", outcome="timed_out", reason="no answer after 60 s"),
    )
    known = (CheckResult(name="capture", outcome="failed", expected="waits for a fix", findings=(BRANCH,)),)
    return Readiness(
        environment=ENVIRONMENT,
        cases=(
            CaseResult(name="encoder", target="models/cases.py:encoder", checks=encoder),
            CaseResult(name="known", target="models/cases.py:known", checks=known),
            CaseResult(name="decoder", target="models/cases.py:decoder", checks=decoder),
            CaseResult(name="unlucky", target="models/cases.py:unlucky", checks=unlucky),
        ),
        errors=(TargetError(target="nowhere.py", message="no such file"),),
    )


def passing() -> Readiness:
    """One case, all of whose checks passed."""
    checks = tuple(CheckResult(name=name, outcome="passed", seconds=0.1) for name in ("capture", "device"))
    return Readiness(environment=ENVIRONMENT, cases=(CaseResult(name="model", target="model.py", checks=checks),))


def shared() -> Readiness:
    """Two cases that one line breaks, which was predicted."""
    seen = replace(LITERAL, verdict="confirmed")
    checks = (
        CheckResult(name="device", outcome="failed", findings=(seen,)),
        CheckResult(name="lint", outcome="failed", findings=(seen,)),
    )
    cases = tuple(CaseResult(name=name, target=f"models/cases.py:{name}", checks=checks) for name in "ab")
    return Readiness(environment=ENVIRONMENT, cases=cases)


def measured() -> Readiness:
    """Errors over sizes of one case, and times of another, of which one is also equal in all sizes."""
    errors = [(8, 0.0), (64, 2e-7), (512, 3e-5), (4096, 1e-6)]
    worst = tuple(
        Measurement(of="error", value=e, low=e, high=e, size=n, label="x of shape [512]" if e == 3e-5 else "")
        for n, e in errors
    )
    equal = tuple(Measurement(of="error", value=0.0, low=0.0, high=0.0, size=n) for n in (8, 64))
    times = (
        Measurement(of="time", value=1.25, low=1.1, high=1.5, label="exported"),
        Measurement(of="time", value=0.5, low=0.45, high=0.6, label="AOTInductor"),
    )
    inside = replace(BRANCH, file="/opt/venv/lib/python3.11/site-packages/library/part.py")
    contract = (
        Dimension(name="x.shape[0]", asked="batch from 2 to 64", granted="as asked"),
        Dimension(name="x.shape[1]", asked="from 2", granted="from 2 to 63", narrower=True, place="models/net.py:7"),
    )
    shapes = CheckResult(name="shapes", outcome="failed", findings=(inside,), measured=worst, contract=contract)
    fast = (
        CheckResult(name="shapes", outcome="passed", measured=equal),
        CheckResult(name="speed", outcome="passed", measured=times),
    )
    cases = (
        CaseResult(name="wrong", target="plots.py:wrong", checks=(shapes,)),
        CaseResult(name="fast", target="plots.py:fast", checks=fast),
    )
    return Readiness(environment=ENVIRONMENT, cases=cases)
