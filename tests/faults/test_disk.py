"""Disks that are full, broken, gone or not ours any more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import chiplog
from tests.support.waiting import wait_for

from . import reference
from .harness import COUNTED, FULL, PATIENCE, STEADY, Trainer, trainer

pytestmark = pytest.mark.timeout(PATIENCE)

SEGMENT = "journal/r00000-a01-0000.jsonl"

# Logs until the disk refuses and `more` records beyond, says when that was, and goes on when the file `go` appears.
KNOWN = """
def known():
    return any(event.name == "environment" for event in chiplog.read(run.dir).records("event"))
while not known() and not run.health()["journal"]["trouble"]:
    time.sleep(0.01)
"""
UNTIL_FULL = f"""
run = init()
{KNOWN}
n = 0
def log():
    global n
    run.log({{"i": n, "x": 0.1 * n}}, step=n)
    n += 1
    ack(n)
while not run.health()["journal"]["trouble"]:
    log()
print("refused at", time.monotonic(), file=sys.stderr, flush=True)
for _ in range(20_000):
    log()
"""
WAIT = """
while not os.path.exists("go"):
    time.sleep(0.01)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tmpfs needs root and mount(8)")
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def frail_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB that the kernel makes read-only at its first error."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("making an ext4 on a loop device needs root and e2fsprogs")
    disk, image = tmp_path / "disk", tmp_path / "image"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    words = ["mount", "-o", "loop,errors=remount-ro", str(image), str(disk)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a loop device")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def said_in_time(full: Trainer) -> None:
    """The message comes within 2 s of the first refusal."""
    wait_for(lambda: "refused at" in full.said or full.process.poll() is not None, 30)
    wait_for(lambda: "cannot write" in full.said, 2, full.said)


def rows(run: Path) -> list[int]:
    return reference.series(run, "i")


def test_a_full_disk_does_not_stop_training(small_disk: Path) -> None:
    """Log until the disk is full and 20,000 more: exit code 0, one message, a finish record, and the gap is exact."""
    with trainer(small_disk.parent, UNTIL_FULL + WAIT, root=small_disk) as full:
        said_in_time(full)
        (small_disk.parent / "go").touch()
        assert full.wait() == 0
        assert full.said.count("cannot write") == 1
        assert f"cannot write {full.run / SEGMENT}: No space left on device. Training continues" in full.said
        assert "are missing: No space left on device; `chiplog show" in full.said
        kept, logged = rows(full.run), full.acked
        missing = reference.missing(full.run)[0, 1]
        assert reference.records(full.run, "finish")[0]["state"] == "finished"
        assert chiplog.read(full.run).state == "finished"
        assert logged - len(kept) == len(missing) == full.missing_said > 1000
        assert chiplog.read(full.run).missing == {"r00000-a01": [(missing[0], missing[-1])]}
        assert reference.records(full.run, "finish")[0]["missing"] == len(missing)


def test_logging_goes_on_when_space_returns(small_disk: Path) -> None:
    """A filler file is deleted while the disk is full: within 5 s all that waited is written, and nothing is lost."""
    filler = small_disk / "filler"
    filler.write_bytes(bytes(900 << 10))
    code = UNTIL_FULL.replace("20_000", "1_000") + WAIT + "log()\n"
    with trainer(small_disk.parent, code, root=small_disk) as full:
        said_in_time(full)
        full.until_acked(1000)
        filler.unlink()
        wait_for(lambda: "can be written again" in full.said, 5, full.said)
        wait_for(lambda: rows(full.run)[-1:] == [full.acked - 1], 5)
        (small_disk.parent / "go").touch()
        assert full.wait() == 0
        assert rows(full.run) == list(range(full.acked))
        assert reference.missing(full.run) == {(0, 1): []}
        assert chiplog.read(full.run).missing == {}


# All sizes from one border between records to the next and beyond, so that a record is torn at each of its bytes.
LIMITS = [*range(1000, 1130), *range(4000, 4130), 30_011, 400_000, 1 << 20]


@pytest.mark.parametrize("limit", LIMITS if FULL else [1000, 1077, 4000, 4013, 4051, 30_011, 400_000])
def test_a_file_size_limit_does_not_stop_training(tmp_path: Path, limit: int) -> None:
    """RLIMIT_FSIZE tears a record and then refuses: what came before is kept, the torn line named, the loss said."""
    limited = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
    with trainer(tmp_path, limited + UNTIL_FULL.replace("20_000", "2_000") + COUNTED) as full:
        said_in_time(full)
        assert full.wait() == 0
        found, kept = reference.records(full.run), rows(full.run)
        assert kept == list(range(len(kept)))
        assert full.missing_said == full.given_out - len(found) > 2000
        assert full.said.count("cannot write") == 1 and "File too large. Training continues" in full.said
        assert (full.run / SEGMENT).stat().st_size == limit
        damage = chiplog.read(full.run).damage
        assert [(one.start, one.end) for one in damage] == reference.damage(full.run)
        assert len(damage) <= 1


def stop(steady: Trainer, folder: Path) -> None:
    steady.until_acked(steady.acked + 20)
    (folder / "stop").touch()
    assert steady.wait() == 0, steady.said
    assert "Traceback" not in steady.said


def test_a_run_directory_deleted_while_training_comes_back(tmp_path: Path) -> None:
    """rm -rf of the run directory: training continues, the journal is written again, and it lacks no record."""
    with trainer(tmp_path, STEADY) as steady:
        steady.until_acked(100)
        shutil.rmtree(steady.run)
        wait_for((steady.run / SEGMENT).exists)
        stop(steady, tmp_path)
        assert rows(steady.run) == list(range(steady.acked + 1))
        assert "was deleted" in steady.said


def test_a_run_directory_that_keeps_being_deleted_does_not_stop_training(tmp_path: Path) -> None:
    """Deleted again and again, the last time without return: no exception, exit code 0, a message."""
    with trainer(tmp_path, STEADY) as steady:
        for _ in range(3):
            steady.until_acked(steady.acked + 50)
            wait_for((steady.run / SEGMENT).exists)
            shutil.rmtree(steady.dir, ignore_errors=True)
        stop(steady, tmp_path)
        assert "was deleted" in steady.said


def test_a_renamed_parent_is_followed(tmp_path: Path) -> None:
    """The project directory is renamed while training: the records are in the renamed one, all of them."""
    with trainer(tmp_path, STEADY) as steady:
        steady.until_acked(50)
        moved = steady.run.parent.rename(steady.dir / "moved") / "run"
        stop(steady, tmp_path)
        assert rows(moved) == list(range(steady.acked + 1))
        assert chiplog.read(moved).state == "finished"


SMALL = "from chiplog.store.journal import segment_file; segment_file.SEGMENT_BYTES = 20_000\n"


@pytest.mark.parametrize("gone", [False, True], ids=["moved", "deleted"])
def test_another_run_in_the_place_of_a_live_one_gets_none_of_its_records(tmp_path: Path, gone: bool) -> None:
    """A live run's directory is moved away or deleted, and a run with the same id starts there: each has its own."""
    with trainer(tmp_path, SMALL + STEADY.replace("init()", 'init(sinks="jsonl")')) as steady:
        steady.until_acked(50)
        wait_for((steady.run / "run.json").exists)
        wait_for((steady.run / "cursors" / "jsonl.json").exists)
        steady.until_acked(steady.acked + 1500)  # its background thread has had a turn, and the next segments
        aside = steady.run.rename(steady.dir / "moved")
        second = chiplog.init(project="faults", id="run", dir=steady.dir, sinks="jsonl", config={"second": True})
        if gone:
            shutil.rmtree(aside)
        second.log({"other": 1}, step=1)
        steady.until_acked(steady.acked + 2000)
        stop(steady, tmp_path)
        second.log({"other": 2}, step=2)
        assert second.finish()
        found = reference.records(steady.run, "step")
        assert [record["metrics"] for record in found] == [{"other": 1}, {"other": 2}]
        assert sorted(path.name for path in (steady.run / "journal").iterdir()) == [Path(SEGMENT).name]
        assert chiplog.read(steady.run).config == {"second": True}
        rows_of_sink = (steady.run / "files" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line).get("i") for line in rows_of_sink if '"step"' in line] == [None, None]
        if gone:
            [left] = steady.run.parent.glob("run-*")
            assert rows(left)[-1] == steady.acked
            assert "another run is there now" in steady.said
        else:
            assert rows(aside) == list(range(steady.acked + 1))
            assert "another run is there now" in steady.said


def test_a_disk_that_turns_read_only_does_not_stop_training(frail_disk: Path) -> None:
    """The kernel finds an error and lets nobody write: a message, exit code 0, all before it kept, the loss exact."""
    folder = frail_disk.parent
    with trainer(folder, STEADY + COUNTED, root=frail_disk) as steady:
        steady.until_acked(100)
        wait_for(lambda: any(event["name"] == "environment" for event in reference.records(steady.run, "event")))
        before = steady.acked
        device = frail_disk.stat().st_dev
        name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
        Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("a test")
        wait_for(lambda: "Read-only file system" in steady.said, 30, steady.said)
        stop(steady, folder)
        kept = rows(steady.run)
        assert kept == list(range(len(kept)))
        assert len(kept) > before
        assert steady.said.count("cannot write") == 1
        assert steady.missing_said == steady.given_out - len(reference.records(steady.run))
        assert steady.missing_said == steady.acked + 1 - len(kept) + 1  # and the finish record


def test_a_directory_made_read_only_does_not_stop_training(tmp_path: Path) -> None:
    """Rights are taken away while training, from one who is not root: what is open stays so, and nothing is lost."""
    code = STEADY
    if os.geteuid() == 0:
        code = STEADY.replace("n = 0", KNOWN + "os.setgid(65534); os.setuid(65534)\nn = 0")
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_uid == 0 and not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o011)
    with trainer(tmp_path, code) as steady:
        steady.until_acked(50)
        for folder in (steady.run / "journal", steady.run, steady.run.parent):
            folder.chmod(0o500)
        stop(steady, tmp_path)
        assert rows(steady.run) == list(range(steady.acked + 1))
        for folder in (steady.run.parent, steady.run, steady.run / "journal"):
            folder.chmod(0o700)
