"""Runs that were received: whatever their parts, folders and files say costs an error at most, and no other run."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import chiplog
from chiplog.core import messages, records
from chiplog.sinks.csv.sink import Csv
from chiplog.store.journal import lines
from chiplog.store.journal.cursors import cursors
from chiplog.store.layout import Segment
from chiplog.store.points import run_points
from chiplog.store.runs import state
from chiplog.views.export import datasets as export_datasets
from chiplog.views.web import queries
from tests.faults.hostile_parts import CHANGES, damage
from tests.faults.hostile_runs import CONTROL, command
from tests.support.memory import peak

ROOT = Path(__file__).parents[2]
SOURCE = Path(chiplog.__file__).parent
HERE = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{SOURCE.parent}"}


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


def bounded(*words: str) -> str:
    """What a verb prints in a process of its own, which may have 400 MiB, and of addresses 4 GiB."""
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2); "
        "from tests.faults.test_received import call; print(call(sys.argv[1:]))"
    )
    process = [sys.executable, "-c", program, *words]
    done = subprocess.run(process, capture_output=True, text=True, timeout=110, check=False, env=HERE)
    assert done.returncode == 0, (words, done.stderr[-2000:])
    return done.stdout


def call(words: list[str]) -> str:
    """Call a verb; more than 400 MiB of memory is an error."""
    printed, error = command(words)
    assert not error, error
    assert peak() < 400, f"{peak()} MiB"
    return printed


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


def write(run: Path, *written: records.Record, rank: int = 0, attempt: int = 2) -> None:
    """Put a journal into a run, as its maker could have written it."""
    path = run / "journal" / Segment(rank, attempt, 0).filename
    path.write_bytes(b"".join(map(lines.line_of, written)))


def start(attempt: int, rank: int = 0, launch: str = "a", **fields: object) -> records.Attempt:
    return msgspec.structs.replace(
        records.Attempt(0, 0, attempt, launch, rank, 1, "elsewhere", 1, 0, "process", "1"), **fields
    )


def test_many_launches_at_once_are_a_list_of_some(received: Path) -> None:
    """Each pair of 6,000 would be 18 million; what is left out is named."""
    lives = [
        state.AttemptState(
            0, at, start(at, launch=f"l{at}"), records.Finish(1, 1 << 40, "finished"), None, 0.0, "killed"
        )
        for at in range(6000)
    ]
    lives = [one._replace(last=one.finish) for one in lives]
    began = time.monotonic()
    pairs = state.two_writers(lives, now=0)
    assert len(pairs) == state.MOST_PAIRS and time.monotonic() - began < 5
    for at in range(20):
        write(received, start(at, launch=f"l{at}"), records.Finish(1, 1 << 40, "finished"), attempt=10 + at)
    for verb in ("show", "doctor"):
        printed, error = command([verb, str(received)])
        assert not error and f"only the first {state.MOST_PAIRS} pairs of launches" in " ".join(printed.split())


def test_a_cursor_of_many_ranks_lists_the_journals_once(received: Path) -> None:
    """100,000 positions, all of ranks without a journal: a second or two, not one listing for each."""
    (received / "cursors").mkdir(exist_ok=True)
    cursor = {"positions": {f"r{rank:05d}-a01": (0, 0, -1) for rank in range(1, 100_001)}, "state": {}}
    (received / "cursors" / "csv.json").write_bytes(lines.sealed(msgspec.json.encode(cursor)))
    began = time.monotonic()
    assert [(one.lag, one.trouble) for one in cursors(received)] == [(0, "")]
    for verb in ("show", "doctor"):
        _, error = command([verb, str(received)])
        assert not error, error
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("verb", ["show", "doctor"])
def test_many_cursors_are_a_list_of_some(received: Path, verb: str) -> None:
    """3,000 files of a few bytes are not 3,000 lines: those with trouble come first, and the others are counted."""
    (received / "cursors").mkdir(exist_ok=True)
    for number in range(3000):
        (received / "cursors" / f"c{number}.json").write_bytes(b"{}")
    printed, error = command(["--dir", str(received.parents[1]), verb, str(received)])
    assert not error and printed.count("\n") < 400
    assert re.search(r"and 2,9\d\d more|has 3,0\d\d files", printed)


@pytest.mark.parametrize("kind", ["beside", "inside", "threads"])
def test_many_spans_that_overlap_are_drawn_in_time(received: Path, kind: str) -> None:
    """10,000 beside or inside each other, or each on a thread of its own: what is not drawn is counted."""
    now, count = 1_800_000_000_000_000_000, 10_000
    every = range(count)
    alone = kind == "threads"
    batch = records.SpansRecord(
        1, now, ["a"], [f"t{at}" for at in every] if alone else ["main"], [0] * count, list(every) if alone else [0] * count,
        [at + 1 for at in every], list(every) if kind == "inside" else [0] * count, [now + at * 1000 for at in every],
        [1000 if alone else 10**9 - at * (2000 if kind == "inside" else 0) for at in every], [1] * count,
    )  # fmt: skip
    write(received, start(2, time=now), batch, records.Finish(2, now + 10**10, "finished"))
    began = time.monotonic()
    answer = queries.timeline(chiplog.read(received).spans(), 1, 0)
    assert len(answer["spans"]) + answer["left"] == count and len(answer["spans"]) <= 200
    for more in ([], *(["-o", str(received.parent / f"trace.{ending}")] for ending in ("svg", "json", "pftrace"))):
        printed, error = command(["trace", str(received), *(more or ["--step", "1"])])
        assert not error, error
        assert more or ("more timelines" if alone else "spans below the 100 rows") in printed
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    "data",
    [
        {f"k{at}": at for at in range(10_000)},
        {"x" * 100_000: list(range(10_000))},
        {"x": [{"name": "y" * 100_000, "a": [1] * 5000}]},
        {"x" * 100_000: {f"k{at}": {"a": 1} for at in range(5000)}},
    ],
)
def test_names_are_not_much_larger_than_the_record_they_are_made_from(received: Path, data: dict[str, object]) -> None:
    """A long name is not repeated for each of 10,000 numbers, and it is said that these have no series."""
    event = records.Event(1, 1, "n" * 100_000, data)  # type: ignore[arg-type]
    size = len(lines.line_of(event))
    assert sum(len(name) for name, _ in records.points(event)) < 4 * size
    write(received, start(2), event, records.Finish(2, 9, "finished"))
    printed, error = command(["show", str(received)])
    assert not error and "too long for series" in printed


def test_long_names_of_few_numbers_are_series() -> None:
    """Only repeating them often is refused."""
    event = records.Event(1, 1, "n" * 5000, {"a": 1, "b": {"c": 2}})
    assert [len(name) for name, _ in records.points(event)] == [5002, 5004]


def test_a_ragged_matrix_is_not_filled_up(received: Path) -> None:
    """25,000 empty rows and one of 25,000 numbers would be 5 GB; it is left out, and the message names it."""
    written = records.MatrixRecord(1, 1, "odd", [*([[]] * 25_000), [1] * 25_000], 1)
    rare = [
        records.MatrixRecord(2 + at, 1, "rare", [[1.0] * (1000 if at == 7 else 1)] * (1000 if at == 7 else 1), at)
        for at in range(300)
    ]
    many = [records.Step(400 + at, 1, at, {"rare/a": 1.0}) for at in range(300)]
    write(received, start(2), written, *rare, *many, records.Finish(1000, 9, "finished"))
    printed = bounded("export", str(received), "--to", "h5", "-o", str(received.parents[1] / "h5"))
    assert "matrix 'odd' is not shown: it has 25,001 rows" in printed
    assert "1 of 300 matrices 'rare' are much larger than the others" in printed


def test_a_dataset_of_names_that_never_meet_has_an_end(
    received: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """500 names at a step of their own each are 250,000 cells; the message says how many are left out."""
    monkeypatch.setattr(export_datasets, "CELLS", 50_000)
    messages.forget()
    rows = [records.Step(1 + at, 1, at, {f"k{at}": 1.0}) for at in range(500)]
    write(received, start(2), *rows, records.Finish(900, 9, "finished"))
    by_group = export_datasets.datasets(chiplog.read(received))
    assert sum(values.size for one in by_group.values() for values in one.data_vars.values()) <= 50_000 + 16 * 500
    assert "of 500 names are not in the dataset" in capsys.readouterr().err


def test_a_name_per_row_is_no_square(received: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """10,000 rows with a name of their own each would be 100 million cells: other formats have them, and it says so."""
    (received / "journal" / "r00000-a01-0000.jsonl").unlink()
    rows = [records.Step(1 + at, 1, at, {f"k{at:05d}": 1.0}) for at in range(10_000)]
    table = records.Table(20_000, 1, "t", [{f"k{at}": at} for at in range(10_000)])
    write(received, start(2), *rows, table, records.Finish(30_000, 9, "finished"))
    command(["compact", str(received)])
    began = time.monotonic()
    printed, error = command(["export", str(received), "--to", "csv", "-o", str(received.parent / "t.csv")])
    assert not error and "10,000 rows of 10,000 columns for 10,000 values: use --to parquet" in printed
    assert time.monotonic() - began < 60
    messages.forget()
    sink = Csv(received.parent / "csv")
    sink.write([*rows, table])
    sink.close()
    assert sum(file.stat().st_size for file in (received.parent / "csv").iterdir()) < 100 << 20
    assert "metrics.csv has no column for names that few of its" in capsys.readouterr().err


def pack(run: Path, *written: records.Record, attempt: int) -> None:
    """Put a compressed journal into a run."""
    path = run / "journal" / f"{Segment(0, attempt, 0).filename}.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        for record in written:
            file.write(lines.line_of(record))


def test_very_long_texts_are_shown_in_part(received: Path) -> None:
    """Names, settings, texts and alerts of 256 KiB each, in small files: the start and the length, not 10 MB."""
    long = "x" * (1 << 18)
    for attempt in (2, 3):
        pack(
            received,
            start(attempt),
            *(records.Step(1 + at, 1, at, {f"{long}{at}": 1.0}) for at in range(5)),
            *(records.Event(10 + at, 1, "config", {f"c{attempt}{at}": long}) for at in range(5)),
            *(records.TextRecord(20 + at, 1, f"t{attempt}{at}", long) for at in range(5)),
            *(records.Alert(30 + at, 1, f"{long}{at}", text=long) for at in range(5)),
            records.Finish(90, 9, "failed", reason=long),
            attempt=attempt,
        )
    shown = bounded("show", str(received))
    assert len(shown) < 1 << 19 and "262,144 characters: `chiplog cat` has them all" in shown
    bounded("report", str(received), "-o", str(received.parent / "report"), "--only", "report")
    assert sum(file.stat().st_size for file in (received.parent / "report").rglob("*.*")) < 2 << 20


def test_compressed_journals_together_have_a_limit(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small files may not each have what one file may have; what is not read is damage."""
    for attempt in range(2, 10):
        filler = (records.TextRecord(1 + at, 1, "t", "x" * (1 << 20)) for at in range(10))
        pack(received, start(attempt), *filler, attempt=attempt)
    monkeypatch.setattr(lines, "LARGEST_PACKED", 16 << 20)
    contents = chiplog.read(received).contents("text")
    assert 8 <= contents.sample_counts["t"] <= 60
    assert sum("bytes inside, not read" in damage.reason for damage in contents.damage) == 8


def test_ranks_that_share_no_steps_are_no_matrix(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps by ranks would be the square of what is stored: the steps of most ranks are shown, and the rest counted."""
    monkeypatch.setattr(run_points, "MOST_EMPTY", 10_000)
    for rank in range(40):
        own = [records.Step(1 + at, 1, rank * 100 + 1000 + at, {"loss": 1.0}) for at in range(100)]
        shared = [records.Step(200 + at, 1, at, {"loss": float(rank)}) for at in range(3)]
        write(received, start(1, rank), *shared, *own, records.Finish(300, 9, "finished"), rank=rank, attempt=1)
    matrix = chiplog.read(received).series("loss").by_rank()
    assert matrix.values.size <= 10_000 + 16 * 40 * 103
    assert matrix.steps[:3].tolist() == [0, 1, 2] and matrix.values[1].tolist() == list(range(40))
    printed, error = command(["show", str(received), "--ranks"])
    assert not error and "steps of 'loss' by rank are left out: few ranks have them" in printed
    assert len(queries.ranks(chiplog.read(received), "loss")["ranks"]) == 40  # type: ignore[arg-type]
