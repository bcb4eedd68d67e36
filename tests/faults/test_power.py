"""What a power cut leaves: the copy of a disk as it was at one instant, mounted again."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

import chiplog
from chiplog import cli
from tests.support.waiting import wait_for

from . import reference
from .harness import PATIENCE, Trainer, count, trainer
from .mounts import Disk, disk

pytestmark = pytest.mark.timeout(PATIENCE)

LOSS = 6.0  # s of records that a power cut may cost by default
LOAD = 2.0  # s more on a machine that is busy with other tests

# Small segments, so that the power also fails around the beginning of the next one.
SMALL = "from chiplog.store.journal import segment_file; segment_file.SEGMENT_BYTES = 20_000\n"

# When a record is acknowledged, a power cut must not take it.
WAYS = {
    "disk": """
run = init(durability="disk")
n = 0
while True:
    run.log({"i": n, "x": n / 7}, step=n)
    ack(n)
    n += 1
    time.sleep(0.002)
""",
    "flush": """
run = init()
n = 0
while True:
    for n in range(n, n + 10):
        run.log({"i": n, "x": n / 7}, step=n)
    if run.flush(fsync=True):
        ack(n)
    n += 1
    time.sleep(0.005)
""",
    "finish": """
n = 0
while True:
    run = init()
    for n in range(n, n + 10):
        run.log({"i": n, "x": n / 7}, step=n)
    if run.finish():
        ack(n)
    n += 1
    time.sleep(0.005)
""",
}

DEFAULT = """
run = init()
times = open("times", "ab", buffering=0)
n = 0
while True:
    run.log({"i": n, "x": n / 7}, step=n)
    times.write(b"%020d\\n" % time.monotonic_ns())
    n += 1
    time.sleep(0.002)
"""


def kept(run: Path) -> list[int]:
    """The records that a cut has left, which both readers must agree on: none is wrong, none missing in between."""
    found = reference.series(run, "i")
    assert found == list(range(len(found)))
    assert [row["metrics"]["x"] for row in reference.records(run, "step")] == [n / 7 for n in found]
    stored = chiplog.read(run)
    assert stored.series("i", missing_ok=True).exact == found
    named, damage = [(one.start, one.end) for one in stored.damage], reference.damage(run)
    assert named in (damage, damage[:-1])  # the writer is alive, so a torn last line may be under way
    return found


def resumes(run: Path, found: list[int]) -> None:
    """A new attempt of what is left goes on behind it."""
    again = chiplog.init(project="faults", id="run", dir=run.parent.parent, sinks="none", resume="must", compact=False)
    again.log({"i": len(found), "x": len(found) / 7}, step=len(found))
    assert again.finish()
    assert kept(run) == [*found, len(found)]


def moments(cuts: int, first: float, last: float) -> list[float]:
    seed = time.time_ns()
    print("seed", seed)
    chance = random.Random(seed)
    return sorted(chance.uniform(first, last) for _ in range(cuts))


def wait_until(moment: float) -> None:
    wait_for(lambda: time.monotonic() >= moment, 60)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_power_cut_takes_nothing_that_was_synced(tmp_path: Path, kind: str, way: str) -> None:
    """durability="disk", flush(fsync=True) or finish(): what was acknowledged is there after a power cut."""

    def check(made: Disk, powered: Trainer) -> None:
        acked = powered.acked
        with made.cut() as left:
            run = left / "runs" / "faults" / "run"
            found = kept(run)
            assert len(found) > acked, f"{acked + 1 - len(found)} of {acked + 1} acknowledged records are gone"
            resumes(run, found)

    cuts = count(3, 50)
    for part in range(0, cuts, 10):
        folder = tmp_path / str(part)
        with disk(folder, kind) as made, trainer(folder, SMALL + WAYS[way], root=made.path) as powered:
            powered.until_acked(0)
            began = time.monotonic()
            for moment in moments(min(10, cuts - part), 0, count(2, 10)):
                wait_until(began + moment)
                check(made, powered)


@pytest.mark.parametrize(
    ("kind", "segments"), [("ext4", ""), ("xfs", ""), ("ext4", SMALL)], ids=("ext4", "xfs", "small")
)
def test_a_power_cut_takes_six_seconds_at_most(tmp_path: Path, kind: str, segments: str) -> None:
    """Without asking for more, the records of the last 6 s may be lost to a power cut, and never an older one."""

    def check(made: Disk, powered: Trainer) -> float:
        cut = time.monotonic()
        with made.cut() as left:
            run = left / "runs" / "faults" / "run"
            found = kept(run) if (run / "journal").exists() else []
            times = [int(line) / 1e9 for line in (powered.stderr.parent / "times").read_bytes().split()]
            lost = cut - times[len(found)] if len(found) < len(times) else 0.0
            print(f"{len(found)} records kept, {lost:.2f} s lost")
            assert lost < LOSS + LOAD
            if found:
                resumes(run, found)
        return lost

    cuts = count(3, 50)
    worst = 0.0
    for part in range(0, cuts, 10):
        folder = tmp_path / str(part)
        with disk(folder, kind) as made, trainer(folder, segments + DEFAULT, root=made.path) as powered:
            wait_for((folder / "times").exists, 30)
            began = time.monotonic()
            for moment in moments(min(10, cuts - part), 4, count(10, 20)):
                wait_until(began + moment)
                worst = max(worst, check(made, powered))
    print(f"at most {worst:.2f} s lost in {cuts} cuts")
    assert worst > 0, "nothing was ever lost: the cuts did not cut"


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_power_cut_after_prune_takes_no_record(tmp_path: Path, kind: str) -> None:
    """`compact --prune` removes a journal only when its compressed form is on disk, name and all."""
    with disk(tmp_path, kind) as made:
        run = chiplog.init(project="faults", id="run", dir=made.path / "runs", sinks="none", compact=False)
        for n in range(2000):
            run.log({"i": n, "x": n / 7}, step=n)
        assert run.finish()
        assert cli.main(["--dir", str(made.path / "runs"), "compact", "--prune", "--quiet"]) == 0
        assert not list((made.path / "runs/faults/run/journal").glob("*.jsonl"))
        with (made.path / "another").open("wb") as another:  # whose sync commits the names of all files
            os.fsync(another.fileno())
        with made.cut() as left:
            found = left / "runs" / "faults" / "run"
            shutil.rmtree(found / "parts")  # a part may be read in place of its journal
            stored = chiplog.read(found)
            assert [record.step for record in stored.records("step")] == list(range(2000))  # type: ignore[union-attr]
            assert not stored.damage
