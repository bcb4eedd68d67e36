"""Rows of several ranks, matched by name and order."""

from __future__ import annotations

from array import array

from chiplog.metrics.ranks.row_matching import Match, Positions, RowMatcher
from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import RankRow


def said(place: float, *names: str, counted: bool = True) -> RankRow:
    return RankRow(place, Values(names, array("d", [1.0] * len(names)).tobytes()), counted=counted)


def log(
    matcher: RowMatcher, rank: int, place: float, *names: str, counted: bool = True, now: float = 0.0
) -> Match | None:
    matcher.add(rank, said(place, *names, counted=counted), now)
    return matcher.newest if rank == 0 else None


def test_rows_of_other_names_shift_nothing() -> None:
    """Rank 0 evaluates alone between two rows of training."""
    matcher = RowMatcher(0, [0, 1], 10)
    own = log(matcher, 0, 1, "eval/acc")
    row = log(matcher, 0, 1, "loss")
    log(matcher, 1, 1, "loss", "mine")
    assert own is not None and row is not None
    assert sorted(row.rows) == [0, 1] and sorted(own.rows) == [0]
    assert matcher.is_complete(row, 0.0) and not matcher.is_complete(own, 0.0)


def test_a_row_in_two_calls_joins_one_in_a_single_call() -> None:
    matcher = RowMatcher(0, [0, 1], 10)
    log(matcher, 1, 5, "x", "y", counted=False)
    log(matcher, 0, 5, "x", counted=False)
    match = log(matcher, 0, 5, "y", counted=False)
    assert match is not None and {rank: len(rows) for rank, rows in match.rows.items()} == {0: 2, 1: 1}


def test_a_rank_that_skips_a_step_is_past_it() -> None:
    """Also where it has gone on before this rank came to the step."""
    for first in (0, 1):
        matcher = RowMatcher(0, [0, 1], 10)
        if first:
            log(matcher, 1, 6, "x", counted=False)
        match = log(matcher, 0, 5, "x", counted=False)
        if not first:
            log(matcher, 1, 6, "x", counted=False)
        assert match is not None and matcher.is_complete(match, 0.0)


def test_what_comes_too_late_is_left_out() -> None:
    """Its match has been released out; the rank is waited for again."""
    matcher = RowMatcher(0, [0, 1], 10)
    match = log(matcher, 0, 1, "x")
    assert match is not None and matcher.is_complete(match, 11.0)
    (released,) = matcher.ready(11.0)
    assert released.late == {1} and released.alone
    log(matcher, 1, 1, "x")
    assert len(matcher) == 0 and matcher.attendance.absent == set()
    after = log(matcher, 0, 2, "x")
    assert after is not None and not matcher.is_complete(after, 0.0)


def test_what_a_rank_has_logged_outlives_it() -> None:
    matcher = RowMatcher(0, [0, 1], 10)
    log(matcher, 1, 1, "x")
    matcher.leave(1)
    matcher.form(())
    match = log(matcher, 0, 1, "x")
    assert match is not None and sorted(match.rows) == [0, 1]


def test_the_place_of_a_row_is_how_often_its_names_came() -> None:
    positions = Positions()
    assert [positions.next(names) for names in (("x",), ("e",), ("x", "y"), ("e",))] == [1, 1, 2, 2]
