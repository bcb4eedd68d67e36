"""Wall clocks that jump, stand still or disagree."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import chiplog
from chiplog.assembly import wiring
from chiplog.core.clock import RunClock
from tests.support.waiting import wait_for

from . import reference
from .harness import PATIENCE, count, trainer

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
    monkeypatch.setattr(wiring, "RunClock", lambda: RunClock(wall=walls.now))
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
    monkeypatch.setattr(wiring, "RunClock", lambda: RunClock(wall=lambda: 10**18, mono=lambda: 5))
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    for n in range(100):
        run.log({"i": n}, step=n)
    run.finish()
    assert reference.series(run.dir, "i") == list(range(100))
    assert chiplog.read(run.dir).series("i").exact == list(range(100))


def test_an_attempt_from_the_future_does_not_hide_a_newer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt ran under a clock ten years ahead: nothing is lost, and both attempts can be asked for."""
    with monkeypatch.context() as patched:
        patched.setattr(wiring, "RunClock", lambda: RunClock(wall=lambda: time.time_ns() + YEARS))
        with chiplog.init(project="faults", id="future", sinks="none", dir=tmp_path) as run:
            run.log({"i": 0}, step=0)
    with chiplog.init(project="faults", id="future", sinks="none", dir=tmp_path) as run:
        run.log({"i": 1}, step=1)
    stored = chiplog.read(run.dir)
    assert stored.series("i", attempt=1).exact == [0]
    assert stored.series("i", attempt=2).exact == [1]
    assert sorted(stored.series("i").exact) == [0, 1]


# A real wall clock that is set while the process runs, by a library between it and the C library. The monotonic clock
# stays as it is, which is what happens when somebody sets the clock of a machine.
FAKE = next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
JUMPS = {
    "ten years back": "-3650d",
    "ten years ahead": "+3650d",
    "frozen": "2020-02-29 12:00:00",
}

UNDER_FAKE = """
time.sleep = threading.Event().wait  # with the monotonic clock left alone, the library breaks the real one
"""

STEADY = (
    UNDER_FAKE
    + """
run = init()
n = 0
while not os.path.exists("over"):
    with run.span("step"):
        run.log({"i": n, "x": n / 7, "wall": int(time.time())}, step=n)
    ack(n)
    n += 1
    time.sleep(0.002)
"""
)


class Wall:
    """The wall clock of a process, to be set while it runs."""

    def __init__(self, folder: Path) -> None:
        if FAKE is None:
            pytest.skip("libfaketime is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "wall"
        self.set("+0")
        self.env = {
            "LD_PRELOAD": str(FAKE),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, to: str) -> None:
        aside = self._file.with_name("wall-to-be")
        aside.write_text(to)
        aside.replace(self._file)


def usable(run: Path, *, state: str) -> None:
    """The commands that people look at a run with have something to show."""
    for verb in (["ls", "--dir", str(run.parent.parent)], ["show", str(run)]):
        done = subprocess.run(
            [sys.executable, "-m", "chiplog", *verb], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert state in done.stdout


def check_times(run: Path, seconds: float) -> None:
    """The records' times go on evenly and last about as long as the run did; spans have the length of what they timed."""
    times = [row["time"] for row in reference.records(run, "step")]
    assert times == sorted(times)
    assert (times[-1] - times[0]) / 1e9 < seconds
    lengths = [length for batch in reference.records(run, "spans") for length in batch["duration"]]
    assert lengths and all(0 <= length < seconds * 1e9 for length in lengths)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_wall_clock_that_is_set_disturbs_nothing(tmp_path: Path, jump: str) -> None:
    """The clock is set while training goes on, and back again: nothing is lost, times go on evenly, beats too."""
    wall = Wall(tmp_path)
    began = time.monotonic()
    with trainer(tmp_path, STEADY, env=wall.env) as jumping:
        jumping.until_acked(100)
        jumps = 0
        for _ in range(count(1, 10)):
            for to in (JUMPS[jump], "+0"):
                wall.set(to)
                jumps += 1
                wait_for(lambda: len(reference.records(jumping.run, "clock")) >= jumps, 20)  # noqa: B023
        assert chiplog.read(jumping.run).state == "running"
        wall.set(JUMPS[jump])
        usable(jumping.run, state="running")
        jumping.until_acked(jumping.acked + 100)
        beaten(jumping.run)
        (tmp_path / "over").touch()
        assert jumping.wait() == 0, jumping.said
        rows = reference.records(jumping.run, "step")
        assert [row["metrics"]["i"] for row in rows] == list(range(jumping.acked + 1))
        assert max(row["metrics"]["wall"] for row in rows) - min(row["metrics"]["wall"] for row in rows) > 3000
        assert reference.missing(jumping.run) == {(0, 1): []}
        check_times(jumping.run, time.monotonic() - began)
        stored = chiplog.read(jumping.run)
        assert stored.state == "finished" and stored.series("i").exact == list(range(jumping.acked + 1))


def beaten(run: Path) -> None:
    """The live segment is touched again, as others judge it by."""
    [segment] = (run / "journal").glob("*.jsonl")
    before = time.time()
    wait_for(lambda: segment.stat().st_mtime > before, 20)


def test_ranks_whose_clocks_disagree_are_one_run(tmp_path: Path) -> None:
    """Two ranks of a run, an hour apart: each one's records are complete and in order, and both are shown."""
    walls = [Wall(tmp_path / "0"), Wall(tmp_path / "1")]
    walls[1].set("+3600")
    code = STEADY.replace("init()", 'init(ranks="all")').replace('"i"', '"i" + os.environ["RANK"]')
    root = tmp_path / "shared"
    with ExitStack() as stack:
        ranks = [
            stack.enter_context(
                trainer(
                    tmp_path / str(rank),
                    code,
                    root=root,
                    env={**wall.env, "RANK": str(rank), "WORLD_SIZE": "2", "CHIPLOG_RUN_ID": "run"},
                )
            )
            for rank, wall in enumerate(walls)
        ]
        for rank in ranks:
            rank.until_acked(200)
        assert chiplog.read(ranks[0].run).state == "running"
        usable(ranks[0].run, state="running")
        for rank in range(2):
            (tmp_path / str(rank) / "over").touch()
        assert [rank.wait() for rank in ranks] == [0, 0]
    run = ranks[0].run
    assert sorted(reference.streams(run)) == [(0, 1), (1, 1)]
    first, second = (reference.streams(run)[rank, 1][0] for rank in range(2))
    assert abs(second["time"] - first["time"] - 3600 * 10**9) < 60 * 10**9
    stored = chiplog.read(run)
    for number, rank in enumerate(ranks):
        assert reference.series(run, f"i{number}") == list(range(rank.acked + 1))
        assert stored.series(f"i{number}", rank=number).exact == list(range(rank.acked + 1))
    assert reference.missing(run) == {(0, 1): [], (1, 1): []}
    usable(run, state="finished")
