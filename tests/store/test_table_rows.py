"""Tables of a stored run, a page at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core.errors import UnknownTable
from chiplog.core.records import Table
from chiplog.store import layout, table_rows
from chiplog.store.parts import compaction, part


@pytest.fixture(params=["journal", "parts", "both"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """100 samples in 20 steps, from the journal, from Parquet, and from one attempt of each."""
    run = chiplog.init(project="p", id="one", dir=tmp_path, sinks="none", compact=False)
    half = 20 if request.param != "both" else 10
    for step in range(20):
        if step == half:
            run.finish()
            compact(run.dir)
            run = chiplog.init(project="p", id="one", dir=tmp_path, sinks="none", compact=False)
        run.table("rollouts", [{"n": 5 * step + at, "mode": "eval" if at else "train"} for at in range(5)], step=step)
        run.table("others", [{"n": -1}], step=step)
    run.finish()
    if request.param == "parts":
        compact(run.dir)
    return chiplog.read(run.dir)


def compact(run: Path) -> None:
    for segment in layout.segments(run):
        compaction.compact(run, segment)


def test_a_table_has_its_rows_in_order_with_their_steps(stored: Any) -> None:
    """All of them, and none of another table."""
    found = list(stored.table("rollouts"))
    assert [row["n"] for row in found] == list(range(100)) and found[7]["step"] == 1


def test_a_page_is_a_part_of_the_rows(stored: Any) -> None:
    """By offset and limit; beyond the end there is nothing."""
    assert [row["n"] for row in stored.table("rollouts", offset=48, limit=4)] == [48, 49, 50, 51]
    assert list(stored.table("rollouts", offset=100)) == [] == list(stored.table("nobody", missing_ok=True))
    assert repr(stored.table("rollouts")).startswith("<rows of table 'rollouts', to iterate over or to list(): step, ")
    with pytest.raises(
        UnknownTable, match=r"no table 'rollout' in run .*; did you mean 'rollouts'\? available: others, rollouts"
    ):
        stored.table("rollout")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"mode": "train", "step": 3}, [15]),
        ({"n": [2, 99]}, [2, 99]),
        ({"n": lambda n: n > 97}, [98, 99]),
        (lambda row: row["n"] % 50 == 0, [0, 50]),
        ({"missing": 1}, []),
    ],
)
def test_rows_are_found_by_what_they_hold(stored: Any, where: Any, expected: list[int]) -> None:
    """By a column's value, one of several, or a function."""
    assert [row["n"] for row in stored.table("rollouts", where=where)] == expected


def test_a_page_of_what_matches_is_counted_in_matches(stored: Any) -> None:
    """Offset and limit go by what is found."""
    assert [row["n"] for row in stored.table("rollouts", where={"mode": "train"}, offset=2, limit=2)] == [10, 15]


def test_a_page_reads_no_more_than_it_needs() -> None:
    """The records behind it are not asked for."""
    asked = []

    def found() -> Any:
        for seq in range(1000):
            asked.append(seq)
            yield Table(seq, 0, "t", [{"n": seq}], seq)

    assert [row["n"] for row in table_rows.rows(found(), "t", offset=3, limit=2)] == [3, 4]
    assert len(asked) == 5


def test_a_negative_page_is_a_mistake() -> None:
    """It says what the numbers mean."""
    with pytest.raises(ValueError, match="must not be negative"):
        table_rows.rows([], "t", offset=-1)


def test_a_broken_page_is_read_from_the_journal(stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row once, in spite of a part that breaks while it is read."""
    monkeypatch.setattr(part, "PAGE", 7)
    whole = part.Part._table

    def breaks(self: Any, name: str, batch: Any, batches: Any) -> Any:
        for at, record in enumerate(whole(self, name, batch, batches)):
            if at == 4:
                raise part.BrokenPart("a flipped bit")
            yield record

    monkeypatch.setattr(part.Part, "_table", breaks)
    assert [row["n"] for row in stored.table("rollouts")] == list(range(100))
