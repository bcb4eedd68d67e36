"""Journals that were cut, flipped, zeroed, glued together or filled with rubbish."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import zlib
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
from chiplog.store.lines import Scanner

from . import reference
from .harness import PATIENCE, count

pytestmark = pytest.mark.timeout(PATIENCE)

Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A journal of about 4 KiB with every sort of line in it."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path_factory.mktemp("whole"), config={"lr": 3e-4})
    run.log({"loss": float("nan"), "big": 2**70, "yes": True, 'quote"\\\n': -0.0}, step=0)
    run.event("gpu", id=0, power=350.5)
    run.log({"note": '{"log":"step","crc":1}'}, step=1)
    for step in range(2, 23):
        run.log({"loss": 1 / (step + 1), "tokens": step * 16384}, step=step)
    run.finish()
    data = next((run.dir / "journal").glob("*.jsonl")).read_bytes()
    assert 3000 < len(data) < 6000
    return data


def plain(scanner: Scanner) -> Records:
    """What our reader finds, as the reference says it."""
    return [records.fields(record) for record in scanner.read()]


def stripped(found: Records) -> Records:
    return [{key: value for key, value in record.items() if key != "crc"} for record in found]


def ends(data: bytes) -> list[int]:
    """The byte behind each line."""
    return [at + 1 for at, byte in enumerate(data) if byte == 10]


def covered(spans: list[tuple[int, int]], byte: int) -> bool:
    return any(start <= byte < end for start, end in spans)


def damage_of(scanner: Scanner) -> list[tuple[int, int]]:
    torn = scanner.torn()
    return [(one.start, one.end) for one in [*scanner.damage, *([torn] if torn else [])]]


def test_both_readers_agree_on_a_whole_journal(whole: bytes, tmp_path: Path) -> None:
    """The reference reader and ours find the same records in the same bytes."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(whole)
    assert plain(Scanner(path)) == stripped(reference.segment(whole).records)
    assert len(plain(Scanner(path))) == len(ends(whole))


def test_a_journal_cut_at_any_byte_gives_the_records_before_the_cut(whole: bytes, tmp_path: Path) -> None:
    """For every byte: exactly the records that end before the cut, and the rest is named."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(whole)
    expected = plain(Scanner(path))
    borders = ends(whole)
    for cut in reversed(range(len(whole) + 1)):
        os.truncate(path, cut)
        left = sum(1 for end in borders if end <= cut)
        scanner = Scanner(path)
        assert plain(scanner) == expected[:left]
        assert len(reference.segment(whole[:cut]).records) == left
        border = borders[left - 1] if left else 0
        assert damage_of(scanner) == ([(border, cut)] if cut > border else [])


def test_any_flipped_bit_costs_two_records_at_most(whole: bytes, tmp_path: Path) -> None:
    """For every bit: no exception, no wrong value, at most two records lost, and the damaged place is named."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(whole)
    expected = list(Scanner(path).read())
    known, all_of_them = {msgspec.json.encode(record) for record in expected}, msgspec.json.encode(expected)
    file = os.open(path, os.O_RDWR)
    for at, byte in enumerate(whole):
        for bit in range(8):
            flipped = byte ^ (1 << bit)
            os.pwrite(file, bytes([flipped]), at)
            scanner = Scanner(path)
            found = list(scanner.read())
            if msgspec.json.encode(found) != all_of_them:
                assert len(found) >= len(expected) - 2
                assert all(msgspec.json.encode(record) in known for record in found)
                assert covered(damage_of(scanner), at)
            else:
                assert damage_of(scanner)  # a newline became something else, and both lines were still found
        os.pwrite(file, bytes([byte]), at)
    os.close(file)


def test_the_reference_reader_survives_the_same_flips(whole: bytes) -> None:
    """The rules on the format page are enough to be as careful: one bit of every byte, for the reference reader."""
    known = {json.dumps(record, sort_keys=True) for record in reference.segment(whole).records}
    for at, byte in enumerate(whole):
        data = whole[:at] + bytes([byte ^ (1 << at % 8)]) + whole[at + 1 :]
        found = reference.segment(data)
        assert len(found.records) >= len(known) - 2
        assert all(json.dumps(record, sort_keys=True) in known for record in found.records)


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
            assert covered(damage_of(scanner), start) or whole[start : start + 1] == b"\n"


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


def test_a_gigabyte_of_nothing_is_read_in_bounded_memory_and_time(whole: bytes, tmp_path: Path) -> None:
    """A sparse file of 1 GiB between two records: both are read, in seconds and with little memory."""
    journal = tmp_path / "runs" / "faults" / "sparse" / "journal"
    journal.mkdir(parents=True)
    with (journal / "r00000-a01-0000.jsonl").open("wb") as file:
        file.write(whole)
        file.seek((1 << 30) - len(whole))
        file.write(b"\n" + whole)
    code = """
import resource, sys, time
import chiplog
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
run = chiplog.read(sys.argv[1])
print(sum(1 for _ in run.records()), len(run.damage), time.monotonic() - began,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    words = [sys.executable, "-c", code, str(journal.parent)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    found, damages, seconds, kilobytes = done.stdout.split()
    assert int(found) == 2 * len(ends(whole))
    assert int(damages) == 1
    assert float(seconds) < 20
    assert int(kilobytes) < 96 << 10


@pytest.mark.parametrize("brick", [b'{"log":"', b',"crc":1}', b'{"log":",', b'{"log":"x","crc":1}', b"[", b'{"a":'])
def test_rubbish_made_of_our_own_words_takes_linear_time(tmp_path: Path, brick: bytes) -> None:
    """A long line that keeps looking like a record is given up in seconds."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(b'{"log":"' + brick * ((8 << 20) // len(brick)) + b"\n")
    began = time.monotonic()
    scanner = Scanner(path)
    assert plain(scanner) == []
    assert damage_of(scanner)
    assert time.monotonic() - began < 15


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
    "a step that is no number": {"log": "step", "seq": 1, "time": 1, "step": "nan", "metrics": {"a": 1}},
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
    "a config that is no mapping": {"log": "event", "seq": 1, "time": 1, "name": "config", "data": {"lr": [None]}},
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


@settings(max_examples=count(60, 3000), deadline=None, suppress_health_check=list(HealthCheck))
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


def test_a_run_directory_of_rubbish_is_readable(tmp_path: Path) -> None:
    """Strange names, empty files, folders where files belong, and a broken run.json are no reason to raise."""
    run = tmp_path / "faults" / "run"
    journal = run / "journal"
    journal.mkdir(parents=True)
    (run / "run.json").write_bytes(b'{"config": [')
    (journal / "r00000-a01-0000.jsonl").touch()
    (journal / "r00000-a02-0000.jsonl").mkdir()
    (journal / "r99999999999999999999-a01-0000.jsonl").touch()
    (journal / "notes.txt").write_text("hello")
    (run / "parts").mkdir()
    (run / "parts" / "r00000-a01-0000.points.parquet").write_bytes(b"PAR1 no")
    everything(run)
