"""Rows of a rank that keeps no journal: dropped if rank 0 logs the same names, and reported if it does not."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from chiplog.core.records import Alert, Step
from chiplog.runtime.ranks import rows_without_journal
from chiplog.runtime.ranks.rows_without_journal import RowsWithoutJournal


def step(number: int, *names: str) -> Step:
    return Step(number, 1, number, dict.fromkeys(names, 1.0))


def test_rows_that_rank_0_logs_too_are_dropped_silently(capsys: pytest.CaptureFixture[str]) -> None:
    """All ranks usually log the same, and one copy is enough."""
    rows = RowsWithoutJournal(3, lambda names: names)
    rows.add(step(number, "loss") for number in range(5))
    assert rows.missing() == (0, "") and capsys.readouterr().err == ""


def test_rows_with_a_name_that_only_this_rank_has_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The message says which names, and how to keep them."""
    rows = RowsWithoutJournal(3, lambda _: ["loss"])
    rows.add([step(1, "loss"), step(2, "loss", "eval/bleu"), step(3, "eval/bleu")])
    rows.note(Alert(4, 1, "a", "warn", "an alert is not a row", "", None))
    count, why = rows.missing()
    assert count == 2 and "'eval/bleu'" in why and "'loss'" not in why and "init(ranks=[0, 3])" in why
    assert "2 rows of rank 3 not kept" in capsys.readouterr().err


def test_the_kept_names_are_asked_for_once_and_only_if_there_are_rows() -> None:
    """Reading them means reading the journal of rank 0."""
    asked: list[Collection[str]] = []

    def kept(names: Collection[str]) -> Collection[str]:
        asked.append(names)
        return names

    rows = RowsWithoutJournal(1, kept)
    assert rows.missing() == (0, "") and asked == []
    rows.note(step(1, "loss"))
    rows.missing()
    assert asked == [{"loss"}]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script may log ever new names."""
    monkeypatch.setattr(rows_without_journal, "MOST", 3)
    rows = RowsWithoutJournal(1, lambda _: ())
    rows.add(step(number, f"name{number}") for number in range(10))
    assert rows.missing()[0] == 3
