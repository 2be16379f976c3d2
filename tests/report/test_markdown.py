from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import HealthCheck, given, settings
from markdown_it import MarkdownIt
from readiness_samples import passing, readinesses, sample, shared

from exportlint.findings import CaseResult, CheckResult
from exportlint.report.comparing import compare
from exportlint.report.markdown import LONGEST, block, code, escape, render, render_comparison
from exportlint.report.overview import environment_rows, overview

OWN_HTML = {"<details>", "</details>", "<summary>", "</summary>", "<!-- -->"}
OWN_TOKENS = {"paragraph", "heading", "bullet_list", "list_item", "table", "thead", "tbody", "tr", "th", "td", "strong"}
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def tokens(text):
    """All tokens that a Markdown parser sees, those inside of lines too."""
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readinesses)
def test_no_string_of_a_model_becomes_markup(readiness):
    text = render(readiness)
    text.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", text)
    seen = list(tokens(text))
    tags = [tag for token in seen if token.type.startswith("html_") for tag in re.findall("<[^>]*>", token.content)]
    assert set(tags) <= OWN_HTML
    assert {token.type[:-5] for token in seen if token.type.endswith("_open")} <= OWN_TOKENS
    assert {token.tag for token in seen if token.type == "heading_open"} <= {"h1", "h2", "h3"}
    assert sum(token.tag == "h1" for token in seen if token.type == "heading_open") == 1
    view = overview(readiness)
    columns = (
        2
        + any(row.target != row.name for row in view.rows)
        + len({check.name for case in readiness.cases for check in case.checks})
    )
    rows = [2] * (1 + len(environment_rows(view)))
    rows += [columns] * (len(readiness.cases) + 1) * bool(readiness.cases)
    rows += [4] * (len(view.causes) + 1) * bool(view.causes) + [7] * (len(view.scores) + 1) * bool(view.scores)
    assert sum(token.type in ("td_open", "th_open") for token in seen) == sum(rows)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readinesses, readinesses)
def test_no_string_of_a_model_becomes_markup_in_a_comparison(old, new):
    text = render_comparison(compare(old, new))
    text.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", text)
    seen = list(tokens(text))
    assert all(token.content == "<!-- -->" for token in seen if token.type.startswith("html_"))
    assert {token.type[:-5] for token in seen if token.type.endswith("_open")} <= OWN_TOKENS
    assert sum(token.tag == "h1" for token in seen if token.type == "heading_open") == 1


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a_b|c", r"a\_b\|c"),
        ("- x", r"\- x"),
        ("12. x", r"12\. x"),
        ("<b>&lt;", "&lt;b&gt;&amp;lt;"),
        ("@torch.jit", "@<!-- -->torch.jit"),
        ("a\nb", "a b"),
        ("float('-inf')", "float('-inf')"),
    ],
)
def test_escape(text, escaped):
    assert escape(text) == escaped


def test_code_and_block_outgrow_backticks():
    assert code("a`b``c") == "```a`b``c```"
    assert code("`a`") == "`` `a` ``"
    assert code("") == ""
    assert block("x\n````\ny") == ["`````", "x", "````", "y", "`````"]


def test_table_and_findings():
    text = render(sample())
    assert "| case | target | capture | reload | device | shapes | time |" in text
    assert "| unlucky | models/cases.py:unlucky | ❌ crashed | ❌ errored |  | ❌ timed out |  |" in text
    assert "| encoder | models/cases.py:encoder | ✅ passed |  | ✅ passed (24 notes) |  | 0.5 s |" in text
    assert "| known | models/cases.py:known | ⚠️ failed, expected (1 finding) |" in text
    assert "### error: EXP101 branch-on-tensor at `models/decoder.py:21`" in text
    assert "* **decoder**, reload: not checked: the capture failed" in text
    assert "* `nowhere.py`: no such file" in text
    assert text.index("| unlucky") < text.index("| decoder") < text.index("| known") < text.index("| encoder")


def test_names_that_are_targets_are_told_once_and_times_in_all():
    case = CaseResult(name="hf:bert", target="hf:bert", checks=(CheckResult(name="x", outcome="passed", seconds=75.0),))
    text = render(dataclasses.replace(passing(), cases=(case, dataclasses.replace(case, name="hf:t5", target="hf:t5"))))
    assert "| case | x | time |" in text
    assert "| hf:bert | ✅ passed | 1 min 15 s |" in text
    assert "| time of all checks | 2 min 30 s |" in text


def many(number, evidence=""):
    found = dataclasses.replace(sample().cases[1].checks[0].findings[0], evidence=evidence)
    return dataclasses.replace(
        sample(),
        cases=tuple(
            CaseResult(
                name=f"case{n}",
                target=f"case{n}",
                checks=(CheckResult(name="x", outcome="failed", findings=(dataclasses.replace(found, line=n + 1),)),),
            )
            for n in range(number)
        ),
    )


def test_what_fits_no_comment_is_left_out_beginning_with_evidence():
    text = render(many(20, "long " * 1000))
    assert len(text) <= LONGEST
    assert "For want of room left out: evidence. The forms in JSON and HTML hold them." in text
    assert (text.count("### error"), "<details>" in text) == (20, False)
    assert "left out" not in render(many(3, "long " * 1000))


def test_rows_are_left_out_last():
    text = render(many(300))
    assert "left out: evidence, notes, reasons, findings." in text
    assert ("| case299 |" in text, "### error" in text) == (True, False)
    text = render(many(4000))
    assert LONGEST - 200 < len(text) <= LONGEST
    assert text.endswith("|\n\nFor want of room left out: what follows. The forms in JSON and HTML hold them.\n")


def test_lines_that_break_several_cases_and_the_linter_beside_the_checks():
    text = render(shared())
    assert "| `models/mask.py:7` | EXP201 device-literal | 2 | a, b |" in text
    assert "| EXP201 | 1 | 0 | 0 | 0 | 100 % | 100 % |" in text
    assert text.index("## Root causes") < text.index("## Findings") < text.index("## The linter beside the checks")


def test_plain_pass_is_short():
    text = render(passing())
    assert "✅ 1 case, 2 checks: 2 passed" in text
    assert "## Findings" not in text
    assert "## Reasons" not in text
