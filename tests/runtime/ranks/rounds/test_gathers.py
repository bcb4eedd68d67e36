"""The rows of all ranks, by topic."""

from __future__ import annotations

from array import array

from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import RankRow, Topic
from chiplog.runtime.ranks.reduce_options import ReduceOptions
from chiplog.runtime.ranks.rounds.gathers import Gathers


def row(step: int, topic: Topic = Topic.TRAIN, *, counted: bool = False) -> RankRow:
    return RankRow(step, Values(("x",), array("d", [1.0]).tobytes()), 0, topic, counted)


def test_topics_are_gathered_apart() -> None:
    """An evaluation does not complete a training step."""
    gathers = Gathers(0, 2, ReduceOptions())
    gathers.form((0, 1))
    gathers.add_own(row(5), 0.0, 5)
    gathers.add(1, row(5, Topic.EVAL), 0.0)
    assert [(topic, sorted(step.rows)) for topic, step in gathers.rest()] == [(Topic.TRAIN, [0]), (Topic.EVAL, [1])]
    assert gathers.is_empty


def test_training_rows_from_before_the_group_was_formed_are_left_out() -> None:
    """They would be mixed with newer steps; evaluations have their own steps."""
    gathers = Gathers(0, 2, ReduceOptions())
    gathers.form((0, 1), after=7)
    for step in (7, 8):
        gathers.add(1, row(step), 0.0)
        gathers.add(1, row(step, Topic.EVAL), 0.0)
    assert [(topic, step.step) for topic, step in gathers.rest()] == [
        (Topic.TRAIN, 8),
        (Topic.EVAL, 7),
        (Topic.EVAL, 8),
    ]


def test_matched_rows_outlive_the_group() -> None:
    """With the option `order`, what a rank logged before it finished still counts."""
    gathers = Gathers(0, 2, ReduceOptions(sync=True, order=True))
    gathers.form((0, 1))
    gathers.add(1, row(1, counted=True), 0.0)
    gathers.finish(1)
    gathers.form(())
    gathers.add_own(row(1, counted=True), 0.0, 40)
    ((_, step),) = gathers.rest()
    assert (step.step, sorted(step.rows)) == (40, [0, 1])
