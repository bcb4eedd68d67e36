"""What is left when the process dies of itself: of a fault in native code, or for want of memory."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import chiplog
from tests.support.waiting import wait_for

from . import reference
from .harness import PATIENCE, Trainer, count, trainer

pytestmark = pytest.mark.timeout(PATIENCE)

# The main thread logs all the time, so that the end comes in the middle of it; what ends it is in another thread.
CRASHING = """
import ctypes, mmap, resource, tempfile

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def touch_null():
    ctypes.string_at(0)

def touch_beyond_a_file():
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 16)
        view = mmap.mmap(file.fileno(), 1 << 16)
        file.truncate(0)
        view[1 << 15]

def be_killed():
    os.kill(os.getpid(), signal.SIGKILL)

def end():
    time.sleep(float(sys.argv[4]))
    {"SIGSEGV": touch_null, "SIGABRT": os.abort, "SIGBUS": touch_beyond_a_file, "SIGKILL": be_killed}[sys.argv[3]]()

run = init()
threading.Thread(target=end).start()
n = 0
while True:
    run.log({"i": n, "x": n / 7}, step=n)
    ack(n)
    n += 1
"""


def check_kept(victim: Trainer) -> int:
    """Every acknowledged record is there, once and in order; perhaps the one under way, too. Returns how many."""
    kept = reference.series(victim.run, "i")
    assert kept in (list(range(victim.acked + 1)), list(range(victim.acked + 2)))
    assert reference.series(victim.run, "x") == [n / 7 for n in kept]
    assert [int(value) for value in chiplog.read(victim.run).series("i", missing_ok=True).values] == kept
    return len(kept)


def check_resumed(victim: Trainer, kept: int) -> None:
    """The run goes on at once as a new attempt, and what was there stays."""
    again = chiplog.init(project="faults", id="run", dir=victim.dir, sinks="none", resume="must")
    again.log({"i": kept, "x": kept / 7}, step=kept)
    assert again.finish()
    assert reference.series(victim.run, "i") == list(range(kept + 1))
    assert [one.state for one in chiplog.read(victim.run).attempts] == ["killed", "finished"]


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGKILL"])
def test_a_crash_loses_no_acknowledged_record(tmp_path: Path, name: str) -> None:
    """A real fault in native code while records are written: all that log() returned for is there, resume works."""
    seed = time.time_ns()
    print("seed", seed)
    chance = random.Random(seed)
    for turn in range(count(2, 25)):
        with trainer(tmp_path / str(turn), CRASHING, name, str(chance.uniform(0.0, 0.3))) as victim:
            assert victim.wait() == -signal.Signals[name], victim.said
            check_resumed(victim, check_kept(victim))


# From the 50th record on each takes 8 MiB. The words are the group to join, and the limit where there is none.
HUNGRY = """
import resource

group, limit = sys.argv[3], int(sys.argv[4])
run = init()
if group:
    with open(group, "w") as file:
        file.write(str(os.getpid()))
else:
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + limit, size + limit))
taken = []
n = 0
while True:
    run.log({"i": n, "x": n / 7}, step=n)
    ack(n)
    n += 1
    if n > 50:
        taken.append(b"x" * (8 << 20))
"""
LIMIT = 200 << 20


@contextmanager
def memory_group(name: str) -> Iterator[Path | None]:
    """A cgroup of 200 MiB, or None where this machine does not let us make one."""
    root = Path("/sys/fs/cgroup")
    first = root / "memory" if (root / "memory").is_dir() else root  # version 1 or 2
    group = first / f"chiplog-{name}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    limit = group / ("memory.max" if first is root else "memory.limit_in_bytes")
    try:
        if limit.exists():
            limit.write_text(str(LIMIT))
        yield group if limit.exists() else None  # the memory of groups may not be counted here
    finally:
        wait_for(lambda: _removed(group))


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:  # the kernel takes a moment to let go of a process that was killed
        return False
    return True


def test_the_kernel_that_kills_for_memory_loses_no_acknowledged_record(tmp_path: Path) -> None:
    """The memory group is full: the kernel kills, and every acknowledged record is there.

    Where no group can be made, the address space is limited instead, and training ends by a MemoryError."""
    for turn in range(count(1, 25)):
        with memory_group(f"{os.getpid()}-{turn}") as group:
            procs = str(group / "cgroup.procs") if group else ""
            with trainer(tmp_path / str(turn), HUNGRY, procs, str(LIMIT)) as victim:
                assert victim.wait() == (-signal.SIGKILL if group else 1), victim.said
                assert victim.acked > 50
                kept = check_kept(victim)
                if group:
                    check_resumed(victim, kept)


def test_no_memory_left_ends_training_by_its_own_error(tmp_path: Path) -> None:
    """The address space is full: the MemoryError is the training's own, the run has failed, and nothing is lost."""
    for turn in range(count(1, 25)):
        with trainer(tmp_path / str(turn), HUNGRY, "", str(LIMIT)) as victim:
            assert victim.wait() == 1, victim.said
            assert victim.said.count("Traceback") == 1
            assert "MemoryError" in victim.said
            check_kept(victim)
            assert chiplog.read(victim.run).state == "failed"
