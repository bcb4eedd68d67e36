"""The stopwatch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import chiplog
from chiplog.core.tracing.stopwatch import StopWatch


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


def test_tasks_and_threads_have_their_own_times(tmp_path: Path) -> None:
    """One watch, A from 0 to 2 and B from 1 to 4: each ends itself, as a value, as a span and as a metric."""
    now = [0.0]
    run = chiplog.init("p", sinks="none", dir=tmp_path, strict=True)
    watch = StopWatch("w", "t/w_sec", run=lambda: run, clock=lambda: now[0])
    took: dict[str, float] = {}

    async def work(name: str, mine: asyncio.Event, other: asyncio.Event) -> None:
        with watch:
            other.set()
            await mine.wait()
        took[name] = watch.elapsed

    async def tasks() -> None:
        end_a, end_b, a_began, b_began = (asyncio.Event() for _ in range(4))
        a = asyncio.create_task(work("A", end_a, a_began))
        await a_began.wait()
        now[0] = 1.0
        b = asyncio.create_task(work("B", end_b, b_began))
        await b_began.wait()
        now[0] = 2.0
        end_a.set()
        await a
        now[0] = 4.0
        end_b.set()
        await b

    asyncio.run(tasks())
    assert took == {"A": 2.0, "B": 3.0} and (watch.total, watch.count) == (5.0, 2)
    began, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (watch.start(), began.set(), go_on.wait(30), watch.stop()))
    thread.start()
    assert began.wait(30)
    with watch:
        now[0] = 5.0
    assert watch.elapsed == 1.0
    now[0] = 7.0
    go_on.set()
    thread.join()
    assert watch.elapsed == 3.0 and (watch.total, watch.count) == (9.0, 4)
    run.finish()
    stored = chiplog.read(run.dir)
    assert stored.series("t/w_sec").values.tolist() == [2.0, 3.0, 1.0, 3.0]
    first, second = stored.spans()[:2]
    assert first.thread != second.thread and first.end < second.end  # A's ended first, in spite of B


def test_calls_that_cross_have_their_own_times() -> None:
    """Generators may take turns on one thread; a call may stop its watch, and it may be stopped elsewhere."""
    now = [0.0]
    watch = StopWatch("w", run=lambda: None, clock=lambda: now[0])

    @watch
    def numbers() -> Iterator[int]:
        yield 1

    first, second = numbers(), numbers()
    next(first)
    now[0] = 1.0
    next(second)
    now[0] = 3.0
    assert list(first) == [] and watch.count == 1
    now[0] = 4.0
    assert list(second) == [] and watch.elapsed == 3.0 and watch.count == 2

    watch(watch.stop)()
    assert watch.count == 3
    watch.start()
    now[0] = 6.0
    stopped: list[float] = []
    thread = threading.Thread(target=lambda: stopped.append(watch.stop()))
    thread.start()
    thread.join()
    assert stopped == [2.0] and watch.stop() == 0.0
