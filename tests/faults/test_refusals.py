"""A disk that refuses: at the door, for a moment, for a while, at the last record, slowly, or by a kill in its middle."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

import chiplog
from tests.support.waiting import wait_for

from . import reference
from .harness import FULL, PATIENCE, STEADY, trainer
from .injection import NO_GIT, RECORDS, SEGMENTS, TRAIN, failing, injected, rows, segments, segments_of, strace

pytestmark = pytest.mark.timeout(PATIENCE)


@pytest.mark.parametrize("error", ["EIO", "EACCES", "ENOSPC"])
@pytest.mark.parametrize("call", ["/^mkdir", "openat", "%fstat"])
def test_a_journal_that_cannot_be_opened_is_said_at_the_door(tmp_path: Path, call: str, error: str) -> None:
    """Asked once more, the disk lets the run begin. Refused for good, `init` says so, by an error of ours."""
    code = """
    try:
        run = init()
    except chiplog.ChiplogError as error:
        sys.exit(f"at the door: {error}")
    for n in range(3):
        run.log({"i": n}, step=n)
    """
    for when, refused in (("1", False), ("1+", True)):
        folder = tmp_path / when
        run = folder / "runs" / "faults" / "run"
        paths = segments(folder) if call == "openat" else (run / "journal",)
        under = (*strace(folder, call, f"error={error}:when={when}", paths), "--seccomp-bpf")
        with trainer(folder, code, under=under, env=NO_GIT) as victim:
            ended, said = victim.wait(), victim.said
            assert injected(folder)
            assert "Traceback" not in said
            if refused:
                assert ended == 1 and f"at the door: cannot write {run}" in said and "init(dir=...)" in said
            else:
                assert ended == 0 and rows(victim.run) == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ("openat", "journal"),
        ("openat", "journal/r00000.reserve"),
        ("write", "journal/r00000.reserve"),
        ("/^unlink", "journal/r00000.reserve"),
    ],
)
def test_what_stands_beside_the_journal_may_fail(tmp_path: Path, call: str, path: str) -> None:
    """Neither the reserve nor the list of names is needed to keep every record."""
    beside = tmp_path / "runs" / "faults" / "run" / path
    under = (*strace(tmp_path, call, "error=EIO", (beside,)), "--seccomp-bpf")
    with trainer(tmp_path, TRAIN, "process", "write", "-1", under=under, env=NO_GIT) as victim:
        assert victim.wait() == 0
        assert injected(tmp_path)
        assert victim.said.startswith("finishing"), victim.said
        assert rows(victim.run) == list(range(RECORDS))
        assert chiplog.read(victim.run).state == "finished"


def test_a_description_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    """A directory stands where `run.json` should be: the run is recorded all the same, and said to be so."""
    (tmp_path / "runs" / "faults" / "run" / "run.json").mkdir(parents=True)
    with trainer(tmp_path, TRAIN, "process", "write", "-1") as victim:
        assert victim.wait() == 0
        assert victim.said.count("run.json: Is a directory; the journal has it too") == 1, victim.said
        assert rows(victim.run) == list(range(RECORDS))
        assert chiplog.read(victim.run).state == "finished"


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_writes_that_fail_for_a_moment_lose_nothing(tmp_path: Path, error: str) -> None:
    """The N-th write of each thread and the two after it fail: every record is there in the end."""
    for when in range(1, 101) if FULL else (1, 3, 40):
        folder = tmp_path / str(when)
        under = strace(folder, "write", f"error={error}:when={when}..{when + 2}")
        with trainer(folder, TRAIN, "process", "write", "-1", under=under, env=NO_GIT) as shaken:
            assert shaken.wait() == 0
            assert injected(folder) >= 3
            assert rows(shaken.run) == list(range(RECORDS)), shaken.said
            assert chiplog.read(shaken.run).state == "finished"
            assert reference.missing(shaken.run) == {(0, 1): []}


def test_the_last_record_is_written_again_too(tmp_path: Path) -> None:
    """The write of the finish record fails twice: there is a moment more for it."""
    wait = "ack(1000)\nwhile not os.path.exists('go'):\n    time.sleep(0.001)\nprint("
    code = TRAIN.replace("print(", wait, 1)
    with trainer(tmp_path, code, "process", "write", "-1", env=NO_GIT) as shaken:
        shaken.until_acked(1000)
        with failing(shaken, tmp_path, "write", "error=EIO:when=1..2"):
            (tmp_path / "go").touch()
            assert shaken.wait() == 0
        assert injected(tmp_path) == 2
        assert rows(shaken.run) == list(range(RECORDS)), shaken.said
        assert chiplog.read(shaken.run).state == "finished", shaken.said
        assert shaken.missing_said == 0


def test_a_journal_is_never_truncated(tmp_path: Path) -> None:
    """There is no call that could cut a segment, so none that could fail."""
    under = strace(tmp_path, "truncate,ftruncate,fallocate", "error=EIO", segments(tmp_path, SEGMENTS))
    with trainer(tmp_path, TRAIN, "process", "openat", "-1", under=(*under, "--seccomp-bpf"), env=NO_GIT) as whole:
        assert whole.wait() == 0
        assert injected(tmp_path) == 0
        assert rows(whole.run) == list(range(RECORDS))
        assert len(segments_of(whole.run)) > 100


def test_a_process_without_descriptors_goes_on_in_the_old_segment(tmp_path: Path) -> None:
    """All descriptors are taken: records go on, it is said once, and the next segment begins when one is free."""
    code = """
    import resource
    from chiplog.store.journal import segment_file

    run = init()
    while not any(event.name == "environment" for event in chiplog.read(run.dir).records("event")):
        time.sleep(0.01)
    before = run.engine.journal.segment.number
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        os.close(taken.pop())  # one is left: enough to make a segment, and not to change over to it
    segment_file.SEGMENT_BYTES = 1
    for n in range(50):
        run.log({"i": n}, step=n)
        run._background.wake()
        time.sleep(0.002)
    assert run.engine.journal.segment.number == before
    for fd in taken:
        os.close(fd)
    deadline = time.monotonic() + 30
    while run.engine.journal.segment.number == before and time.monotonic() < deadline:
        run._background.wake()
        time.sleep(0.002)
    run.log({"i": 50}, step=50)
    """
    with trainer(tmp_path, code, env=NO_GIT) as full:
        assert full.wait() == 0, full.said
        assert rows(full.run) == list(range(51))
        assert full.said.count("Too many open files") == 1, full.said
        assert len(segments_of(full.run)) > 1
        assert chiplog.read(full.run).state == "finished"


@pytest.mark.parametrize("error", ["EROFS", "EIO"])
def test_a_disk_that_refuses_for_a_while_is_written_again(tmp_path: Path, error: str) -> None:
    """Refused until a message came and 200 records more, then let go: all of them are there without anybody's help."""
    with trainer(tmp_path, STEADY) as steady:
        steady.until_acked(50)
        with failing(steady, tmp_path, "write", f"error={error}:when=1+"):
            wait_for(lambda: "cannot write" in steady.said, 30)
            steady.until_acked(steady.acked + 200)
        wait_for(lambda: "can be written again" in steady.said, 30, steady.said)
        steady.until_acked(steady.acked + 50)
        (tmp_path / "stop").touch()
        assert steady.wait() == 0
        assert rows(steady.run) == list(range(steady.acked + 1))
        assert steady.said.count("cannot write") == steady.said.count("can be written again") == 1
        assert reference.missing(steady.run) == {(0, 1): []}
        assert chiplog.read(steady.run).state == "finished"


# The first forty records, then the file `go` is waited for, then the others, while the keeper syncs all the time.
IN_TWO = """
from chiplog.store.journal import segment_file

segment_file.BEAT = 0.0
run = init()
def log(n):
    before = time.monotonic()
    run.log({"i": n}, step=n)
    took.append(time.monotonic() - before)
    ack(n)
    run._background.wake()
    time.sleep(0.01)
took = []
for n in range(40):
    log(n)
while not os.path.exists("go"):
    time.sleep(0.01)
took.clear()
for n in range(40, 150):
    log(n)
print("slow calls", sum(1 for one in took if one > 0.19), file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("call", ["write,fdatasync", "fdatasync"])
def test_a_slow_disk_costs_one_slow_write(tmp_path: Path, call: str) -> None:
    """Writes and syncs of 200 ms are handed to the background: the caller waits for one write, and nothing is lost.

    A processor that is busy elsewhere may hide that, or make another call slow, so up to five of 110 are allowed."""
    with trainer(tmp_path, IN_TWO, env=NO_GIT) as slow:
        slow.until_acked(39)
        with failing(slow, tmp_path, call, "delay_enter=200000:when=1+"):
            (tmp_path / "go").touch()
            assert slow.wait() == 0
        assert rows(slow.run) == list(range(150))
        assert (tmp_path / "trace").read_text().count("fdatasync(") > 1
        slow_calls = int(slow.said.rpartition("slow calls ")[2])
        assert ("write" in call) <= slow_calls <= 5
        assert "missing" not in slow.said


KILLED_AT = """
from chiplog.store.journal import writer

writer.SLOW = 1 << 60
run = init()
for n in range(210):
    run.log({"i": n, "x": n / 7}, step=n)
    ack(n)
"""


def test_a_kill_at_the_nth_write_loses_only_that_record(tmp_path: Path) -> None:
    """The process is killed in the N-th write: all before it are there, nothing is torn, and the run goes on."""
    for when in range(1, 201) if FULL else (1, 2, 3, 4, 20, 77, 150, 200):
        folder = tmp_path / str(when)
        under = strace(folder, "write", f"signal=KILL:when={when}")  # which --seccomp-bpf would not send
        with trainer(folder, KILLED_AT, under=under, env=NO_GIT) as victim:
            assert victim.wait() == -signal.SIGKILL
            kept = rows(victim.run)
            assert victim.acked + 1 == len(kept) == max(0, when - 3)  # after the attempt and the config
            assert kept == list(range(len(kept)))
            assert reference.damage(victim.run) == []
            assert when == 1 or chiplog.read(victim.run).state == "killed"
        again = chiplog.init(project="faults", id="run", dir=victim.dir, sinks="none", resume="must")
        again.log({"i": len(kept), "x": len(kept) / 7}, step=len(kept))
        assert again.finish()
        assert rows(victim.run) == list(range(len(kept) + 1))
        assert reference.series(victim.run, "x") == [n / 7 for n in rows(victim.run)]
        assert chiplog.read(victim.run).attempts[-1].state == "finished"
        shutil.rmtree(folder)
