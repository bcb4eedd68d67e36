"""The queue of rows that wait to be sent."""

from __future__ import annotations

from chiplog.metrics.ranks.step_gather import Topic
from chiplog.runtime.ranks.rounds.row_queue import FEW, QueuedRow, RowQueue


def test_rows_leave_in_the_order_they_came() -> None:
    """First in, first out."""
    queue = RowQueue()
    for step in range(3):
        queue.append(QueuedRow(Topic.TRAIN, step, {"x": 1.0}, 0))
    assert (len(queue), queue.oldest.step) == (3, 0)
    assert [queue.pop().step for _ in range(3)] == [0, 1, 2] and not queue


def test_a_few_rows_fit_however_long_they_are() -> None:
    """Beyond them, the oldest is dropped for each new one."""
    queue, wide = RowQueue(), {f"x/{n}": 1.0 for n in range(20_000)}
    for step in range(FEW + 3):
        queue.append(QueuedRow(Topic.TRAIN, step, wide, 0))
    assert (len(queue), queue.oldest.step) == (FEW, 3)
