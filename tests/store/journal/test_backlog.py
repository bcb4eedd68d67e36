"""The backlog: bounded, ordered, and honest about what it drops."""

from __future__ import annotations

import pytest

from chiplog.core.records import Step
from chiplog.store.journal import backlog
from chiplog.store.journal.backlog import Backlog
from chiplog.store.journal.lines import line_of


def step(seq: int, metrics: int = 1) -> Step:
    return Step(seq, seq, seq, {f"m{at}": 1.0 for at in range(metrics)})


def test_lines_leave_in_the_order_they_came() -> None:
    """A chunk ends with the line that reaches the limit; what could not be written returns to the front."""
    waiting = Backlog()
    for seq in range(4):
        waiting.append(step(seq))
    first = waiting.take(1)
    assert first == [line_of(step(0))] and len(waiting) == 3
    waiting.push_front(first)
    assert waiting.take(1 << 20) == [line_of(step(seq)) for seq in range(4)]
    assert len(waiting) == 0 and waiting.dropped == 0


def test_what_does_not_fit_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large record takes more than one slot; a closed backlog ignores what comes."""
    monkeypatch.setattr(backlog, "SLOTS", 4)
    waiting = Backlog()
    waiting.append(step(0))
    waiting.append(step(1, metrics=30))
    assert waiting.full
    waiting.append(step(2))
    assert waiting.dropped == 1
    waiting.close()
    waiting.append(step(3))
    assert waiting.dropped == 1
    assert [line for line in waiting.take(1 << 20) if line] == [line_of(step(0)), line_of(step(1, metrics=30))]


def test_the_newest_lines_are_kept() -> None:
    """At the end, as many as there is room for on the disk."""
    waiting = Backlog()
    for seq in range(5):
        waiting.append(step(seq))
    waiting.drop_all_but(2 * len(line_of(step(0))))
    assert waiting.dropped == 3
    assert waiting.take(1 << 20) == [line_of(step(3)), line_of(step(4))]
