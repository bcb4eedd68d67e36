"""A stored run: what it is, what it holds, and how it grows."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import chiplog
from chiplog.core.errors import UnknownSeries
from chiplog.core.records import Step
from chiplog.store import layout
from chiplog.store.parts import compaction
from chiplog.store.reader import Stored
from tests.core.run.begun import begin


def test_it_describes_the_run(tmp_path: Path) -> None:
    """Later changes of the config and explicit values of the summary win."""
    with chiplog.init("p", id="r", name="n", tags=["a"], config={"lr": 1}, sinks="none", dir=tmp_path) as run:
        run.log({"loss": 2.0, "acc": 0.5}, step=1)
        run.config["lr"] = 2
        run.summary["acc"] = 0.9
    stored = Stored(run.dir)
    assert (stored.project, stored.id, stored.name, stored.tags) == ("p", "r", "n", ("a",))
    assert stored.config["lr"] == 2 and stored.created > 0 and "p/r" in repr(stored)
    assert stored.summary["loss"] == 2.0 and stored.summary["acc"] == 0.9
    assert stored.state == "finished" and stored.damage == [] and stored.missing == {}
    assert [one.attempt for one in stored.attempts] == [1]


def test_it_stays_current(tmp_path: Path) -> None:
    """Every query reads what is new."""
    run = chiplog.init("p", sinks="none", dir=tmp_path, alerts=False)
    stored = Stored(run.dir)
    run.log({"loss": 1.0}, step=1)
    assert stored.names() == ["loss"] and len(stored.series("loss")) == 1
    run.log({"loss": 2.0, "lr": 0.1}, step=2)
    assert len(stored.series("loss")) == 2 and stored.names() == ["loss", "lr"]
    run.finish()
    assert stored.state == "finished"


def test_records_are_read_by_kind_and_rank(tmp_path: Path) -> None:
    """In the order they were logged."""
    with chiplog.init("p", sinks="none", dir=tmp_path, alerts=False) as run:
        run.log({"loss": 1.0}, step=1)
        run.eval({"loss": 3.0}, step=1)
    stored = Stored(run.dir)
    assert [record.step for record in stored.records("eval")] == [1]
    seqs = [record.seq for record in stored.records()]
    assert seqs == sorted(seqs) and list(stored.records(rank=5)) == []


def test_follow_yields_records_until_the_run_finishes(tmp_path: Path) -> None:
    """Those from before, and those that are written meanwhile."""
    run = chiplog.init("p", sinks="none", dir=tmp_path, alerts=False, compact=False)
    run.log({"loss": 0.0}, step=0)
    steps: list[float] = []
    first = threading.Event()

    def read() -> None:
        for record in Stored(run.dir).follow(poll=0.01):
            if isinstance(record, Step):
                steps.append(record.step)
                first.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert first.wait(30)
    run.log({"loss": 1.0}, step=1)
    run.finish()
    thread.join(30)
    assert not thread.is_alive() and steps == [0, 1]


def test_follow_stops_after_a_time_without_records(tmp_path: Path) -> None:
    """The run goes on, but this reader does not wait for it."""
    run = chiplog.init("p", sinks="none", dir=tmp_path, alerts=False)
    records = list(Stored(run.dir).follow(poll=0.01, timeout=0.05))
    assert type(records[0]).__name__ == "Attempt"
    run.finish()


def test_spans_are_the_same_from_parts_and_tails(tmp_path: Path) -> None:
    """By their start."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        for name in ("load", "train"):
            with run.span(name):
                pass
    tails = [(one.name, one.start, one.duration) for one in Stored(run.dir).spans()]
    assert [name for name, _, _ in tails] == ["load", "train"]
    for segment in layout.segments(run.dir):
        compaction.compact(run.dir, segment)
    assert [(one.name, one.start, one.duration) for one in Stored(run.dir).spans()] == tails


def test_what_is_drawn_of_a_live_run_tells_when_it_was_logged_last(tmp_path: Path) -> None:
    """From the journal, and from a part; a series that does not exist was never logged."""
    run = begin(tmp_path, compact=False)
    for step in range(50):
        run.log({"loss": 1.0 / (step + 1), **({"rare": 1.0} if step < 3 else {})}, step=step)
    run.finish()
    for compacted in (False, True):
        if compacted:
            assert compaction.compact(run.dir, layout.segments(run.dir)[0])
        stored = chiplog.read(run.dir)
        for name in ("loss", "rare"):
            steps, values, last = stored.drawn(name)
            series = stored.series(name)
            assert steps.tolist() == series.steps.tolist() and values.tolist() == series.values.tolist()
            assert last == int(series.times.max().astype("int64"))
        assert stored.drawn("none")[2] == 0


def test_a_kind_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    """Naming the kinds; one that the run has no records of is empty."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.log({"loss": 1.0})
    stored = chiplog.read(run.dir)
    assert list(stored.records("matrix")) == []
    with pytest.raises(UnknownSeries, match="no records of kind 'evals'; did you mean 'eval'"):
        list(stored.records("evals"))
