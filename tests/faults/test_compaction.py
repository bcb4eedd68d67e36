"""Compaction that is killed, doubled, starved of disk or disturbed loses nothing, and a run reads the same at every moment."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import chiplog
from chiplog.core.records import Eval
from chiplog.store import layout
from chiplog.store.journal.lines import line_of
from chiplog.store.parts import compaction
from chiplog.store.parts.part import load
from tests.faults.harness import PATIENCE, count
from tests.faults.mounts import need

ROWS = 6000

# Compacts a run again and again in children that are killed at random moments, and reads it in between.
KILLER = """
import os, random, shutil, signal, sys, time
from pathlib import Path
import numpy as np
import chiplog
from chiplog.store import layout
from chiplog.store.parts import compaction
run, rounds, links = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "links"
if not links:
    def link(*_, **__):
        raise PermissionError(1, "Operation not permitted")
    os.link = link

def compact(at_once=1):
    children = []
    for _ in range(at_once):
        child = os.fork()
        if not child:
            try:
                for segment in layout.segments(run):
                    compaction.compact(run, segment)
            finally:
                os._exit(0)
        children.append(child)
    return children

def check():
    stored = chiplog.read(run)
    series = stored.series("x")
    assert np.array_equal(series.values, np.arange(len(series))) and len(series) == ROWS, len(series)
    assert [record.seq for record in stored.records("eval")] == evals, "evaluations"
    assert stored.damage == [] and stored.missing == {}, (stored.damage, stored.missing)

ROWS = int(sys.argv[4])
evals = [record.seq for record in chiplog.read(run).records("eval")]
began = time.monotonic()
for child in compact():
    os.waitpid(child, 0)
took = time.monotonic() - began
check()
chance, halves = random.Random(rounds), 0
for round in range(rounds):
    if round % 2 == 0:
        shutil.rmtree(run / "parts")
    children = compact(at_once=1 + round % 2)
    time.sleep(chance.uniform(0, took))
    check()
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    check()
    done = len(list((run / "parts").glob("*.points.parquet"))) if (run / "parts").exists() else 0
    halves += 0 < done < len(layout.segments(run)) or bool(list((run / "parts").glob(".*")))
for child in compact(at_once=2):
    os.waitpid(child, 0)
check()
assert len(list((run / "parts").glob("[!.]*.points.parquet"))) == len(layout.segments(run))
print("caught in the middle", halves)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run of four segments."""
    with chiplog.init("faults", id="run", dir=tmp_path / "runs", sinks="none", compact=False, alerts=False) as one:
        for step in range(ROWS):
            one.log({"x": float(step), **{f"y/{number}": step / 7 for number in range(10)}}, step=step)
            if step % 500 == 0:
                one.eval({"loss": 1.0}, step=step)
    first = Path(one.dir) / "journal" / "r00000-a01-0000.jsonl"
    lines = first.read_bytes().splitlines(keepends=True)
    for number in range(4):
        piece = lines[number * len(lines) // 4 : (number + 1) * len(lines) // 4]
        first.with_name(f"r00000-a01-{number:04d}.jsonl").write_bytes(b"".join(piece))
    return Path(one.dir)


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("links", ["links", "no links"])
def test_a_killed_compaction_leaves_a_run_that_reads_the_same(run: Path, links: str) -> None:
    """Killed at random moments, alone and two at once, over what others have left; with `link` and without."""
    rounds = count(6, 100)
    words = [sys.executable, "-c", KILLER, str(run), str(rounds), links, str(ROWS)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) >= count(0, 20), "the kills missed the compaction"


def test_what_a_killed_compaction_left_of_a_segment_that_grew_is_not_used(run: Path) -> None:
    """A part is made of one compaction: the files of the killed one are replaced, and never mixed with others."""
    segment = layout.segments(run)[-1]
    assert compaction.compact(run, segment)
    old = {path.name: path.read_bytes() for path in (run / "parts").iterdir()}
    (run / "parts" / f"{segment.stem}.points.parquet").unlink()  # killed right before the last file
    last = max(record.seq for record in chiplog.read(run).records())
    with (run / "journal" / segment.filename).open("ab") as file:
        file.write(line_of(Eval(last + 1, last, 9, {"loss": 0.5})))
    assert compaction.compact(run, segment)
    assert [record.seq for record in chiplog.read(run).records("eval")][-1] == last + 1
    (run / "parts" / f"{segment.stem}.rows.parquet").write_bytes(old[f"{segment.stem}.rows.parquet"])
    assert [record.seq for record in chiplog.read(run).records("eval")][-1] == last + 1, "an older file is not believed"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    need("umount")
    point = tmp_path / "disk"
    point.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(point)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def test_a_full_disk_stops_compaction_and_nothing_else(run: Path, disk: Path) -> None:
    """It is reported, nothing stays behind, and the run reads the same; with room, it is compacted."""
    run = Path(shutil.copytree(run, disk / "p" / "run"))
    values = chiplog.read(run).series("x").values.tolist()
    filler = disk / "filler"
    fd = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space left"):
        while True:
            os.write(fd, bytes(4096))
    os.ftruncate(fd, max(0, os.fstat(fd).st_size - (40 << 10)))
    os.close(fd)
    done = _compact(run)
    assert done.returncode == 2 and "No space left" in done.stderr
    assert not list((run / "parts").glob(".*"))
    assert not all(layout.has_part(run, segment) for segment in layout.segments(run))
    assert chiplog.read(run).series("x").values.tolist() == values
    filler.unlink()
    assert _compact(run).returncode == 0
    assert all(layout.has_part(run, segment) for segment in layout.segments(run))
    assert chiplog.read(run).series("x").values.tolist() == values


def test_a_run_that_cannot_be_written_is_read_and_left_as_it_is(run: Path, disk: Path, tmp_path: Path) -> None:
    """On a file system that is mounted read-only: `compact` says so, and readers use their own cache."""
    run = Path(shutil.copytree(run, disk / "p" / "run"))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    done = _compact(run)
    assert done.returncode == 2 and "not writable" in done.stderr
    assert len(chiplog.read(run).series("x")) == ROWS
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "chiplog", "show", str(run)]
    shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120, env=environ).stdout
    assert f"{ROWS:,}" in shown and not (run / "parts").exists()


def test_a_segment_that_is_damaged_while_it_is_compacted_gives_no_wrong_value(run: Path) -> None:
    """A record is read as it was written, once, or reported as damage; a part never has both."""
    segment = layout.segments(run)[1]
    journal = run / "journal" / segment.filename
    whole, chance = journal.read_bytes(), random.Random(1)
    written = chiplog.read(run).series("x").values.tolist()
    for _ in range(count(6, 100)):
        shutil.rmtree(run / "parts", ignore_errors=True)
        journal.write_bytes(whole)
        code = "import sys; from pathlib import Path; from chiplog.store.layout import Segment\n"
        code += "from chiplog.store.parts import compaction\nprint('ready', flush=True); sys.stdin.readline()\n"
        code += f"compaction.compact(Path(sys.argv[1]), Segment{tuple(segment)})"
        words = [sys.executable, "-c", code, str(run)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
            assert child.stdin is not None and child.stdout is not None and child.stdout.readline()
            child.stdin.write(b"\n")
            with journal.open("r+b") as file:
                for _ in range(5):
                    at = chance.randrange(len(whole))
                    file.seek(at)
                    file.write(bytes([whole[at] ^ 0x20]))
                    file.flush()
            assert child.wait(60) == 0
        part = load(run, segment)
        assert part is not None
        kept = chiplog.read(run).series("x").values.tolist()
        lost = len(written) - len(kept)
        assert sorted(set(kept) & set(written)) == kept, "every value was written, and is there once"
        assert lost <= 2 * len(part.about.damage)


def _compact(run: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "chiplog", "compact", str(run)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
