"""Rows without a schema: their step, their time, and what the other columns become."""

from __future__ import annotations

import math

import pytest

from chiplog.core import records
from chiplog.core.records import Plain
from chiplog.store.foreign.row_columns import flat, items, moment, step_column, time_column

NOON = 1_700_000_000


def test_the_step_is_the_most_specific_column() -> None:
    """A file of a trainer often has an epoch next to the step."""
    assert step_column(["epoch", "loss", "global_step"]) == "global_step"
    assert step_column(["loss", "epoch"]) == "epoch" and step_column(["loss"]) is None
    assert time_column(["loss", "timestamp"]) == "timestamp"


def test_a_row_becomes_a_step_and_texts() -> None:
    """Numbers are metrics, other texts are texts, and words for numbers that are not finite are numbers."""
    row: dict[str, Plain] = {
        "step": 3.0,
        "timestamp": NOON,
        "data": {"loss": 0.5},
        "lr": "nan",
        "note": "warm",
        "empty": "",
    }
    step, note = items(row, fallback=1, counted=9)
    assert isinstance(step, records.Step) and isinstance(note, records.TextRecord)
    assert (step.step, step.time, step.metrics["loss"]) == (3, NOON * 10**9, 0.5)
    assert math.isnan(float(step.metrics["lr"])) and set(step.metrics) == {"loss", "lr"}
    assert (note.name, note.text, note.step) == ("note", "warm", 3)


def test_a_row_without_step_and_time_gets_those_of_its_place() -> None:
    """The number of the row, and the time of its file."""
    (step,) = items({"loss": 1}, fallback=77, counted=5)
    assert isinstance(step, records.Step) and (step.step, step.time) == (5, 77)


def test_nested_values_have_their_path_as_name() -> None:
    """Except inside what only wraps the metrics; Ray's configuration, which is in every row, is left out."""
    row: dict[str, Plain] = {"metrics": {"loss": 1}, "eval": {"loss": 2}, "config": {"lr": 3}}
    assert dict(flat(row)) == {"loss": 1, "eval/loss": 2}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NOON, NOON * 10**9),
        (NOON * 1000, NOON * 10**9),
        (NOON * 10**9, NOON * 10**9),
        ("2023-11-14T22:13:20", NOON * 10**9),
        ("2023-11-15T00:13:20+02:00", NOON * 10**9),
        ("soon", 0),
        (12.5, 0),  # seconds since the start of a run
        (math.nan, 0),
        (None, 0),
    ],
)
def test_a_time_is_read_in_any_usual_unit(value: Plain, expected: int) -> None:
    """Seconds, milliseconds or nanoseconds since the epoch, or a text, which is UTC unless it has an offset."""
    assert moment(value) == expected
