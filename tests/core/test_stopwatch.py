"""The stopwatch."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core.stopwatch import StopWatch


def test_it_is_a_value_a_span_and_a_metric(tmp_path: Path) -> None:
    """The seconds of each time, all together, and how often."""
    run = chiplog.init("p", sinks="none", dir=tmp_path, strict=True)
    run.begin_step(3)
    with run.stopwatch("tokenize", "data/tokenize_sec", tags={"k": 1}) as watch, run.span("inside"):
        pass
    stored = chiplog.read(run.dir)
    run.flush()
    series, spans = stored.series("data/tokenize_sec"), stored.spans()
    assert series.steps.tolist() == [3] and series.values.tolist() == [watch.elapsed]
    assert spans.names == ["tokenize", "inside"] and spans[1].parent == spans[0].id and spans[0].tags == {"k": 1}


def test_it_runs_stops_and_nests() -> None:
    """What is inside itself counts once in the total; stopping what does not run is nothing."""
    now = [0.0]
    watch = StopWatch("w", run=lambda: None, clock=lambda: now[0])
    with watch:
        now[0] = 2.0
        assert watch.elapsed == 2.0
        with watch:
            now[0] = 3.0
        assert watch.elapsed == 3.0 and watch.total == 0.0
    assert watch.total == 3.0 and watch.count == 2
    watch.start()
    now[0] = 4.5
    assert watch.stop() == 1.5 and watch.total == 4.5 and watch.stop() == 0.0


def test_it_decorates_and_works_without_a_run() -> None:
    """And counts calls that raise."""
    watch = chiplog.stopwatch("w", "perf/w_sec")

    @watch
    def work(fail: bool) -> int:
        if fail:
            raise ValueError
        return 7

    assert work(False) == 7
    with pytest.raises(ValueError):
        work(True)
    assert watch.count == 2 and watch.total > 0 and "stopwatch 'w'" in repr(watch)
