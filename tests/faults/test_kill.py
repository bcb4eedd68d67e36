"""What is left when the whole process tree is killed."""

from __future__ import annotations

import random
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import chiplog
from tests.support.waiting import wait_for

from . import reference
from .harness import PATIENCE, Trainer, count, trainer
from .ledger import Ledger

pytestmark = pytest.mark.timeout(PATIENCE)

STEADY = """
run = init()
n = 0
while True:
    run.log({"i": n, "x": n / 7}, step=n)
    ack(n)
    n += 1
    time.sleep(0.001)
"""

BUSY = """
def work():
    while True:
        sum(range(1000))

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
"""


def kept(run: Path) -> list[int]:
    """The records of a run, which both readers must agree on."""
    by_reference = reference.series(run, "i")
    stored = chiplog.read(run)
    assert [int(value) for value in stored.series("i", missing_ok=True).values] == by_reference
    assert [row["metrics"]["x"] for row in reference.records(run, "step")] == [n / 7 for n in by_reference]
    assert not stored.damage
    return by_reference


def check_killed(victim: Trainer) -> None:
    """Every record that was acknowledged is there, in order, once."""
    victim.kill_tree()
    acked = victim.acked
    found = kept(victim.run)
    assert found in (
        list(range(acked + 1)),
        list(range(acked + 2)),
    )  # the last may be written and not yet acknowledged
    assert chiplog.read(victim.run).state == "killed"


def test_no_acknowledged_record_is_lost_to_kill_nine(tmp_path: Path) -> None:
    """Kill the whole tree at a random moment: every record whose log() returned is there, once and in order."""
    seed = time.time_ns()
    print("seed", seed)
    chance = random.Random(seed)
    moments = [chance.uniform(0.05, 1.5) for _ in range(count(20, 1000))]

    def one(case: tuple[int, float]) -> int:
        with trainer(tmp_path / str(case[0]), STEADY) as victim:
            victim.until_acked(0)
            moment = time.monotonic() + case[1]
            wait_for(lambda: time.monotonic() > moment)
            check_killed(victim)
            return victim.acked + 1

    with ThreadPoolExecutor(4) as pool:
        acked = list(pool.map(one, enumerate(moments)))
    print(f"{len(acked)} kills, {sum(acked):,} acknowledged records, none lost")


RANKS = """
if len(sys.argv) == 3:
    import subprocess
    for rank in range(4):
        environ = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "4", "CHIPLOG_RUN_ID": "run"}
        subprocess.Popen([sys.executable, *sys.argv, str(rank)], env=environ)
    time.sleep(3600)
rank = int(sys.argv[3])
run = init(ranks="all")
n = 0
while True:
    run.log({"t0": n, "x": n / 7}, step=n)
    os.pwrite(_ack, b"%020d" % n, 20 * rank)
    n += 1
    time.sleep(0.001)
"""


def test_four_ranks_killed_at_once_lose_nothing(tmp_path: Path) -> None:
    """A tree of four ranks of one run is killed at a random moment: each rank's journal has all it acknowledged."""
    seed = time.time_ns()
    print("seed", seed)
    chance = random.Random(seed)
    for times in range(count(2, 30)):
        check_four_ranks(tmp_path / str(times), chance.uniform(0, 1))


def check_four_ranks(folder: Path, moment: float) -> None:
    def acked() -> list[int]:
        data = (folder / "ack").read_bytes() if (folder / "ack").exists() else b""
        return [int(data[20 * rank :][:20].strip(b"\0") or -1) for rank in range(4)]

    with trainer(folder, RANKS) as tree:
        wait_for(lambda: min(acked()) >= 0, 60, tree.said)
        time.sleep(moment)
        tree.kill_tree()
    stored = chiplog.read(tree.run)
    wait_for(lambda: {one.state for one in stored.attempts} == {"killed"})
    ledger = Ledger(tree.run)
    ledger.read()
    assert list(ledger.accounts) == [(rank, 1) for rank in range(4)]
    for (rank, _), account in ledger.accounts.items():
        last = acked()[rank : rank + 1]
        assert account.absent(last) == account.holes == 0
        account.check_nothing_invented(last)
        account.check_order()
    assert stored.state == "killed"


def test_busy_threads_do_not_weaken_the_promise(tmp_path: Path) -> None:
    """Waiting for the interpreter is not a slow disk: with busy threads, log() still writes before it returns."""
    worst_moment = """
    run = init()
    until = time.monotonic() + 2
    n = 0
    while time.monotonic() < until and not run.health()["journal"]["waiting"]:
        run.log({"i": n, "x": n / 7}, step=n)
        ack(n)
        n += 1
    os.kill(os.getpid(), signal.SIGKILL)
    """
    with trainer(tmp_path, BUSY + textwrap.dedent(worst_moment)) as victim:
        victim.wait()
        check_killed(victim)


def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    """After a kill the same id goes on at once as a new attempt, and both attempts' records are there."""
    with trainer(tmp_path, STEADY) as victim:
        victim.until_acked(20)
        check_killed(victim)
        before = len(kept(victim.run))
    again = chiplog.init(project="faults", id="run", dir=victim.dir, sinks="none", resume="must")
    again.log({"i": before, "x": before / 7}, step=before)
    assert again.finish()
    assert kept(victim.run) == list(range(before + 1))
    assert [one.state for one in chiplog.read(victim.run).attempts] == ["killed", "finished"]


def test_three_records_and_an_idle_process_lose_nothing(tmp_path: Path) -> None:
    """Three records, then nothing, then a kill: three of three."""
    with trainer(
        tmp_path,
        "run = init()\nfor n in range(3):\n    run.log({'i': n, 'x': n / 7}); ack(n)\ntime.sleep(60)",
    ) as idle:
        idle.until_acked(2)
        idle.kill_tree()
        assert kept(idle.run) == [0, 1, 2]


@pytest.mark.parametrize("durability", ["relaxed", "process", "disk"])
def test_after_flush_nothing_is_lost_in_any_mode(tmp_path: Path, durability: str) -> None:
    """flush() has returned true: a kill right after it loses no record."""
    code = f"""
    run = init(durability={durability!r})
    for n in range(500):
        run.log({{"i": n, "x": n / 7}}, step=n)
    if run.flush():
        ack(499)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    for attempt in range(count(2, 100)):
        with trainer(tmp_path / str(attempt), code) as victim:
            assert victim.wait() == -9
            assert victim.acked == 499
            assert kept(victim.run) == list(range(500))


def test_relaxed_mode_loses_half_a_second_at_most(tmp_path: Path) -> None:
    """In relaxed mode a kill costs the records of the last half second, and never an older one."""
    with trainer(tmp_path, STEADY.replace("init()", "init(durability='relaxed')")) as victim:
        victim.until_acked(100)
        rate_from, began = victim.acked, time.monotonic()
        victim.until_acked(600)
        rate = (victim.acked - rate_from) / (time.monotonic() - began)
        victim.kill_tree()
        found = kept(victim.run)
        assert found == list(range(len(found)))
        assert victim.acked - found[-1] <= rate * 0.5 + 100
