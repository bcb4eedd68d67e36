"""Rows."""

import math

import msgspec

from chiplog.core.records import Alert, Attempt, Eval, Event, MatrixRecord, Step
from chiplog.sinks.shared.rows import Rows, is_too_ragged, tabulate


def test_calls_for_one_step_become_one_row():
    """Records of one step with different names are one row, with the time of the first."""
    rows = Rows()
    assert rows.feed(Step(0, 10, 1, {"a": 1})) == []
    assert rows.feed(Step(1, 20, 1, {"b": 2})) == []
    assert rows.feed(Step(2, 30, 2, {"a": 3})) == [(1, 10, {"a": 1, "b": 2})]
    assert rows.drain() == [(2, 30, {"a": 3})]
    assert rows.drain() == []


def test_a_name_that_comes_twice_begins_a_new_row():
    """The same name twice in one step is two points, so it is two rows."""
    rows = Rows()
    rows.feed(Step(0, 10, 1, {"a": 1}))
    assert rows.feed(Step(1, 20, 1, {"a": 2})) == [(1, 10, {"a": 1})]
    assert rows.drain() == [(1, 20, {"a": 2})]


def test_joining_leaves_the_records_alone():
    """A row that is joined is a new mapping; the records keep their own."""
    first = Step(0, 10, 1, {"a": 1})
    rows = Rows()
    rows.feed(first)
    rows.feed(Step(1, 20, 1, {"b": 2}))
    assert first.metrics == {"a": 1}


def test_an_eval_comes_after_the_row_before_it():
    """An eval finishes the row that is held, and is a row of its own under eval/."""
    rows = Rows()
    rows.feed(Step(0, 10, 1, {"a": 1}))
    assert rows.feed(Eval(1, 20, 1, {"loss": 2.0})) == [(1, 10, {"a": 1}), (1, 20, {"eval/loss": 2.0})]


def test_another_attempt_begins_a_new_row():
    """The same step of a later attempt is not the same row."""
    rows = Rows()
    rows.feed(Step(0, 10, 1, {"a": 1}))
    assert rows.feed(Attempt(0, 20, 2, "l", 0, 1, "h", 1, 0, "process", "0")) == [(1, 10, {"a": 1})]
    assert rows.drain() == []


def test_an_event_between_two_calls_does_not_part_them():
    """The numbers of an event are a row of their own, and the step goes on."""
    rows = Rows()
    rows.feed(Step(0, 10, 1, {"a": 1}))
    assert rows.feed(Event(1, 20, "gpu", {"id": 0, "power": 350})) == [(None, 20, {"gpu/0/power": 350})]
    rows.feed(Step(2, 30, 1, {"b": 2}))
    assert rows.drain() == [(1, 10, {"a": 1, "b": 2})]


def test_a_series_twice_in_one_event_is_two_rows():
    """Two points of one series in one event are both kept."""
    stats = [{"name": "x", "device": 1}, {"name": "x", "device": 2}]
    found = Rows().feed(Event(0, 5, "allocator", {"stats": stats}, 3))
    assert found == [(3, 5, {"allocator/x/device": 1}), (3, 5, {"allocator/x/device": 2})]


def test_what_has_no_numbers_is_no_row():
    """Alerts and events without numbers give nothing."""
    rows = Rows()
    assert rows.feed(Alert(0, 1, "spike")) == []
    assert rows.feed(Event(1, 2, "note", {"text": "hello"})) == []


def test_unjoined_is_a_row_for_every_record():
    """With joined=False nothing is held back."""
    rows = Rows(joined=False)
    assert rows.feed(Step(0, 10, 1, {"a": 1})) == [(1, 10, {"a": 1})]
    assert rows.feed(Step(1, 20, 1, {"b": 1})) == [(1, 20, {"b": 1})]
    assert rows.drain() == []


def test_the_held_row_can_be_saved_and_loaded():
    """What is held survives as plain JSON, non-finite and very large numbers too."""
    rows, again = Rows(), Rows()
    rows.feed(Step(0, 10, 1.5, {"nan": math.nan, "inf": -math.inf, "big": 2**70, "yes": True, "text": "x"}))
    again.load(msgspec.json.decode(msgspec.json.encode(rows.save())))
    (row,) = again.drain()
    assert (row.step, row.time) == (1.5, 10)
    assert math.isnan(row.metrics["nan"])
    assert {**row.metrics, "nan": 0} == {"nan": 0, "inf": -math.inf, "big": 2**70, "yes": True, "text": "x"}
    again.load(Rows().save())
    assert again.drain() == []


def test_a_held_row_with_a_lone_surrogate_can_be_saved():
    """A name that UTF-8 cannot say is saved escaped."""
    rows, again = Rows(), Rows()
    rows.feed(Step(0, 10, 1, {"a\ud800": 1}))
    again.load(rows.save())
    assert again.drain() == [(1, 10, {"a\\ud800": 1})]


def test_a_table_of_names_that_never_meet_is_not_their_square(capsys):
    """3,000 rows of a name each would be nine million cells; the message says how many columns are sent."""
    columns, rows = tabulate([{f"k{at}": at} for at in range(3000)], "table 't'")
    assert len(columns) == 365 and len(rows) == 3000 and rows[1][1] == 1
    assert (
        "table 't' has 3,000 rows that share few of their 3,000 names: 365 columns are sent" in capsys.readouterr().err
    )
    assert tabulate([{"a": 1}, {"b": 2}]) == (["a", "b"], [[1, None], [None, 2]])


def test_a_ragged_matrix_is_reported(capsys):
    """25 million cells for 5,000 numbers are not worth sending."""
    assert is_too_ragged(MatrixRecord(0, 1, "m", [*([[]] * 5000), [1] * 5000]), "trackio")
    assert "trackio: matrix 'm' is not sent: too ragged" in capsys.readouterr().err
    assert not is_too_ragged(MatrixRecord(0, 1, "m", [[1, 2], [3]]), "trackio")
