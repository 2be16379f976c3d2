from __future__ import annotations

import pytest

from exportlint.checks.targets import MissingTargetError, expand

CONVENTION = "import nothing_of_this_is_run\n\ndef build():\n    pass\n\ndef inputs():\n    pass\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(files: dict[str, str | bytes]) -> None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)

    return write


def test_a_folder_stands_for_its_files_with_cases_in_order(tree):
    tree({
        "m/b.py": CONVENTION,
        "m/a.py": "from exportlint import ModelCase\n",
        "m/sub/c.py": "import exportlint as e\nx = e.ModelCase\n",
        "m/sub/d.py": "from exportlint.checks.case import export_case as mark\n",
        "m/e.py": "build = make\ninputs = make\n",
        "m/broken.py": "from exportlint import ModelCase\ndef f(:\n",
    })  # fmt: skip
    assert expand("m") == ["m/a.py", "m/b.py", "m/broken.py", "m/e.py", "m/sub/c.py", "m/sub/d.py"]


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n",
        "def build():\n    pass\n",
        "def inputs():\n    pass\n",
        "class A:\n    def build(self): ...\n    def inputs(self): ...\n",
        "# ModelCase is mentioned here\n",
        "'''A ModelCase, and export_case'''\n",
        "def f():\n    def build(): ...\n    def inputs(): ...\n",
        "def f(:\n",
        b"\x00\xff",
    ],
)
def test_files_without_cases_are_left_out(tree, text):
    tree({"m/a.py": text, "m/b.py": CONVENTION})
    assert expand("m") == ["m/b.py"]


def test_folders_of_others_are_left_out(tree):
    skipped = ["__pycache__", "node_modules", "site-packages", "build", "dist", ".git", ".venv"]
    tree({f"m/{folder}/a.py": CONVENTION for folder in skipped})
    tree({"m/env/pyvenv.cfg": "", "m/env/lib/a.py": CONVENTION, "m/.hidden.py": CONVENTION, "m/b.py": CONVENTION})
    assert expand("m") == ["m/b.py"]


def test_links_that_go_round_in_a_circle(tree, tmp_path):
    tree({"m/a.py": CONVENTION})
    (tmp_path / "m" / "again").symlink_to(tmp_path / "m")
    assert expand("m") == ["m/a.py"]


@pytest.mark.parametrize(
    "target", ["a.py", "a.py:name", "./a.py", "odd:name.py", "shop", "shop.models", "shop.m:n", "json"]
)
def test_targets_that_are_taken_as_they_are(tree, target):
    tree({"a.py": "", "odd:name.py": "", "shop.py": ""})
    assert expand(target) == [target]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("missing.py", "missing.py does not exist"),
        ("missing.py:name", "missing.py:name does not exist"),
        ("no/folder", "no/folder does not exist"),
        ("/dev/null", "/dev/null is neither a file nor a folder"),
        ("/dev/null:name", "/dev/null:name is neither a file nor a folder"),
        ("notes.txt", "notes.txt is no Python file"),
        ("notes.txt:name", "notes.txt:name is no Python file"),
        ("empty", "empty holds no model case: no ModelCase, no @export_case, no build() with inputs()"),
        ("no_such_module", "no_such_module is neither a file, a folder nor a module that can be found"),
        ("no_such.module:name", "is neither a file, a folder nor a module that can be found"),
        ("what is this?", "what is this? matches no Python file"),
        ("", "'' is no target"),
        (" ", "' ' is no target"),
        (":", "is neither a file, a folder nor a module that can be found"),
        ("a\0b", "is neither a file, a folder nor a module that can be found"),
    ],
)
def test_targets_that_name_nothing(tree, target, words):
    tree({"notes.txt": "text", "empty/a.py": "x = 1"})
    with pytest.raises(MissingTargetError) as caught:
        expand(target)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wildcards_of_paths_stand_for_files_with_cases(tree):
    tree({
        "m/path_a.py": CONVENTION, "m/path_b.py": CONVENTION, "m/path_c.py": "x = 1\n", "m/other.py": CONVENTION,
        "m/sub/path_d.py": CONVENTION, "m/path_e.txt": CONVENTION,
    })  # fmt: skip
    assert expand("m/path*.py") == ["m/path_a.py", "m/path_b.py"]
    assert expand("m/path_?.py") == ["m/path_a.py", "m/path_b.py"]
    assert expand("m/**/path*.py") == ["m/path_a.py", "m/path_b.py", "m/sub/path_d.py"]
    assert expand("*/sub") == ["m/sub/path_d.py"]
    assert expand("m/path*.py:build") == ["m/path_a.py:build", "m/path_b.py:build"]
    assert expand("m/*.py:x") == ["m/path_c.py:x"]
    tree({"m/odd[1].py": CONVENTION})
    assert expand("m/odd[1].py") == ["m/odd[1].py"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("m/none*.py", "m/none*.py matches no Python file"),
        ("m/a*.py", "m/a*.py matches 1 file, of which none holds a model case"),
        ("m/a*.py:Net*", "m/a*.py:Net* matches 1 file, of which none holds something called Net*"),
    ],
)
def test_wildcards_that_stand_for_nothing(tree, target, words):
    tree({"m/a.py": "x = 1\n"})
    with pytest.raises(MissingTargetError) as caught:
        expand(target)
    assert str(caught.value) == words


@pytest.fixture
def listed(tree, tmp_path):
    def write(text: str) -> str:
        folder = tmp_path / "lists"
        folder.mkdir(exist_ok=True)
        (folder / "cases.py").write_text("from exportlint import ModelCase\ncase = ModelCase(None)\n")
        (folder / "readiness.toml").write_text(text)
        return str(folder / "readiness.toml")

    return write


def test_a_list_names_targets_relative_to_its_folder(listed):
    file = listed('targets = ["cases.py", "cases.py:case", "./cases.py", "hf:bert", "json.tool", "."]')
    folder = file.removesuffix("/readiness.toml")
    assert expand(file) == [f"{folder}/cases.py", f"{folder}/cases.py:case", "hf:bert", "json.tool"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("targets = []", "lists no target: write targets ="),
        ("", "lists no target: write targets ="),
        ("targets = 3", "readiness.toml:1: targets must be a list of strings, not 3"),
        ('target = ["cases.py"]', "readiness.toml:1: target is not known; did you mean 'targets'?"),
        ("targets = [", "readiness.toml is no TOML: "),
        ('targets = [\n  "cases.py",\n  "nowhere.py",\n]', "readiness.toml:3: "),
        ('targets = ["other.toml"]', "other.toml is a list, and lists hold none"),
    ],
)
def test_lists_that_mean_nothing(listed, text, words):
    with pytest.raises(MissingTargetError) as info:
        expand(listed(text))
    assert words in str(info.value)
    assert "\n" not in str(info.value)


def test_the_configuration_of_a_project_is_no_list(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(MissingTargetError, match="is the configuration of a project, and no list of targets"):
        expand(str(tmp_path / "pyproject.toml"))
