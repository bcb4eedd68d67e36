"""Wall clocks that jump, stand still or disagree."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import chiplog
from chiplog import assembly
from chiplog.core.clock import Clock

from . import reference
from .harness import PATIENCE, wait_for

pytestmark = pytest.mark.timeout(PATIENCE)

YEARS = 10 * 365 * 86_400 * 10**9


class Walls:
    """A wall clock that can be set, over a monotonic one that cannot."""

    def __init__(self) -> None:
        self.ahead = 0

    def now(self) -> int:
        return time.time_ns() + self.ahead


@pytest.mark.parametrize("jump", [YEARS, -YEARS, 3600 * 10**9, -2 * 10**9])
def test_a_jump_of_the_wall_clock_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: int) -> None:
    """The wall clock is set back or forth while training: the records' times go on evenly, and the jump is a record."""
    walls = Walls()
    monkeypatch.setattr(assembly, "Clock", lambda: Clock(wall=walls.now))
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    for n in range(10):
        run.log({"i": n}, step=n)
    walls.ahead = jump
    wait_for(lambda: reference.records(run.dir, "clock"), 10)
    for n in range(10, 20):
        run.log({"i": n}, step=n)
    run.finish()
    [clock] = reference.records(run.dir, "clock")
    assert abs(clock["jump"] - jump) < 10**9
    rows = reference.records(run.dir, "step")
    times = [row["time"] for row in rows]
    assert [row["metrics"]["i"] for row in rows] == list(range(20))
    assert times == sorted(times)
    assert times[-1] - times[0] < 60 * 10**9
    series = chiplog.read(run.dir).series("i")
    assert series.exact == list(range(20))
    assert (series.times[1:] >= series.times[:-1]).all()


def test_a_clock_that_stands_still_keeps_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order and completeness come from `seq` alone: with both clocks frozen, everything is there and in order."""
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5)
    monkeypatch.setattr(assembly, "Clock", lambda: Clock(wall=lambda: 10**18, mono=lambda: 5))
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    for n in range(100):
        run.log({"i": n}, step=n)
    run.finish()
    assert reference.series(run.dir, "i") == list(range(100))
    assert chiplog.read(run.dir).series("i").exact == list(range(100))


def test_an_attempt_from_the_future_does_not_hide_a_newer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt ran under a clock ten years ahead: nothing is lost, and both attempts can be asked for."""
    with monkeypatch.context() as patched:
        patched.setattr(assembly, "Clock", lambda: Clock(wall=lambda: time.time_ns() + YEARS))
        with chiplog.init(project="faults", id="future", sinks="none", dir=tmp_path) as run:
            run.log({"i": 0}, step=0)
    with chiplog.init(project="faults", id="future", sinks="none", dir=tmp_path) as run:
        run.log({"i": 1}, step=1)
    stored = chiplog.read(run.dir)
    assert stored.series("i", attempt=1).exact == [0]
    assert stored.series("i", attempt=2).exact == [1]
    assert sorted(stored.series("i").exact) == [0, 1]
