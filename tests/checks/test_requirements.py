"""What the checks need: missing, broken and old torch, each with its line."""

from __future__ import annotations

import sys

import pytest
import torch

from exportlint.checks import requirements
from exportlint.checks.requirements import MissingRequirementError

pytest_plugins = ["pytester"]


def test_what_is_installed_here_is_enough():
    requirements.require()
    assert "torch.export" in sys.modules


@pytest.mark.parametrize("version", ["2.9.1", "2.9.0+cu128", "1.13.1", "2.1.0a0+git1234567"])
def test_an_old_torch_is_refused(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(MissingRequirementError) as caught:
        requirements.require()
    assert str(caught.value) == f"exportlint needs torch 2.10 or newer, this is torch {version}"


@pytest.mark.parametrize("version", ["2.10.0", "2.14.1+cpu", "3.0.0.dev20270101", "unknown"])
def test_a_new_torch_is_taken(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    requirements.require_torch_version()


@pytest.mark.parametrize("name", ["torch", "hypothesis"])
def test_a_missing_package_says_how_to_install_it(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingRequirementError) as caught:
        requirements.require()
    assert str(caught.value) == f"the checks need {name}: pip install 'exportlint[pytest]'"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise OSError('libc10.so: cannot open\\nmore')", "OSError: libc10.so: cannot open"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
    ],
)
def test_a_broken_package_is_not_called_missing(monkeypatch, tmp_path, source, words):
    (tmp_path / "hypothesis.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hypothesis", raising=False)
    with pytest.raises(MissingRequirementError) as caught:
        requirements.require()
    assert str(caught.value) == f"the checks need hypothesis, which cannot be imported: {words}"


def test_a_test_without_torch_fails_with_that_line(pytester):
    pytester.makeconftest("import sys; sys.modules['torch'] = None")
    pytester.makepyfile("def test_model(export_check):\n    export_check(dict, name='model')")
    ran = pytester.runpytest_subprocess()
    ran.assert_outcomes(failed=1)
    words = [text for text in ran.outlines if "the checks need" in text]
    assert words[0] == "the checks need torch: pip install 'exportlint[pytest]'"
    assert "another exception" not in ran.stdout.str()
