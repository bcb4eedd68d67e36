"""Tailing a journal: every record once, also where one segment ends and the next begins."""

from __future__ import annotations

from pathlib import Path

from chiplog.core import records
from chiplog.core.paths import make_dir
from chiplog.store.journal import lines
from chiplog.store.journal.tail import Tail
from chiplog.store.layout import Segment


def write(run: Path, number: int, *seqs: int) -> None:
    make_dir(run / "journal")
    with (run / "journal" / Segment(0, 1, number).filename).open("ab") as file:
        for seq in seqs:
            file.write(lines.line_of(records.Step(seq, seq, seq, {"x": 1.0})))


def drain(tail: Tail) -> list[int]:
    found: list[int] = []
    while batch := tail.read():
        found += [record.seq for record in batch]
    return found


def test_segments_follow_each_other(tmp_path: Path) -> None:
    """In order, as they come."""
    write(tmp_path, 0, 0, 1)
    tail = Tail(tmp_path)
    assert drain(tail) == [0, 1]
    write(tmp_path, 1, 2)
    assert drain(tail) == [2]
    write(tmp_path, 2, 3)
    assert drain(tail) == [3] and tail.lag() == 0


def test_a_late_line_of_the_older_segment_is_read_too(tmp_path: Path) -> None:
    """A write that was under way when the next segment began ends in the one before."""
    write(tmp_path, 0, 0)
    write(tmp_path, 1, 2)
    tail = Tail(tmp_path)
    assert drain(tail) == [0, 2]
    write(tmp_path, 0, 1)
    assert drain(tail) == [1]


def test_a_position_remembers_both(tmp_path: Path) -> None:
    """Somebody who goes on from it gets the late line once, and nothing twice."""
    write(tmp_path, 0, 0)
    write(tmp_path, 1, 2)
    tail = Tail(tmp_path)
    drain(tail)
    positions = tail.positions()
    write(tmp_path, 0, 1)
    write(tmp_path, 1, 3)
    assert sorted(drain(Tail(tmp_path, positions=positions))) == [1, 3]


def test_a_torn_line_waits_for_its_end(tmp_path: Path) -> None:
    """And is delivered once."""
    write(tmp_path, 0, 0)
    path = tmp_path / "journal" / Segment(0, 1, 0).filename
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    tail = Tail(tmp_path)
    assert drain(tail) == []
    path.write_bytes(whole)
    assert drain(tail) == [0]
