"""Runs for other programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import chiplog
from chiplog.store.reader import Stored
from chiplog.views.export import tables


def sheet(stored: Stored) -> list[list[str]]:
    out = io.BytesIO()
    tables.to_csv(stored, out)
    return list(csv.reader(io.StringIO(out.getvalue().decode())))


def test_csv_has_a_row_a_step() -> None:
    """Different names of one step share a row, and what was not logged is empty."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"a": 1.5}, step=0)
        run.log({"b": 2}, step=0)
        run.log({"a": 3.5}, step=10)
    assert sheet(chiplog.read()) == [["step", "a", "b"], ["0", "1.5", "2"], ["10", "3.5", ""]]


def test_csv_keeps_what_was_logged_twice() -> None:
    """The same name twice at a step is two rows."""
    with chiplog.init(project="p", sinks="none") as run:
        for value in (1.5, 2.5):
            run.log({"a": value}, step=7)
    assert sheet(chiplog.read())[1:] == [["7", "1.5"], ["7", "2.5"]]


def test_csv_keeps_values_exactly() -> None:
    """NaN, infinities, long integers, booleans and -0.0 come out as they went in."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        for step, value in enumerate([float("nan"), float("inf"), 2**70 + 1, True, -0.0, 0.1]):
            run.log({"a": value}, step=step)
    assert [row[1] for row in sheet(chiplog.read())[1:]] == ["nan", "inf", str(2**70 + 1), "true", "-0.0", "0.1"]


def test_csv_is_no_formula() -> None:
    """A name that a spreadsheet would run is made harmless."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"=1+1": 1, "a,b": 2})
    assert sheet(chiplog.read())[0] == ["step", "'=1+1", "a,b"]


def test_csv_of_nothing() -> None:
    """A run without points has a header."""
    chiplog.init(project="p", sinks="none").finish()
    assert sheet(chiplog.read()) == [["step"]]


def test_csv_has_the_rank_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """With journals of several ranks the rank is the second column."""
    monkeypatch.setenv("CHIPLOG_RUN_ID", "both")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        with chiplog.init(project="p", sinks="none", ranks="all") as run:
            run.log({"a": rank + 0.5}, step=3)
    assert sheet(chiplog.read()) == [["step", "rank", "a"], ["3", "0", "0.5"], ["3", "1", "1.5"]]


def test_csv_says_how_far_it_is() -> None:
    """Progress goes up to 1."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"a": 1.0})
    told: list[float] = []
    tables.to_csv(chiplog.read(), io.BytesIO(), told.append)
    assert told[-1] == 1.0


def test_json_is_all_records() -> None:
    """The array holds every record, first to last."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"a": float("nan")})
    out = io.BytesIO()
    tables.to_json(chiplog.read(), out)
    found = json.loads(out.getvalue(), parse_constant=pytest.fail)
    assert [record["log"] for record in found if record["log"] != "event"] == ["attempt", "step", "finish"]


def test_parquet_is_the_long_table(tmp_path: Path) -> None:
    """Every point is a row with its name, step and value."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"a": 1.5, "b": 2}, step=4)
    tables.to_parquet(chiplog.read(), tmp_path / "x.parquet")
    rows = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [(row["name"], row["step"], row["value"]) for row in rows] == [("a", 4, 1.5), ("b", 4, 2.0)]


def test_a_series_that_is_called_like_a_number_has_a_header_all_the_same(tmp_path) -> None:
    """`-inf` as a name is text, which a spreadsheet would take for a formula."""
    with chiplog.init(dir=tmp_path, sinks="none") as run:
        run.log({"-inf": 1.0, "nan": 2.0}, step=0)
    out = io.BytesIO()
    tables.to_csv(chiplog.read(run.dir), out)
    assert out.getvalue() == b"step,'-inf,nan\n0,1,2\n"


def test_a_metric_called_step_is_no_second_column() -> None:
    """Left out where it says the same as the step, `step/value` otherwise."""
    for value, head in ((7, b"step,loss"), (70, b"step,loss,step/value")):
        with chiplog.init(project="p", sinks="none", alerts=False) as run:
            run.log({"step": value, "loss": 1.0}, step=7)
        out = io.BytesIO()
        tables.to_csv(chiplog.read(run.dir), out)
        assert out.getvalue().splitlines()[0] == head
