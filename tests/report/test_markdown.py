from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from readiness_samples import passing, readinesses, sample

from exportlint.report.markdown import block, code, escape, render

OWN_HTML = ("<details>", "</details>", "<summary>", "</summary>", "<!-- -->")


def outside_code(text):
    """The lines that are no code blocks, without their code spans."""
    fence = None
    for line in text.split("\n"):
        run = re.match("`{3,}", line)
        if fence is not None:
            fence = None if line == fence else fence
        elif run:
            fence = run[0]
        else:
            # A code span is taken as CommonMark takes it: up to the next run of equally many backticks.
            yield re.sub(r"(?<![`\\])(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", line)
    assert fence is None


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readinesses)
def test_no_string_of_a_model_becomes_markup(readiness):
    text = render(readiness)
    text.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", text)
    lines = list(outside_code(text))
    for line in lines:
        for own in OWN_HTML:
            line = line.replace(own, "")  # noqa: PLW2901
        assert "<" not in line
        assert not re.search(r"(?<!\\)(\\\\)*[`\[]", line), line
    headings = [line for line in lines if line.startswith("# ")]
    assert headings == ["# Export readiness"]
    table = [line for line in lines if line.startswith("| ")]
    pipes = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table]
    columns = 3 + len({check.name for case in readiness.cases for check in case.checks})
    assert set(pipes) <= {3, columns}


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
    assert "| case | target | capture | reload | device | shapes |" in text
    assert "| unlucky | models/cases.py:unlucky | ❌ crashed | ❌ errored |  | ❌ timed out |" in text
    assert "| encoder | models/cases.py:encoder | ✅ passed |  | ✅ passed (24 notes) |  |" in text
    assert "| known | models/cases.py:known | ⚠️ failed, expected (1 finding) |" in text
    assert "### error: EXP101 branch-on-tensor at `models/decoder.py:21`" in text
    assert "* **decoder**, reload: not checked: the capture failed" in text
    assert "* `nowhere.py`: no such file" in text
    assert text.index("| unlucky") < text.index("| decoder") < text.index("| known") < text.index("| encoder")


def test_plain_pass_is_short():
    text = render(passing())
    assert "✅ 1 case, 2 checks: 2 passed" in text
    assert "## Findings" not in text
    assert "## Reasons" not in text
