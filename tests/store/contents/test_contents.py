"""The contents of a run: the same from its journal, from its parts, and as it grows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import chiplog
from chiplog.cli import main
from chiplog.core.records import Alert, HistogramRecord, Record, Step
from chiplog.store import layout
from chiplog.store.contents.contents import Bounds, Contents, Stream, distribution
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.journal.lines import line_of
from chiplog.store.layout import Segment
from chiplog.store.parts.compaction import compact


def log_everything(run: chiplog.Run, first: int = 0) -> None:
    """Two steps with a record of every kind."""
    for step in range(first, first + 2):
        run.log({"loss": 1.0 / (step + 1), "load": chiplog.Matrix([[1.0, math.nan], [2.0]])}, step=step)
        run.log({"sample": chiplog.Text(f"text {step}")}, step=step)
        run.table("rows", [{"a": step}, {"a": step + 0.5}], step=step)
        run.eval({"loss": 2.0}, step=step)
        run.alert(f"alert {step}")
        run.config[f"k{step}"] = step
        run.summary["best"] = step


def described(contents: Contents) -> dict[str, object]:
    """What it says, in a form that compares."""
    return {
        "config": contents.config,
        "summary": contents.summary,
        "alerts": [one.title for one in contents.alerts],
        "evals": [(one.step, dict(one.metrics)) for one in contents.evals],
        "samples": {name: [one.cells for one in kept] for name, kept in contents.samples()},
        "matrices": {name: [repr(frame.rows) for frame in kept] for name, kept in contents.matrices.items()},
        "streams": {key: (one.records, one.first, one.last) for key, one in contents.streams.items()},
        "missing": contents.missing,
        "damage": contents.damage,
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with chiplog.init("p", sinks="none", dir=tmp_path, alerts=False) as run:
        log_everything(run)
    return run.dir


def test_a_part_says_what_its_journal_said(path: Path) -> None:
    """Every kind of record, the count of records, the steps and the holes."""
    before = described(Contents(path).refresh())
    assert before["alerts"] == ["alert 0", "alert 1"] and before["missing"] == {}
    assert before["samples"] == {
        "rows": [{"a": 0}, {"a": 0.5}, {"a": 1}, {"a": 1.5}],
        "sample": [{"text": "text 0"}, {"text": "text 1"}],
    }
    for segment in layout.segments(path):
        assert compact(path, segment)
    assert described(Contents(path).refresh()) == before


def test_it_grows_with_the_run(tmp_path: Path) -> None:
    """Kept open beside a run it ends up where one that is opened at the end does."""
    run = chiplog.init("p", sinks="none", dir=tmp_path, alerts=False)
    contents = Contents(run.dir)
    for first in (0, 2, 4):
        log_everything(run, first)
        run.flush()
        contents.refresh()
        assert len(contents.evals) == first + 2
    run.finish()
    assert described(contents.refresh()) == described(Contents(run.dir).refresh())


def test_it_keeps_no_more_than_its_bounds(tmp_path: Path) -> None:
    """The newest alerts and rows, with the count of all; every other matrix but the first and the last."""
    run = chiplog.init("p", sinks="none", dir=tmp_path, alerts=False)
    for first in range(0, 20, 2):
        log_everything(run, first)
    run.finish()
    contents = Contents(run.dir, bounds=Bounds(alerts=3, rows=4, frames=6)).refresh()
    assert [one.title for one in contents.alerts] == ["alert 17", "alert 18", "alert 19"]
    assert contents.alert_count == 20
    assert len(contents.tables["rows"]) == 4 and contents.sample_counts["rows"] == 40
    steps = [frame.step for frame in contents.matrices["load"]]
    assert len(steps) <= 6 and steps[0] == 0 and steps[-1] == 19


def test_some_kinds_are_read_alone(path: Path) -> None:
    """What was not asked for is not there; records are counted all the same."""
    contents = Contents(path, "alert").refresh()
    assert len(contents.alerts) == 2 and not contents.evals and not contents.tables
    assert contents.stream(0, 1).records == Contents(path).refresh().stream(0, 1).records


def test_a_missing_line_is_a_hole_and_a_torn_one_is_torn(path: Path) -> None:
    """Unless its stream is live: then it may be being written."""
    journal = next((path / layout.JOURNAL).glob("*.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], *lines[5:-1], lines[-1][:10]]))
    contents = Contents(path).refresh()
    assert contents.missing == {"r00000-a01": [(4, 4)]}
    assert [one.reason for one in contents.torn()] == ["unfinished line"]
    assert contents.torn(live={"r00000-a01"}) == []


def test_a_broken_part_gives_way_to_its_segment(path: Path) -> None:
    """One flipped byte in its rows, and the journal is read instead."""
    before = described(Contents(path).refresh())
    for segment in layout.segments(path):
        compact(path, segment)
    rows = next((path / layout.PARTS).glob("*.rows.parquet"))
    data = bytearray(rows.read_bytes())
    data[20] ^= 1
    rows.chmod(0o600)
    rows.write_bytes(data)
    assert described(Contents(path).refresh()) == before


def test_events_need_not_be_kept_to_know_the_config(tmp_path: Path) -> None:
    """For those who ask what a run says of itself, beside probes that record an event every second."""
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        for at in range(100):
            run.event("gpu", id=0, power=at)
        run.config["lr"] = 0.1
    contents = Contents(run.dir, "event", bounds=Bounds(events=0)).refresh()
    assert contents.config == {"lr": 0.1} and not contents.events
    assert chiplog.read(run.dir).config == {"lr": 0.1}


def test_a_histogram_has_a_total_a_mean_and_a_range() -> None:
    """As exact as its bins; empty bins at the ends are not part of the range."""
    one = distribution(HistogramRecord(0, 0, "w", [0, 1, 2, 3, 4], [0, 3, 1, 0], step=7))
    assert one is not None
    assert (one.step, one.total, one.mean, one.min, one.max) == (7, 4, 1.75, 1.0, 3.0)


def test_a_histogram_of_values_has_their_mean_and_range(tmp_path: Path) -> None:
    """Not those of the bins, before and after compaction."""
    with chiplog.init(dir=tmp_path, sinks="none", compact=False) as run:
        run.log({"ones": chiplog.Histogram([1, 1, 1]), "none": chiplog.Histogram([0.0] * 9)}, step=0)
    for _ in range(2):
        ones, none = (Contents(run.dir).refresh().histograms[name] for name in ("ones", "none"))
        assert (ones.min, ones.mean, ones.max) == (1.0, 1.0, 1.0)
        assert (none.min, none.mean, none.max) == (0.0, 0.0, 0.0)
        assert main(["compact", str(run.dir)]) == 0


def test_an_empty_histogram_has_no_mean() -> None:
    """And no range."""
    one = distribution(HistogramRecord(0, 0, "w", [0, 1], [0]))
    assert one is not None and one.total == 0 and one.mean is one.min is one.max is None


def test_a_histogram_that_makes_no_sense_is_left_out() -> None:
    """Too few edges, or an edge that is not finite."""
    assert distribution(HistogramRecord(0, 0, "w", [0], [1])) is None
    assert distribution(HistogramRecord(0, 0, "w", [0, "inf"], [1])) is None


def _stream(run: Path, *records: Record) -> Stream:
    """The stream of a journal with these records, in this order."""
    journal = run / layout.JOURNAL / Segment(0, 1, 0).filename
    journal.parent.mkdir(exist_ok=True)
    journal.write_bytes(b"".join(map(line_of, records)))
    stream = Stream()
    stream.segments += RunSegments(run)()
    return stream


def test_holes_in_the_numbers_are_missing_records(tmp_path: Path) -> None:
    """Whatever the order in which the records were written."""
    rows = [Step(seq, seq, seq * 10, {"loss": 1.0}) for seq in (0, 1, 5, 3)]
    stream = _stream(tmp_path, *rows)
    assert stream.records == 4 and stream.missing == [(2, 2), (4, 4)]
    assert _stream(tmp_path, *rows, Step(2, 2, 20, {"loss": 1.0})).missing == [(4, 4)]


def test_the_first_and_the_last_step_are_those_of_rows(tmp_path: Path) -> None:
    """Other records have none."""
    stream = _stream(tmp_path, Alert(0, 0, "title", "text", "warning"))
    assert stream.first is None and stream.last is None
    rows = [Step(2, 2, 8, {"loss": 1.0}), Step(1, 1, 7, {"loss": 1.0})]
    stream = _stream(tmp_path, *rows)
    assert stream.first == 7 and stream.last == 8, "by number, whatever the order of arrival"


def test_a_part_counts_as_its_records(tmp_path: Path) -> None:
    """Without reading its points."""
    with chiplog.init("p", sinks="none", dir=tmp_path, compact=False, alerts=False) as run:
        for step in range(5, 8):
            run.log({"loss": 1.0}, step=step)
    (segment,) = RunSegments(run.dir)()
    count = len(list(segment.records()))
    compact(run.dir, segment.segment)
    stream = Stream()
    stream.segments += RunSegments(run.dir)()
    assert (stream.records, stream.first, stream.last, stream.missing) == (count, 5, 7, [])
