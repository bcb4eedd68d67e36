"""The segments of a run, decoded once."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.store.contents.contents import Contents
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.parts.compaction import compact
from chiplog.store.reader import Stored


def test_everything_that_reads_a_run_shares_its_segments(tmp_path: Path) -> None:
    """The same object for the same segment, so that its journal is decoded once."""
    with chiplog.init("p", sinks="none", dir=tmp_path, compact=False) as run:
        run.log({"loss": 1.0}, step=0)
    stored = Stored(run.dir)
    (before,) = stored.segments()
    tail = before.tail
    stored.series("loss"), stored.contents(), stored.spans(), stored.summary
    (after,) = stored.segments()
    assert after is before and after.tail is tail


def test_a_part_that_appears_replaces_what_was_decoded(tmp_path: Path) -> None:
    """An open view sees nothing twice, loses nothing, and frees what it had decoded."""
    with chiplog.init("p", sinks="none", dir=tmp_path, compact=False, alerts=False) as run:
        run.log({"loss": 1.0}, step=0)
        run.alert("first")
        run.flush()
        segments = RunSegments(run.dir)
        contents = Contents(run.dir, segments=segments).refresh()
        assert [alert.title for alert in contents.alerts] == ["first"]
        (one,) = segments()
        compact(run.dir, one.segment)
        run.alert("second")
        run.log({"loss": 2.0}, step=1)
    decoded = one.tail
    contents.refresh()
    assert [alert.title for alert in contents.alerts] == ["first", "second"]
    assert one.part is not None and one.tail is not decoded, "only what lies beyond the part is decoded"
    assert contents.stream(0, 1).last == 1 and not contents.missing
