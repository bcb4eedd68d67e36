"""A file that several processes write at once."""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from chiplog.runtime.ranks.write_once_file import WriteOnceFile


def test_the_first_text_stays(tmp_path: Path) -> None:
    """Everybody gets it, whoever asks and whoever offers."""
    text = WriteOnceFile(tmp_path / "new" / "launch-1", since=0.0, old=60.0)
    assert text.read() is None
    assert text.offer("one") == "one"
    assert text.offer("two") == "one" and text.read() == "one"


def test_the_text_of_an_earlier_launch_does_not_count(tmp_path: Path) -> None:
    """It is replaced."""
    path = tmp_path / "launch-1"
    path.write_text(f"old {time.time() - 100}")
    text = WriteOnceFile(path, since=time.time() - 10, old=1000.0)
    assert text.read() is None
    assert text.offer("new") == "new" and text.read() == "new"


def test_a_torn_file_is_replaced(tmp_path: Path) -> None:
    """A process that died while it wrote leaves no obstacle."""
    path = tmp_path / "launch-1"
    path.write_text("half")
    assert WriteOnceFile(path, since=0.0, old=60.0).offer("whole") == "whole"


def test_files_of_launches_long_over_are_deleted(tmp_path: Path) -> None:
    """Those of other kinds stay."""
    for name in ("launch-1", "other-1"):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (0, 0))
    WriteOnceFile(tmp_path / "launch-2", since=0.0, old=60.0).offer("x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["launch-2", "other-1"]


def _offer(folder: Path, rank: int, rounds: int, barrier: Barrier, results: SimpleQueue[list[str]]) -> None:
    offered = []
    for number in range(rounds):
        text = WriteOnceFile(folder / f"launch-{number}", since=time.time() - 50, old=1000.0)
        barrier.wait(30)
        offered.append(text.offer(f"rank{rank}"))
    results.put(offered)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # jax, if another test has imported it
@pytest.mark.parametrize("stale", [False, True])
def test_processes_that_offer_at_once_get_the_same_text(tmp_path: Path, stale: bool) -> None:
    """Also where the file of an earlier launch is in the way; nothing is left beside it."""
    ranks, rounds = 4, 50
    for number in range(rounds if stale else 0):
        (tmp_path / f"launch-{number}").write_text(f"old {time.time() - 100}")
    fork = multiprocessing.get_context("fork")
    results, barrier = fork.SimpleQueue(), fork.Barrier(ranks)
    processes = [fork.Process(target=_offer, args=(tmp_path, n, rounds, barrier, results)) for n in range(ranks)]
    for process in processes:
        process.start()
    offered = [results.get() for _ in processes]
    for process in processes:
        process.join(30)
    assert [len(set(texts)) for texts in zip(*offered, strict=True)] == [1] * rounds
    assert {path.name for path in tmp_path.iterdir()} == {f"launch-{number}" for number in range(rounds)}
