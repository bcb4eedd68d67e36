"""Parts that a reader keeps for itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import chiplog
from chiplog.store import layout
from chiplog.store.contents import segment
from chiplog.store.layout import Segment
from chiplog.store.parts import part_cache
from chiplog.store.reader import Stored

SEGMENT = Segment(0, 1, 0)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of 100 rows without a part, last written an hour ago."""
    monkeypatch.setattr(segment, "SMALL", 0)
    with chiplog.init("p", sinks="none", dir=tmp_path / "runs", compact=False, alerts=False) as run:
        for step in range(100):
            run.log({"loss": step / 7, "big": 2**60 + step}, step=step)
    journal = run.dir / layout.JOURNAL / SEGMENT.filename
    _age(journal)
    return journal


def _age(path: Path) -> None:
    os.utime(path, (time.time() - 3600,) * 2)


def test_a_second_reader_decodes_nothing(journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And reads the same; nothing is written into the run."""
    run = journal.parent.parent
    before = sorted(run.rglob("*"))
    plain = Stored(run)
    first = Stored(run, cache=tmp_path / "cache")
    assert first.series("big").exact == plain.series("big").exact and first.summary == plain.summary
    monkeypatch.setattr(part_cache, "write_part", None)
    again = Stored(run, cache=tmp_path / "cache")
    assert again.series("big").exact == plain.series("big").exact
    assert [one.tail.count for one in again.segments()] == [0] and sorted(run.rglob("*")) == before


def test_a_segment_that_has_changed_is_decoded_again(journal: Path, tmp_path: Path) -> None:
    """By its size, its times and its inode: a stale value is never returned."""
    run = journal.parent.parent
    cache = tmp_path / "cache"
    assert len(Stored(run, cache=cache).series("loss")) == 100
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-10]))
    _age(journal)
    assert len(Stored(run, cache=cache).series("loss")) < 100
    damaged = bytearray(b"".join(lines))
    damaged[len(damaged) // 2] ^= 1
    journal.write_bytes(bytes(damaged))
    _age(journal)
    stored = Stored(run, cache=cache)
    assert len(stored.series("loss")) == 99 and len(stored.damage) == 1


def test_a_damaged_or_deleted_cache_costs_only_time(journal: Path, tmp_path: Path) -> None:
    """So do one that cannot be written, and a journal that is still being written."""
    run = journal.parent.parent
    cache = tmp_path / "cache"
    values = Stored(run, cache=cache).series("loss").values.tolist()
    for path in (cache / "parts").rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-20])
    assert Stored(run, cache=cache).series("loss").values.tolist() == values
    assert part_cache.part(run, SEGMENT, cache) is not None, "written again"
    (tmp_path / "file").write_text("not a folder")
    assert Stored(run, cache=tmp_path / "file").series("loss").values.tolist() == values
    os.utime(journal)
    assert all(one.part is None for one in Stored(run, cache=cache).segments()), "it may still grow"


def test_the_cache_is_bounded(journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not used for longest is deleted first."""
    run = journal.parent.parent
    assert part_cache.part(run, SEGMENT, tmp_path) is not None
    (first,) = (tmp_path / "parts").iterdir()
    _age(first)
    size = sum(path.stat().st_size for path in first.iterdir())
    monkeypatch.setattr(part_cache, "MOST", size * 3 // 2)
    with journal.open("ab") as file:
        file.write(b"\n")
    _age(journal)
    assert part_cache.part(run, SEGMENT, tmp_path) is not None
    (second,) = (tmp_path / "parts").iterdir()
    assert second != first
