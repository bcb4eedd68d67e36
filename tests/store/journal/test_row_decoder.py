"""Rows that are decoded together are read as if they were decoded one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog.core.records import Step
from chiplog.store.contents.journal_tail import JournalTail
from chiplog.store.contents.tail_columns import TailColumns
from chiplog.store.journal.lines import Scanner, line_of
from chiplog.store.journal.row_decoder import RowDecoder
from chiplog.store.points.columns import Columns

NUMBERS = st.one_of(
    st.floats(),
    st.integers(-(2**80), 2**80),
    st.booleans(),
    st.just(2**53),
    st.floats(-1, 1),
    st.floats(-1, 1),
)
NAMES = st.sampled_from(["loss", "a/1/norm", "a/2/norm", "a/12/norm", 'odd "name"', "back\\slash", "é\n"])
ROWS = st.lists(st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=3), min_size=1, max_size=40)


def _points(columns: Columns) -> dict[str, list[tuple[object, ...]]]:
    points = {}
    for name in sorted(columns.names()):
        column = columns.column(name)
        rows = zip(column.seqs.tolist(), column.steps.tolist(), map(repr, column.values.tolist()), strict=True)
        points[name] = sorted((*row, column.exact.get(at)) for at, row in enumerate(rows))
    return points


@given(rows=ROWS, repeat=st.sampled_from([1, 3, 300]))
@settings(max_examples=150, deadline=None)
def test_points_are_the_same_decoded_together_or_alone(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, float]], repeat: int
) -> None:
    """Whatever the names and values: exact integers, booleans, NaN and names that differ in a digit."""
    path = tmp_path_factory.mktemp("journal") / "r00000-a01-0000.jsonl"
    steps = [Step(at, 10**18 + at, at * 2, row, auto=at % 3 == 0) for at, row in enumerate(rows * repeat)]
    path.write_bytes(b"".join(map(line_of, steps)))
    alone, collected = Columns(), TailColumns()
    for record in Scanner(path).read():
        alone.feed(record)
    tail = JournalTail(Scanner(path), collected=collected)
    tail.refresh()
    together = collected.points
    assert _points(together) == _points(alone)
    assert tail.count == len(steps) and tail.ranges == [(0, len(steps) - 1)] and not tail.scanner.damage
    for name in ("begin_step", "first_step", "first_seq", "last_step", "last_seq"):
        assert getattr(together, name) == getattr(alone, name), name
    assert [np.sort(one).tolist() for one in together.clock()] == [np.sort(one).tolist() for one in alone.clock()]


def test_a_damaged_line_is_not_a_row() -> None:
    """Even if it has the names of the rows before it."""
    decoder = RowDecoder()
    lines = [line_of(Step(at, at, at, {"loss": 0.5})).rstrip() for at in range(4)]
    others, damaged = decoder.decode([*lines[:3], lines[3].replace(b"0.5", b"0.7"), b""])
    assert list(others) == [0, 1] and damaged == [3]
    (batch,) = decoder.batches()
    assert [row.seq for row in batch.rows] == [2] and batch.names == ("loss",), "names are learned from two rows"


def test_damage_is_reported_and_skipped(tmp_path: Path) -> None:
    """As when every line is decoded alone."""
    path = tmp_path / "r00000-a01-0000.jsonl"
    lines = [line_of(Step(at, at, at, {"loss": float(at)})) for at in range(1000)]
    lines[500] = lines[500].replace(b"500.0", b"501.0")
    lines[700] = lines[700].rstrip(b"\n")
    path.write_bytes(b"".join(lines) + b'{"log":"step"')
    scanner = Scanner(path)
    alone = list(scanner.read())
    tail = JournalTail(Scanner(path), collected=TailColumns())
    tail.refresh()
    assert tail.count == len(alone) == 999 and tail.scanner.damage == scanner.damage
    assert tail.ranges == [(0, 499), (501, 999)] and tail.scanner.torn() == scanner.torn()
