"""Prediction laid over observation: confirmed, refuted, not exercised, missed."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exportlint.findings import CheckResult, Finding
from exportlint.joining import Exercised, family, join, same_place


def finding(rule="EXP101", line=5, end_line=None, file="m.py", severity="error", **more):
    return Finding(rule=rule, severity=severity, message="m", file=file, line=line, end_line=end_line, **more)


def check(name, outcome, *findings):
    return CheckResult(name=name, outcome=outcome, findings=findings)


def ran(*lines, dynamic=False):
    return Exercised({"m.py": frozenset(lines)}, dynamic)


def verdict(prediction, *checks, exercised=None):
    *_, lint = join(checks, [prediction], exercised or ran(5))
    (found,) = lint.findings
    return found.verdict, found.evidence


def test_confirmed_by_the_same_rule_or_its_family_on_common_lines():
    seen = finding("EXP102", line=4, end_line=6)
    assert verdict(finding(), check("capture", "failed", seen)) == ("confirmed", "confirmed by capture")


@pytest.mark.parametrize(
    "other", [finding(file="n.py"), finding(line=6), finding("EXP201"), finding(line=None), finding(severity="info")]
)
def test_nothing_else_confirms(other):
    assert verdict(finding(), check("capture", "failed", other))[0] != "confirmed"


def test_refuted_when_the_observing_check_ran_to_its_end_over_the_line():
    said = verdict(finding(), check("capture", "passed"))
    assert said == ("refuted", "the line ran, and capture saw nothing wrong there")


@pytest.mark.parametrize("outcome", ["failed", "errored", "crashed", "timed_out", "not_checked"])
def test_a_capture_that_stopped_refutes_nothing(outcome):
    assert verdict(finding(), check("capture", outcome))[0] == "not_exercised"


def test_a_device_check_that_failed_elsewhere_refutes():
    seen = finding("EXP202", line=9, severity="warning")
    assert verdict(finding("EXP201"), check("device", "failed", seen))[0] == "refuted"


def test_shapes_that_failed_refutes_no_other_size():
    plain = check("shapes", "failed", finding("EXP301", line=9, severity="warning"))
    said = verdict(finding("EXP301"), plain, exercised=ran(5, dynamic=True))
    assert said == ("not_exercised", "shapes: stopped at a failure")


def test_a_check_without_numbers_refutes_nothing():
    plain = check("device", "passed")
    assert verdict(finding("EXP201"), plain)[0] == "refuted"
    blind = dataclasses.replace(plain, numbers=False)
    assert verdict(finding("EXP201"), blind) == ("not_exercised", "device had no numbers to check")


def test_a_line_that_did_not_run_is_not_exercised():
    assert verdict(finding(), check("capture", "passed"), exercised=ran(7)) == ("not_exercised", "the line did not run")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (finding("EXP501", severity="info"), "not_exercised"),
        (finding("EXP501", severity="info", outcomes={"export": "fine"}), "refuted"),
        (finding("EXP503", severity="info"), "refuted"),
        (finding("EXP501", severity="info", line=9), "refuted"),
    ],
)
def test_what_a_check_saw_and_could_not_try_is_not_refuted(seen, expected):
    assert verdict(finding("EXP501"), check("state", "passed", seen))[0] == expected


@pytest.mark.parametrize(
    ("prediction", "checks", "reason"),
    [
        (finding(), [check("device", "passed")], "capture was not run"),
        (finding(), [check("capture", "failed")], "capture: stopped at a failure"),
        (finding(), [check("capture", "timed_out")], "capture: timed out"),
        (finding("EXP301"), [check("shapes", "passed")], "shapes ran, and not every dimension was dynamic"),
        (finding("EXP301"), [check("shapes", "not_checked")], "shapes: not checked"),
        (finding("EXP999"), [check("shapes", "passed")], "no check observes EXP999"),
    ],
)
def test_what_was_not_exercised_says_what_it_lacked(prediction, checks, reason):
    assert verdict(prediction, *checks) == ("not_exercised", reason)


@pytest.mark.parametrize("rule", ["EXP501", "EXP302"])
def test_a_sequence_of_calls_that_parts_proves_lost_state(rule):
    state, shapes = check("state", "passed"), check("shapes", "passed")
    for line, expected in ((5, "confirmed"), (9, "not_exercised")):
        steps = check("steps", "failed", finding("EXP004", line=line))
        said = verdict(finding(rule), state, shapes, steps, exercised=ran(5, dynamic=True))
        assert said[0] == expected
        assert said[1].removeprefix("confirmed by ").startswith("steps")
    said = verdict(finding(rule), state, shapes, check("steps", "passed"), exercised=ran(5, dynamic=True))
    assert said[0] == ("not_exercised" if rule == "EXP302" else "refuted")
    steps = check("steps", "failed", finding("EXP004"))
    assert verdict(finding("EXP101"), check("capture", "passed"), steps)[0] == "refuted"
    assert verdict(finding(rule), state, shapes, check("training", "failed", finding("EXP004")))[0] != "confirmed"


def test_what_earlier_calls_leave_is_not_refuted_by_the_capture_of_a_fresh_model():
    dynamic = ran(5, dynamic=True)
    said = verdict(finding("EXP302"), check("shapes", "passed"), exercised=dynamic)
    assert said == (
        "not_exercised",
        "shapes captures a model that was not called before, and this shows after an earlier call",
    )
    seen = check("shapes", "failed", finding("EXP301", severity="warning"))
    assert verdict(finding("EXP302"), seen, exercised=dynamic) == ("confirmed", "confirmed by shapes")
    assert verdict(finding("EXP301"), check("shapes", "passed"), exercised=dynamic)[0] == "refuted"


def test_another_check_refutes_nothing():
    assert verdict(finding(), check("device", "passed"))[0] == "not_exercised"


@pytest.mark.parametrize(("dynamic", "expected"), [(True, "refuted"), (False, "not_exercised")])
def test_a_size_of_which_nothing_is_known_is_refuted_only_when_every_dimension_was_dynamic(dynamic, expected):
    said = verdict(finding("EXP301"), check("shapes", "passed"), exercised=ran(5, dynamic=dynamic))
    assert said[0] == expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (("x.shape[0]",), ("refuted", "the line ran, and shapes saw nothing wrong there")),
        (("x.shape[1]",), ("not_exercised", "shapes ran, and x.shape[1] was not dynamic")),
        (("x.shape[0]", "y.shape[0]"), ("not_exercised", "shapes ran, and y.shape[0] was not dynamic")),
        ((), ("not_exercised", "shapes ran, and not every dimension was dynamic")),
    ],
)
def test_a_size_is_refuted_when_the_dimensions_that_it_comes_from_were_dynamic(sizes, expected):
    exercised = Exercised({"m.py": frozenset({5})}, dynamic=False, sizes=frozenset({"x.shape[0]"}))
    assert verdict(finding("EXP301", sizes=sizes), check("shapes", "passed"), exercised=exercised) == expected


def test_what_no_rule_predicted_was_missed():
    capture, lint = join([check("capture", "failed", finding(line=8))], [finding()], ran(5))
    assert capture.findings[0].verdict == "missed"
    assert lint.findings[0].verdict == "not_exercised"


@pytest.mark.parametrize("rule", ["EXP002", "EXP603"])
def test_faults_of_the_run_itself_and_of_the_case_are_nobodys_to_predict(rule):
    capture, _ = join([check("capture", "errored", finding(rule))], [], ran())
    assert capture.findings[0].verdict is None


@pytest.mark.parametrize(
    ("prediction", "outcome"),
    [
        (finding(), "failed"),
        (finding(severity="info"), "passed"),
        (finding(library=True), "passed"),
    ],
)
def test_lint_is_red_for_predictions_that_count(prediction, outcome):
    *_, lint = join([], [prediction], ran(5))
    assert lint.outcome == outcome
    assert lint.red == (outcome == "failed")


@pytest.mark.parametrize(("library", "line", "severity"), [(True, 7, "info"), (True, 5, "error"), (False, 7, "error")])
def test_a_library_s_line_that_is_not_exercised_is_information(library, line, severity):
    *_, lint = join([check("capture", "passed")], [finding(line=line, library=library)], ran(5))
    assert [found.severity for found in lint.findings] == [severity]


def test_a_refuted_prediction_does_not_fail_the_run():
    *_, lint = join([check("capture", "passed")], [finding()], ran(5))
    assert lint.outcome == "passed"
    assert not lint.red


@pytest.mark.parametrize("blamed", ["EXP501", "EXP303", "EXP302"])
@pytest.mark.parametrize("rule", ["EXP501", "EXP303"])
def test_state_that_blamed_another_line_refutes_nothing(rule, blamed):
    said = verdict(finding(rule), check("state", "failed", finding(blamed, line=9)))
    assert said == ("not_exercised", "state blamed another line, which may hide this one")


def test_state_that_blamed_nothing_of_the_kind_refutes():
    for result in (check("state", "passed"), check("state", "failed", finding("EXP004", line=9))):
        assert verdict(finding("EXP501"), result)[0] == "refuted"
    assert (
        verdict(finding("EXP501"), check("state", "passed", finding("EXP501", line=9, severity="info")))[0] == "refuted"
    )


BLOCK = """\
import torch

def forward(x):
    with torch.no_grad(), torch.device(
        "cpu"
    ):
        a = torch.ones(2)
        b = torch.zeros(2)
    c = torch.ones(2)
    return x + a + b + c
"""


def in_block(tmp_path, predicted, *seen, at=(4, 6)):
    file = str(tmp_path / "block.py")
    (tmp_path / "block.py").write_text(BLOCK)
    head = finding("EXP201", line=at[0], end_line=at[1], file=file, severity="warning")
    others = [finding("EXP201", line=line, file=file, severity="warning") for line in predicted]
    observed = [finding(rule, line=line, file=file, severity="warning") for rule, line in seen]
    exercised = Exercised({file: frozenset(range(1, 11))})
    device, lint = join([check("device", "failed", *observed)], [head, *others], exercised)
    return lint.findings[0].verdict, [found.verdict for found in device.findings]


@pytest.mark.parametrize("at", [(4, 6), (5, 5)])
def test_what_is_made_in_a_block_under_a_device_confirms_its_head(tmp_path, at):
    assert in_block(tmp_path, [], ("EXP201", 7), at=at) == ("confirmed", ["confirmed"])
    assert in_block(tmp_path, [], ("EXP202", 7), ("EXP201", 8), at=at) == ("confirmed", ["confirmed"] * 2)


def test_what_a_block_does_not_place_confirms_nothing(tmp_path):
    assert in_block(tmp_path, [], ("EXP201", 9)) == ("refuted", ["missed"])  # after the block
    assert in_block(tmp_path, [], ("EXP204", 7)) == ("refuted", ["missed"])  # another hazard
    assert in_block(tmp_path, [7], ("EXP201", 7)) == ("refuted", ["confirmed"])  # predicted itself
    assert in_block(tmp_path, [], ("EXP201", 8), at=(7, 7)) == ("refuted", ["missed"])  # no head of a block


places = st.builds(
    finding,
    rule=st.sampled_from(["EXP101", "EXP102", "EXP201", "EXP301", "EXP002"]),
    line=st.none() | st.integers(1, 4),
    end_line=st.none() | st.integers(1, 4),
    file=st.sampled_from(["m.py", "n.py"]),
    severity=st.sampled_from(["error", "warning", "info"]),
)


@given(st.lists(places, max_size=4), st.lists(places, max_size=4), st.sampled_from(["passed", "failed", "not_checked"]))
def test_join_keeps_everything_and_confirms_both_sides_together(observed, predicted, outcome):
    capture, lint = join([check("capture", outcome, *observed)], predicted, ran(1, 2, dynamic=True))

    def bare(findings):
        return [dataclasses.replace(f, verdict=None, evidence=None) for f in findings]

    assert bare(capture.findings) == bare(observed)
    assert bare(lint.findings) == bare(predicted)
    for prediction in lint.findings:
        partners = [f for f in capture.findings if same_place(prediction, f) and f.severity != "info"]
        assert (prediction.verdict == "confirmed") == bool(partners)
        assert all(f.verdict == "confirmed" for f in partners if family(f.rule) != "EXP0")
