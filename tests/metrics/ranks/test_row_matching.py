"""Rows of several ranks, lined up by name and order."""

from __future__ import annotations

from array import array

from chiplog.metrics.ranks.absent_ranks import Attendance
from chiplog.metrics.ranks.row_matching import Line, Lineup, Places
from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import RankRow


def said(place: float, *names: str, counted: bool = True) -> RankRow:
    return RankRow(place, Values(names, array("d", [1.0] * len(names)).tobytes()), counted=counted)


def log(lineup: Lineup, rank: int, place: float, *names: str, counted: bool = True, now: float = 0.0) -> Line | None:
    lineup.add(rank, said(place, *names, counted=counted), now)
    asked = lineup.ask(rank, place)
    return asked[0] if asked and rank == 0 else None


def test_rows_of_other_names_shift_nothing() -> None:
    """Rank 0 evaluates alone between two rows of training."""
    lineup = Lineup(0, [0, 1], 10)
    own = log(lineup, 0, 1, "eval/acc")
    row = log(lineup, 0, 1, "loss")
    log(lineup, 1, 1, "loss", "mine")
    assert own is not None and row is not None
    assert sorted(row.rows) == [0, 1] and sorted(own.rows) == [0]
    assert lineup.has(row, 0.0) and not lineup.has(own, 0.0)


def test_a_row_in_two_calls_joins_one_in_a_single_call() -> None:
    lineup = Lineup(0, [0, 1], 10)
    log(lineup, 1, 5, "x", "y", counted=False)
    log(lineup, 0, 5, "x", counted=False)
    line = log(lineup, 0, 5, "y", counted=False)
    assert line is not None and {rank: len(rows) for rank, rows in line.rows.items()} == {0: 2, 1: 1}


def test_a_rank_that_skips_a_step_is_past_it() -> None:
    """Also where it has gone on before this rank came to the step."""
    for first in (0, 1):
        lineup = Lineup(0, [0, 1], 10)
        if first:
            log(lineup, 1, 6, "x", counted=False)
        line = log(lineup, 0, 5, "x", counted=False)
        if not first:
            log(lineup, 1, 6, "x", counted=False)
        assert line is not None and lineup.has(line, 0.0)


def test_what_comes_too_late_is_left_out() -> None:
    """Its line has been given out; the rank is waited for again."""
    lineup = Lineup(0, [0, 1], 10)
    line = log(lineup, 0, 1, "x")
    assert line is not None and lineup.has(line, 11.0)
    (given,) = lineup.ready(11.0)
    assert given.late == {1} and given.alone
    log(lineup, 1, 1, "x")
    assert len(lineup) == 0 and lineup.attendance.absent == set()
    after = log(lineup, 0, 2, "x")
    assert after is not None and not lineup.has(after, 0.0)


def test_what_a_rank_has_logged_outlives_it() -> None:
    lineup = Lineup(0, [0, 1], 10)
    log(lineup, 1, 1, "x")
    lineup.leave(1)
    lineup.form(())
    line = log(lineup, 0, 1, "x")
    assert line is not None and sorted(line.rows) == [0, 1]


def test_the_place_of_a_row_is_how_often_its_names_came() -> None:
    places = Places()
    assert [places.next(names) for names in (("x",), ("e",), ("x", "y"), ("e",))] == [1, 1, 2, 2]


def test_a_rank_that_is_always_late_is_given_up() -> None:
    """It has a second chance; then it has to catch up."""
    attendance = Attendance([0, 1])
    attendance.give_up([1])
    attendance.hear(1, caught_up=False)
    assert attendance.absent == set()
    attendance.give_up([1])
    attendance.hear(1, caught_up=False)
    assert attendance.absent == {1}
    attendance.hear(1, caught_up=True)
    attendance.meet([1])
    assert attendance.absent == set() and not attendance.is_behind(1)
