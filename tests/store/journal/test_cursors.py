"""The cursors of sinks: saved with a CRC, which every reader checks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from chiplog.store.journal import cursors
from chiplog.store.journal.cursors import Cursor
from chiplog.store.journal.tail import Tail
from chiplog.store.layout import Segment


def test_a_cursor_comes_back(tmp_path: Path) -> None:
    """With its positions, its state and its address."""
    path = cursors.cursor_path(tmp_path, "csv")
    cursor = Cursor({"r00000-a01": (0, 12, 3)}, {"size": 5}, url="https://example.org")
    cursors.save(path, cursor)
    assert cursors.load(path) == cursor
    (status,) = cursors.cursors(tmp_path)
    assert (status.name, status.positions, status.url) == ("csv", cursor.positions, "https://example.org")


def test_a_damaged_cursor_is_believed_by_nobody(tmp_path: Path) -> None:
    """One changed digit is valid JSON still, but does not match the CRC: loading raises, and the status reports it."""
    path = cursors.cursor_path(tmp_path, "csv")
    cursors.save(path, Cursor({"r00000-a01": (0, 12, 3)}))
    path.write_bytes(path.read_bytes().replace(b"12", b"13"))
    with pytest.raises(ValueError, match="does not match its CRC"):
        cursors.load(path)
    (status,) = cursors.cursors(tmp_path)
    assert "cannot be read" in status.trouble and not status.positions


def test_services_are_noted(tmp_path: Path) -> None:
    """Without losing the position of one that is noted again."""
    cursors.enrol(tmp_path, "wandb")
    path = cursors.cursor_path(tmp_path, "wandb")
    cursor = cursors.load(path)
    cursor.positions = {"r00000-a01": (0, 1, 1)}
    cursors.save(path, cursor)
    cursors.save(cursors.cursor_path(tmp_path, "csv"), Cursor())
    cursors.enrol(tmp_path, "wandb")
    assert cursors.services(tmp_path) == ["wandb"]
    assert cursors.load(path).positions == {"r00000-a01": (0, 1, 1)}


@pytest.mark.parametrize(
    "key", ["r00000x-a01", "rX", "", "r" + "9" * 6000, "r-1-a01", "r\u0663\u0663\u0663\u0663\u0663-a01"]
)
def test_a_position_that_names_no_journal_is_damage(tmp_path: Path, key: str) -> None:
    """Whatever stands in its place, the status reports it and nothing raises."""
    path = cursors.cursor_path(tmp_path, "csv")
    cursors.save(path, Cursor({key: (0, 0, -1)}))
    (status,) = cursors.cursors(tmp_path)
    assert "a position names no journal" in status.trouble and status.needs(Segment(0, 1, 0), 5)


def test_the_lag_is_that_of_a_tail(tmp_path: Path) -> None:
    """Of several ranks, attempts and segments, of positions in the middle, and with a segment that is not there."""
    (tmp_path / "journal").mkdir()
    pick = random.Random(1)
    for rank, attempt, number in ((0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 2), (1, 1, 0), (2, 1, 1)):
        (tmp_path / "journal" / Segment(rank, attempt, number).filename).write_bytes(b"\n" * pick.randrange(100))
    keys = [f"r{rank:05d}-a{attempt:02d}" for rank in range(4) for attempt in (1, 2)]
    for _ in range(50):
        chosen = pick.sample(keys, pick.randrange(5))
        positions = {key: (pick.randrange(3), pick.choice([0, 5, 200]), -1) for key in chosen}
        cursors.save(cursors.cursor_path(tmp_path, "csv"), Cursor(positions))
        ranks = {int(key[1:6]) for key in chosen} or {0}
        (status,) = cursors.cursors(tmp_path)
        assert status.lag == sum(Tail(tmp_path, rank=rank, positions=positions).lag() for rank in ranks), positions
