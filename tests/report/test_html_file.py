from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser

from hypothesis import HealthCheck, given, settings
from readiness_samples import measured, passing, readinesses, sample, shared

from exportlint.findings import CaseResult, CheckResult, Dimension, Finding, Measurement
from exportlint.report.html_file import render, unbroken

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """What a browser would make of a page: its tags with their attributes, its text, and whether tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


SAMPLE_TAGS = {tag for run in (sample(), shared(), measured()) for tag in Page(render(run)).tags} | {("td", ("class",))}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readinesses)
def test_no_string_of_a_model_becomes_markup(readiness):
    text = render(readiness)
    text.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text)
    page = Page(text)
    assert not page.open
    assert set(page.tags) <= SAMPLE_TAGS


def test_nothing_is_loaded_from_elsewhere_and_no_other_script_runs():
    text = render(sample())
    assert not re.search(r"\bsrc=|url\(|@import|<link|href=\"[^#]", text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall('Content-Security-Policy" content="(.*?)"', text)
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_what_can_be_chosen():
    text = render(sample())
    choices = {
        id_: re.findall("<option>(.*?)</option>", values)
        for id_, values in re.findall(r'<select id="(.*?)">(.*?)</select>', text, re.DOTALL)
    }
    assert choices == {
        "outcome": ["crashed", "errored", "expected", "failed", "not-checked", "passed", "timed-out"],
        "rule": ["EXP101", "EXP201"],
        "package": ["project"],
        "origin": ["models/cases.py"],
    }


def test_findings_and_lines_know_their_cases():
    text = render(shared())
    assert re.findall(r'id="line-1" data-cases="(.*?)"', text) == ["1 2"]
    assert re.findall(r'<article class="entry warning" data-cases="(.*?)"', text) == ["1 2"]


def test_two_hundred_cases_are_small_enough_to_send():
    cases = tuple(
        dataclasses.replace(case, name=f"{case.name}{i}", target=f"hf:{case.name}{i}")
        for i in range(50)
        for case in sample().cases
    )
    assert len(render(dataclasses.replace(sample(), cases=cases)).encode()) < 1_500_000


def test_findings_are_shown_in_their_source_with_the_line_marked(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("def forward(x):\n    y = '<img>'\n    if x > 0:\n        return y\n")
    found = Finding(
        rule="EXP101", severity="error", message="m", file=str(path), line=3, end_line=3, source="if x > 0:"
    )
    case = CaseResult(
        name="a", target="a.py", checks=(CheckResult(name="capture", outcome="failed", findings=(found,)),)
    )
    text = render(dataclasses.replace(sample(), cases=(case,)))
    (shown,) = re.findall(r'<pre class="excerpt">(.*?)</pre>', text, re.DOTALL)
    assert shown.split("\n") == [
        "<i>1</i>def forward(x):",
        "<i>2</i>    y = &#39;&lt;img&gt;&#39;",
        "<mark><i>3</i>    if x &gt; 0:</mark>",
        "<i>4</i>        return y",
    ]


def test_what_was_measured_is_drawn_and_said():
    text = render(measured())
    drawings = re.findall(r'<svg viewBox="0 0 320 \d+" role="img" aria-label="(.*?)">', text)
    assert drawings == [
        "error of the program over the size of the call",
        "time of each way to run the model, beside eager's",
    ]
    words = Page(text).text
    assert (
        "calls of 4 sizes, with up to 4096 elements: the largest error is 3e-05 of the largest value" in words.lower()
    )
    assert "program and eager model are equal in each." in words
    assert "exported 1.25 (1.10 to 1.50); AOTInductor 0.50 (0.45 to 0.60)." in words


def test_the_contract_of_a_case_is_shown_with_the_line_that_narrows_it():
    words = Page(render(measured())).text
    rows = "x.shape[0] batch from 2 to 64 as asked x.shape[1] from 2 from 2 to 63 models/net.py:7"
    assert f"wrong size asked granted decided at {rows}" in words
    assert "Contracts" not in Page(render(passing())).text


def test_two_hundred_cases_with_a_finding_and_plots_each_are_small_enough_too(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("".join(f"hidden = self.attention(hidden, mask=mask, position={n})\n" for n in range(1, 1201)))
    errors = tuple(Measurement(of="error", value=e, low=e, high=e, size=2**e) for e in range(1, 41))
    times = tuple(
        Measurement(of="time", value=1.5, low=1.25, high=2.5, label="exported and compiled") for _ in range(6)
    )
    contract = tuple(
        Dimension(name=f"mask.shape[{d}]", asked="from 2", granted="from 2 to 511", narrower=True, place=f"{path}:{d}")
        for d in range(4)
    )
    cases = []
    for n in range(1, 201):
        source = f"hidden = self.attention(hidden, mask=mask, position={6 * n})"
        found = Finding(
            rule="EXP101", severity="error", message="a message of some length, as findings have it", file=str(path),
            line=6 * n, end_line=6 * n, source=source,
        )  # fmt: skip
        check = CheckResult(
            name="shapes", outcome="failed", findings=(found,), measured=errors + times, contract=contract
        )
        cases.append(CaseResult(name=f"case{n}", target=f"cases.py:case{n}", checks=(check,)))
    text = render(dataclasses.replace(sample(), cases=tuple(cases)))
    assert (text.count('<pre class="excerpt">'), text.count("<svg ")) == (200, 400)
    assert len(text.encode()) < 1_500_000


def test_lines_that_break_several_cases_and_the_linter_beside_the_checks():
    text = Page(render(shared())).text
    assert "Root causes line rule cases models/mask.py:7" in text
    assert "EXP201 device-literal 2 a, b" in text
    assert "EXP201 1 0 0 0 100 % 100 %" in text


def test_everything_is_shown_worst_first():
    text = Page(render(sample())).text
    expected = [
        "1 target could not be loaded",
        "nowhere.py",
        "no such file",
        "unlucky",
        "crashed",
        "killed by signal 6",
        "errored",
        "timed out",
        "decoder",
        "failed",
        "not checked",
        "the capture failed",
        "known",
        "failed, expected",
        "waits for a fix",
        "encoder",
        "24 notes",
        "EXP101 branch-on-tensor",
        "models/decoder.py:21",
        "if not keep.all():",
        "The branch asks a tensor for its truth value.",
        "Mask without asking.",
        "decoder (capture, device)",
        "fourth line",
        "EXP201 device-literal",
        "EXP205 device-baked",
        "24 places",
        "library/part1.py:1, 7, 13, 19",
        "2.13.0+cpu",
    ]
    at = 0
    for words in expected:
        assert words in text[at:], words
        at = text.index(words, at)


def cell_texts(text):
    return {check: Page(cell).text for check, cell in re.findall(r'data-check="(.*?)">(.*?)</td>', text, re.DOTALL)}


def test_a_cell_with_findings_names_their_rules_and_leaves_the_words_to_the_findings():
    decoder = next(case for case in sample().cases if case.name == "decoder")
    cells = cell_texts(render(dataclasses.replace(sample(), cases=(decoder,))))
    assert cells["capture"] == "failed 1 finding EXP101 1 line more q exports"
    assert cells["device"] == "failed 2 findings EXP101, EXP201 1.5 s"
    assert cells["reload"] == "not checked the capture failed"


def test_an_expected_failure_says_why_in_its_cell():
    known = next(case for case in sample().cases if case.name == "known")
    cells = cell_texts(render(dataclasses.replace(sample(), cases=(known,))))
    assert cells["capture"] == "failed, expected 1 finding EXP101 waits for a fix"


def test_a_time_is_not_broken():
    assert "1.5\N{NO-BREAK SPACE}s" in render(sample())
    assert unbroken("loads in 0.1 s") == "loads in 0.1\N{NO-BREAK SPACE}s"
    assert unbroken("2 submodules") == "2 submodules"


def test_plain_pass_is_good():
    text = render(passing())
    assert '<p class="verdict good">1 case, 2 checks: 2 passed</p>' in text
    assert "<h2>Findings</h2>" not in text
