from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from readiness_samples import passing, readinesses, sample

from exportlint.report import json_file, schema
from exportlint.text import encodable, map_strings

VALIDATOR = jsonschema.Draft202012Validator(schema.load())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readinesses)
def test_any_run_survives_and_follows_the_schema(readiness):
    text = json_file.render(readiness)
    assert json_file.parse(text.encode("utf-8")) == map_strings(readiness, encodable)
    VALIDATOR.validate(json.loads(text))


def test_fields_that_others_rely_on():
    data = json.loads(json_file.render(sample()))
    assert {"schema_version", "environment", "cases"} <= set(data)
    assert {"name", "target", "checks"} <= set(data["cases"][0])
    check = data["cases"][2]["checks"][0]
    assert {"name", "outcome", "reason", "seconds", "findings"} <= set(check)
    assert {"rule", "severity", "file", "line", "end_line", "message", "evidence"} <= set(check["findings"][0])


def test_committed_schema_is_current():
    assert schema.load() == schema.generate(), "run python -m exportlint.report.schema"


def test_schema_is_a_schema_and_refuses_other_things():
    jsonschema.Draft202012Validator.check_schema(schema.load())
    data = json.loads(json_file.render(passing()))
    VALIDATOR.validate(data)
    for spoil in (
        lambda d: d.update(schema_version=2),
        lambda d: d.pop("environment"),
        lambda d: d["cases"][0]["checks"][0].update(outcome="fine"),
        lambda d: d["cases"][0]["checks"][0].update(seconds="1"),
    ):
        spoilt = json.loads(json.dumps(data))
        spoil(spoilt)
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(spoilt)
