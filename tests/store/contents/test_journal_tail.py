"""What a segment holds beyond its part."""

from __future__ import annotations

from pathlib import Path

from chiplog.core.records import Alert, Eval, SpansRecord, Step
from chiplog.store.contents.journal_tail import JournalTail
from chiplog.store.contents.tail_columns import TailColumns
from chiplog.store.journal.lines import Scanner, line_of


def test_a_tail_grows_with_its_journal(tmp_path: Path) -> None:
    """Every refresh decodes what is new, and nothing twice."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    path.write_bytes(line_of(Step(0, 10, 5, {"loss": 1.0})))
    tail = JournalTail(Scanner(path), collected=(collected := TailColumns()))
    tail.refresh()
    with path.open("ab") as file:
        file.write(b"".join(line_of(Step(at, 10 + at, 5 + at, {"loss": 1.0 + at})) for at in range(1, 5)))
        file.write(line_of(Eval(5, 15, 30, {"loss": 0.5})) + line_of(Alert(6, 16, "spike")))
    tail.refresh()
    tail.refresh()
    assert tail.count == 7 and tail.first == (0, 5) and tail.last == (5, 30) and tail.ranges == [(0, 6)]
    assert (tail.first_time, tail.last_time) == (10, 16)
    assert [type(record) for record in tail.records] == [Eval, Alert]
    assert list(collected.points.last()) == [("loss", 4, 5.0), ("eval/loss", 5, 0.5)]


def test_without_columns_points_are_only_counted(tmp_path: Path) -> None:
    """And of the other records, only some kinds are kept if that is enough."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    spans = SpansRecord(1, 1, ["x"], ["main"], [0], [0], [1], [0], [5], [5], [None])
    path.write_bytes(line_of(Step(0, 0, 7, {"loss": 1.0})) + line_of(spans) + line_of(Alert(2, 2, "spike")))
    tail = JournalTail(Scanner(path), kinds=("event",))
    tail.refresh()
    assert tail.count == 3 and tail.last == (0, 7) and tail.has_spans and not tail.records
