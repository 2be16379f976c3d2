"""What each format says, read back as its readers read it."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from consumers import GITLAB, SARIF, github_reads, jenkins_refuses
from findings_samples import BRANCH, COUNTER, DEVICE, LONG, results, unanalysed

from exportlint.formats import FORMATS, Results, github, render
from exportlint.formats.statistics import render as render_statistics
from exportlint.rules import catalogue
from exportlint.source.engine import UNSETTLED, Unanalysed
from exportlint.source.units import NOT_READ

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_full_shows_lines_with_marks_and_the_rewrite(tmp_path: Path) -> None:
    text = render("full", results(tmp_path, model=BRANCH))
    head, arrow, bar, above, line, marks, last, rewrite, empty, total, _ = text.splitlines()
    assert re.match(r"error: EXP101 \[!\] branch-on-tensor: .*`x\.sum\(\) > 0`", head)
    row, column = map(int, arrow.strip().removeprefix("--> model.py:").split(":"))
    assert above.endswith("def forward(self, x):")
    assert line == f"{row} |         return x if x.sum() > 0 else -x"
    assert line[marks.index("^") : marks.rindex("^") + 1] == "x.sum() > 0"
    assert marks.index("^") - len(f"{row} | ") == column - 1
    assert {bar.strip(), last.strip(), empty} == {"|", ""}
    assert rewrite.startswith("help: Use torch.where")
    assert total == "1 file checked, 1 error"


def test_full_marks_each_line_of_a_long_finding(tmp_path: Path) -> None:
    lines = render("full", results(tmp_path, model=LONG)).splitlines()
    marked = [lines[i - 1].partition("| ")[2] for i, line in enumerate(lines) if "^" in line]
    assert [line.strip() for line in marked] == ["return x + torch.zeros(", "4,", "device='cpu',", ")"]
    first = next(line for line in lines if "^" in line)
    assert first.partition("| ")[2] == " " * len("        return x + ") + "^" * len("torch.zeros(")


def test_full_marks_what_is_wide_and_what_is_a_tab(tmp_path: Path) -> None:
    wide = BRANCH.replace("return x if", "return '資料' and x if")
    lines = render("full", results(tmp_path, model=wide)).splitlines()
    marks = next(line for line in lines if "^" in line)
    assert marks.partition("| ")[2].index("^") == len("        return '資料' and x if ") + 2
    tabbed = BRANCH.replace("    ", "\t")
    lines = render("full", results(tmp_path, model=tabbed)).splitlines()
    line, marks = next((lines[i - 1], line) for i, line in enumerate(lines) if "^" in line)
    assert line[marks.index("^") : marks.rindex("^") + 1] == "x.sum() > 0"


def test_full_survives_a_file_that_is_gone_or_changed(tmp_path: Path) -> None:
    found = results(tmp_path, model=BRANCH)
    (tmp_path / "model.py").write_text("x = 1\n")
    assert "^" not in render("full", Results(shown=found.shown, files=1))
    (tmp_path / "model.py").unlink()
    assert "help: " in render("full", Results(shown=found.shown, files=1))


def test_colours_are_there_only_for_who_sees_them(tmp_path: Path) -> None:
    found = results(tmp_path, model=BRANCH)
    coloured = Results(shown=found.shown, files=1, colour=True)
    for name in ("full", "concise", "grouped"):
        assert "\x1b" not in render(name, found)
        assert re.sub(r"\x1b\[\d+m", "", render(name, coloured)) == render(name, found)
        assert "\x1b[31m" in render(name, coloured)
    for name in FORMATS.keys() - {"full", "concise", "grouped"}:
        assert render(name, coloured) == render(name, found)


def test_concise_and_pylint_are_lines(tmp_path: Path) -> None:
    found = results(tmp_path, a=BRANCH, b=DEVICE)
    first, second, total, _ = render("concise", found).splitlines()
    assert re.fullmatch(r"a\.py:\d+:\d+: error: EXP101 \[!\] branch-on-tensor: .*", first)
    assert re.fullmatch(r"b\.py:\d+:\d+: warning: EXP202 \[\*\] factory-without-device: .*", second)
    assert total == "2 files checked, 1 error, 1 warning"
    lines = render("pylint", found).splitlines()
    assert [bool(re.fullmatch(r"[ab]\.py:\d+: \[EXP\d{3}\] .+", line)) for line in lines] == [True, True]


def test_grouped_names_each_file_once(tmp_path: Path) -> None:
    both = BRANCH.replace("-x", "-x + torch.arange(4)")
    lines = render("grouped", results(tmp_path, a=both, b=DEVICE)).splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["a.py:", "", "b.py:", "", *lines[-2:]]
    assert sum(line.startswith("  ") for line in lines) == 3


def test_json_lines_are_the_items_of_json(tmp_path: Path) -> None:
    found = results(tmp_path, a=BRANCH, b=DEVICE)
    lines = [json.loads(line) for line in render("json-lines", found).splitlines()]
    assert lines == json.loads(render("json", found))
    assert [item["code"] for item in lines] == ["EXP101", "EXP202"]
    assert render("json-lines", Results(files=1)) == ""


def test_sarif_is_valid_and_has_rules_ranges_and_relative_paths(tmp_path: Path) -> None:
    found = results(tmp_path, **{"a": BRANCH, "b c": LONG, "ü": COUNTER})
    log = json.loads(render("sarif", found))
    SARIF.validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(catalogue())
    assert all(rule["help"]["markdown"].startswith(f"# {rule['name']}") for rule in rules)
    assert [r["level"] for r in run["results"]] == ["error", "warning", "note"]
    for result, p in zip(run["results"], found.shown, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == p.rule.code
        (place,) = [location["physicalLocation"] for location in result["locations"]]
        assert unquote(place["artifactLocation"]["uri"]) == p.path.name
        assert place["region"] == {
            "startLine": p.range.line,
            "startColumn": p.range.column,
            "endLine": p.range.end_line,
            "endColumn": p.range.end_column,
        }
    SARIF.validate(json.loads(render("sarif", Results())))
    told = json.loads(render("sarif", unanalysed(tmp_path)))
    SARIF.validate(told)
    (note,) = told["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].endswith("class Deep was not analysed: its code is nested too deeply")
    with pytest.raises(Exception, match="'versoin' was unexpected"):
        SARIF.validate({**log, "versoin": 1})


@pytest.mark.parametrize("name", ["sarif", "gitlab"])
def test_fingerprints_differ_and_survive_shifted_lines(tmp_path: Path, name: str) -> None:
    twice = BRANCH.replace("        return x", "        x = x if x.sum() > 0 else -x\n" * 2 + "        return x")

    def marks(text: str) -> list[str]:
        written = json.loads(render(name, results(tmp_path, model=text)))
        if name == "gitlab":
            return [item["fingerprint"] for item in written]
        return [r["partialFingerprints"]["primaryLocationLineHash"] for r in written["runs"][0]["results"]]

    before = marks(twice)
    assert len(set(before)) == 3
    assert marks("# a line\n\n" + twice) == before
    assert marks(twice.replace("return x if x.sum() >", "return x if x.sum() >=")) != before


def test_github_commands_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "a,b").mkdir()
    found = results(tmp_path / "a,b", **{"100%": BRANCH, "long": LONG})
    first, second = render("github", found).splitlines()
    assert first.startswith("::error title=exportlint (EXP101 branch-on-tensor),file=a%2Cb/100%25.py,line=")
    assert re.search(r",col=\d+,endColumn=\d+::a,b/100%25\.py:\d+: EXP101 ", first)
    assert "col=" not in second  # GitHub takes columns of one line only
    assert render("github", unanalysed(tmp_path)) == (
        "::notice title=exportlint::deep.py: class Deep was not analysed: its code is nested too deeply\n"
    )


def test_gitlab_has_what_gitlab_asks_for(tmp_path: Path) -> None:
    found = json.loads(render("gitlab", results(tmp_path, a=BRANCH, b=DEVICE, c=COUNTER)))
    GITLAB.validate(found)
    GITLAB.validate(json.loads(render("gitlab", Results())))
    assert not GITLAB.is_valid([{**found[0], "severity": "error"}])
    assert not GITLAB.is_valid([{**found[0], "location": {**found[0]["location"], "path": "./a.py"}}])
    assert len({item["fingerprint"] for item in found}) == 3  # of two with one mark, GitLab keeps one
    assert [item["severity"] for item in found] == ["major", "minor", "info"]
    for item, name in zip(found, "abc", strict=True):
        assert item.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert item["location"]["path"] == f"{name}.py"
        assert item["location"]["lines"]["begin"] <= item["location"]["lines"]["end"]


def test_junit_counts_what_it_holds(tmp_path: Path) -> None:
    root = ET.fromstring(render("junit", results(tmp_path, a=BRANCH, b=DEVICE)))
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "2", "2")
    tests = root.findall("testsuite/testcase")
    assert [(t.get("name"), t.get("classname")) for t in tests] == [
        ("EXP101 branch-on-tensor", "a"),
        ("EXP202 factory-without-device", "b"),
    ]
    assert [suite.get("file") for suite in root] == ["a.py", "b.py"]
    assert all(t.find("failure").get("message") in t.find("failure").text for t in tests)
    clean = ET.fromstring(render("junit", Results(files=1)))
    assert (clean.get("tests"), clean.get("failures"), len(clean.findall(".//failure"))) == ("1", "0", 0)
    skipped = ET.fromstring(render("junit", unanalysed(tmp_path)))
    assert len(skipped.findall(".//skipped")) == int(skipped.find("testsuite").get("skipped")) == 1


def _samples(folder: Path) -> dict[str, Results]:
    """Results of every kind: clean, of each severity, hostile, and with what was not analysed or could not be read."""
    plain = results(folder, a=BRANCH, b=DEVICE, c=COUNTER, d=LONG)
    hostile = BRANCH.replace("> 0", "> 0 and 'a\x1b[31m\u202e<b>&\"]]>\u2028'")
    (folder / "odd, folder: 100%").mkdir()
    left_out = (
        Unanalysed(folder / "a.py", "", f"{NOT_READ}: Permission denied"),
        Unanalysed(folder, "", f"{UNSETTLED}: pyproject.toml:2: selct is not known", 3),
        *unanalysed(folder).unanalysed,
    )
    return {
        "clean": Results(files=1),
        "plain": plain,
        "hostile": results(folder / "odd, folder: 100%", **{"x\x1b[0m\n<&> '\"": hostile, "ü": COUNTER}),
        "left out": dataclasses.replace(plain, unanalysed=left_out),
        "nothing but left out": Results(unanalysed=left_out),
    }


def test_what_reads_a_format_takes_every_sample(tmp_path: Path) -> None:
    for name, sample in _samples(tmp_path).items():
        assert jenkins_refuses(render("junit", sample)) == [], name
        assert list(SARIF.iter_errors(json.loads(render("sarif", sample)))) == [], name
        assert list(GITLAB.iter_errors(json.loads(render("gitlab", sample)))) == [], name
        read = github_reads(render("github", sample))
        assert len(read) == len(sample.shown) + len(sample.unanalysed), name


def test_jenkins_refuses_what_its_schema_does_not_hold() -> None:
    told = jenkins_refuses("<testsuites><testsuite name='a'>b<testcase line='1'/></testsuite></testsuites>")
    wanted = ["'tests'", "'failures'", "'errors'", "Character content", "'line'", "'name'"]
    assert len(told) == len(wanted)
    assert all(words in line for words, line in zip(wanted, told, strict=True))


@pytest.mark.parametrize(
    ("meant", "data", "place"),
    [
        ("50%", "50%25", "50%25"),
        ("%2C", "%252C", "%252C"),
        ("a\r\nb", "a%0D%0Ab", "a%0D%0Ab"),
        ("a:b,c", "a:b,c", "a%3Ab%2Cc"),
    ],
)
def test_github_commands_escape_what_the_rules_name(meant: str, data: str, place: str) -> None:
    assert (github._data(meant), github._property(meant)) == (data, place)
    (read,) = github_reads(f"::error file={place},title=a::{data}")
    assert (read.properties["file"], read.text) == (meant, meant)


def test_github_reads_what_was_meant(tmp_path: Path) -> None:
    (tmp_path / "a,b: 100%").mkdir()
    found = results(tmp_path / "a,b: 100%", branch=BRANCH, long=LONG, counter=COUNTER)
    odd = tuple(dataclasses.replace(p, message="50%2C of\n::error::\r\n%0A it: a,b") for p in found.shown)
    read = github_reads(render("github", dataclasses.replace(found, shown=odd)))
    assert [each.kind for each in read] == ["error", "notice", "warning"]
    for each, p in zip(read, odd, strict=True):
        place = f"a,b: 100%/{p.path.name}"
        assert (each.properties["file"], int(each.properties["line"])) == (place, p.range.line)
        assert each.properties["title"] == f"exportlint ({p.rule.code} {p.rule.name})"
        assert each.text.startswith(f"{place}:{p.range.line}: {p.rule.code} 50%2C of ::error:: %0A it: a,b. ")
    with pytest.raises(AssertionError, match="fiel"):
        github_reads("::error fiel=a::b")


def test_files_outside_of_the_working_directory_have_a_whole_uri(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = results(tmp_path, **{"a b": BRANCH})
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    log = json.loads(render("sarif", found))
    SARIF.validate(log)
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (tmp_path / "a b.py").as_uri()


@pytest.mark.parametrize("name", list(FORMATS))
def test_hostile_names_and_lines_stay_text(tmp_path: Path, name: str) -> None:
    hostile = BRANCH.replace("> 0", "> 0 and 'a\x1b[31m\u202e<b>&\"]]>\u2028'")
    text = render(name, results(tmp_path, **{"x\x1b[0m\n<&> '\"": hostile}))
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\u2028]", text)
    if name.startswith(("json", "sarif", "gitlab")):
        assert all(json.loads(part) for part in (text.splitlines() if name == "json-lines" else [text]))
    elif name == "junit":
        assert len(ET.fromstring(text).findall("testsuite/testcase/failure")) == 1
    elif name in ("concise", "pylint", "github"):
        assert len(text.splitlines()) == 1 + (name == "concise")


def test_what_is_not_unicode_can_be_written(tmp_path: Path) -> None:
    found = results(tmp_path, model=BRANCH)
    for name in FORMATS:
        odd = [type(p)(**{f: getattr(p, f) for f in p.__slots__} | {"message": "\udcff"}) for p in found.shown]
        assert render(name, Results(shown=tuple(odd), files=1)).encode()


HELPED = """import torch
from torch import nn
from helper import scaled

class Inner(nn.Module):
    def forward(self, x):
        return scaled(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor):
        return self.inner(x)
"""
HELPER = "def scaled(x):\n    return x if x.sum() > 0 else -x\n"


def test_calls_that_lead_to_a_finding_are_told(tmp_path: Path) -> None:
    results(tmp_path, helper=HELPER, net=HELPED)
    (found,) = [p for p in results(tmp_path, helper=HELPER).shown if p.path.name == "helper.py"]
    shown = Results(shown=(found,), files=1)
    text = render("full", shown)
    lines = text.splitlines()
    start = lines.index("reached by")
    calls = [(file.name, line) for file, line in found.calls]
    assert calls[-1] == ("net.py", 7)
    assert lines[start + len(calls)] == "  net.py:7: return scaled(x)"
    assert lines[start + len(calls) + 1].startswith("help: ")
    log = json.loads(render("sarif", shown))
    SARIF.validate(log)
    (flow,) = log["runs"][0]["results"][0]["codeFlows"][0]["threadFlows"]
    lines_of = [step["location"]["physicalLocation"]["region"]["startLine"] for step in flow["locations"]]
    assert lines_of == [*(line for _, line in calls), 2]
    assert all(
        "codeFlows" not in r
        for r in json.loads(render("sarif", results(tmp_path, a=BRANCH)))["runs"][0]["results"]
        if r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a.py"
    )
    assert "calls" not in json.loads(render("json", shown))[0]


def test_where_what_decides_came_from_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = results(tmp_path, net=BRANCH.replace("return x if x.sum()", "total = x.sum()\n        return x if total"))
    lines = render("full", shown).splitlines()
    assert lines[lines.index("because") + 1] == "  net.py:7: `total` comes from `x.sum()`"
    (found,) = json.loads(render("json", shown))
    (step,) = found["path"]
    assert step == {"filename": str(tmp_path / "net.py"), "row": 7, "text": "`total` comes from `x.sum()`"}
    log = json.loads(render("sarif", shown))
    SARIF.validate(log)
    (flow,) = log["runs"][0]["results"][0]["codeFlows"]
    steps = [
        step["location"]["physicalLocation"]["region"]["startLine"] for step in flow["threadFlows"][0]["locations"]
    ]
    assert steps == [7, 8]


def test_of_many_calls_some_are_shown(tmp_path: Path) -> None:
    steps = "".join(f"def f{i}(x):\n    return f{i + 1}(x)\n" for i in range(9))
    text = BRANCH.replace("import torch", f"import torch\n{steps}def f9(x):\n    return x if x.sum() > 0 else -x\n", 1)
    text = text.replace("return x if x.sum() > 0 else -x\n\n\ndef build", "return f0(x)\n\n\ndef build")
    (found,) = results(tmp_path, chain=text).shown
    assert len(found.calls) == 10
    lines = render("full", Results(shown=(found,), files=1)).splitlines()
    assert lines[lines.index("reached by") + 7] == "  ... and 4 more calls"


def test_what_could_not_be_read_is_an_error_where_there_are_errors(tmp_path: Path) -> None:
    unread = Results(files=1, unanalysed=(Unanalysed(tmp_path / "a.py", "", f"{NOT_READ}: Permission denied"),))
    words = "a.py: the file was not analysed: it cannot be read: Permission denied"
    assert render("github", unread) == f"::error title=exportlint::{words}\n"
    root = ET.fromstring(render("junit", unread))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "1")
    assert root.find("testsuite/testcase/error").get("message") == words
    log = json.loads(render("sarif", unread))
    SARIF.validate(log)
    (invocation,) = log["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [(n["level"], n["message"]["text"]) for n in invocation["toolExecutionNotifications"]] == [("error", words)]
    skipped = json.loads(render("sarif", unanalysed(tmp_path)))["runs"][0]["invocations"][0]
    assert skipped["executionSuccessful"] is True


def test_what_can_be_fixed_is_marked_and_counted_where_people_read(tmp_path: Path) -> None:
    made = results(tmp_path, branch=BRANCH, device=DEVICE, long=LONG)
    offers = {p.rule.code: p.fix.applicability for p in made.shown if p.fix is not None}
    assert offers == {"EXP101": "unsafe", "EXP202": "safe", "EXP201": "safe"}
    for name in ("full", "concise", "grouped"):
        text = render(name, made)
        assert "EXP101 [!] branch-on-tensor: " in text
        assert "EXP202 [*] factory-without-device: " in text
        assert text.endswith("\n[*] 2 fixable with --fix ([!] 1 more with --fix --unsafe-fixes)\n")
        after = render(name, dataclasses.replace(made, offered=("unsafe",)))
        assert "EXP202 factory-without-device: " in after
        assert after.endswith("\n[!] 1 fixable with --fix --unsafe-fixes\n")
        assert "fixable" not in render(name, dataclasses.replace(made, offered=()))
    safe = dataclasses.replace(made, shown=tuple(p for p in made.shown if p.rule.code == "EXP202"))
    assert render("concise", safe).endswith("\n[*] 1 fixable with --fix\n")
    assert render_statistics(made).endswith("\n[*] 2 fixable with --fix ([!] 1 more with --fix --unsafe-fixes)\n")
    for name in ("pylint", "github"):
        assert "[*]" not in render(name, made)
