"""Segments are compacted as they close."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.runtime.process import live_compaction
from chiplog.store import layout
from chiplog.store.journal import segment_file
from tests.core.run.begun import begin
from tests.support.waiting import wait_for


def _log_segment(run: chiplog.Run, first: int) -> None:
    """Fill a segment, and wait for the next one."""
    count = len(layout.segments(run.dir))
    for step in range(first, first + 400):
        run.log({"loss": 1.0, "lr": 0.1}, step=step)
    run.flush()
    wait_for(lambda: len(layout.segments(run.dir)) > count, 20)


def test_a_closed_segment_of_a_live_run_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another process; what an open reader shows does not change."""
    monkeypatch.setattr(segment_file, "SEGMENT_BYTES", 20_000)
    monkeypatch.setattr(live_compaction, "LONG", 1000)
    run = begin(tmp_path, compact=True, alerts=False)
    stored = chiplog.read(run.dir)
    _log_segment(run, 0)
    before = stored.series("loss").steps.tolist()
    wait_for(lambda: layout.has_part(run.dir, layout.segments(run.dir)[0]), 60)
    assert stored.series("loss").steps.tolist()[: len(before)] == before == list(range(400))
    assert stored.segments()[0].tail.count == 0, "read from the part now"
    run.finish()
    assert len(stored.series("loss")) == 400 and not stored.missing and not stored.damage


@pytest.mark.parametrize(("compact", "long"), [(False, 1000), (True, 1 << 20)])
def test_nothing_is_started_for_short_segments_or_if_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compact: bool, long: int
) -> None:
    """Short ones wait for the end of the run."""
    started: list[Path] = []
    monkeypatch.setattr(
        "chiplog.runtime.process.start_compaction.compact_beside", lambda path, environ, live: started.append(live)
    )
    monkeypatch.setattr(segment_file, "SEGMENT_BYTES", 20_000)
    monkeypatch.setattr(live_compaction, "LONG", long)
    run = begin(tmp_path, compact=compact, alerts=False)
    _log_segment(run, 0)
    _log_segment(run, 400)
    run.finish()
    assert started == ([False] if compact else []), "at the end, if at all"


def test_what_an_earlier_attempt_left_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt has it done, since a killed run could not."""
    monkeypatch.setattr(live_compaction, "LONG", 1000)
    first = begin(tmp_path, id="r", compact=False)
    for step in range(50):
        first.log({"loss": 1.0}, step=step)
    first.finish()
    second = begin(tmp_path, id="r", resume="must", compact=True)
    second.log({"loss": 1.0}, step=50)
    wait_for(lambda: layout.has_part(second.dir, layout.segments(second.dir)[0]), 60)
    second.finish()
    assert len(chiplog.read(second.dir).series("loss")) == 51
