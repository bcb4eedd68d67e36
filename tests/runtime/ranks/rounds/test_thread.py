"""Ranks that do not come, to a group or to a round which nobody gives up: as with JAX and MPI."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from chiplog.core.records import Step
from chiplog.runtime.ranks.reduce import Reduce
from chiplog.runtime.ranks.reduce_options import ReduceOptions
from tests.support.groups import Stuck


class Unformed(Stuck):
    """Nobody else has called `init`."""

    rank = 0

    def form(self) -> Sequence[int] | None:
        return None


def test_rows_that_wait_for_ranks_that_never_come_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    """By their number, and by the values in them: many scripts call `init` on rank 0 alone."""
    for metrics, most in ((1, 10_000), (1_000, 1_000), (100_000, 100)):
        reduce = Reduce(Unformed(), ReduceOptions(), {})
        step = Step(seq=0, time=0, step=0, metrics={f"x/{number}": 1.0 for number in range(metrics)})
        for number in range(most + 5):
            reduce.on_record(msgspec.structs.replace(step, step=number))
        assert (len(reduce._queue), reduce._queue.oldest.step) == (most, 5)
    assert "rows wait for the other ranks" in capsys.readouterr().err


def test_what_is_logged_in_a_gap_is_not_kept_for_later() -> None:
    """A gap may last to the end of the run, and memory does not grow by it."""
    reduce = Reduce(Stuck(), ReduceOptions(deadline=0.0), {})
    step = Step(seq=0, time=0, step=0, metrics={"x": 1.0})
    reduce.on_record(step)
    reduce._thread.take_turn()  # a round begins
    reduce._thread.take_turn()  # and is late
    assert reduce._rounds.exchange is not None
    before = reduce._rounds.exchange.outbox.left
    for number in range(1, 1000):
        reduce.on_record(msgspec.structs.replace(step, step=number))
        reduce._thread.take_turn()
    assert reduce._rounds.exchange.outbox.left == before and not reduce._queue
