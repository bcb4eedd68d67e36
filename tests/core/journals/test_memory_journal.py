"""Records in memory until it is decided which rank keeps the run."""

from __future__ import annotations

from chiplog.core.journals import memory_journal
from chiplog.core.journals.memory_journal import MemoryJournal, is_logged
from chiplog.core.records import Event, Step
from tests.support.journals import Kept


def test_the_first_logged_record_is_reported_once() -> None:
    """Automatic records and statistics across ranks do not count."""
    calls: list[int] = []
    held = MemoryJournal(lambda: calls.append(1))
    held.append(Event(0, 0, "gpu"))
    held.append(Step(1, 0, 0, {"a": 1}, across=True))
    assert not calls and not held.logged
    held.append(Step(2, 0, 0, {"a": 1}))
    held.append(Step(3, 0, 1, {"a": 1}))
    assert calls == [1] and held.logged and len(held) == 4
    assert is_logged(Step(2, 0, 0, {})) and not is_logged(Event(0, 0, "gpu"))


def test_an_opened_journal_gets_what_was_held_and_all_that_follows() -> None:
    """In order."""
    held, journal = MemoryJournal(lambda: None), Kept()
    held.append(Step(0, 0, 0, {"a": 1}))
    held.open(journal, 1, "process")  # type: ignore[arg-type]
    held.append(Step(1, 0, 1, {"a": 1}))
    assert [record.seq for record in journal.records] == [0, 1] and not held.undecided and held.keeps


def test_lost_records_are_counted() -> None:
    """Only those that a user logged."""
    held = MemoryJournal(lambda: None)
    held.append(Event(0, 0, "gpu"))
    held.append(Step(1, 0, 0, {"a": 1}))
    held.lose("the disk is full")
    assert (held.dropped, held.trouble, held.keeps, held.waiting) == (1, "the disk is full", False, 0)


def test_automatic_records_alone_do_not_fill_the_memory() -> None:
    """The first record, which names the attempt, stays."""
    held = MemoryJournal(lambda: None)
    for seq in range(3 * memory_journal.FEW):
        held.append(Event(seq, 0, "gpu"))
    journal = Kept()
    held.open(journal, 1, "process")  # type: ignore[arg-type]
    assert len(journal.records) <= memory_journal.FEW and journal.records[0].seq == 0
