"""Lines: sealed on the way out, doubted on the way in. Every cut and every bit is tried under tests/faults."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from chiplog.core import records
from chiplog.core.records import Alert, Step
from chiplog.store.journal import lines


def line(seq: int) -> bytes:
    return lines.line_of(records.Step(seq, seq, seq, {"loss": seq / 3}))


def scan(path: Path) -> tuple[list[int], list[lines.Damage]]:
    scanner = lines.Scanner(path)
    return [record.seq for record in scanner.read()], scanner.damage


def test_a_line_reads_back_as_it_was(tmp_path: Path) -> None:
    """Seal and unseal are each other's inverse."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(line(0) + line(1))
    assert scan(path) == ([0, 1], [])


def test_a_changed_byte_costs_one_record_and_is_named(tmp_path: Path) -> None:
    """The range of the damage is that of the line."""
    path = tmp_path / "s.jsonl"
    first, second, third = line(0), line(1), line(2)
    path.write_bytes(first + second.replace(b"0.3333", b"0.4333") + third)
    seqs, damage = scan(path)
    assert seqs == [0, 2]
    assert [(one.start, one.end) for one in damage] == [(len(first), len(first) + len(second) - 1)]
    assert "CRC" in damage[0].reason


def test_a_record_behind_a_torn_one_is_found(tmp_path: Path) -> None:
    """A torn line has no newline; what another thread wrote behind it is whole."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(line(0)[:40] + line(1) + b"\n" + line(0))
    seqs, damage = scan(path)
    assert seqs == [1, 0]
    assert [(one.start, one.end, one.reason) for one in damage] == [(0, 40, "torn line")]


def test_an_unfinished_line_is_left_for_the_next_turn(tmp_path: Path) -> None:
    """What is being written now is not damage."""
    path = tmp_path / "s.jsonl"
    whole = line(0) + line(1)
    path.write_bytes(whole[:-10])
    scanner = lines.Scanner(path)
    assert [record.seq for record in scanner.read()] == [0]
    assert scanner.torn() is not None
    path.write_bytes(whole)
    assert [record.seq for record in scanner.read()] == [1]
    assert scanner.torn() is None and scanner.damage == []


def test_a_line_too_long_to_be_ours_is_skipped(tmp_path: Path) -> None:
    """Its bytes are not kept in memory, and the next record is found."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(line(0) + b"x" * (lines.LONGEST + lines.CHUNK) + b"\n" + line(1))
    seqs, damage = scan(path)
    assert seqs == [0, 1]
    assert len(damage) == 1 and damage[0].reason == "line too long"


def test_a_text_that_looks_like_a_record_is_no_record(tmp_path: Path) -> None:
    """What a run says about lines like ours is escaped, so it is never mistaken for one."""
    inner = line(5).decode()
    record = records.TextRecord(0, 0, "sample", inner)
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines.line_of(record)[:-3] + b"\n")
    assert scan(path)[0] == []


def test_much_adjacent_damage_of_one_kind_is_joined(tmp_path: Path) -> None:
    """Of a million bad lines, the first are listed and the rest is one entry; kinds that alternate have a bound."""
    path = tmp_path / "journal" / "r00000-a01-0000.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"x\n" * 1_000_000)
    damage = scan(path)[1]
    assert len(damage) == lines.APART and damage[0] == (path.name, 0, 1, "no record")
    assert damage[-1] == (path.name, 2 * (lines.APART - 1), 1_999_999, "no record")
    path.write_bytes(b"x\n\0\n" * (2 * lines.MOST_DAMAGE))
    damage = scan(path)[1]
    assert len(damage) == lines.MOST_DAMAGE + 1 and damage[-1].end == 8 * lines.MOST_DAMAGE - 1


@pytest.mark.parametrize("line", [b"x\n", lines.line_of(Alert(1, 1, "a"))], ids=["garbage", "sealed"])
def test_a_compressed_journal_has_no_more_lines_than_its_size_can_hold(tmp_path: Path, line: bytes) -> None:
    """Every line of ours has a CRC, which does not compress; what repeats one line without end is not read."""
    path = tmp_path / "journal" / "r00000-a01-0000.jsonl"
    path.parent.mkdir()
    packed = path.with_name(f"{path.name}.zst")
    with pa.CompressedOutputStream(str(packed), "zstd") as file:
        for _ in range(20):
            file.write(line * (1 << 16))
    scanner = lines.Scanner(path)
    records_ = list(scanner.read())
    assert len(records_) <= packed.stat().st_size // lines.LEAST_PACKED + lines.FEW_LINES
    assert scanner.damage[-1].reason == "more lines inside than its size can hold"
    assert list(scanner.read()) == []


def test_rows_that_are_all_alike_are_read_from_a_compressed_journal(tmp_path: Path) -> None:
    """The most that compression makes of lines of ours: nothing differs but number, time and CRC."""
    path = tmp_path / "journal" / "r00000-a01-0000.jsonl"
    path.parent.mkdir()
    with pa.CompressedOutputStream(str(path.with_name(f"{path.name}.zst")), "zstd") as file:
        file.write(b"".join(lines.line_of(Step(seq, 1, 1, {"a": 1})) for seq in range(50_000)))
    assert len(list(lines.Scanner(path).read())) == 50_000
