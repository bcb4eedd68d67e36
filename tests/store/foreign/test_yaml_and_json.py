"""Small files of others: what can be read of them is plain data, and nothing raises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chiplog.core.records import Plain
from chiplog.store.foreign.yaml_and_json import from_text, load_json, load_yaml, number_of, read_text


def test_a_file_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    """A missing one, and one that is larger than allowed."""
    (tmp_path / "large").write_text("x" * 100)
    assert read_text(tmp_path / "missing") == "" and load_json(tmp_path / "missing") is None
    assert read_text(tmp_path / "large", most=10) == "" and load_yaml(tmp_path / "missing") == {}


def test_yaml_never_creates_objects(tmp_path: Path) -> None:
    """A tag that would call a function leaves the plain keys."""
    path = tmp_path / "meta.yaml"
    path.write_text("name: a run\nstatus: 3\nevil: !!python/object/apply:os.getcwd []\n")
    values = load_yaml(path)
    assert (values["name"], values["status"]) == ("a run", 3)
    assert values["evil"] == "!!python/object/apply:os.getcwd []"


def test_simple_yaml_is_read_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of the first level, with numbers and quoted texts."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "meta.yaml"
    path.write_text("# of a run\nname: 'a: run'\nstatus: 3\nnested:\n  inner: 1\n- item: 2\n")
    assert load_yaml(path) == {"name": "a: run", "status": 3, "nested": ""}


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("0.5", 0.5), ("True", True), ("1e3", "1e3"), ("007", "007"), ("a", "a"), ("", "")]
)
def test_a_text_is_a_number_only_if_it_spells_it_exactly(text: str, value: Plain) -> None:
    """An id such as `007` stays a text."""
    assert from_text(text) == value and type(from_text(text)) is type(value)


def test_a_number_may_be_spelled_in_any_way() -> None:
    """Where a number is expected."""
    assert (number_of("1e3"), number_of(" 7 "), number_of("x")) == (1000.0, 7, None)
