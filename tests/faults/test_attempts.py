"""Several attempts of one run: one after the other, and at the same time."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from zlib import crc32

import pytest

import chiplog

from . import reference
from .harness import PATIENCE, count, trainer

pytestmark = pytest.mark.timeout(PATIENCE)


def test_four_writers_of_one_run_overwrite_nothing(tmp_path: Path) -> None:
    """Four processes begin the same run at the same moment: four attempts, all readable, all shown."""
    code = """
    while not os.path.exists(os.path.join(ROOT, "go")):
        time.sleep(0.001)
    run = init()
    for n in range(200):
        run.log({"w" + sys.argv[3]: n}, step=n)
    ack(199)
    until = os.path.join(ROOT, "stop")
    while not os.path.exists(until):
        time.sleep(0.01)
    """
    root = tmp_path / "shared"
    (root / "runs").mkdir(parents=True)
    with ExitStack() as stack:
        writers = [stack.enter_context(trainer(tmp_path / str(n), code, str(n), root=root)) for n in range(4)]
        (root / "runs" / "go").touch()
        for writer in writers:
            writer.until_acked(199)
        (root / "runs" / "stop").touch()
        assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    run = writers[0].run
    assert sorted(reference.streams(run)) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    stored = chiplog.read(run)
    for n in range(4):
        assert reference.series(run, f"w{n}") == list(range(200))
        assert stored.series(f"w{n}").exact == list(range(200))
    assert {len(stream) for stream in reference.missing(run).values()} == {0}


def test_a_run_that_crashes_and_resumes_again_and_again(tmp_path: Path) -> None:
    """Ten times resumed, stepped back and killed: all is kept, and the view takes the newer from its first step."""
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
    streams = reference.streams(crashing.run)
    assert len(streams) == times
    assert all(len([row for row in stream if row["log"] == "step"]) == 20 for stream in streams.values())
    stored = chiplog.read(crashing.run)
    assert {one.state for one in stored.attempts} == {"killed"}
    assert stored.series("i").exact == list(range(10 * times + 10))
    assert stored.series("attempt").exact == [min(n // 10, times - 1) for n in range(10 * times + 10)]
    assert stored.series("i", attempt=3).exact == list(range(20, 40))


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
    [segment] = (victim.run / "journal").glob("*.jsonl")
    attempt, *rest = segment.read_bytes().splitlines(keepends=True)
    head = attempt[: attempt.rindex(b',"crc"')].replace(b'"pid":%d' % victim.process.pid, b'"pid":1')
    segment.write_bytes(head + b',"crc":%d}\n' % crc32(head) + b"".join(rest))
    assert chiplog.read(victim.run).state == "killed"
