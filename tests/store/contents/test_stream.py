"""One stream: how many records, which steps, and what is missing."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.core.records import Alert, Step
from chiplog.store.contents.segment import segments
from chiplog.store.contents.stream import Stream
from chiplog.store.parts.compaction import compact


def test_holes_in_the_numbers_are_missing_records() -> None:
    """Whatever the order in which the records were written."""
    stream = Stream()
    for seq in (0, 1, 5, 3):
        stream.add(Step(seq, seq, seq * 10, {"loss": 1.0}))
    assert stream.records == 4 and stream.missing == [(2, 2), (4, 4)]
    stream.add(Step(2, 2, 20, {"loss": 1.0}))
    assert stream.missing == [(4, 4)]


def test_the_first_and_the_last_step_are_those_of_rows() -> None:
    """Other records have none."""
    stream = Stream()
    assert stream.first is None and stream.last is None
    stream.add(Alert(0, 0, "title", "text", "warning"))
    stream.add(Step(2, 2, 8, {"loss": 1.0}))
    stream.add(Step(1, 1, 7, {"loss": 1.0}))
    assert stream.first == 7 and stream.last == 7, "by number, and by order of arrival"


def test_a_part_counts_as_its_records(tmp_path: Path) -> None:
    """Without reading its points."""
    with chiplog.init("p", sinks="none", dir=tmp_path, compact=False, alerts=False) as run:
        for step in range(5, 8):
            run.log({"loss": 1.0}, step=step)
    (segment,) = segments(run.dir)
    count = len(list(segment.records()))
    compact(run.dir, segment.segment)
    stream = Stream()
    stream.add_part(segment)
    assert (stream.records, stream.first, stream.last, stream.missing) == (count, 5, 7, [])
