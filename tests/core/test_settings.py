"""Settings: where they come from, and what a mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.core import settings
from chiplog.core.errors import BadSetting


def test_arguments_go_over_the_environment_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    """The nearest word counts."""
    (tmp_path / "chiplog.toml").write_text('project = "file"\ndir = "file"\nname = "file"\n')
    got = settings.load({"project": "argument"}, {"CHIPLOG_PROJECT": "env", "CHIPLOG_DIR": "env"}, tmp_path)
    assert (got.project, got.dir, got.name, got.ranks) == ("argument", "env", "file", "main")


def test_pyproject_is_read_too_from_any_folder_below(tmp_path: Path) -> None:
    """`[tool.chiplog]` of the project one works in counts."""
    (tmp_path / "pyproject.toml").write_text('[tool.chiplog]\nsinks = ["csv"]\n')
    (tmp_path / "deep").mkdir()
    assert settings.load({}, {}, tmp_path / "deep").sinks == {"csv": {}}


def test_a_pyproject_without_us_is_passed_by(tmp_path: Path) -> None:
    """The search goes on to the folder above."""
    (tmp_path / "chiplog.toml").write_text('project = "above"\n')
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "pyproject.toml").write_text("[tool.other]\n")
    assert settings.load({}, {}, tmp_path / "deep").project == "above"


@pytest.mark.parametrize(("name", "table"), [("chiplog.toml", ""), ("pyproject.toml", "[tool.chiplog]\n")])
def test_a_relative_directory_in_a_file_is_in_the_folder_of_the_file(tmp_path: Path, name: str, table: str) -> None:
    """Wherever below it the process works; those of arguments and variables follow the working directory."""
    deep = tmp_path / "deep" / "er"
    deep.mkdir(parents=True)
    for written, meant in (("out", tmp_path / "out"), ("../out", tmp_path / "../out"), ("/out", Path("/out"))):
        (tmp_path / name).write_text(f'{table}dir = "{written}"\n')
        assert settings.load({}, {}, deep).dir == settings.load({}, {}, tmp_path).dir == str(meant)
        assert (
            settings.load({"dir": "here"}, {}, deep).dir
            == settings.load({}, {"CHIPLOG_DIR": "here"}, deep).dir
            == "here"
        )


def test_environment_texts_become_what_they_mean(tmp_path: Path) -> None:
    """Booleans, numbers and lists are read from text."""
    got = settings.load({}, {"CHIPLOG_STRICT": "1", "CHIPLOG_SMOOTH": "0.9", "CHIPLOG_SINKS": "csv, jsonl"}, tmp_path)
    assert (got.strict, got.smooth, got.sinks) == (True, 0.9, {"csv": {}, "jsonl": {}})


@pytest.mark.parametrize(
    ("arguments", "environ", "words"),
    [
        ({"durabilty": "disk"}, {}, ["durabilty", "did you mean 'durability'", "project"]),
        ({"durability": "always"}, {}, ["durability", "always", "'process', 'relaxed', 'disk'"]),
        ({"smooth": "much"}, {}, ["smooth", "much"]),
        ({"tags": 5}, {}, ["tags = 5: must be a list of words"]),
        ({"notes": "a try"}, {}, ["init(config={'notes': ...}) keeps it"]),
        ({"entity": "me"}, {}, ["init(sinks={'wandb': {'entity': ...}}) passes it to W&B"]),
        ({}, {"CHIPLOG_RANKS": "some"}, ["the environment", "ranks", "some", "'main', 'all'"]),
        ({}, {"CHIPLOG_PROJET": "x"}, ["projet", "did you mean 'project'"]),
    ],
)
def test_a_mistake_names_the_key_the_value_and_the_choices(
    arguments: dict[str, object], environ: dict[str, str], words: list[str], tmp_path: Path
) -> None:
    """One line is enough to mend it."""
    with pytest.raises(BadSetting) as error:
        settings.load(arguments, environ, tmp_path)
    assert all(word in str(error.value) for word in words)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("said", "means"),
    [("last", "last"), (3, (3,)), ([3, 0, 3], (0, 3)), ("0, 3", (0, 3)), ("5", (5,)), ("all", "all")],
)
def test_ranks_are_a_word_or_numbers(said: object, means: object, tmp_path: Path) -> None:
    """As an argument, and as far as a text can say it in the environment too."""
    assert settings.load({"ranks": said}, {}, tmp_path).ranks == means
    if isinstance(said, str):
        assert settings.load({}, {"CHIPLOG_RANKS": said}, tmp_path).ranks == means
    (tmp_path / "chiplog.toml").write_text(f"ranks = {said!r}\n")
    assert settings.load({}, {}, tmp_path).ranks == means


@pytest.mark.parametrize("said", [-1, True, 1.5, [], "", "0,x", [0, None], "main,3"])
def test_other_ranks_are_a_mistake(said: object, tmp_path: Path) -> None:
    """Which is said at the door."""
    with pytest.raises(BadSetting, match="'main', 'all', 'last', or ranks"):
        settings.load({"ranks": said}, {}, tmp_path)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """TOML that does not parse says which file."""
    (tmp_path / "chiplog.toml").write_text("project = ")
    with pytest.raises(BadSetting, match=r"chiplog\.toml is not valid TOML"):
        settings.load({}, {}, tmp_path)
