"""Settings: the nearest configuration, what it extends, what the command line says, and mistakes with their lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exportlint.cli.check import check
from exportlint.config import ConfigError, UserError
from exportlint.linting.linter import resolver_of
from exportlint.linting.settings import EXCLUDED, READERS, SELECTING, Resolver, release

FULL = """
[tool.exportlint]
select = ["EXP1", "devices"]
extend-select = ["EXP301"]
ignore = ["device-literal"]
exclude = ["generated"]
extend-exclude = ["*_pb2.py"]
respect-gitignore = false
force-exclude = true
entry-points = ["pkg.models.Net.encode"]
module-bases = ["pkg.Base"]
tensor-types = ["jaxtyping.Float"]
tracing-predicates = ["pkg.is_tracing"]
torch-version = "2.14"
modes = ["export", "compile"]
fail-level = "error"
show-info = true
preview = true

[tool.exportlint.per-file-ignores]
"tests/*" = ["ALL"]

[tool.exportlint.pytest]
examples = 3
"""


def test_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(FULL)
    assert all(f"\n{key} = " in FULL for key in (*READERS, *SELECTING) if key != "per-file-ignores")
    found = Resolver().of(tmp_path)
    assert found.codes == {
        "EXP001", "EXP101", "EXP102", "EXP103", "EXP202", "EXP203", "EXP204", "EXP205", "EXP206", "EXP207", "EXP301",
    }  # fmt: skip
    assert (found.exclude, found.extend_exclude) == (("generated",), ("*_pb2.py",))
    assert (found.respect_gitignore, found.force_exclude) == (False, True)
    assert found.entry_points == ("pkg.models.Net.encode",)
    assert (found.module_bases, found.tensor_types) == (("pkg.Base",), ("jaxtyping.Float",))
    assert (found.tracing_predicates, found.torch_version) == (("pkg.is_tracing",), (2, 14))
    assert (found.modes, found.fail_level) == (("export", "compile"), "error")
    assert (found.show_info, found.preview) == (True, True)
    assert found.per_file_ignores == (("tests/*", ("ALL",)),)
    assert found.origins["fail_level"] == f"{tmp_path / 'pyproject.toml'}:16"


def test_the_nearest_file_wins_as_a_whole(tmp_path: Path) -> None:
    inner = tmp_path / "inner" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.exportlint]\nmodes = ["compile"]\nfail-level = "error"\n')
    (tmp_path / "inner" / "exportlint.toml").write_text('fail-level = "info"\n')
    found = Resolver()
    assert (found.of(inner).fail_level, found.of(inner).modes) == ("info", ("export",))
    assert found.of(inner).root == tmp_path / "inner"
    assert found.of_file(tmp_path / "model.py").fail_level == "error"


def test_a_pyproject_without_the_table_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "exportlint.toml").write_text('fail-level = "info"\n')
    (tmp_path / "inner" / "pyproject.toml").write_text("[tool.other]\nexportlint = 1\n")
    assert Resolver().of(tmp_path / "inner").fail_level == "info"


def test_a_configuration_extends_another(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(
        'select = ["EXP1"]\nignore = ["EXP101"]\nextend-exclude = ["a"]\nmodes = ["compile"]\nfail-level = "error"\n'
    )
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "exportlint.toml").write_text(
        'extend = "../base.toml"\nextend-select = ["EXP201"]\nextend-exclude = ["b"]\nfail-level = "info"\n'
    )
    found = Resolver().of(tmp_path / "inner")
    assert found.codes == {"EXP001", "EXP102", "EXP103", "EXP201"}
    assert (found.extend_exclude, found.modes, found.fail_level) == (("a", "b"), ("compile",), "info")
    assert found.origins["modes"] == f"{tmp_path / 'inner' / '..' / 'base.toml'}:4"


def test_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / "exportlint.toml").write_text(
        'select = ["EXP1"]\nignore = ["EXP101"]\nexclude = ["a"]\nextend-exclude = ["b"]\nshow-info = true\n'
    )
    found = resolver_of(select=["EXP101"], show_info=False, extend_exclude=["c"], torch_version="2.14.1").of(tmp_path)
    assert found.codes == {"EXP001", "EXP101"}
    assert (found.show_info, found.exclude, found.extend_exclude) == (False, ("a",), ("b", "c"))
    assert found.torch_version == (2, 14)
    assert (found.origins["select"], found.origins["exclude"]) == (
        "command line",
        f"{tmp_path / 'exportlint.toml'}:3",
    )


@pytest.mark.parametrize(
    ("project", "oldest"),
    [
        ("dependencies = ['numpy', 'torch>=2.1,<3']", (2, 1)),
        ("dependencies = ['torch [opt-einsum] (<3, >= 2.4.1)']", (2, 4)),
        ("dependencies = ['Torch ~= 2.0; python_version > \"3.9\"']", (2, 0)),
        ("dependencies = ['torch == 1.13.1']", (1, 13)),
        ("dependencies = ['torch>2']", (2, 0)),
        ("dependencies = ['torch']\noptional-dependencies = { gpu = ['torch>=2.3'] }", (2, 3)),
        ("dependencies = ['torchvision>=0.15', 'torch-geometric>=2.3', 'torch.fx>=1.0']", None),
        ("dependencies = ['torch<3', 'torch != 2.1', 'torch; python_version >= \"3.9\"']", None),
        ("dependencies = 'torch>=2.1'", None),
        ("", None),
    ],
)
def test_the_oldest_torch_is_that_of_the_dependencies(
    tmp_path: Path, project: str, oldest: tuple[int, int] | None
) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(f"[project]\nname = 'a'\n{project}\n[tool.exportlint]\n")
    found = resolver_of().of(tmp_path)
    assert (found.torch_version, found.origins.get("torch_version")) == (oldest, str(file) if oldest else None)
    file.write_text(f"[project]\nname = 'a'\n{project}\n[tool.exportlint]\ntorch-version = '2.13'\n")
    assert resolver_of().of(tmp_path).torch_version == (2, 13)


def test_a_named_file_holds_everywhere_and_isolated_reads_none(tmp_path: Path) -> None:
    (tmp_path / "exportlint.toml").write_text('fail-level = "info"\n')
    other = tmp_path / "other.toml"
    other.write_text('fail-level = "error"\n')
    assert resolver_of(config=other).of(tmp_path).fail_level == "error"
    isolated = resolver_of(isolated=True).of(tmp_path)
    assert (isolated.fail_level, isolated.exclude) == ("warning", EXCLUDED)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('selct = ["EXP1"]', 2, "selct in [tool.exportlint] is not known; did you mean 'select'?"),
        ('select = [\n  "EXP1",\n  "EXP1O1",\n]', 4, "select in [tool.exportlint] is wrong: 'EXP1O1' is no rule,"),
        ("select = 'EXP1'", 2, "select in [tool.exportlint] must be a list of strings, not a string"),
        ("per-file-ignores = { 'a.py' = ['EXP999'] }", 2, "is wrong: 'EXP999' is no rule, family of rules or"),
        ("[tool.exportlint.per-file-ignores]\n'a.py' = ['EXPO']", 3, "'EXPO' is no rule, family of rules or"),
        ("per-file-ignores = 1", 2, "per-file-ignores in [tool.exportlint] must be a table, not 1"),
        ("\nmodes = ['trace']", 3, "'trace' is no capture mode: export, export-strict, compile"),
        ("modes = []", 2, "needs at least one of export, export-strict, compile"),
        ("fail-level = 'fatal'", 2, "'fatal' is no severity: error, warning, info"),
        ("torch-version = 2.14", 2, "torch-version in [tool.exportlint] must be a string such as '2.13', not 2.14"),
        ("torch-version = 'new'", 2, "'new' is no release of torch such as '2.13'"),
        ("module-bases = ['a b']", 2, "'a b' is no dotted name"),
        ("entry-points = ['*.encode', 'a b']", 2, "'a b' is no dotted name"),
        ("preview = 1", 2, "preview in [tool.exportlint] must be true or false, not 1"),
        ("exclude = ['!a']", 2, "'!a' is no pattern of what to leave out"),
        ("exclude = ['a', '[b']", 2, "'[b' is no pattern of what to leave out"),
        ("exclude = ['../a']", 2, "'../a' is no pattern of what to leave out"),
        ("per-file-ignores = { '!a/../b' = ['EXP1'] }", 2, "is no pattern of files"),
        ("extend-exclude = [\n'[z-a]']", 3, "'[z-a]' is no pattern of what to leave out"),
        (
            "per-file-ignores = { '[a' = ['EXP1'] }",
            2,
            "[a in [tool.exportlint.per-file-ignores] is no pattern of files",
        ),
        ("[tool.exportlint.lint]\nselect = []", 2, "lint in [tool.exportlint] is not known; known: entry-points,"),
        ("\n[tool.exportlint.a.b]\nselect = []", 3, "a in [tool.exportlint] is not known"),
        ("\n[[tool.exportlint . 'mode']]\n", 3, "mode in [tool.exportlint] is not known; did you mean 'modes'?"),
        ("select.a = 1", 2, "select in [tool.exportlint] must be a list of strings, not a table"),
        ("extend = 'gone.toml'", 2, "extend in [tool.exportlint] names 'gone.toml', which is no file"),
        ("extend = 'pyproject.toml'", 2, "leads in a circle: 'pyproject.toml' was read already"),
    ],
)
def test_a_mistake_names_file_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(f"[tool.exportlint]\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        Resolver().of(tmp_path)
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mistake_in_a_file_of_its_own_names_the_line_too(tmp_path: Path) -> None:
    file = tmp_path / "exportlint.toml"
    file.write_text('modes = ["export"]\nselct = []\n')
    with pytest.raises(ConfigError) as caught:
        Resolver().of(tmp_path)
    assert str(caught.value) == f"{file}:2: selct is not known; did you mean 'select'?"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n[[tool.exportlint]]\n", "2: exportlint in [tool] must be a table, not a list"),
        ("[tool]\nexportlint = 3\n", "2: exportlint in [tool] must be a table, not 3"),
        ("[tool]\nexportlint.selct = []\n", "2: selct in [tool.exportlint] is not known; did you mean 'select'?"),
        ("[tool]\nexportlint = {selct = []}\n", "2: selct in [tool.exportlint] is not known; did you mean 'select'?"),
        ("tool.exportlint.selct = []\n", "1: selct in [tool.exportlint] is not known; did you mean 'select'?"),
    ],
)
def test_the_table_is_told_of_however_it_is_written(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Resolver().of(tmp_path)
    assert str(caught.value) == f"{file}:{words}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "\n[tool.exportlint.lint]\nselect = []\n",
            "2: tool is not known; keys of exportlint.toml stand without the heading [tool.exportlint]",
        ),
        (
            "[exportlint]\nselect = []\n",
            "1: exportlint is not known; keys of exportlint.toml stand without the heading [tool.exportlint]",
        ),
        ("[foo.bar]\na = 1\n", "1: foo is not known; known: "),
    ],
)
def test_a_table_that_a_file_of_its_own_does_not_have_names_the_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "exportlint.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Resolver().of(tmp_path)
    assert str(caught.value).startswith(f"{file}:{words}")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modes": ["exprot"]}, "modes is wrong: 'exprot' is no capture mode: export, export-strict, compile"),
        ({"modes": "export"}, "modes must be a list of strings, not a string"),
        ({"modes": []}, "modes needs at least one of export, export-strict, compile"),
        ({"fail_level": "warn"}, "fail-level is wrong: 'warn' is no severity: error, warning, info"),
        ({"exclude": "bad.py"}, "exclude must be a list of strings, not a string"),
        ({"exclude": ["[a"]}, "exclude is wrong: '[a' is no pattern of what to leave out"),
        ({"select": "EXP1"}, "select must be a list of strings, not a string"),
        ({"select": [1]}, "select must be a list of strings"),
        ({"per_file_ignores": {"a.py": "EXP1"}}, "a.py in [per-file-ignores] must be a list of strings, not a string"),
        ({"per_file_ignores": ["a.py"]}, "per-file-ignores must be a table, not a list"),
        ({"entry_points": "a.b"}, "entry-points must be a list of strings, not a string"),
        ({"preview": "yes"}, "preview must be true or false, not a string"),
        ({"torch_version": 2.13}, "torch-version must be a string such as '2.13', not 2.13"),
    ],
)
def test_a_value_of_the_api_that_means_nothing_is_an_error(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UserError) as caught:
        resolver_of(**settings)
    assert str(caught.value) == words


def test_values_of_the_api_may_be_any_collection(tmp_path: Path) -> None:
    found = resolver_of(
        modes=("compile", "export"), ignore={"EXP101"}, per_file_ignores={"a.py": ("EXP2",)}, extend_exclude=["b"]
    ).of(tmp_path)
    assert (found.modes, "EXP101" in found.codes) == (("compile", "export"), False)
    assert (found.per_file_ignores, found.extend_exclude) == ((("a.py", ("EXP2",)),), ("b",))


def test_settings_of_the_api() -> None:
    with pytest.raises(TypeError, match="'selekt' is no setting: "):
        resolver_of(selekt=["EXP1"])
    with pytest.raises(ValueError, match="'2' is no release of torch"):
        resolver_of(torch_version="2")
    assert release("2.13.0+cpu") == (2, 13)


def test_a_named_file_without_a_table_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.other]\n")
    with pytest.raises(ConfigError) as caught:
        resolver_of(config=file).of(tmp_path)
    assert str(caught.value) == f"{file} holds no table [tool.exportlint]"


def test_every_key_and_every_option_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "linter.md").read_text()
    assert all(f"`{key}`" in text for key in (*READERS, *SELECTING, "extend"))
    options = {name for option in check.params for name in option.opts if name.startswith("--")}
    documented = set(re.findall(r"--[a-z-]+", text.replace("--[no-]", "--")))
    elsewhere = {"--jobs", "--no-cache", "--cache-dir", "--profile-rules"}  # the README says what they do
    assert options - documented == elsewhere
