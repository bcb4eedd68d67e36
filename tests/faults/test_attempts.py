"""Several attempts of one run: one after the other, and at the same time."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from zlib import crc32

import pytest

import chiplog

from . import reference
from .harness import PATIENCE, Trainer, count, trainer

pytestmark = pytest.mark.timeout(PATIENCE)


WRITER = """
go, stop = (os.path.join(sys.argv[4], name) for name in ("go", "stop"))
while not os.path.exists(go):
    time.sleep(0.001)
run = init()
for n in range(200):
    run.log({"w" + sys.argv[3]: n}, step=n)
ack(199)
while not os.path.exists(stop):
    time.sleep(0.01)
"""


def check_writers(folder: Path, roots: list[Path]) -> None:
    """Begin the same run at the same moment, once for every root, beside a dead attempt whose pid is another's now."""
    with trainer(folder / "dead", "run = init(); run.log({'i': 0}); ack(0); time.sleep(60)", root=roots[0]) as dead:
        dead.until_acked(0)
        dead.kill_tree()
    give_pid_away(dead)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(trainer(folder / str(n), WRITER, str(n), str(folder), root=root))
            for n, root in enumerate(roots)
        ]
        (folder / "go").touch()
        for writer in writers:
            writer.until_acked(199, 60)
        stored = chiplog.read(dead.run)
        assert [one.state for one in stored.attempts] == ["killed"] + ["running"] * len(roots)
        assert stored.state == "running"
        (folder / "stop").touch()
        assert {writer.wait() for writer in writers} == {0}
    assert sorted(reference.streams(dead.run)) == [(0, attempt + 1) for attempt in range(len(roots) + 1)]
    for n in range(len(roots)):
        assert reference.series(dead.run, f"w{n}") == list(range(200))
        assert stored.series(f"w{n}").exact == list(range(200))
    assert not any(reference.missing(dead.run).values())
    assert [one.state for one in stored.attempts] == ["killed"] + ["finished"] * len(roots)


@pytest.mark.parametrize("writers", [2, 8])
def test_writers_of_one_run_overwrite_nothing(tmp_path: Path, writers: int) -> None:
    """Processes that begin the same run at the same moment: an attempt each, all readable, all shown."""
    check_writers(tmp_path, [tmp_path / "shared"] * writers)


def test_writers_through_a_bind_mount_overwrite_nothing(tmp_path: Path) -> None:
    """The same when some of them know the directory by another name, as on two hosts that mount one disk."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a bind mount needs root and mount(8)")
    shared, bound = tmp_path / "shared", tmp_path / "bound"
    shared.mkdir()
    bound.mkdir()
    if subprocess.run(["mount", "--bind", shared, bound], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root make a bind mount")
    try:
        check_writers(tmp_path, [shared, bound, shared, bound])
    finally:
        subprocess.run(["umount", "-l", bound], check=True)


def test_a_run_that_crashes_and_resumes_again_and_again(tmp_path: Path) -> None:
    """Ten times resumed, stepped back and killed: all is kept, and the view takes the newer from its first step.

    Ten times as many attempts take about ten times as long to open, and no more.
    """
    code = """
    run = init()
    first = 10 * int(sys.argv[3])
    for n in range(first, first + 20):
        run.log({"i": n, "attempt": int(sys.argv[3])}, step=n)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    times = count(10, 100)
    for attempt in range(times):
        with trainer(tmp_path, code, str(attempt)) as crashing:
            assert crashing.wait() == -9
        if attempt + 1 == times // 10:
            few = time_to_open(crashing.run)
    many = time_to_open(crashing.run)
    print(f"opened in {few * 1e3:.1f} ms with {times // 10} attempts, in {many * 1e3:.1f} ms with {times}")
    assert many < 10 * few * 2
    streams = reference.streams(crashing.run)
    assert len(streams) == times
    assert all(len([row for row in stream if row["log"] == "step"]) == 20 for stream in streams.values())
    stored = chiplog.read(crashing.run)
    assert len(stored.attempts) == times
    assert {one.state for one in stored.attempts} == {"killed"}
    assert stored.series("i").exact == list(range(10 * times + 10))
    assert stored.series("attempt").exact == [min(n // 10, times - 1) for n in range(10 * times + 10)]
    assert stored.series("i", attempt=3).exact == list(range(20, 40))


def time_to_open(run: Path) -> float:
    """Seconds of this thread's processor, whoever else is busy: of a series and all it needs, the least of five."""

    def once() -> float:
        began = time.thread_time()
        assert len(chiplog.read(run).series("i"))
        return time.thread_time() - began

    return min(once() for _ in range(5))


def test_values_of_attempts_do_not_mix(tmp_path: Path) -> None:
    """Both attempts number their records from zero; a value that needs its exact text is still only its own."""
    for values, first in (([True, 2**60 + 1, False], 0), ([0.25, 0.5, 0.75], 3)):
        run = chiplog.init(project="faults", id="mixed", sinks="none", dir=tmp_path)
        for n, value in enumerate(values):
            run.log({"v": value}, step=first + n)
        run.finish()
    found = chiplog.read(run.dir).series("v").exact
    assert [repr(value) for value in found] == ["True", str(2**60 + 1), "False", "0.25", "0.5", "0.75"]


def test_a_reused_pid_is_not_mistaken_for_the_run(tmp_path: Path) -> None:
    """A run whose pid now belongs to another process was killed, and is not running."""
    with trainer(tmp_path, "run = init(); run.log({'i': 0}); ack(0); time.sleep(60)") as victim:
        victim.until_acked(0)
        assert chiplog.read(victim.run).state == "running"
        victim.kill_tree()
    give_pid_away(victim)
    assert chiplog.read(victim.run).state == "killed"


def give_pid_away(dead: Trainer) -> None:
    """Let the only attempt of a run have the pid of a process that lives."""
    [segment] = (dead.run / "journal").glob("*.jsonl")
    attempt, *rest = segment.read_bytes().splitlines(keepends=True)
    head = attempt[: attempt.rindex(b',"crc"')].replace(b'"pid":%d' % dead.process.pid, b'"pid":1')
    segment.write_bytes(head + b',"crc":%d}\n' % crc32(head) + b"".join(rest))
