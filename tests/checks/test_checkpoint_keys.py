"""Keys that do not fit: what is said of them, and that the line which is proposed mends them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exportlint.checks.checkpoint.keys import Renaming, explain

MODEL = {
    "encoder.layers.0.norm.weight": (4,),
    "encoder.layers.0.fc.weight": (4, 4),
    "encoder.layers.1.norm.weight": (4,),
    "encoder.layers.1.fc.weight": (4, 4),
    "head.weight": (3, 4),
    "head.bias": (3,),
}


def renamed(change: Any) -> dict[str, tuple[int, ...]]:
    return {change(key): shape for key, shape in MODEL.items()}


def mended(code: str, found: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    names: dict[str, Any] = {"re": re, "state": found}
    exec(code, names)
    return names["state"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda k: f"module.{k}", "keys of the file begin with `module.`, which comes from `nn.DataParallel` or"),
        (lambda k: f"_orig_mod.{k}", "keys of the file begin with `_orig_mod.`, which comes from `torch.compile`"),
        (lambda k: f"model.net.{k}", "keys of the file begin with `model.net.`"),
        (lambda k: k.replace("layers.0.", "layers.0._orig_mod."), "keys of the file hold `_orig_mod.`"),
        (lambda k: k.replace("encoder.", "enc."), "`encoder` in the model"),
        (lambda k: k.replace("norm.weight", "norm.gamma"), "`gamma` in the file is `weight` in the model"),
        (lambda k: k.replace("layers.", "stage.blocks."), "`stage.blocks` in the file is `layers` in the model"),
        (lambda k: "module." + k.replace("encoder.", "enc."), "`module`"),
    ],
)
def test_keys_that_a_renaming_mends(change, words):
    found = renamed(change)
    misfit = explain(MODEL, found)
    assert misfit.mended
    assert words.strip("`") in misfit.words
    assert mended(misfit.code, found) == MODEL
    assert misfit.mapping == {change(key): key for key in MODEL}


def test_a_prefix_that_the_file_lacks():
    wanted = {f"net.{key}": shape for key, shape in MODEL.items()}
    misfit = explain(wanted, MODEL)
    assert misfit.words == "keys of the file lack `net.`"
    assert mended(misfit.code, MODEL) == wanted


def test_what_no_renaming_mends_is_listed():
    found = {**MODEL, "extra.weight": (7,), "head.weight": (4, 3), "encoder.layers.0.fc.weight": (16,)}
    del found["head.bias"]
    misfit = explain(MODEL, found)
    assert (misfit.missing, misfit.unexpected, misfit.code, misfit.mended) == (
        ("head.bias",), ("extra.weight",), None, False,
    )  # fmt: skip
    assert misfit.words == (
        "missing: `head.bias`; unexpected: `extra.weight`; "
        "`encoder.layers.0.fc.weight` is [16] in the file and [4, 4] in the model: as many elements, to be reshaped; "
        "`head.weight` is [4, 3] in the file and [3, 4] in the model: transposed"
    )


def test_a_renaming_and_what_is_left():
    found = renamed(lambda key: f"module.{key}")
    found["module.head.weight"] = (10, 4)
    del found["module.head.bias"]
    misfit = explain(MODEL, found)
    assert not misfit.mended
    assert misfit.code == 'state = {key.removeprefix("module."): value for key, value in state.items()}'
    assert misfit.words.endswith("missing: `head.bias`; `head.weight` is [10, 4] in the file and [3, 4] in the model")


def test_only_a_few_keys_are_shown():
    misfit = explain({f"b{i}": (i,) for i in range(9)}, {})
    assert misfit.words == "missing: `b0`, `b1`, `b2` and 6 keys more"


def test_keys_that_fit():
    assert explain(MODEL, dict(reversed(MODEL.items()))) is None


def test_a_segment_that_the_model_has_as_well_is_taken_away_once():
    wanted = {"module.fc.weight": (2, 2), "module.fc.bias": (2,)}
    found = {f"module.{key}": shape for key, shape in wanted.items()}
    misfit = explain(wanted, found)
    assert misfit.mended
    assert mended(misfit.code, found) == wanted


SEGMENTS = st.lists(st.sampled_from(["a", "b", "module", "0", "weight"]), min_size=1, max_size=4).map(".".join)
STATES = st.dictionaries(SEGMENTS, st.sampled_from([(1,), (2,), (2, 3)]), max_size=6)


@given(STATES, STATES)
def test_whatever_the_keys_what_is_said_is_true(wanted, found):
    misfit = explain(wanted, found)
    if wanted == found:
        assert misfit is None
        return
    now = found if misfit.code is None else mended(misfit.code, found)
    assert len(now) == len(found)
    assert set(misfit.missing) == wanted.keys() - now.keys()
    assert set(misfit.unexpected) == now.keys() - wanted.keys()
    assert {key for key, _, _ in misfit.reshaped} == {k for k in wanted.keys() & now.keys() if wanted[k] != now[k]}


@given(SEGMENTS, SEGMENTS, SEGMENTS, st.booleans())
def test_a_renaming_does_what_its_code_says(key, old, new, front):
    for renaming in (Renaming(old, new, front), Renaming(old, "", front), Renaming("", new, front=True)):
        assert eval(renaming.code, {"re": re, "key": key}) == renaming(key)
