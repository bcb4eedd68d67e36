"""Journals that were cut, flipped, zeroed, glued together or filled with rubbish."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chiplog
from chiplog.core import records
from chiplog.store import layout
from chiplog.store.journal import cursors
from chiplog.store.journal.lines import Scanner
from chiplog.store.parts import compaction
from chiplog.store.parts.format import KINDS

from . import reference
from .harness import PATIENCE, count

pytestmark = pytest.mark.timeout(5 * PATIENCE)  # a thousand examples on a machine with other things to do

Records = list[dict[str, Any]]


def journal_of(folder: Path, size: int) -> bytes:
    """A journal of about so many bytes with every sort of line in it."""
    run = chiplog.init(project="faults", sinks="none", dir=folder, config={"lr": 3e-4}, compact=False)
    run.log({"loss": float("nan"), "big": 2**70, "yes": True, 'quote"\\\n': -0.0, "größe": 1}, step=0)
    run.event("gpu", id=0, power=350.5)
    run.log({"note": '{"log":"step","crc":1}'}, step=1)
    [path] = (run.dir / "journal").glob("*.jsonl")
    step = 2
    while path.stat().st_size < size - 200:
        run.log({"loss": 1 / (step + 1), "tokens": step * 16384}, step=step)
        step += 1
    run.finish()
    # A disk that was slow for a moment leaves an empty line, and then lines are not records.
    return b"".join(line for line in path.read_bytes().splitlines(keepends=True) if line != b"\n")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A journal of about 4 KiB."""
    return journal_of(tmp_path_factory.mktemp("whole"), 4 << 10)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of which every byte is cut and every bit flipped: of 4 KiB, or 64 KiB."""
    return journal_of(tmp_path_factory.mktemp("every"), count(4, 64) << 10)


def plain(scanner: Scanner) -> Records:
    """What our reader finds, as the reference says it."""
    return [records.fields(record) for record in scanner.read()]


def stripped(found: Records) -> Records:
    return [{key: value for key, value in record.items() if key != "crc"} for record in found]


def ends(data: bytes) -> list[int]:
    """The byte behind each line."""
    return [at + 1 for at, byte in enumerate(data) if byte == 10]


def damage_of(scanner: Scanner) -> list[tuple[int, int]]:
    torn = scanner.torn()
    return [(one.start, one.end) for one in [*scanner.damage, *([torn] if torn else [])]]


def test_both_readers_agree_on_a_whole_journal(whole: bytes, tmp_path: Path) -> None:
    """The reference reader and ours find the same records in the same bytes."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(whole)
    assert plain(Scanner(path)) == stripped(reference.segment(whole).records)
    assert len(plain(Scanner(path))) == len(ends(whole))


def test_a_journal_cut_at_any_byte_gives_the_records_before_the_cut(every: bytes, tmp_path: Path) -> None:
    """For every byte: exactly the records that end before the cut, and the rest is named; by both readers."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(every)
    expected = [msgspec.json.encode(record) for record in Scanner(path).read()]
    known = stripped(reference.segment(every).records)
    borders = [0, *ends(every)]
    for cut in reversed(range(len(every) + 1)):
        os.truncate(path, cut)
        left = bisect_right(borders, cut) - 1
        scanner = Scanner(path)
        assert [msgspec.json.encode(record) for record in scanner.read()] == expected[:left]
        rest = [(borders[left], cut)] if cut > borders[left] else []
        assert damage_of(scanner) == rest
        first = max(0, left - 2)  # of the lines that the reference reader gets: lines know nothing of each other
        found = reference.segment(every[borders[first] : cut])
        assert stripped(found.records) == known[first:left]
        assert [(borders[first] + start, borders[first] + end) for start, end in found.damage] == rest


@pytest.mark.parametrize("quarter", range(4))
def test_any_flipped_bit_costs_two_records_at_most(every: bytes, tmp_path: Path, quarter: int) -> None:
    """For every bit: no exception, no wrong value, at most two records lost, the place named; and both readers agree.

    Each is flipped among the lines around its own: that a line far away does not matter is shown by the splices.
    """
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(every)
    expected = [msgspec.json.encode(record) for record in Scanner(path).read()]
    borders = [0, *ends(every)]
    last = len(expected)
    for line in range(last * quarter // 4, last * (quarter + 1) // 4):
        first, behind = max(0, line - 2), min(last, line + 4)
        begin = borders[first]
        around = every[begin : borders[behind]]
        path.write_bytes(around)
        file = os.open(path, os.O_RDWR)
        for at in range(borders[line] - begin, borders[line + 1] - begin):
            for bit in range(8):
                flipped = bytes([around[at] ^ (1 << bit)])
                os.pwrite(file, flipped, at)
                scanner = Scanner(path)
                found = list(scanner.read())
                said = [msgspec.json.encode(record) for record in found]
                before, after = expected[first:line], expected[line + 2 : behind]
                assert said[: len(before)] == before
                assert said[len(said) - len(after) :] == after
                touched = said[len(before) : len(said) - len(after)]
                assert touched == [one for one in expected[line : line + 2] if one in touched]
                damage = damage_of(scanner)
                # Both records may still be found behind a newline that became something else.
                assert damage and (len(touched) == 2 or any(start <= at <= end for start, end in damage))
                judged = reference.segment(around[:at] + flipped + around[at + 1 :])
                assert judged.damage == damage
                assert stripped(judged.records) == [records.fields(record) for record in found]
            os.pwrite(file, around[at : at + 1], at)
        os.close(file)


def test_zero_filled_ranges_are_named(whole: bytes, tmp_path: Path) -> None:
    """A file system that lost blocks leaves zeros: the records outside them are all read, and the zeros are damage."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    borders = [0, *ends(whole)]
    path.write_bytes(whole)
    expected = plain(Scanner(path))
    for length in (1, 7, 64, 512, 2048):
        for start in range(0, len(whole) - length, 37):
            path.write_bytes(whole[:start] + bytes(length) + whole[start + length :])
            scanner = Scanner(path)
            found = plain(scanner)
            outside = [
                record
                for record, begin, end in zip(expected, borders, borders[1:], strict=False)
                if end - 1 <= start or begin >= start + length
            ]
            assert found == outside
            touched = whole[start : start + length].strip(b"\n")
            assert any(begin <= start <= end for begin, end in damage_of(scanner)) or not touched


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_two_files_glued_together_are_both_read(whole: bytes, tmp_path: Path, cut: int) -> None:
    """Two journals in one file, the first of them torn or not: every whole record of both."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(whole[: len(whole) - cut] + whole)
    first, second = reference.segment(whole[: len(whole) - cut]), reference.segment(whole)
    if cut == 1:
        first.records.append(second.records[-1])  # nothing but its newline is gone
    assert plain(Scanner(path)) == stripped(first.records + second.records)
    assert reference.segment(path.read_bytes()).records == first.records + second.records


def test_glued_attempts_keep_their_own_values(tmp_path: Path) -> None:
    """Two attempts in one file have the same numbers in `seq`; each value is still the one that was logged."""
    for value in (True, 0.25):
        run = chiplog.init(project="faults", id="glued", sinks="none", dir=tmp_path)
        run.log({"v": value}, step=int(value))
        run.finish()
    first, second = sorted((run.dir / "journal").glob("*.jsonl"))
    first.write_bytes(first.read_bytes() + second.read_bytes())
    second.unlink()
    series = chiplog.read(run.dir).series("v")
    assert sorted(map(repr, zip(series.steps.tolist(), series.exact, strict=True))) == [
        "(0, 0.25)",
        "(1, True)",
    ]


@pytest.mark.parametrize("mebibytes", [17, 33])
def test_a_line_too_long_to_be_ours_is_skipped(whole: bytes, tmp_path: Path, mebibytes: int) -> None:
    """MiBs without a newline in the middle cost nothing but themselves."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    middle = ends(whole)[5]
    rubbish = random.Random(7).randbytes(mebibytes << 20).replace(b"\n", b"x")
    path.write_bytes(whole[:middle] + rubbish + b"\n" + whole[middle:])
    scanner = Scanner(path)
    assert plain(scanner) == stripped(reference.segment(whole).records)
    [(start, end)] = damage_of(scanner)
    assert (start, end) in ((middle, middle + len(rubbish)), (middle, middle + len(rubbish) + 1))


def test_gigabytes_of_nothing_are_read_in_bounded_memory_and_time(whole: bytes, tmp_path: Path) -> None:
    """A sparse file of 1 GiB (full size: 4) between two records: both are read, in seconds and with little memory."""
    size = count(1, 4) << 30
    journal = tmp_path / "runs" / "faults" / "sparse" / "journal"
    journal.mkdir(parents=True)
    with (journal / "r00000-a01-0000.jsonl").open("wb") as file:
        file.write(whole)
        file.seek(size - len(whole))
        file.write(b"\n" + whole)
    code = """
import re, sys, time
import chiplog

def most():  # KiB; what getrusage says includes the process that started this one
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1])

import numpy, pyarrow
before = most()
run = chiplog.read(sys.argv[1])
print(sum(1 for _ in run.records()), len(run.damage), time.process_time(), most() - before)
"""
    words = [sys.executable, "-c", code, str(journal.parent)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=100)
    found, damages, seconds, kilobytes = done.stdout.split()
    assert int(found) == 2 * len(ends(whole))
    assert int(damages) == 1
    assert float(seconds) < 20 * (size >> 30)
    assert int(kilobytes) < 64 << 10


@pytest.mark.parametrize("brick", [b'{"log":"', b',"crc":1}', b'{"log":",', b'{"log":"x","crc":1}', b"[", b'{"a":'])
def test_rubbish_made_of_our_own_words_takes_linear_time(tmp_path: Path, brick: bytes) -> None:
    """A long line that keeps looking like a record is given up in seconds."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(b'{"log":"' + brick * ((8 << 20) // len(brick)) + b"\n")
    began = time.process_time()
    scanner = Scanner(path)
    assert plain(scanner) == []
    assert damage_of(scanner)
    assert time.process_time() - began < 15


def sealed(record: dict[str, Any]) -> bytes:
    head = json.dumps(record, separators=(",", ":")).encode()[:-1]
    return b'%b,"crc":%d}\n' % (head, zlib.crc32(head))


def everything(run: Path) -> None:
    """Ask a stored run all there is to ask."""
    stored = chiplog.read(run)
    for name in stored.names():
        series = stored.series(name)
        assert len(series.exact) == len(series.values) == len(series.times)
        series.buckets(10)
        series.by_rank()
    assert list(stored.records()) is not None
    assert list(stored.follow(timeout=0)) is not None
    for answer in (
        "summary",
        "config",
        "environment",
        "state",
        "attempts",
        "damage",
        "missing",
        "tags",
        "created",
    ):
        getattr(stored, answer)
    stored.spans()
    stored.to_arrow()


ODD: dict[str, dict[str, Any]] = {
    "an unknown kind": {"log": "hologram", "seq": 1, "time": 1, "of": [1, {"x": None}]},
    "a kind of a newer shape": {"log": "step", "seq": 1, "time": 1, "step": {"epoch": 1}, "metrics": [1]},
    "text among the numbers": {"log": "step", "seq": 1, "time": 1, "step": 1, "metrics": {"a": "abc", "b": 1}},
    "a step that is not a number": {"log": "step", "seq": 1, "time": 1, "step": "nan", "metrics": {"a": 1}},
    "a huge step": {"log": "step", "seq": 1, "time": 1, "step": 2**80, "metrics": {"a": 1}},
    "a huge seq": {"log": "step", "seq": 2**80, "time": 1, "step": 1, "metrics": {"a": 1}},
    "a huge time": {"log": "step", "seq": 1, "time": 2**80, "step": 1, "metrics": {"a": 1}},
    "a negative seq": {"log": "step", "seq": -5, "time": -5, "step": -5, "metrics": {"a": 1}},
    "a seq from far away": {"log": "step", "seq": 2**62, "time": 1, "step": 1, "metrics": {"a": 1}},
    "spans of unequal columns": {
        "log": "spans", "seq": 1, "time": 1, "names": [], "threads": [], "name": [7], "thread": [9], "id": [1, 2],
        "parent": [], "start": [], "duration": [], "step": [],
    },
    "an event full of nothing": {"log": "event", "seq": 1, "time": 1, "name": "", "data": {"": None, "id": {"x": []}}},
    "a config that is not a mapping": {"log": "event", "seq": 1, "time": 1, "name": "config", "data": {"lr": [None]}},
    "an attempt of another age": {"log": "attempt", "seq": 0, "time": 0, "attempt": "one"},
    "a number as metrics name": {"log": "eval", "seq": 1, "time": 1, "step": 1, "metrics": {"": 1, "eval/": 2, "/": 3}},
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_a_record_nobody_of_ours_wrote_breaks_no_reader(tmp_path: Path, what: str) -> None:
    """A line with a right CRC and a strange content: whatever is asked is answered, and the others are read."""
    journal = tmp_path / "faults" / "odd" / "journal"
    journal.mkdir(parents=True)
    good = {"log": "step", "seq": 2, "time": 2, "step": 2, "metrics": {"good": 0.5}}
    (journal / "r00000-a01-0000.jsonl").write_bytes(sealed(ODD[what]) + sealed(good))
    everything(journal.parent)
    assert chiplog.read(journal.parent).series("good").exact == [0.5]


def pieces(whole: bytes) -> Iterator[bytes]:
    borders = [0, *ends(whole)]
    return (whole[begin:end] for begin, end in pairwise(borders))


many = settings(max_examples=count(1000, 20_000), deadline=None, suppress_health_check=list(HealthCheck))

places = st.floats(0, 1, exclude_max=True)  # of the file
lengths = st.integers(1, 700)
edits = st.one_of(
    st.tuples(st.just("zeros"), places, lengths),
    st.tuples(st.just("repeat"), places, lengths, st.integers(1, 5)),
    st.tuples(st.just("swap"), places, lengths, places),
    st.tuples(st.just("remove"), places, lengths),
    st.tuples(st.just("insert"), places, st.binary(max_size=200)),
    st.tuples(st.just("flip"), places, st.integers(1, 255)),
    st.tuples(st.just("number"), places, st.sampled_from([b"0", b"4294967295", b"-1", b"9" * 400, b"1e999"])),
    st.tuples(st.just("glue"), places),
)


def edited(data: bytes, edit: tuple[Any, ...]) -> bytes:
    """What a bad disk, a bad copy or a bad tool makes of a file."""
    what, place, *more = edit
    at = int(place * len(data))
    if what == "zeros":
        return data[:at] + bytes(more[0]) + data[at + more[0] :]
    if what == "repeat":
        return data[:at] + data[at : at + more[0]] * more[1] + data[at + more[0] :]
    if what == "swap":
        one, other = sorted((at, int(more[1] * len(data))))
        size = min(more[0], other - one)
        first, second = data[one : one + size], data[other : other + size]
        return data[:one] + second + data[one + size : other] + first + data[other + size :]
    if what == "remove":
        return data[:at] + data[at + more[0] :]
    if what == "insert":
        return data[:at] + more[0] + data[at:]
    if what == "flip":
        return data[:at] + bytes([data[at] ^ more[0]]) + data[at + 1 :] if data else data
    if what == "number":
        digits = re.compile(rb"[0-9]+").search(data, at)
        return data[: digits.start()] + more[0] + data[digits.end() :] if digits else data
    return data[at:] + data


@many
@given(changes=st.lists(edits, min_size=1, max_size=6))
def test_splices_never_make_a_value(whole: bytes, tmp_path: Path, changes: list[tuple[Any, ...]]) -> None:
    """Blocks zeroed, doubled, swapped, lost, and glued: only records that were written, and both readers agree."""
    data = whole
    for change in changes:
        data = edited(data, change)
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(data)
    scanner = Scanner(path)
    found = plain(scanner)
    judged = reference.segment(data)
    assert found == stripped(judged.records)
    assert damage_of(scanner) == judged.damage
    known = {json.dumps(record) for record in stripped(reference.segment(whole).records)}
    assert known.issuperset(map(json.dumps, found))
    for start, end in pairwise([0, *(byte for span in judged.damage for byte in span), len(data)]):
        assert start <= end  # in order, and none inside another


@many
@given(data=st.data())
def test_no_bytes_at_all_make_a_reader_raise(whole: bytes, tmp_path: Path, data: st.DataObject) -> None:
    """Rubbish, lines, halves of lines, doubled and swapped lines in any order: every question is answered."""
    lines = list(pieces(whole))
    halves = [line[: len(line) // 2] for line in lines] + [line[len(line) // 2 :] for line in lines]
    block = st.one_of(st.binary(max_size=300), st.sampled_from(lines), st.sampled_from(halves))
    content = b"".join(data.draw(st.lists(block, max_size=20)))
    run = tmp_path / "faults" / "rubbish"
    (run / "journal").mkdir(parents=True, exist_ok=True)
    (run / "journal" / "r00000-a01-0000.jsonl").write_bytes(content)
    everything(run)
    known = {json.dumps(record, sort_keys=True) for record in reference.segment(whole).records}
    assert all(json.dumps(record, sort_keys=True) in known for record in reference.segment(content).records)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with parts, spans and events, and its journal."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path_factory.mktemp("parts"), config={"lr": 3e-4})
    for step in range(40):
        with run.span("step", tags={"micro": step}):
            run.log({"loss": 1 / (step + 1), "big": 2**70 + step, "ok": step % 2 == 0}, step=step)
    run.event("gpu", id=0, power=350.5)
    run.finish()
    for segment in layout.segments(run.dir):
        assert compaction.compact(run.dir, segment)
    return run.dir


def answers(run: Path) -> list[Any]:
    """What a reader says of a run."""
    stored = chiplog.read(run)
    series = [stored.series(name) for name in sorted(stored.names())]
    points = [(one.name, one.exact, one.steps.tolist(), one.times.tolist()) for one in series]
    events = [records.fields(record) for record in stored.records("event")]
    return [points, events, stored.spans(), stored.summary, stored.config, stored.missing, stored.state]


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_in_a_part_changes_no_answer(compacted: Path, tmp_path: Path, kind: str) -> None:
    """Parts are derived: where one is damaged or cut the journal is read instead, and every answer is the same."""
    run = tmp_path / "run"
    shutil.copytree(compacted, run)
    expected = answers(run)
    [path] = (run / "parts").glob(f"*.{kind}.parquet")
    whole = path.read_bytes()
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(count(80, 4000)):
        at = chance.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
        assert answers(run) == expected, at
    for _ in range(count(20, 500)):
        cut = chance.randrange(len(whole))
        path.write_bytes(whole[:cut])
        assert answers(run) == expected, cut
    path.unlink()
    assert answers(run) == expected


def test_a_damaged_part_is_found_by_the_doctor(compacted: Path, tmp_path: Path) -> None:
    """A part that does not match its checksums is named, with what to do about it."""
    run = tmp_path / "run"
    shutil.copytree(compacted, run)
    [path] = (run / "parts").glob("*.points.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 1
    path.write_bytes(data)
    words = [sys.executable, "-m", "chiplog", "doctor", str(run)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert "is damaged" in done.stdout and "chiplog compact" in done.stdout, done.stdout


def test_a_damaged_compressed_journal_gives_no_wrong_value(compacted: Path, tmp_path: Path) -> None:
    """A pruned segment without its parts, with a bit flipped or its end gone: what is read was written, the rest named."""
    run = tmp_path / "run"
    shutil.copytree(compacted, run)
    known = {json.dumps(records.fields(record)) for record in chiplog.read(run).records()}
    [segment] = layout.segments(run)
    assert compaction.prune(run, segment)
    shutil.rmtree(run / "parts")
    [path] = (run / "journal").glob("*.zst")
    whole = path.read_bytes()
    for at in range(0, len(whole), count(29, 1)):
        for data in (whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :], whole[:at]):
            path.write_bytes(data)
            stored = chiplog.read(run)
            found = [json.dumps(records.fields(record)) for record in stored.records()]
            assert known.issuperset(found)
            assert len(found) == len(known) or stored.damage, at
            answers(run)


def test_an_empty_compressed_journal_is_damage(compacted: Path, tmp_path: Path) -> None:
    """A compressed segment that lost its bytes is reported although its part still has the numbers."""
    run = tmp_path / "run"
    shutil.copytree(compacted, run)
    assert compaction.prune(run, layout.segments(run)[0])
    [path] = (run / "journal").glob("*.zst")
    path.write_bytes(b"")
    assert [one.reason for one in chiplog.read(run).damage][-1:] == ["compressed copy is empty"]


def test_a_damaged_cursor_costs_no_record_and_doubles_none(tmp_path: Path) -> None:
    """A flipped bit in a sink's position: the sink starts from scratch, and its file has every record once."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    run = chiplog.init(project="faults", id="run", sinks="jsonl", dir=tmp_path, alerts=False)
    cursor = run.dir / "cursors" / "jsonl.json"
    for turn in range(count(6, 200)):
        for step in range(10):
            run.log({"v": step}, step=turn * 10 + step)
        assert run.finish()
        data = bytearray(cursor.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        cursor.write_bytes(data)
        run = chiplog.init(project="faults", id="run", sinks="jsonl", dir=tmp_path, alerts=False)
    assert run.finish()
    lines = (run.dir / "files" / "metrics.jsonl").read_bytes().splitlines()
    assert [json.loads(line) for line in lines] == stripped(reference.records(run.dir))


def test_a_run_directory_of_rubbish_is_readable(tmp_path: Path) -> None:
    """Strange names, empty files, folders where files belong, and a broken run.json do not raise."""
    run = tmp_path / "faults" / "run"
    journal = run / "journal"
    journal.mkdir(parents=True)
    (run / "run.json").write_bytes(b'{"config":{"a":' + b"[" * 100_000)
    (run / "cursors").mkdir()
    (run / "cursors" / "csv.json").write_bytes(b'{"positions":{"\xff')
    (journal / "r00000-a01-0000.jsonl").touch()
    (journal / "r00000-a02-0000.jsonl").mkdir()
    (journal / "r99999999999999999999-a01-0000.jsonl").touch()
    (journal / "notes.txt").write_text("hello")
    (run / "parts").mkdir()
    (run / "parts" / "r00000-a01-0000.points.parquet").write_bytes(b"PAR1 no")
    everything(run)
    assert cursors.cursors(run)[0].trouble
