"""Files of KEY=VALUE lines."""

from __future__ import annotations

from pathlib import Path

from chiplog.sinks.shared import dotenv


def test_lines_are_read_as_a_shell_would() -> None:
    """`export`, both quotes, comments, empty values; what is not an assignment is ignored."""
    text = r"""
# a comment
PLAIN=value
export EXPORTED = spaced out   # and a comment
SINGLE='as $it "is" # here'
DOUBLE="two\nlines and \"quotes\"" # not here
HASH=a#b
EMPTY=
EQUALS=a=b=c
not a line
1BAD=x
"""
    assert dotenv.parse(text) == {
        "PLAIN": "value",
        "EXPORTED": "spaced out",
        "SINGLE": 'as $it "is" # here',
        "DOUBLE": 'two\nlines and "quotes"',
        "HASH": "a#b",
        "EMPTY": "",
        "EQUALS": "a=b=c",
    }


def test_a_later_file_wins_and_the_environment_over_all(tmp_path: Path) -> None:
    """And a file that is not there is none."""
    (tmp_path / "one").write_text("A=one\nB=one\nC=one\n")
    (tmp_path / "two").write_text("B=two\nC=two\n")
    found = dotenv.over([tmp_path / "one", tmp_path / "none", tmp_path / "two"], {"C": "shell"})
    assert found == {"A": "one", "B": "two", "C": "shell"}


def test_the_nearest_file_above_is_the_project_s(tmp_path: Path) -> None:
    """As people start scripts from folders below."""
    (tmp_path / ".env").touch()
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert dotenv.nearest(tmp_path / "a" / "b") == tmp_path / ".env"
    (tmp_path / "a" / ".env").touch()
    assert dotenv.nearest(tmp_path / "a" / "b") == tmp_path / "a" / ".env"
