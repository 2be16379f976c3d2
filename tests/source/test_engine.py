"""The engine as a whole: what is read, what is not run, and that nothing else changes a finding."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from exportlint.source.discover import MissingPathError
from exportlint.source.engine import Options, Prediction, examine, lint

BRANCH = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        if x.sum() > 0:
            return x
        return -x
"""
CASES = Path(__file__).parent.parent.parent / "fixtures" / "cases"


def places(found: tuple[Prediction, ...]) -> list[tuple[str, int, int, int, int]]:
    return [(p.rule.code, p.range.line, p.range.column, p.range.end_line, p.range.end_column) for p in found]


def lint_text(tmp_path: Path, text: str, name: str = "model.py") -> tuple[Prediction, ...]:
    file = tmp_path / name
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return lint([file], Options())


def codes(tmp_path: Path, text: str) -> list[tuple[str, int]]:
    return [(p.rule.code, p.range.line) for p in lint_text(tmp_path, text)]


def test_a_finding_knows_its_range_message_and_outcomes(tmp_path: Path) -> None:
    (found,) = lint_text(tmp_path, BRANCH)
    assert places((found,)) == [("EXP101", 8, 12, 8, 23)]
    assert "`x.sum() > 0`" in found.message
    assert found.severity == "error"
    assert found.outcomes["export"] == "breaks"


def test_nothing_that_is_read_is_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    text = f"open({str(trace)!r}, 'w').close()\nraise SystemExit(3)\n{BRANCH}"
    assert [p.rule.code for p in lint_text(tmp_path, text)] == ["EXP101"]
    assert not trace.exists()


def test_a_file_with_invalid_syntax_is_a_finding_and_others_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(:\n", encoding="utf-8")
    (tmp_path / "b.py").write_text(BRANCH, encoding="utf-8")
    assert [(p.rule.code, p.range.line) for p in lint([tmp_path], Options())] == [("EXP001", 1), ("EXP101", 8)]


@pytest.mark.parametrize(
    "data",
    [
        b"x = 1\n\x00",
        b"# coding: no-such-codec\n",
        b"# coding: undefined\n",
        b"\xff\xfe\x00",
        b"# coding: utf-8\nx = '\xe9'\n",
    ],
    ids=["null byte", "unknown encoding", "undefined", "not UTF-8", "wrong encoding"],
)
def test_a_file_that_cannot_be_decoded_is_a_finding(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "model.py"
    file.write_bytes(data)
    (found,) = lint([file], Options())
    assert found.rule.code == "EXP001"
    assert "\n" not in found.message


@pytest.mark.parametrize(
    ("prefix", "encoding", "newline"),
    [
        ("", "utf-8", "\n"),
        ("", "utf-8-sig", "\n"),
        ("", "utf-8", "\r\n"),
        ("", "utf-8", "\r"),
        ("# coding: latin-1\n# é", "latin-1", "\n"),
        ("# coding: cp1252\n# €", "cp1252", "\r\n"),
        ("# -*- coding: shift_jis -*-\n# 日本", "shift_jis", "\n"),
        ("\f\n# form feed\f", "utf-8", "\n"),
    ],
    ids=["plain", "byte order mark", "CRLF", "CR", "latin-1", "cp1252", "shift_jis", "form feed"],
)
def test_positions_survive_encodings_and_line_ends(tmp_path: Path, prefix: str, encoding: str, newline: str) -> None:
    text = prefix + BRANCH.replace("if x.sum() > 0", "if 'é日' and x.sum() > 0")
    file = tmp_path / "model.py"
    file.write_bytes(text.replace("\n", newline).encode(encoding, errors="replace"))
    line = 8 + prefix.count("\n")
    (found,) = lint([file], Options())
    assert places((found,)) == [("EXP101", line, 21, line, 32)]


def test_tabs_continuation_lines_and_strings_keep_their_places(tmp_path: Path) -> None:
    text = (
        "from torch import nn, Tensor\n\nclass Net(nn.Module):\n\tdef forward(self, x: Tensor):\n"
        "\t\ty = '''\nif x.any(): pass\n'''\n\t\treturn (x\n  if x.\\\n any() else -x)\n"
    )
    file = tmp_path / "model.py"
    file.write_text(text, encoding="utf-8")
    assert places(lint([file], Options())) == [("EXP101", 9, 6, 10, 7)]


def test_a_one_line_class_is_analysed(tmp_path: Path) -> None:
    text = "from torch.nn import *\nclass N(Module): forward = None\n"
    text += "class M(Module):\n  def forward(self, x): return 1 if x.any() else 0\n"
    assert codes(tmp_path, text) == [("EXP101", 4)]


def test_an_empty_folder_is_clean_and_a_missing_path_is_an_error(tmp_path: Path) -> None:
    assert lint([tmp_path], Options()) == ()
    with pytest.raises(MissingPathError, match="no such file or folder"):
        lint([tmp_path / "missing"], Options())


def test_an_ignored_folder_is_linted_only_when_it_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "model.py").write_text(BRANCH, encoding="utf-8")
    assert lint([tmp_path], Options()) == ()
    assert len(lint([folder], Options())) == 1


def test_the_same_findings_alone_in_a_folder_and_twice(tmp_path: Path) -> None:
    shutil.copytree(CASES, tmp_path / "cases")
    together = {}
    for p in lint([tmp_path], Options()):
        together.setdefault(str(p.path), []).append((p.rule.code, p.range, p.message))
    assert len(together) > 20
    for file in sorted(tmp_path.rglob("*.py")):
        alone = [(p.rule.code, p.range, p.message) for p in lint([file], Options())]
        assert alone == together.get(str(file), [])


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=env, check=False)


def test_a_pipe_that_is_named_like_a_file_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("pipe.py", "other.py"):
        os.mkfifo(tmp_path / name)
    text = BRANCH.replace("import torch\n", "import torch\nimport pipe\nfrom other import f\n", 1)
    (tmp_path / "model.py").write_text(text, encoding="utf-8")
    assert [(p.path.name, p.range.line) for p in lint([tmp_path], Options())] == [("model.py", 10)]
    with pytest.raises(MissingPathError, match="neither a file nor a folder"):
        lint([tmp_path / "pipe.py"], Options())


def test_no_hash_seed_changes_anything() -> None:
    arguments = ("-m", "exportlint", "check", str(CASES), "--output-format", "json")
    outputs = {run(*arguments, PYTHONHASHSEED=seed).stdout for seed in ("0", "1", "77")}
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())) > 20


def test_no_torch_is_imported() -> None:
    script = (
        "import sys; from exportlint.source.engine import Options, lint; from pathlib import Path;"
        f"lint([Path({str(CASES)!r})], Options());"
        "print(sorted({'torch', 'numpy', 'hypothesis', 'pytest'} & set(sys.modules)))"
    )
    assert run("-c", script).stdout.strip() == "[]"


def test_bases_across_files_and_overridden_methods(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from .base import Base\n", encoding="utf-8")
    (package / "base.py").write_text(
        "from torch import nn\nclass Base(nn.Module):\n    def forward(self, x):\n        return self.post(x.relu())\n"
        "    def post(self, y):\n        return y\n",
        encoding="utf-8",
    )
    child = package / "child.py"
    child.write_text(
        "from pkg import Base as B\nclass Child(B):\n    def post(self, y):\n        return y if y.any() else -y\n",
        encoding="utf-8",
    )
    assert [(p.path.name, p.range.line) for p in lint([tmp_path], Options())] == [("child.py", 4)]
    assert [(p.path.name, p.range.line) for p in lint([child], Options())] == [("child.py", 4)]


@pytest.mark.parametrize(
    ("base", "found"),
    [
        ("transformers.PreTrainedModel", 1),
        ("lightning.LightningModule", 1),
        ("unheard_of.Layer", 1),
        ("torch.autograd.Function", 0),
        ("torch.nn.Linear", 1),
        ("abc.ABC", 0),
        ("object", 0),
    ],
)
def test_which_bases_make_a_module(tmp_path: Path, base: str, found: int) -> None:
    package = base.partition(".")[0]
    header = f"import {package}\n" if "." in base else ""
    text = f"{header}import torch\nclass N({base}):\n    def forward(self, x):\n        assert x.relu().any()\n"
    assert len(codes(tmp_path, text)) == found


def test_a_configured_base_makes_a_module_without_a_forward_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("import ours\nclass N(ours.Net):\n    def forward(self, x):\n        assert x.relu().any()\n")
    assert len(lint([file], Options(module_bases=frozenset({"ours.Net"})))) == 1


def test_only_what_forward_reaches_is_judged(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn

        def helper(x):
            return 1 if x.relu().any() else 0

        def unused(x):
            return 1 if x.relu().any() else 0

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                if torch.zeros(3).any():
                    self.a = 1

            @property
            def width(self):
                return 1 if torch.ones(3).any() else 0

            def training_step(self, x: torch.Tensor):
                return 1 if x.any() else 0

            def forward(self, x):
                if self.training and x.relu().any():
                    return x
                inner = lambda t: 1 if t.any() else 0
                return helper(x) + self.width + inner(x.relu())
    """
    assert codes(tmp_path, text) == [("EXP101", 6), ("EXP101", 19), ("EXP101", 27)]


def test_narrowing(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn, Tensor
        from typing import Optional

        class Net(nn.Module):
            def forward(self, x: Tensor, mask: Optional[Tensor] = None, flag: bool = False, extra=None):
                if mask is not None:
                    x = x + mask
                if torch.jit.is_scripting():
                    if x.any():
                        return x
                if not torch.compiler.is_compiling() and x.any():
                    return x
                if flag:
                    return x
                if isinstance(extra, torch.Tensor):
                    x = x + extra
                    if extra.any():
                        return x
                if extra:
                    return x
                if mask:
                    return x
                return x
    """
    assert codes(tmp_path, text) == [("EXP101", 19), ("EXP101", 23)]


def test_loops_end_and_what_they_change_is_known(tmp_path: Path) -> None:
    text = """
        from torch import nn, Tensor

        class Net(nn.Module):
            def forward(self, x: Tensor):
                done = False
                while not done:
                    for i in range(3):
                        for j in range(3):
                            for k in range(3):
                                for m in range(3):
                                    x = self.again(x, i)
                    done = x.any()
                return x

            def again(self, x, n):
                return x if n == 0 else self.again(x, n - 1)
    """
    assert codes(tmp_path, text) == [("EXP101", 7)]


@pytest.mark.parametrize(
    "comment",
    ["# noqa", "# noqa: EXP101", "# NOQA:EXP101,E501", "# exportlint: ignore[EXP101]",
     "# exportlint: ignore[branch-on-tensor]", "# exportlint: ignore", "# why # noqa: EXP101"],
)  # fmt: skip
def test_a_comment_silences_its_line(tmp_path: Path, comment: str) -> None:
    assert lint_text(tmp_path, BRANCH.replace("> 0:", f"> 0:  {comment}")) == ()


@pytest.mark.parametrize("comment", ["# noqa: EXP102", "# exportlint: ignore[EXP102]", "# exportlint: ignore[]"])
def test_a_comment_for_another_rule_silences_nothing(tmp_path: Path, comment: str) -> None:
    found = lint_text(tmp_path, BRANCH.replace("> 0:", f"> 0:  {comment}"))
    assert [p.rule.code for p in found if p.severity != "info"] == ["EXP101"]


def test_a_comment_inside_of_a_string_silences_nothing(tmp_path: Path) -> None:
    assert len(lint_text(tmp_path, BRANCH.replace("> 0:", "> 0 and '# noqa':"))) == 1


def test_modes_decide_what_is_found(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(BRANCH.replace("if x.sum() > 0:", "if int(x.sum()) * 0 + 1:"), encoding="utf-8")
    found = {mode: [p.variant for p in lint([file], Options(modes=(mode,)))] for mode in ("export", "compile")}
    assert found == {"export": ["", "conversion"], "compile": [""]}


@pytest.mark.slow
def test_the_installed_transformers_is_linted_without_a_crash() -> None:
    transformers = pytest.importorskip("transformers")
    models = Path(transformers.__file__).parent / "models"
    chosen = [folder for folder in sorted(models.iterdir()) if folder.name[0] in "bg"]
    assert len(lint(chosen, Options(whole_project=False))) > 10


CHAIN = " if x.dim() else ".join(["x"] * 1000)
ELIFS = "".join(f"        elif x.dim() == {i}:\n            y = x\n" for i in range(700))
DEEP = "class Deep(nn.Module):\n    def forward(self, x):\n{body}\n        assert y.any()\n        return y\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DEEP.format(body=f"        y = {CHAIN}"), "its code is nested too deeply"),
        (DEEP.format(body=f"        if x.ndim == 0:\n            y = -x\n{ELIFS}"), "its code is nested too deeply"),
    ],
    ids=["conditional expressions", "elif"],
)
def test_a_class_that_cannot_be_analysed_is_told_and_the_rest_is_checked(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "a.py").write_text(f"{BRANCH}\n{text}{BRANCH}", encoding="utf-8")
    (tmp_path / "b.py").write_text(BRANCH, encoding="utf-8")
    found = examine([tmp_path], Options())
    assert [(u.path.name, u.name, u.reason) for u in found.unanalysed] == [("a.py", "Deep", reason)]
    lines = [p.range.line for p in found.predictions]
    assert lines == [8, 11 + text.count("\n") + 8, 8]


def test_a_form_feed_before_a_method_hides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    text = BRANCH.replace("    def forward", "\f    def forward")
    assert text != BRANCH
    for each in (BRANCH, text):
        file.write_text(each, encoding="utf-8")
        assert [(p.range.line, p.range.column) for p in lint([file], Options())] == [(8, 12)]


@pytest.mark.parametrize(
    ("start", "step"),
    [
        ("x", "a = (a, a)"),
        ("x", "a = {'left': a, 'right': a}"),
        ("[x]", "a = a + [a, a]"),
        ("[x]", "a.append(a); a.insert(0, a)"),
        ("3", "a = torch.zeros(a, a)"),
        ("nn.Linear(4, 4)", "a = nn.Sequential(a, a)"),
    ],
)
def test_values_that_double_with_each_line_stay_small(tmp_path: Path, start: str, step: str) -> None:
    head = f"import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x, a={start}):\n"
    tail = "        b = self.f(a) if x.ndim else x\n        assert x.any()\n        return b\n"
    helper = "    def f(self, a):\n        return a\n"
    text = head + f"        a = {start}\n" + f"        {step}\n" * 40 + tail + helper
    assert ("EXP101", 49) in codes(tmp_path, text)


def test_nested_loops_around_a_growing_tuple_end(tmp_path: Path) -> None:
    loops = "".join("    " * (i + 2) + f"while n > {i}:\n" for i in range(7))
    text = "from torch import nn\nclass Net(nn.Module):\n    def forward(self, x, n: int):\n        y = z = x.relu()\n"
    text += f"{loops}{'    ' * 9}y, z = z, (y, z, [y])\n        assert x.any()\n        return y\n"
    assert codes(tmp_path, text) == [("EXP101", 13)]


STATE = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.cache, self.step = [], {{}}, 0
    def push(self, x):
        self.seen.append(x)
    def forward(self, x):
        x = x.relu()
        {body}
"""


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("self.cache['k'] = x; return self.cache['k'] * 2", []),
        ("self.cache[x.dim()] = x; return self.cache['k'] * 2", [11]),
        ("self.cache['k'] = x; return self.cache['l'] * 2", [11]),
        ("self.seen.append(x); y = self.seen[-1]; self.seen.clear(); return y", []),
        ("self.seen.append(x); self.seen.clear(); self.push(x); return self.seen[-1]", [11]),
        ("self.push(x); self.seen.clear(); self.push(x); return self.seen[-1]", [8]),
        ("self.step = self.step + 1 if self.training else self.step; return x * self.step", []),
        ("self.step = self.step + 1 if x.dim() else self.step; return x * self.step", [11]),
    ],
)
def test_state_is_carried_only_where_a_later_call_can_see_it(tmp_path: Path, body: str, lines: list[int]) -> None:
    found = [line for code, line in codes(tmp_path, STATE.format(body=body)) if code == "EXP501"]
    assert found == lines


KEYED = """
import collections
import torch
from torch import nn
_TABLES{made}
class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        n = {key}
        {body}
"""
KEPT = "if n not in _TABLES: _TABLES[n] = torch.arange(3, device=x.device)"


@pytest.mark.parametrize(
    ("made", "key", "body", "severity"),
    [
        (" = {}", "x.shape[1]", KEPT, ["warning"]),
        (": dict[int, torch.Tensor] = {}", "len(x)", KEPT, ["warning"]),
        (" = collections.OrderedDict()", "x.size(0)", KEPT, ["warning"]),
        (" = collections.defaultdict(dict)", "(x.shape[1], x.device)", KEPT, ["warning"]),
        (" = {}", "x.shape[1]", "y = _TABLES.setdefault(n, torch.arange(3, device=x.device))", ["warning"]),
        (" = {}", "x.shape[-1]", KEPT, ["info"]),
        (" = {}", "x.shape[0] * x.shape[1]", KEPT, ["info"]),
        (" = {}", "x.dim()", KEPT, []),
        (" = {}", "x.dtype", KEPT, []),
    ],
)
def test_a_global_dictionary_under_a_size_as_its_key_pins_the_size(
    tmp_path: Path, made: str, key: str, body: str, severity: list[str]
) -> None:
    file = tmp_path / "model.py"
    file.write_text(KEYED.format(made=made, key=key, body=f"{body}\n        return x + _TABLES[n]"), encoding="utf-8")
    assert [p.severity for p in lint([file], Options()) if p.rule.code == "EXP302"] == severity


COUNTER = """
from torch import nn
from pkg import counter as own
import pkg.counter
class Net(nn.Module):
    def forward(self, x):
        x = x.relu()
        {body}
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("own.calls += 1; return x * own.calls", [("net.py", 8)]),
        ("pkg.counter.calls = own.calls + 1; return x * own.calls", [("net.py", 8)]),
        ("own.calls += 1; return x * own.read()", [("net.py", 8)]),
        ("own.count(); return x * own.calls", [("counter.py", 7)]),
        ("setattr(own, 'calls', own.calls + 1); return x * own.calls", [("net.py", 8)]),
        ("y = x * own.calls; own.calls = x.mean(); return y", [("net.py", 8)]),
        ("if not own.done: own.done = True; x = -x\n        return x", [("net.py", 8)]),
        ("own.calls = 1; return x * own.calls", []),
        ("own.calls = x.mean(); return x * own.calls", []),
        ("return x * own.calls", []),
        ("own.absent += 1; return x * own.absent", []),
    ],
)
def test_a_global_of_another_file_is_state(tmp_path: Path, body: str, found: list[tuple[str, int]]) -> None:
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    functions = "def read():\n    return calls\ndef count():\n    global calls\n    calls += 1\n"
    (folder / "counter.py").write_text(f"calls = 0\ndone = False\n{functions}", encoding="utf-8")
    (folder / "net.py").write_text(COUNTER.format(body=body), encoding="utf-8")
    reported = [(p.path.name, p.range.line) for p in lint([folder], Options()) if p.rule.code == "EXP501"]
    assert reported == found


def test_an_attribute_of_a_package_is_a_file_of_it_and_no_builtin(tmp_path: Path) -> None:
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "filter.py").write_text("calls = 0\n", encoding="utf-8")
    body = "pkg.filter.calls += 1; return x * pkg.filter.calls + pkg.sorted(x)"
    (folder / "net.py").write_text(COUNTER.format(body=body).replace("counter", "filter"), encoding="utf-8")
    assert [(p.rule.code, p.range.line) for p in lint([folder], Options())] == [("EXP501", 8)]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("assert (x >= 0).all()", True),
        ("assert not (x != x).any()", True),
        ("assert (0 < x).sum() > 3", True),
        ("assert ((x >= 0) & (x < self.high)).all()", True),
        ("assert torch.all(-x < 1)", True),
        ("if torch.any(x * 2 > 1): raise ValueError", True),
        ("assert (x > self.other).all()", False),
        ("assert (x in (1, 2)).all()", False),
        ("assert (x > y).all()", False),
        ("assert (x >= 0).bit_length()", False),
        ("assert x >= 0", False),
        ("assert all(v >= 0 for v in x)", False),
    ],
)
def test_what_is_done_with_a_comparison_of_a_parameter_tells_that_it_is_a_tensor(
    tmp_path: Path, body: str, found: bool
) -> None:
    text = f"""
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self, other):
            super().__init__()
            self.other, self.high = other, 4.5
        def forward(self, x, y):
            {body}
            return x
    """
    assert [code for code, _ in codes(tmp_path, text)] == ["EXP101"] * found


@pytest.mark.parametrize(
    ("arguments", "found"), [('"pe", None', []), ('name="pe", tensor=None', []), ('"other", None', [("EXP203", 8)])]
)
def test_a_tensor_bound_to_the_name_of_a_buffer_is_one(
    tmp_path: Path, arguments: str, found: list[tuple[str, int]]
) -> None:
    text = f"""
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer({arguments})
            self.pe = torch.ones(4, 4)
        def forward(self, x):
            return x.relu() + self.pe
    """
    assert codes(tmp_path, text) == found


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("min(n.item(), 3)", False),
        ("max(1, n.item())", False),
        ("max(1.0, (x > 0).sum().item())", False),
        ("max(1, x.mean().argmax().item())", False),
        ("max(1, x.mean(0).max(0)[1].item())", False),
        ("max(1, x.mean().to(torch.int64).item())", False),
        ("max(1.0, x.mean().item())", True),
        ("min(self.layer(x).abs().max().item(), 3)", True),
        ("max(1, (x.exp() * 2).sum().item())", True),
        ("max(1, torch.tensor(2.5).item())", False),  # which a capture knows
    ],
)
def test_only_a_float_of_a_tensor_cannot_be_compared_by_max(tmp_path: Path, expression: str, found: bool) -> None:
    text = f"""
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
        def forward(self, x: torch.Tensor, n: torch.Tensor):
            return x * {expression}
    """
    assert ("EXP102" in [code for code, _ in codes(tmp_path, text)]) is found


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("self.helper(x)", True),
        ("self.helper(y=x)", True),
        ("function(1, x)", True),
        ("self.outer(x)", True),
        ("self.plain(x)", False),
        ("self.again(x)", False),
        ("function(x, 1)", False),
        ("imported(x)", True),
        ("other.imported(x)", True),
        ("self.inner(x)", True),
        ("self.inners[0](x)", True),
        ("nested(x)", True),
        ("other(x)", False),
        ("self.flat(x)", False),
    ],
)
def test_what_a_helper_does_with_a_parameter_tells_what_it_is(tmp_path: Path, call: str, found: bool) -> None:
    helpers = """
        from torch import nn
        def imported(t):
            return t.cumsum(0)
        class Inner(nn.Module):
            def forward(self, x):
                return imported(x)
    """
    (tmp_path / "helpers.py").write_text(textwrap.dedent(helpers), encoding="utf-8")
    text = f"""
        import helpers as other
        from torch import nn
        from helpers import Inner, imported
        def function(n, x):
            return x.cumsum(n)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.flat = Inner(), len
                self.inners = nn.ModuleList([Inner()])
            def forward(self, x):
                def nested(t):
                    return self.helper(t)
                return {call}, 1 if x else 0
            def outer(self, y):
                return self.helper(y)
            def helper(self, y):
                return y.cumsum(0)
            def plain(self, y):
                return y.count(1)
            def again(self, y):
                return self.again(y)
    """
    assert codes(tmp_path, text) == ([("EXP101", 15)] if found else [])


@pytest.mark.parametrize(
    ("parameter", "body", "found"),
    [
        ("mask=None", "if mask is not None:\n            x = x.masked_fill(mask.bool(), 0)", True),
        ("mask=None", "if mask is not None:\n            x = x.masked_fill(self.f(mask), 0)", True),
        ("*, mask=None", "x = x if mask is None else self.f(mask)", True),
        ("mask=None", "if isinstance(mask, torch.Tensor):\n            x = x.masked_fill(mask.bool(), 0)", False),
        ("mask=None", "if torch.is_tensor(mask):\n            x = x.masked_fill(mask.bool(), 0)", False),
        ("mask=None", "x = x.masked_fill(mask, 0)", False),
        ("mask=None", "x = x if mask is None else mask.count(1)", False),
        ("mask=1", "x = x.masked_fill(mask.bool(), 0)", False),
    ],
)
def test_a_parameter_that_may_be_left_out_is_what_the_body_uses_it_as(
    tmp_path: Path, parameter: str, body: str, found: bool
) -> None:
    text = f"""
import torch
from torch import nn
class Net(nn.Module):
    def f(self, m):
        return m.logical_not()
    def forward(self, x: torch.Tensor, {parameter}):
        {body}
        return -x if mask else x
"""
    lines = [line for code, line in codes(tmp_path, text) if code == "EXP101"]
    assert lines == ([8 + body.count("\n") + 1] if found else [])


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("def forward(self, *xs: torch.Tensor):\n    for x in xs:\n        if x.any():\n            return x", [7]),
        ("def forward(self, *xs: int):\n    for x in xs:\n        if x.any():\n            return x", []),
        ("def forward(self, *xs):\n    return 1 if xs[0].any() else 0", []),
    ],
)
def test_arguments_behind_a_star_are_what_the_annotation_says(tmp_path: Path, body: str, lines: list[int]) -> None:
    text = f"import torch\nfrom torch import nn\nclass Net(nn.Module):\n{textwrap.indent(body, '    ')}\n"
    assert codes(tmp_path, text) == [("EXP101", line - 1) for line in lines]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="except* is syntax of Python 3.11")
def test_what_is_inside_of_a_try_with_exception_groups_is_analysed(tmp_path: Path) -> None:
    text = """
        import torch
        class Net(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                try:
                    y = 1 if x.any() else 0
                except* ValueError:
                    y = 2 if x.all() else 0
                return y
    """
    assert codes(tmp_path, text) == [("EXP101", 6), ("EXP101", 8)]


BOUND = "def __init__(self):\n    super().__init__()\n    self.forward = self.other\n"


@pytest.mark.parametrize(
    "body",
    [
        "forward = lambda self, x: 1 if x.any() else 0",
        "def other(self, x):\n    return 1 if x.any() else 0\nforward = other",
        f"{BOUND}def other(self, x):\n    return 1 if x.any() else 0",
        f"{BOUND}def forward(self, x):\n    return x\ndef other(self, x):\n    return 1 if x.any() else 0",
    ],
    ids=["lambda", "alias", "bound by the constructor", "bound over the method"],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_forward_is_found_however_it_is_bound(tmp_path: Path, body: str, nested: bool) -> None:
    text = f"import torch\nfrom torch import nn\nclass Net(nn.Module):\n{textwrap.indent(body, '    ')}\n"
    if nested:
        outer = f"{BOUND.replace('forward = self.other', 'net = Net()')}def forward(self, x):\n    return self.net(x)"
        text += f"class Outer(nn.Module):\n{textwrap.indent(outer, '    ')}\n"
    line = 1 + text[: text.index("x.any()")].count("\n")
    assert codes(tmp_path, text) == [("EXP101", line)]


@pytest.mark.parametrize("call", ["x", "self.helper(x)"])
def test_what_a_decorated_forward_takes_is_what_it_says(tmp_path: Path, call: str) -> None:
    text = f"""
        import functools
        import torch
        def logged(function):
            @functools.wraps(function)
            def inner(*args, **kwargs):
                return function(*args, **kwargs)
            return inner
        class Net(torch.nn.Module):
            @logged
            def helper(self, y):
                return y.cumsum(0)
            @logged
            def forward(self, x{": torch.Tensor" if call == "x" else ""}):
                return {call} if x else 0
    """
    assert codes(tmp_path, text) == [("EXP101", 15)]


@pytest.mark.parametrize("call", ["full_like(best, -1)", "zeros_like(best)", "ones_like(input=best)"])
def test_what_is_made_like_something_is_where_that_is(tmp_path: Path, call: str) -> None:
    text = f"""
        import torch
        from torch import nn

        class Net(nn.Module):
            def forward(self, x: torch.Tensor):
                best = x.topk(2, dim=-1).indices
                return torch.where(x > 0, torch.{call}, x)
    """
    assert lint_text(tmp_path, text) == ()


HELPER = "def decide(x):\n    return x if x.sum() > 0 else -x\n"
CALLER = """
from torch import Tensor, nn

from {} import decide


class Net(nn.Module):
    def forward(self, x: Tensor):
        return decide(x)
"""
LAYOUTS = {
    "packages beside each other": ("a/__init__.py", "a/net.py", "b/__init__.py", "b/ops.py", "b.ops"),
    "namespace packages": ("pyproject.toml", "a/net.py", "b/deep/ops.py", "b.deep.ops"),
    "one namespace package": ("setup.py", "a/net.py", "a/ops.py", "a.ops"),
    "a script beside src": ("setup.cfg", "scripts/net.py", "src/b/__init__.py", "src/b/ops.py", "b.ops"),
    "packages in src": ("src/a/__init__.py", "src/a/net.py", "src/b/__init__.py", "src/b/ops.py", "b.ops"),
    "a namespace package in src": ("setup.py", "tools/net.py", "src/b/ops.py", "b.ops"),
    "an example with requirements": ("setup.py", "ex/a/requirements.txt", "ex/a/net.py", "b/ops.py", "b.ops"),
    "a folder in a package": (".git/HEAD", "a/__init__.py", "a/deep/net.py", "b/ops.py", "b.ops"),
}


def laid_out(root: Path, *names: str) -> None:
    *files, imported = names
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        text = CALLER.format(imported) if name.endswith("net.py") else HELPER if name.endswith("ops.py") else ""
        (root / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS)
def test_a_helper_in_another_package_of_the_project_is_run_by_the_model(tmp_path: Path, files: tuple[str, ...]) -> None:
    laid_out(tmp_path, *files)
    (helper,) = tmp_path.rglob("ops.py")
    found = [[(p.path.name, p.rule.code) for p in lint([path], Options())] for path in (tmp_path, helper)]
    assert found == [[("ops.py", "EXP101")]] * 2


@pytest.mark.parametrize("mark", ["b-1.0.dist-info/METADATA", "../site-packages/x"])
def test_installed_packages_are_projects_of_their_own(tmp_path: Path, mark: str) -> None:
    root = tmp_path / "site-packages"
    laid_out(root, mark, "a/__init__.py", "a/net.py", "b/__init__.py", "b/ops.py", "b.ops")
    assert lint([root], Options()) == ()


def test_a_home_folder_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    laid_out(tmp_path, ".git/HEAD", "a/net.py", "b/ops.py", "b.ops")
    assert lint([tmp_path / "a", tmp_path / "b"], Options()) == ()


def test_a_home_folder_behind_a_link_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(tmp_path / "real", ".git/HEAD", "a/net.py", "b/ops.py", "b.ops")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    assert lint([tmp_path / "link" / "a", tmp_path / "link" / "b"], Options()) == ()


def test_nobody_needs_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    laid_out(tmp_path, "setup.py", "a/net.py", "b/ops.py", "b.ops")
    assert len(lint([tmp_path], Options())) == 1


def test_a_folder_that_nobody_may_enter_costs_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(tmp_path, "setup.py", "a/net.py", "b/ops.py", "shut/ops.py", "b.ops")
    asked = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        if "shut" in path.parts[:-1]:
            raise PermissionError(13, "Permission denied", str(path))
        return asked(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    assert [p.path.parent.name for p in lint([tmp_path / "b"], Options())] == ["b"]


def test_tests_of_the_project_are_no_models_that_run_its_code(tmp_path: Path) -> None:
    laid_out(tmp_path, "pyproject.toml", "tests/net.py", "b/ops.py", "b.ops")
    assert lint([tmp_path / "b"], Options()) == ()


def test_what_the_readme_says_of_its_own_examples_is_found(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "nn.Module" in block]
    (counting,) = [block for block in blocks if 'expected_failures={"state"' in block]
    file = tmp_path / "cases.py"
    file.write_text(blocks[0] + counting, encoding="utf-8")
    (found,) = lint([file], Options())
    assert (found.rule.code, found.message) == (
        "EXP501",
        "`self.calls` is changed here, and the next call reads it",
    )
