"""Updates: one per call, whatever records it was kept in."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from chiplog.core.records import AnyRecord, Attempt, Eval, Event, MatrixRecord, Step, TextRecord
from chiplog.sinks.shared.history_updates import PATIENCE, UPDATE, Updates

SECOND = 1_000_000_000


def mark(*names: str, step: int = 3, time: int = 0) -> Event:
    return Event(0, time, UPDATE, {"names": list(names)}, step)


def joined(*records: AnyRecord) -> list[tuple[Any, dict[str, Any]]]:
    """What the records complete, and what is left at the end."""
    updates = Updates()
    found = [update for record in records for update in updates.feed(record)]
    return [(update.step, dict(update.metrics)) for update in (*found, *updates.drain())]


def test_a_row_of_numbers_is_an_update() -> None:
    """Also a second one of the same step, and an evaluation."""
    assert joined(Step(0, 0, 1, {"a": 1.0}), Step(1, 0, 1, {"b": 2.0}), Eval(2, 0, 1, {"loss": 3.0})) == [
        (1, {"a": 1.0}),
        (1, {"b": 2.0}),
        (1, {"eval/loss": 3.0}),
    ]


def test_vectors_and_texts_are_in_their_row() -> None:
    """In the order they were given, with the statistics behind them."""
    assert joined(
        mark("v", "loss", "t", "m"),
        MatrixRecord(1, 0, "v", [[1.0, 2.0]], 3),
        MatrixRecord(2, 0, "m", [[1.0], [2.0]], 3),
        TextRecord(3, 0, "t", "words", 3),
        Step(4, 0, 3, {"loss": 0.5, "loss/mean": 0.6}),
    ) == [(3, {"v": [1.0, 2.0], "loss": 0.5, "t": "words", "m": [[1.0], [2.0]], "loss/mean": 0.6})]


def test_values_that_come_later_are_waited_for() -> None:
    """Rows stay in their order; two of one step are told apart by their names."""
    found = joined(
        mark("loss", "lr"),
        Step(1, 0, 3, {"lr": 0.1}),
        mark("eval/loss"),
        Step(3, 0, 4, {"loss": 2.0}),
        Step(4, 0, 3, {"loss": 1.0}),
        Step(5, 0, 3, {"eval/loss": 5.0}),
    )
    assert found == [(3, {"loss": 1.0, "lr": 0.1}), (3, {"eval/loss": 5.0}), (4, {"loss": 2.0})]


def test_what_nobody_logged_makes_none() -> None:
    """Statistics that come late, and the numbers of events."""
    late = Step(1, 0, 1, {"ranks/skew": 1.0, "loss/mean": 2.0}, across=True)
    assert joined(
        Step(0, 0, 1, {"loss": 1.0}), late, Event(2, 0, "timings", {"data": 1.0}), Eval(3, 0, 1, {}, True)
    ) == [(1, {"loss": 1.0})]


def test_late_statistics_join_a_row_that_still_waits() -> None:
    """Those of its own metrics alone."""
    found = joined(
        mark("a", "b"),
        Step(1, 0, 3, {"a": 1.0}),
        Step(2, 0, 3, {"ranks/skew": 1.0}, across=True),
        Step(3, 0, 3, {"a/mean": 2.0}, across=True),
        Step(4, 0, 3, {"b": 1.0}),
    )
    assert found == [(3, {"a": 1.0, "b": 1.0, "a/mean": 2.0})]


def test_a_value_that_never_comes_is_not_waited_for_for_long() -> None:
    """Half a minute, or until the next attempt; then the row goes without it."""
    updates = Updates()
    assert updates.feed(mark("a", "b")) == [] and updates.feed(Step(1, 0, 3, {"a": 1.0})) == []
    assert updates.feed(Step(2, PATIENCE - 1, 4, {"a": 2.0})) == []
    assert [update.metrics for update in updates.feed(Step(3, PATIENCE, 5, {"a": 3.0}))] == [
        {"a": 1.0},
        {"a": 2.0},
        {"a": 3.0},
    ]
    updates.feed(mark("a"))
    assert updates.feed(Attempt(0, 0, 2, "", 0, 1, "", 1, 0, "", "")) == [] and updates.drain() == []


@pytest.mark.parametrize("at", range(6))
def test_one_that_goes_on_from_a_saved_state_gives_the_same(at: int) -> None:
    """As a sink does after a crash, at whatever record that was; also with NaN."""
    records = [
        mark("a", "t"),
        Step(1, 0, 3, {"a": math.inf}),
        Step(2, 0, 4, {"a": math.nan}),
        mark("c", step=5),
        TextRecord(4, 0, "t", "x", 3),
        Step(5, 0, 5, {"c": 1.0}),
    ]
    first, second = Updates(), Updates()
    found = [update for record in records[:at] for update in first.feed(record)]
    second.load(json.loads(json.dumps(first.save())))
    found += [update for record in records[at:] for update in second.feed(record)]
    assert [(update.step, list(update.metrics)) for update in found] == [(3, ["a", "t"]), (4, ["a"]), (5, ["c"])]
    assert str(found[1].metrics["a"]) == "nan"
