"""Records that a service has rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core.records import Step
from chiplog.sinks.delivery import rejections
from chiplog.sinks.delivery.rejections import Rejections


def step(seq: int) -> Step:
    return Step(seq, seq, seq, {"x": 1.0})


def test_neighbours_are_one_range_and_the_journal_has_the_records(tmp_path: Path) -> None:
    """What is read back is what was noted, by stream."""
    run = chiplog.init(project="p", id="r", dir=tmp_path, sinks="none", alerts=False, compact=False)
    for n in range(10):
        run.log({"x": n}, step=n)
    run.finish()
    rows = [record for record in chiplog.read(run.dir).records("step") if isinstance(record, Step)]
    noted = Rejections()
    noted.add(("r00000-a01", rows[n]) for n in (2, 3, 4, 8))
    assert len(noted.ranges["r00000-a01"]) == 2 and noted.count == 4
    again = Rejections(noted.ranges)
    [(batch, keys)] = again.read(run.dir, 0)
    assert [record.step for record in batch if isinstance(record, Step)] == [2, 3, 4, 8]
    assert keys == ["r00000-a01"] * 4 and again.count == 4


def test_very_many_ranges_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound the last range grows: a record may be sent twice, and none is forgotten."""
    monkeypatch.setattr(rejections, "MOST", 3)
    noted = Rejections()
    noted.add(("s", step(n)) for n in range(0, 100, 2))
    assert noted.ranges["s"] == [(0, 0), (2, 2), (4, 98)] and noted.count == 50
