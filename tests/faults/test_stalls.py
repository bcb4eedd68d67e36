"""Disks and processes that stand still for a while: a FUSE server that is stopped, and a trainer that is."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import chiplog
from tests.support.waiting import wait_for

from . import reference
from .harness import FULL, PATIENCE, Trainer, count, trainer
from .mounts import Passthrough, need, passthrough

__all__ = ["passthrough"]  # a fixture

pytestmark = pytest.mark.timeout(PATIENCE)

STALL = count(5, 60)  # s
AT_ONCE = 1.0  # s: far above what a call takes on a busy machine, far below a stall
BOUND = (64 + 32) << 20  # bytes

# `log` says how long the longest call took; files in the trainer's own directory, which is not on the disk, are
# the signs between it and the test.
SIGNS = """
n = 0
took = []

def log(**more):
    global n
    before = time.monotonic()
    run.log({"i": n, "x": n / 7}, step=n)
    took.append(time.monotonic() - before)
    n += 1
    ack(n)

def until(sign):
    while not os.path.exists(sign):
        time.sleep(0.01)

def say(*words):
    print(*words, file=sys.stderr, flush=True)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
"""


def behind(stalled: Trainer, disk: Passthrough) -> Path:
    """The run as the server sees it: a look through the mount would wait for the server."""
    return disk.behind / stalled.run.relative_to(disk.path)


def stop_between_calls(disk: Passthrough, stalled: Trainer) -> None:
    """Stop the server while no thread of the trainer waits for its answer, which would hold the process in the kernel."""

    def stopped() -> bool:
        disk.stop()
        threads = Path(f"/proc/{stalled.process.pid}/task").glob("*/wchan")
        if any("request_wait_answer" in thread.read_text() for thread in threads):
            disk.go_on()
            return False
        return True

    wait_for(stopped, 30, "a moment without a call to the disk")


def said(stalled: Trainer, what: str) -> float:
    found = re.search(rf"^{what} ([\d.]+)$", stalled.said, re.MULTILINE)
    assert found, stalled.said
    return float(found[1])


def test_a_stalled_disk_costs_the_caller_nothing(passthrough: Passthrough, tmp_path: Path) -> None:
    """The disk stands still: no call waits, memory stays bounded, what does not fit is counted, and all else is kept."""
    code = """
    run = init()
    while not os.path.exists("stalled"):
        log()
        time.sleep(0.001)
    took.clear()
    before = resident()
    while run.health()["journal"]["dropped"] < 1000:
        log()
    ack(n)
    open("dropping", "w").close()
    while not os.path.exists("over"):
        log()
        time.sleep(0.001)
    say("longest", max(took))
    say("grown", resident() - before)
    while run.health()["journal"]["waiting"]:
        time.sleep(0.01)
    for _ in range(100):
        log()
    """
    with trainer(tmp_path, SIGNS + _plain(code), root=passthrough.path) as stalled:
        stalled.until_acked(100)
        passthrough.stop()
        began = time.monotonic()
        (tmp_path / "stalled").touch()
        wait_for((tmp_path / "dropping").exists, 60, stalled.said)
        wait_for(lambda: time.monotonic() - began > STALL, STALL + 60)
        (tmp_path / "over").touch()
        wait_for(lambda: "grown" in stalled.said, 60)
        passthrough.go_on()
        assert stalled.wait() == 0, stalled.said
        run, logged = behind(stalled, passthrough), stalled.acked
        print(f"longest call {said(stalled, 'longest') * 1000:.2f} ms, {said(stalled, 'grown') / 2**20:.1f} MiB more")
        assert said(stalled, "longest") < AT_ONCE
        assert said(stalled, "grown") < BOUND
        kept, missing = reference.series(run, "i"), reference.missing(run)[0, 1]
        print(f"{logged} logged, {len(kept)} kept, {len(missing)} dropped")
        assert kept[:100] == list(range(100)) and kept[-100:] == list(range(logged - 100, logged))
        assert [row["metrics"]["x"] for row in reference.records(run, "step")] == [n / 7 for n in kept]
        assert len(kept) + len(missing) == logged and len(missing) >= 1000
        assert reference.records(run, "finish")[0]["missing"] == len(missing)
        assert f"{len(missing):,} records of run run are missing" in stalled.said
        assert sum(last - first + 1 for first, last in chiplog.read(run).missing["r00000-a01"]) == len(missing)
        assert reference.records(run, "attempt")[0]["durability"] == "relaxed"


def test_a_short_stall_loses_nothing(passthrough: Passthrough, tmp_path: Path) -> None:
    """What is logged during a stall and fits into memory is on disk afterwards."""
    code = """
    run = init()
    while not os.path.exists("over"):
        log()
        time.sleep(0.001)
    """
    with trainer(tmp_path, SIGNS + _plain(code), root=passthrough.path) as stalled:
        stalled.until_acked(100)
        passthrough.stop()
        stalled.until_acked(stalled.acked + 1000)
        passthrough.go_on()
        (tmp_path / "over").touch()
        assert stalled.wait() == 0, stalled.said
        run = behind(stalled, passthrough)
        assert reference.series(run, "i") == list(range(stalled.acked))
        assert chiplog.read(run).state == "finished"


@pytest.mark.parametrize("sinks", ["none", "csv,jsonl"])
def test_a_run_can_end_while_the_disk_stands_still(passthrough: Passthrough, tmp_path: Path, sinks: str) -> None:
    """finish() returns within its timeout, says what is not written, and the process can exit."""
    code = f"""
    run = init(sinks={sinks!r})
    for _ in range(100):
        log()
    run.flush()
    assert run.post is None or run.post.settle(20)
    while not any(event.name == "environment" for event in chiplog.read(run.dir).records("event")):
        time.sleep(0.01)
    open("ready", "w").close()
    until("stalled")
    for _ in range(500):
        log()
    before = time.monotonic()
    ended = run.finish(timeout=3)
    say("ended in", time.monotonic() - before)
    say(ended)
    assert not ended
    """
    with trainer(tmp_path, SIGNS + _plain(code), root=passthrough.path) as stalled:
        wait_for((tmp_path / "ready").exists, 30)
        stop_between_calls(passthrough, stalled)
        (tmp_path / "stalled").touch()
        assert stalled.wait(30) == 0, stalled.said
        assert said(stalled, "ended in") < 3 + 2  # on a busy machine
        waiting = re.search(r"cannot finish run run: .* (\d+) records are in memory", stalled.said)
        assert waiting and int(waiting[1]) in (500, 501)  # one may tell of the environment
        passthrough.go_on()
        run = behind(stalled, passthrough)
        assert reference.series(run, "i")[:100] == list(range(100))
        assert chiplog.read(run).state == "killed"
    with chiplog.init(project="faults", id="run", dir=stalled.dir, sinks="none", resume="must") as again:
        again.log({"i": 100}, step=100)
    assert chiplog.read(run).state == "finished"


def test_a_run_ends_itself_when_the_disk_comes_back(passthrough: Passthrough, tmp_path: Path) -> None:
    """After a finish() that could not wait, a process that lives on still writes all of it."""
    code = """
    run = init()
    for _ in range(100):
        log()
    run.flush()
    open("ready", "w").close()
    until("stalled")
    for _ in range(500):
        log()
    assert not run.finish(timeout=1)
    open("unfinished", "w").close()
    until("over")
    """
    with trainer(tmp_path, SIGNS + _plain(code), root=passthrough.path) as stalled:
        wait_for((tmp_path / "ready").exists, 30)
        passthrough.stop()
        (tmp_path / "stalled").touch()
        wait_for((tmp_path / "unfinished").exists, 30, stalled.said)
        passthrough.go_on()
        run = behind(stalled, passthrough)
        wait_for(lambda: reference.records(run, "finish"), 30)
        (tmp_path / "over").touch()
        assert stalled.wait() == 0, stalled.said
        assert reference.series(run, "i") == list(range(600))
        assert reference.missing(run) == {(0, 1): []}


def test_a_signal_amid_a_flush_may_end_the_run(tmp_path: Path) -> None:
    """A handler that calls finish() while the same thread is writing: nothing is lost, and nobody waits."""
    code = """
    def end(number, frame):
        run.finish()
        ended.append(time.monotonic())

    signal.signal(signal.SIGALRM, end)
    for attempt in range(int(sys.argv[3])):
        ended = []
        run = init(durability="relaxed")
        for _ in range(2000):
            log()
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.0002 * (attempt + 1))
        run.flush()
        while not ended:
            time.sleep(0.001)
        if ended[0] - begun > 4:
            say("waited", ended[0] - begun)
    """
    times = count(5, 50)
    with trainer(tmp_path, SIGNS + _plain(code), str(times)) as interrupted:
        assert interrupted.wait() == 0
        assert reference.series(interrupted.run, "i") == list(range(2000 * times))
        assert len(reference.records(interrupted.run, "finish")) == times
        assert "waited" not in interrupted.said, interrupted.said


def test_a_run_ends_though_its_background_thread_is_held_up(tmp_path: Path) -> None:
    """Something other than the disk never returns on the keeper's thread: the caller ends the run itself."""
    held, over = threading.Event(), threading.Event()

    def hold() -> float:
        held.set()
        over.wait()
        return 1.0

    run = chiplog.init(project="faults", id="run", dir=tmp_path, sinks="none")
    assert run._background is not None
    run._background.add(hold)
    run._background.wake()
    assert held.wait(30)
    run.log({"i": 0})
    assert run.finish(timeout=20)
    over.set()
    assert reference.series(run.dir, "i") == [0]
    assert [record["state"] for record in reference.records(run.dir, "finish")] == ["finished"]
    assert reference.missing(run.dir) == {(0, 1): []}


def test_a_stall_costs_one_slow_write_where_every_record_is_written_at_once(
    passthrough: Passthrough, tmp_path: Path
) -> None:
    """durability="process" on a disk that stands still: one call waits for it at most, and nothing is lost."""
    code = f"""
    run = init(durability="process")
    while not os.path.exists("over"):
        log()
        time.sleep(0.001)
    say("slow", sum(seconds > {AT_ONCE} for seconds in took))
    """
    with trainer(tmp_path, SIGNS + _plain(code), root=passthrough.path) as stalled:
        stalled.until_acked(100)
        passthrough.stop()
        time.sleep(STALL)
        passthrough.go_on()
        stalled.until_acked(stalled.acked + 100)
        (tmp_path / "over").touch()
        assert stalled.wait() == 0, stalled.said
        assert said(stalled, "slow") <= 1, stalled.said  # none, if the keeper was writing already
        assert reference.series(behind(stalled, passthrough), "i") == list(range(stalled.acked))


# How long `init` waits: the real times with CHIPLOG_FAULTS=full.
SOON = "" if FULL else "from chiplog.store.journal import file_systems as disks; disks.REACH = (0.5, 3.0)\n"


def test_a_run_does_not_wait_for_ever_to_begin(passthrough: Passthrough, tmp_path: Path) -> None:
    """init() on a disk that does not answer says that it waits, then fails like on one that cannot be written."""
    code = """
    try:
        init()
    except chiplog.ChiplogError as error:
        say(type(error).__name__, error)
    """
    passthrough.stop()
    with trainer(tmp_path, SIGNS + SOON + _plain(code), root=passthrough.path) as stalled:
        assert stalled.wait() == 0
        assert "does not answer; waiting" in stalled.said
        assert "Unwritable the file system of" in stalled.said and "has not answered for" in stalled.said


def test_a_run_begins_when_the_disk_answers(passthrough: Passthrough, tmp_path: Path) -> None:
    """A disk that answers late is waited for."""
    code = "run = init()\nfor _ in range(100):\n    log()\n"
    passthrough.stop()
    with trainer(tmp_path, SIGNS + SOON + code, root=passthrough.path) as stalled:
        wait_for(lambda: "does not answer; waiting" in stalled.said, 30)
        passthrough.go_on()
        assert stalled.wait() == 0, stalled.said
        assert reference.series(behind(stalled, passthrough), "i") == list(range(100))


def test_a_link_to_a_network_file_system_is_seen_through(passthrough: Passthrough, tmp_path: Path) -> None:
    """Runs that lie on a network file system by way of a link are written in the background, too."""
    (tmp_path / "link").symlink_to(passthrough.path)
    with chiplog.init(project="faults", id="run", dir=tmp_path / "link", sinks="none") as run:
        run.log({"i": 0})
    assert reference.records(run.dir, "attempt")[0]["durability"] == "relaxed"


def test_a_stopped_trainer_is_there_and_loses_nothing(tmp_path: Path) -> None:
    """SIGSTOP, then SIGCONT: it counts as running here, as lost for another host once its beat is 60 s old, and all
    its records are there in the end."""
    need("unshare")
    code = """
    run = init()
    while not os.path.exists("over"):
        log()
        time.sleep(0.001)
    """
    with trainer(tmp_path, SIGNS + _plain(code)) as stopped:
        stopped.until_acked(100)
        stopped.send(signal.SIGSTOP)
        os.waitid(os.P_PID, stopped.process.pid, os.WSTOPPED | os.WNOWAIT)
        time.sleep(STALL)
        assert chiplog.read(stopped.run).state == "running"
        assert listed(stopped.dir) == "running"
        [segment] = (stopped.run / "journal").glob("*.jsonl")
        os.utime(segment, (time.time() - 61, time.time() - 61))
        assert listed(stopped.dir, elsewhere=True) == "lost"
        stopped.send(signal.SIGCONT)
        wait_for(lambda: listed(stopped.dir, elsewhere=True) == "running", 30)
        (tmp_path / "over").touch()
        assert stopped.wait() == 0, stopped.said
        assert reference.series(stopped.run, "i") == list(range(stopped.acked))
        assert reference.missing(stopped.run) == {(0, 1): []}
        assert listed(stopped.dir) == "finished"


def listed(runs: Path, *, elsewhere: bool = False) -> str:
    """The state of the one run that `chiplog ls` shows, here or as another host sees it."""
    words = [sys.executable, "-m", "chiplog", "ls", "--dir", str(runs)]
    if elsewhere:
        words = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh", *words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    states = re.findall(r"\b(running|lost|killed|finished|failed|interrupted)\b", done.stdout)
    assert len(states) == 1, done.stdout
    return str(states[0])


def _plain(code: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in code.splitlines()) + "\n"
