"""Lines that were printed, put together again."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import chiplog
from chiplog.core import records
from chiplog.store import layout, printed_lines
from chiplog.store.parts import compaction
from chiplog.store.parts.part import load
from chiplog.store.printed_lines import Printed


def record(seq: int, *lines: str, **more: list[int]) -> records.ConsoleRecord:
    return records.ConsoleRecord(seq, 0, list(lines), [seq * 100 + at for at in range(len(lines))], **more)


def test_a_line_that_was_open_gives_way_to_what_follows() -> None:
    """Of its own stream; the others stay, and what nobody has ended stands last."""
    printed = Printed()
    printed.feed(record(0, "10%", "hello", stderr=[0], open=[0]), 0, 1)
    printed.feed(record(1, "50%", "wait", stderr=[0], open=[0, 1]), 0, 1)
    assert [line.text for line in printed] == ["hello", "50%", "wait"]
    printed.feed(record(2, "100%", stderr=[0]), 0, 1)
    assert [line.text for line in printed] == ["hello", "100%", "wait"] and printed.count == 2


def test_the_next_attempt_leaves_an_open_line_as_it_was() -> None:
    """Who was killed in the middle of a line has said that much; another rank has nothing to do with it."""
    printed = Printed()
    printed.feed(record(0, "half a li", open=[0]), 0, 1)
    printed.feed(record(0, "other", open=[0]), 1, 1)
    printed.feed(record(0, "again"), 0, 2)
    assert [(line.text, line.rank, line.attempt) for line in printed] == [
        ("half a li", 0, 1), ("again", 0, 2), ("other", 1, 1)
    ]  # fmt: skip


def test_only_the_newest_are_kept_where_that_is_asked() -> None:
    """All are counted."""
    printed = Printed(most=2)
    printed.feed(record(0, "a", "b", "c"), 0, 1)
    assert [line.text for line in printed.ended] == ["b", "c"] and printed.count == len(printed) == 3


def run_with_lines(root: Path, monkeypatch: pytest.MonkeyPatch, *, attempt: int = 1) -> Path:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    run = chiplog.init("p", id="run", dir=root, sinks="none", capture=True, compact=False)
    for number in range(50):
        print(f"attempt {attempt} line {number}")
        if number % 10 == 9:
            run.flush()
            run.log({"x": number}, step=number)
    run.finish()
    monkeypatch.undo()
    return run.dir


def test_the_last_lines_are_the_end_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live, compacted and pruned, over attempts; reading near the end gives what reading all gives."""
    for attempt in (1, 2, 3):
        path = run_with_lines(tmp_path, monkeypatch, attempt=attempt)
    monkeypatch.setattr(printed_lines, "NEAR", 1200)
    first, second, _ = layout.segments(path)
    whole = [f"attempt {attempt} line {number}" for attempt in (1, 2, 3) for number in range(50)]
    for make in (lambda: None, lambda: compaction.compact(path, second), lambda: compaction.compact(path, first), lambda: compaction.prune(path, first)):  # fmt: skip
        make()
        stored = chiplog.read(path)
        assert [line.text for line in stored.console()] == whole
        for last in (0, 1, 7, 49, 50, 51, 100, 149, 150, 1000):
            assert [line.text for line in stored.console(last)] == whole[max(0, 150 - last) :]
    assert {line.attempt for line in stored.console()} == {1, 2, 3}


def test_a_part_keeps_printed_text_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other records are read without it, and all together they come by their number."""
    path = run_with_lines(tmp_path, monkeypatch)
    (segment,) = layout.segments(path)
    before = list(chiplog.read(path).records())
    compaction.compact(path, segment)
    part = load(path, segment)
    assert part is not None
    groups = part._open("rows").metadata.num_row_groups
    assert groups == 2
    assert part.rows() == [one for one in before if not isinstance(one, records.Step)]
    assert {records.kind_of(one) for one in part.rows("event", "finish")} == {"event", "finish"}
    assert len(part.rows("console")) == 5
    assert not part.rows("alert")


def test_damage_costs_the_lines_of_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are there, and nothing raises."""
    path = run_with_lines(tmp_path, monkeypatch)
    (journal,) = (path / "journal").glob("*.jsonl")
    data = journal.read_bytes()
    at = data.index(b"line 15")
    journal.write_bytes(data[:at] + b"#" + data[at + 1 :])
    kept = [line.text for line in chiplog.read(path).console()]
    assert kept == [f"attempt 1 line {number}" for number in (*range(10), *range(20, 50))]
    assert chiplog.read(path).damage


def test_last_values_are_found_behind_much_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of runs looks at the end of a journal, where a talkative run has only words."""
    from chiplog.store.runs.state import last_values

    monkeypatch.setattr(sys, "stdout", io.StringIO())
    run = chiplog.init("p", dir=tmp_path, sinks="none", capture=True, compact=False)
    run.log({"loss": 0.25}, step=7)
    for number in range(3000):
        print(f"line {number} with some words behind its number")
    run.finish()
    assert last_values(run.dir)["loss"] == 0.25
