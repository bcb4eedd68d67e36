"""Runs that were received: whatever their parts, folders and files say costs an error at most, and no other run."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import chiplog
from chiplog.store.journal import lines
from tests.faults.hostile_parts import CHANGES, damage
from tests.faults.hostile_runs import CONTROL, command
from tests.support.memory import peak

SOURCE = Path(chiplog.__file__).parent
HERE = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{SOURCE.parent}"}


@pytest.fixture
def received(tmp_path: Path) -> Path:
    """A run that somebody else made, beside a good one of our own."""
    for name in ("good", "received"):
        with chiplog.init("p", dir=tmp_path / "runs", id=name, sinks="none", compact=False) as run:
            for step in range(5):
                with run.span("step"):
                    run.log({"train/loss": 1.0 / (step + 1), "big": 2**60 + 1, "flag": True}, step=step)
            run.eval({"accuracy": 0.5}, step=4)
            run.table("samples", [{"a": 1}])
            run.alert("hot", text="very")
    return tmp_path / "runs" / "p" / "received"


@pytest.mark.parametrize("change", CHANGES)
def test_a_part_that_is_not_ours_is_not_believed(received: Path, change: str) -> None:
    """Its segment is read instead: the values are right, nothing raises, and the other run is listed."""
    damage(received, random.Random(1), change)
    stored = chiplog.read(received)
    if change not in TAKEN:
        assert stored.series("train/loss").values.tolist() == pytest.approx([1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
        assert [record.title for record in stored.contents("alert").alerts] == ["hot"]
    root = ["--dir", str(received.parents[1])]
    for words in (
        ["ls", "--json"],
        ["ls", "--columns", "train/loss"],
        ["show", str(received)],
        ["trace", str(received)],
    ):
        printed, error = command([*root, *words])
        assert not error, (words, error)
        assert not CONTROL.search(printed)
        assert words[0] != "ls" or "good" in printed


# What a part says of itself is believed as far as it can be: these lie about what no checksum can tell.
TAKEN = {"points with odd names", "points with odd last", "points with an odd description", "rows with odd kind"}


def test_one_run_that_cannot_be_read_does_not_hide_the_others(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a reader raises: the list has the good run, and the other as damaged."""
    real = chiplog.store.reader.Stored.summary

    def summary(stored: chiplog.store.reader.Stored) -> object:
        if stored.path.name == "received":
            raise KeyError("an error that nobody has thought of")
        return real.__get__(stored)

    monkeypatch.setattr("chiplog.store.reader.Stored.summary", property(summary))
    printed, error = command(["--dir", str(received.parents[1]), "ls", "--json"])
    listed = {one["id"]: one["state"] for one in msgspec.json.decode(printed)}
    assert not error and listed == {"good": "finished", "received": "damaged"}


@pytest.mark.parametrize("verb", ["show", "compact", "doctor", "sync"])
def test_a_small_file_of_many_bad_lines_is_bounded(received: Path, verb: str) -> None:
    """48 KB of zstd with 512 MiB of lines that are not records: seconds, and little memory."""
    with pa.CompressedOutputStream(str(received / "journal" / "r00000-a02-0000.jsonl.zst"), "zstd") as file:
        for _ in range(512):
            file.write(b"x\n" * (1 << 19))
    more = ["--to", "jsonl", "--quiet"] if verb == "sync" else []
    program = "import sys; from tests.faults.test_received import call; call(sys.argv[1:])"
    words = [sys.executable, "-c", program, verb, str(received), *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=110, check=False, env=HERE)
    assert done.returncode == 0, done.stderr[-2000:]


def call(words: list[str]) -> None:
    """Call a verb; more than 400 MiB of memory is an error."""
    _, error = command(words)
    assert not error, error
    assert peak() < 400, f"{peak()} MiB"


@pytest.mark.parametrize("words", [["show"], ["doctor"], ["report", "--only", "report"]])
def test_folders_inside_each_other_are_bounded(received: Path, words: list[str]) -> None:
    """1,500 of them are neither followed to the end nor an error of Python."""
    (received / "files").mkdir(exist_ok=True)
    opened = [os.open(received / "files", os.O_RDONLY)]
    for _ in range(1500):  # the path would be too long
        os.mkdir("n", dir_fd=opened[-1])
        opened.append(os.open("n", os.O_RDONLY, dir_fd=opened[-1]))
        os.close(opened.pop(0))
    os.close(opened.pop())
    try:
        printed, error = command([words[0], str(received), *words[1:]])
        assert not error, error
        assert words[0] != "doctor" or "nested more than 64 deep" in " ".join(printed.split())
    finally:  # pytest's own cleaning recurses
        subprocess.run(["rm", "-rf", str(received / "files")], check=True)


STEERS = "\x1b]0;owned\x07\x9b31m\u202egnp\u2066"
CALLS = [
    'chiplog.read("nosuch", dir=root)', 'chiplog.read("*", dir=root)', 'chiplog.read("nosuch/*", dir=root)',
    'chiplog.runs(root, project="zz")', 'str(chiplog.runs(root).unreadable)', 'repr(chiplog.runs(root))',
    'repr(run)', 'str(run.damage)', 'repr(run.series(STEERS))', 'run.series("zz")', 'run.series(STEERS, rank=99)',
    'run.table("zz")', 'repr(run.table(STEERS))', 'repr(run.spans())', 'run.spans(rank=99)', 'run.spans().zz',
    'run.series(STEERS, attempt=99)', 'repr(run.alerts)', 'chiplog.read(root / STEERS)', 'chiplog.read("p/*", dir=root)',
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_errors_and_reprs_steer_no_terminal(received: Path, call: str) -> None:
    """Whatever a run and its names are: the Python interface shows control characters as visible escapes."""
    with chiplog.init("p", dir=received.parents[1], id="odd", name=STEERS, sinks="none", compact=False) as made:
        made.log({STEERS: 1.0, "b": 2.0}, step=1)
        made.table(STEERS, [{STEERS: 1}])
        with made.span(STEERS):
            made.alert(STEERS, text=STEERS)
    for number in range(2):
        shutil.copytree(made.dir, received.parents[1] / STEERS / f"{STEERS}{number}")
    root = received.parents[1]
    run = chiplog.read(root / STEERS / f"{STEERS}0")
    try:
        shown = str(eval(call, {"chiplog": chiplog, "root": root, "run": run, "STEERS": STEERS}))
    except Exception as error:
        shown = str(error) + "".join(traceback.format_exception_only(error))
    assert not CONTROL.search(shown), ascii(shown)


def test_names_of_files_that_are_not_utf8_are_shown(received: Path) -> None:
    """In the page and in its JSON."""
    for folder, ending in (("files", b""), ("cursors", b".json")):
        (received / folder).mkdir(exist_ok=True)
        Path(os.fsdecode(os.fsencode(received / folder) + b"/caf\xe9" + ending)).write_bytes(b"x")
    for more in ([], ["--json"]):
        printed, error = command(["show", str(received), *more])
        assert not error and "caf" in printed


@pytest.mark.parametrize("key", ["r00000x-a01", "rX", "", "r" + "9" * 6000])
def test_positions_that_name_no_journal_break_no_verb(received: Path, key: str) -> None:
    """They are reported, and `compact --prune` keeps what a sink may still need."""
    (received / "cursors").mkdir(exist_ok=True)
    cursor = {"positions": {key: [0, 0, -1]}, "state": {}}
    (received / "cursors" / "csv.json").write_bytes(lines.sealed(msgspec.json.encode(cursor)))
    for words in (["show", str(received)], ["doctor", str(received)], ["compact", str(received), "--prune"]):
        _, error = command(words)
        assert not error, (words, error)
    assert (received / "journal" / "r00000-a01-0000.jsonl").exists()
