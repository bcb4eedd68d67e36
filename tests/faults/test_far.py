"""A file system like a bad network one: the guarantees hold on top of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import chiplog
from tests.support.waiting import wait_for

from . import reference
from .harness import PATIENCE, count, trainer
from .mounts import need

pytestmark = pytest.mark.timeout(PATIENCE)

Host = Callable[[], Path]

STEADY = """
run = init(sinks=sys.argv[3])
n = 0
while not os.path.exists("over"):
    run.log({"i": n, "x": n / 7}, step=n)
    ack(n)
    n += 1
    time.sleep(0.001)
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Makes one host after the other, all with the same far directory."""
    need("umount", "fusermount")
    pytest.importorskip("mfusepy", exc_type=ImportError)
    (tmp_path / "behind").mkdir()
    servers: list[tuple[Path, subprocess.Popen[bytes]]] = []

    def make() -> Path:
        point = tmp_path / f"host-{len(servers)}"
        point.mkdir()
        words = [sys.executable, str(Path(__file__).with_name("far.py")), str(tmp_path / "behind"), str(point)]
        server = subprocess.Popen(words, stderr=subprocess.PIPE)
        servers.append((point, server))
        wait_for(lambda: server.poll() is not None or os.path.ismount(point), 30, "the FUSE mount")
        if server.poll() is not None:
            pytest.skip(f"this machine does not let root mount FUSE: {server.communicate()[1]!r}")
        return point

    yield make
    for point, server in servers:
        subprocess.run(["umount", "-l", str(point)], check=False)
        server.terminate()
        server.communicate(timeout=60)


def faults(tmp_path: Path, **what: tuple[str, int]) -> None:
    """Let so many of these calls fail from now on."""
    (tmp_path / "faults").write_text(json.dumps(what))


def left(tmp_path: Path) -> dict[str, int]:
    return {what: times for what, (_, times) in json.loads((tmp_path / "faults").read_text()).items()}


def behind(tmp_path: Path) -> Path:
    return tmp_path / "behind" / "runs" / "faults" / "run"


@pytest.mark.parametrize("error", ["ESTALE", "EIO"])
def test_far_writes_that_fail_for_a_moment_lose_nothing(tmp_path: Path, host: Host, error: str) -> None:
    """A stale handle or an error for some writes: all of them are made again, and the run says what happened."""
    with trainer(tmp_path, STEADY, "none", root=host()) as far:
        far.until_acked(100)
        faults(tmp_path, write=(error, 3))
        wait_for(lambda: left(tmp_path) == {"write": 0}, 30)
        wait_for(lambda: "can be written again" in far.said, 30)
        far.until_acked(far.acked + 100)
        (tmp_path / "over").touch()
        assert far.wait() == 0, far.said
        assert reference.series(behind(tmp_path), "i") == list(range(far.acked + 1))
        assert reference.missing(behind(tmp_path)) == {(0, 1): []}
        assert "cannot write" in far.said


def test_far_files_that_fail_to_close_lose_nothing(tmp_path: Path, host: Host) -> None:
    """close(2) and fsync(2) fail from the middle of a run on: training ends as ever, and every record is there."""
    with trainer(tmp_path, STEADY, "csv,jsonl", root=host()) as far:
        far.until_acked(100)
        faults(tmp_path, close=("EIO", 10**6), fsync=("EIO", 10**6))
        far.until_acked(far.acked + 200)
        (tmp_path / "over").touch()
        assert far.wait() == 0, far.said
        assert left(tmp_path)["close"] < 10**6
        assert "Traceback" not in far.said
        assert reference.series(behind(tmp_path), "i") == list(range(far.acked + 1))
        assert chiplog.read(behind(tmp_path)).state == "finished"


def test_a_kill_after_a_far_flush_loses_nothing(tmp_path: Path, host: Host) -> None:
    """flush() has returned true: a kill right after it loses no record there either."""
    point = host()
    code = """
    run = init(id=sys.argv[3])
    for n in range(500):
        run.log({"i": n, "x": n / 7}, step=n)
    if run.flush():
        ack(n)
    os.kill(os.getpid(), signal.SIGKILL)
    """.replace("init(", 'chiplog.init(project="faults", dir=ROOT, sinks="none", ')
    for n in range(count(3, 30)):
        with trainer(tmp_path / str(n), code, f"run-{n}", root=point) as victim:
            assert victim.wait() == -9
            assert victim.acked == 499
            run = tmp_path / "behind" / "runs" / "faults" / f"run-{n}"
            assert reference.series(run, "i") == list(range(500))
            assert reference.records(run, "attempt")[0]["durability"] == "relaxed"


def test_two_far_hosts_that_write_one_run_overwrite_nothing(tmp_path: Path, host: Host) -> None:
    """Two hosts begin the same run at the same moment, with names and sizes that may be a second old: two attempts."""
    code = """
    run = None
    while not os.path.exists("../go"):
        time.sleep(0.001)
    run = init()
    for n in range(300):
        run.log({"w" + sys.argv[3]: n}, step=n)
        time.sleep(0.001)
    """
    for turn in range(count(2, 10)):
        with ExitStack() as stack:
            writers = [
                stack.enter_context(trainer(tmp_path / f"{turn}" / str(n), code, f"{turn}-{n}", root=host()))
                for n in range(2)
            ]
            (tmp_path / f"{turn}" / "go").touch()
            assert [writer.wait() for writer in writers] == [0, 0], writers[0].said + writers[1].said
        assert sorted(reference.streams(behind(tmp_path))) == [(0, 1 + n) for n in range(2 * turn + 2)]
        for n in range(2):
            assert reference.series(behind(tmp_path), f"w{turn}-{n}") == list(range(300))
    assert not any(reference.missing(behind(tmp_path)).values())


def test_a_far_run_is_read_compacted_and_resumed(tmp_path: Path, host: Host) -> None:
    """Without locks, links and shared maps, behind a torn line: the reader, the parts and a new attempt work as ever."""
    near, far = host(), host()
    with trainer(tmp_path, STEADY, "csv,jsonl", root=near) as victim:
        victim.until_acked(300)
        victim.kill_tree()
    [segment] = (behind(tmp_path) / "journal").glob("*.jsonl")
    whole = len(reference.series(behind(tmp_path), "i"))
    os.truncate(segment, segment.stat().st_size - 20)
    run = far / "runs" / "faults" / "run"
    stored = chiplog.read(run)
    assert stored.series("i").exact == list(range(whole - 1))
    assert [(one.start, one.end) for one in stored.damage] == reference.damage(behind(tmp_path))
    with chiplog.init(project="faults", id="run", dir=far / "runs", sinks="none", resume="must") as again:
        again.log({"i": whole - 1, "x": 0.0}, step=whole - 1)
    subprocess.run([sys.executable, "-m", "chiplog", "compact", "--quiet", str(run)], check=True, timeout=60)
    assert list((behind(tmp_path) / "parts").glob("*.points.parquet"))
    assert chiplog.read(run).series("i").exact == list(range(whole))
    assert reference.series(behind(tmp_path), "i") == list(range(whole))
