"""The options: what they mean, and one line for a value that means nothing."""

from __future__ import annotations

import dataclasses

import pytest
import torch  # noqa: F401  pytester forgets what a test imports, and torch cannot be imported twice
from pytest_exportlint import options, session

from exportlint import findings
from exportlint.checks.other_python import OtherPython
from exportlint.checks.runner import Isolation, Options

pytest_plugins = ["pytester"]

KNOWN = f"known: {', '.join(options.CHECKS)}; or all"


def read(pytester, *arguments: str) -> options.Settings:
    return pytester.parseconfigure(*arguments).stash[options.KEY]


def test_names_and_defaults_are_those_of_the_checks():
    assert options.CHECKS == findings.CHECKS
    assert Isolation.__args__ == options.ISOLATIONS
    runner, ours = Options(), options.DEFAULTS
    assert (ours.checks, ours.examples, ours.devices, ours.timeout, ours.isolation) == (
        runner.checks, runner.examples, runner.devices, runner.timeout, runner.isolation,
    )  # fmt: skip


def test_defaults(pytester):
    assert read(pytester) == dataclasses.replace(options.DEFAULTS, cache=pytester.path / options.CACHE)


def test_values(pytester):
    given = (
        "--export-checks=shapes, capture,",
        "--export-examples=0",
        "--export-devices=meta, second",
        "--export-timeout=1.5",
        "--export-isolation=none",
        "--export-variants=autocast,bfloat16",
        "--export-profile=onnx",
    )
    settings = read(pytester, *given, "--export-no-cache")
    assert settings == options.Settings(
        checks=("capture", "shapes"), examples=0, devices=("second", "meta"), timeout=1.5, isolation="none",
        variants=("bfloat16", "autocast"),
        profiles=("onnx",),
    )  # fmt: skip
    assert settings.labels == ("capture", "shapes")


def test_devices_have_a_name_in_the_singular(pytester):
    assert read(pytester, "--export-device=meta").devices == ("meta",)
    with pytest.raises(pytest.UsageError, match="--export-devices: 'tpu' is no device"):
        read(pytester, "--export-device=tpu")


@pytest.mark.parametrize("kept", ["option", "configuration"])
def test_interpreters_of_other_environments(pytester, kept):
    interpreter = pytester.path / "other" / "python"
    interpreter.parent.mkdir()
    interpreter.write_text("#!/bin/sh\necho 'torch 1.0, Python 3.1'\n")
    interpreter.chmod(0o755)
    if kept == "option":
        settings = read(pytester, "--export-reload-python=other/python")
    else:
        pytester.makepyprojecttoml('[tool.exportlint.pytest]\nreload-python = ["other/python"]\n')
        settings = read(pytester)
    assert settings.pythons == (OtherPython(str(interpreter), "torch 1.0, Python 3.1"),)
    assert session.runner_options(settings).others == settings.pythons


def test_what_is_no_interpreter_in_the_configuration_is_a_usage_error(pytester):
    pytester.makepyprojecttoml('[tool.exportlint.pytest]\nreload-python = ["gone"]\n')
    with pytest.raises(pytest.UsageError, match=r"pyproject.toml.*reload-python in .* is wrong: .*gone is no program"):
        read(pytester)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--export-checks=captur", f"--export-checks: 'captur' is no check; {KNOWN}"),
        ("--export-checks=", f"--export-checks: names no check; {KNOWN}"),
        ("--export-examples=-1", "--export-examples: '-1' is no whole number of at least 0"),
        ("--export-examples=1.5", "--export-examples: '1.5' is no whole number of at least 0"),
        ("--export-examples=²", "--export-examples: '²' is no whole number of at least 0"),
        (
            "--export-devices=tpu",
            "--export-devices: 'tpu' is no device; known: second, meta, fake-cuda, cuda, mps, xpu; did you mean xpu?",
        ),
        ("--export-devices=", "--export-devices: names no device; known: second, meta, fake-cuda, cuda, mps, xpu"),
        ("--export-timeout=0.5", "--export-timeout: '0.5' is no number of seconds of at least 1"),
        ("--export-timeout=nan", "--export-timeout: 'nan' is no number of seconds of at least 1"),
        ("--export-timeout=inf", "--export-timeout: 'inf' is no number of seconds of at least 1"),
        ("--export-timeout=soon", "--export-timeout: 'soon' is no number of seconds of at least 1"),
        ("--export-profile=tf", "--export-profile: 'tf' is no profile; known: executorch, onnx, aoti"),
        ("--export-variants=half", "--export-variants: 'half' is no variant; known: bfloat16, float16, autocast"),
        ("--export-reload-python=/gone", "--export-reload-python: /gone is no program that can be run"),
        ("--export-isolation=thread", "--export-isolation: 'thread' is none of auto, server, fork, none"),
    ],
)
def test_a_bad_value_is_a_usage_error_of_one_line(pytester, argument, words):
    ran = pytester.runpytest_inprocess(argument)
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in ran.errlines if line] == [f"ERROR: {words}"]
