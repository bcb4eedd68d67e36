"""A text file that grows: whole lines only, each once, and an error when another file takes its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.store.foreign import growing_file
from chiplog.store.foreign.growing_file import GrowingFile
from chiplog.store.foreign.protocol import Rewritten


def lines(file: GrowingFile) -> list[bytes]:
    return [line for chunk in file.lines() for line in chunk]


def test_new_lines_are_read_from_the_position_on(tmp_path: Path) -> None:
    """A line without an end is left for the next time."""
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthr")
    file = GrowingFile(path)
    assert lines(file) == [b"one", b"two"] and file.rest == b"thr"
    with path.open("ab") as out:
        out.write(b"ee\nfour\n")
    again = GrowingFile(path, file.position())
    assert lines(again) == [b"three", b"four"] and again.rest == b""
    assert lines(GrowingFile(path, again.position())) == []


@pytest.mark.parametrize("text", [b"other\nlines\n", b"one\n"], ids=["another start", "shorter"])
def test_another_file_in_its_place_is_noticed(tmp_path: Path, text: bytes) -> None:
    """By its first bytes and its size."""
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    file = GrowingFile(path)
    lines(file)
    path.write_bytes(text)
    with pytest.raises(Rewritten):
        lines(GrowingFile(path, file.position()))


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up and counted once it is too long."""
    monkeypatch.setattr(growing_file, "CHUNK", 8)
    monkeypatch.setattr(growing_file, "LONGEST", 20)
    path = tmp_path / "log"
    path.write_bytes(b"x" * 64)
    file = GrowingFile(path)
    assert lines(file) == [] and file.too_long > 0 and len(file.rest) <= 20
