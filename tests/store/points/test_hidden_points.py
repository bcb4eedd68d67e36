"""What newer attempts hide of older ones."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.core.records import Number
from chiplog.store.points.columns import Column
from chiplog.store.points.hidden_points import before, view, with_limits
from tests.store.points.one_rank import one_rank


@dataclass
class Attempt:
    """An attempt with a point at each of some steps."""

    attempt: int
    launch: str
    start: int
    end: int
    steps: list[Number] = field(default_factory=list)
    rank: int = 0

    @property
    def first_step(self) -> Number | None:
        return self.steps[0] if self.steps else None

    def column(self, name: str) -> Column:
        count = len(self.steps)
        return Column(np.array(self.steps), np.arange(count), np.full(count, float(self.attempt)), {})


def visible(attempts: list[Attempt], **options: int) -> list[list[Number]]:
    return [column.steps.tolist() for _, column in view("loss", attempts, **options)]


def test_a_newer_launch_hides_what_it_repeats() -> None:
    """From its first step on; the order of the list does not matter."""
    newer, older = Attempt(2, "b", 20, 30, [3, 4]), Attempt(1, "a", 0, 10, [1, 2, 3, 4, 5])
    assert visible([newer, older]) == [[1, 2], [3, 4]]
    assert visible([newer, older], attempt=1) == [[1, 2, 3, 4, 5]]


def test_attempts_at_the_same_time_do_not_hide_each_other() -> None:
    """Nor do attempts of one launch, or an attempt without rows."""
    assert visible([Attempt(1, "a", 0, 10, [1, 2]), Attempt(2, "b", 5, 15, [1, 2])]) == [[1, 2], [1, 2]]
    assert visible([Attempt(1, "a", 0, 10, [1, 2]), Attempt(2, "a", 20, 30, [1, 2])]) == [[1, 2], [1, 2]]
    assert visible([Attempt(1, "a", 0, 10, [1, 2]), Attempt(2, "b", 20, 30)]) == [[1, 2], []]


def test_the_lowest_first_step_is_the_limit() -> None:
    """NaN is below everything: nothing remains visible."""
    older = Attempt(1, "a", 0, 10, [1.0, 2.0])
    limits = {
        one.attempt: limit
        for one, limit in with_limits([older, Attempt(2, "b", 20, 30, [5, 6]), Attempt(3, "c", 40, 50, [2])])
    }
    assert limits == {1: 2, 2: 2, 3: None}
    assert visible([older, Attempt(2, "b", 20, 30, [float("nan")])])[0] == []


def test_a_mask_is_only_made_if_something_is_hidden() -> None:
    """The common case copies nothing."""
    steps = np.array([1, 2, 3])
    assert before(steps, None) is None and before(steps, 9) is None
    mask = before(steps, 2)
    assert mask is not None and mask.tolist() == [True, False, False]


def test_a_restart_with_fewer_ranks_hides_what_it_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four ranks, then two from step 5 on: of the other two nothing is shown that the restart did again."""
    for rank in range(4):
        path = one_rank(tmp_path, rank, "first", range(10), 1.0, monkeypatch)
    for rank in range(2):
        one_rank(tmp_path, rank, "second", range(5, 12), 2.0, monkeypatch)
    matrix = chiplog.read(path).series("x").by_rank()
    assert matrix.steps.tolist() == list(range(12))
    assert np.array_equal(matrix.values[:5], np.ones((5, 4)))
    assert np.array_equal(matrix.values[5:, :2], np.full((7, 2), 2.0))
    assert np.isnan(matrix.values[5:, 2:]).all()


def test_attempts_that_logged_nothing_cost_nothing() -> None:
    """50,000 files of nothing in the journal of a received run: not each is compared with every other."""
    attempts = [Attempt(number, f"l{number}", number, number) for number in range(50_000)]
    attempts.append(Attempt(50_000, "last", 50_000, 50_000, [3]))
    began = time.process_time()
    limits = [limit for _, limit in with_limits(attempts)]
    assert limits == [3] * 50_000 + [None]
    assert time.process_time() - began < 5
