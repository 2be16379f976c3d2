from __future__ import annotations

import subprocess
import sys

import pytest
from commands import exportlint

from exportlint import zoo
from exportlint.checks.runner import NamedCase
from exportlint.checks.targets import MissingTargetError, expand


def test_importing_it_imports_neither_torch_nor_a_model_library():
    code = "import sys, exportlint.zoo; print(sorted({'torch', 'transformers', 'timm'} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("target", ["hf:bert", "timm:resnet18", "torchvision:*", "hf:vision-encoder-decoder/vit+gpt2"])
def test_a_specification_is_told_by_its_source(target):
    assert zoo.is_specification(target)


@pytest.mark.parametrize("target", ["model.py", "model.py:hf", "package.hf:build", "hf", "hf.py:bert", "C:\\m.py"])
def test_other_targets_are_none(target):
    assert not zoo.is_specification(target)


def test_a_library_that_is_missing_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setitem(zoo.SOURCES, "timm", "no_such_library")
    with pytest.raises(MissingTargetError) as error:
        expand("timm:resnet18")
    assert str(error.value) == (
        "timm:resnet18 needs no_such_library, which is not installed: pip install no_such_library"
    )


def test_a_specification_without_a_name_is_an_error():
    with pytest.raises(MissingTargetError, match="names no model: write hf:NAME, or hf:\\* for all"):
        expand("hf:")


def test_an_unknown_name_gets_the_nearest_ones():
    with pytest.raises(zoo.ZooError, match=r"transformers has no model 'bret'; did you mean .*bert"):
        zoo.names("hf:bret")


@pytest.mark.parametrize(
    "name", ["BertForNothing", "Bert", "bert/gpt2", "encoder-decoder/bert", "encoder-decoder/bert+bret", "AutoModel"]
)
def test_what_is_neither_a_type_nor_a_class_is_unknown(name):
    with pytest.raises(zoo.ZooError, match="has no model"):
        zoo.names(f"hf:{name}")


def test_wildcards_stand_for_all_that_match():
    found = zoo.names("hf:distil*")
    assert "hf:distilbert" in found
    assert all(name.startswith("hf:distil") for name in found)
    with pytest.raises(zoo.ZooError, match="no model that matches 'zzz\\*'"):
        zoo.names("hf:zzz*")


def test_most_model_types_of_transformers_are_known():
    assert len(zoo.names("hf:*")) >= 400


def test_a_case_is_labelled_by_its_specification():
    assert NamedCase("hf:bert", "hf:bert", {}, alone=True).label == "hf:bert"


def test_report_of_a_model_type_says_how_it_was_made(report, tmp_path):
    ran = report("hf:bert", "--checks", "capture", cwd=tmp_path)
    assert ran.status == 0, ran.err
    (case,) = ran.data["cases"]
    assert (case["name"], case["target"]) == ("hf:bert", "hf:bert")
    (check,) = case["checks"]
    assert check["outcome"] == "passed"
    assert check["notes"][-1] == (
        "BertModel from a small config with random weights; inputs inferred and tried out: "
        "input_ids (2, 8), attention_mask (2, 8); and once more with 3 rows of length 9"
    )


def test_report_of_an_unknown_name_is_one_line_and_status_2(tmp_path):
    ran = exportlint("report", "hf:bret", "--checks", "capture", cwd=tmp_path)
    assert ran.status == 2
    assert "transformers has no model 'bret'; did you mean" in ran.out + ran.err
    assert "Traceback" not in ran.out + ran.err
