"""Ranks that keep no journal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import chiplog
from chiplog.assembly import other_ranks
from chiplog.core.engine.shutdown import Delivery
from tests.core.run.begun import begin

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("ranks", [0, "0,1", [1, 2]])
def test_other_ranks_write_nothing(
    ranks: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it is said who keeps a journal, nobody else does; their run may be on another machine."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("CHIPLOG_RUN_ID", "run")
    with begin(tmp_path / "runs", ranks=ranks) as run:
        run.log({"x": 1.0})
    assert run.finish() and not (tmp_path / "runs").exists() and capsys.readouterr().err == ""


class Lazy:
    """A value that is not read as long as nobody keeps it."""

    def __float__(self) -> float:
        raise AssertionError("it was read")


LOGGED = [
    ("row", lambda run: run.log({"x": 1.0, "y": Lazy()})),
    ("nested", lambda run: run.log({"x": {"deep": 1.0}})),
    ("eval", lambda run: run.eval({"loss": 1.0})),
    ("table", lambda run: run.table("rows", [{"a": 1}])),
    ("step", lambda run: run.end_step({"x": 1.0}, step=run.start_step())),
]


@pytest.mark.parametrize("log", [log for _, log in LOGGED], ids=[name for name, _ in LOGGED])
@pytest.mark.parametrize(
    ("ranks", "keeper", "said"),
    [
        (0, 0, "rank 0 keeps the run and has not logged"),
        ("last", 3, "rank 3 keeps the run and has not logged"),
        ([0, 3], 3, "ranks 0, 3 keep the run and have not logged"),
    ],
)
def test_what_the_ranks_that_keep_the_run_do_not_log_is_counted(
    ranks: object,
    keeper: int,
    said: str,
    log: Callable[[chiplog.Run], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Said once, with what to do, and `finish` is not true; a row of the keeper under these names is enough."""
    monkeypatch.setattr(other_ranks, "AT_END", 0.0)
    monkeypatch.setenv("CHIPLOG_RUN_ID", "run")
    monkeypatch.setenv("WORLD_SIZE", "4")

    def play(rank: int, call: Callable[[chiplog.Run], object] = str) -> Delivery:
        monkeypatch.setenv("RANK", str(rank))
        run = begin(tmp_path, ranks=ranks, reduce=False)
        call(run)
        return run.finish()

    assert play(keeper)
    lost = play(1, log)
    assert not lost and lost.lost == 1 and said in lost.missing["journal"]
    assert capsys.readouterr().err.count(f"1 row of rank 1 not kept: {said}") == 1
    assert play(keeper, lambda run: log(run) if log is not LOGGED[0][1] else run.log({"x": 1.0, "y": 2.0}))
    assert play(1, log) and "not kept" not in capsys.readouterr().err


def test_a_keeper_of_this_machine_that_has_no_run_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has not called `init`, and on this machine its run would be seen."""
    monkeypatch.setattr(other_ranks, "AT_END", 0.0)
    for name, value in {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    with begin(tmp_path, ranks=1, reduce=False) as run:
        run.log({"x": 1.0})
    assert not run.finish()
    assert "rank 1 keeps the run and has not logged 'x'; init(ranks=[1, 3]) keeps" in capsys.readouterr().err


def test_a_rank_that_logs_nothing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default too: rank 0 owns the journal and the sinks."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with begin(tmp_path / "runs") as run, run.span("work"):
        run.event("seen")
    assert run.finish() and not (tmp_path / "runs").exists() and capsys.readouterr().err == ""


def test_counted_steps_continue_whichever_rank_keeps_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0, then rank 1, then rank 0 again: no two attempts lie over each other."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in (0, 1, 0):
        monkeypatch.setenv("RANK", str(rank))
        with begin(tmp_path, id="run", ranks=rank, reduce=False) as run:
            for _ in range(3):
                run.log({"loss": 1.0})
    steps = [one.step for rank in (0, 1) for one in chiplog.read(run.dir).records("step", rank=rank)]
    assert sorted(steps) == list(range(9))


@pytest.mark.parametrize("kept", [0, 1])
def test_counted_steps_continue_on_the_rank_that_takes_over(
    kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, where the last attempt was kept by rank 0 or by rank 1, and now rank 1 logs alone."""
    monkeypatch.setattr("chiplog.runtime.ranks.run_owner.AT_END", 0.0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, options in ((kept, {"ranks": kept}), (1, {})):
        monkeypatch.setenv("RANK", str(rank))
        with begin(tmp_path, id="run", reduce=False, **options) as run:
            for _ in range(3):
                run.log({"loss": 1.0})
    steps = [one.step for rank in {kept, 1} for one in chiplog.read(run.dir).records("step", rank=rank)]
    assert sorted(steps) == list(range(6))


DIFFERENT = """
import os, sys, chiplog
from pathlib import Path
from tests.support.waiting import wait_for

rank = int(os.environ["RANK"])
run = chiplog.init("p", sinks="none")
names = sys.argv[1 + rank].split(",")
for step in range(5):
    run.log({name: 1.0 for name in names}, step=step)
Path(f"logged{rank}").touch()
wait_for(lambda: Path(f"logged{1 - rank}").exists(), 60)
if rank == 1:  # rank 0 has claimed the run, and may still log
    wait_for(lambda: run.engine.recorder.inert, 60)
    run.log({names[0]: 2.0}, step=5)
    done = run.finish()
    Path("done").write_text(f"{done.complete} {done.lost}")
else:
    wait_for(Path("done").exists, 60)
    run.finish()
"""


@pytest.mark.parametrize(
    ("names", "done", "said"),
    [(("mem", "loss"), "False 6", "6 rows of rank 1 not kept"), (("mem,loss", "loss"), "True 0", "")],
)
def test_names_that_rank_0_has_not_logged_are_reported(
    names: tuple[str, str], done: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a process group nothing else keeps them: counted as lost, with what to do; the same names say nothing."""
    monkeypatch.chdir(tmp_path)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", DIFFERENT, *names],
            env={**os.environ, "PYTHONPATH": str(ROOT), "RANK": str(rank), "WORLD_SIZE": "2", "CHIPLOG_RUN_ID": "run"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    assert Path("done").read_text() == done
    assert (said and "init(ranks=[0, 1])") in errors[1] and said in errors[1]
    assert not said or "has not logged 'loss'" in errors[1]
