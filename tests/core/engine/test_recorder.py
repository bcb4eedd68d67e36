"""The recorder: numbers and times, listeners, and what it says when something fails or nothing is recorded."""

from __future__ import annotations

import pytest

from chiplog.core import records
from chiplog.core.clock import RunClock
from chiplog.core.engine.recorder import Recorder
from chiplog.core.records import Record
from tests.support.journals import Kept


def test_records_have_numbers_in_order_and_the_run_s_time() -> None:
    """From 0, without a gap."""
    journal = Kept()
    recorder = Recorder("run", journal, RunClock())
    for name in "abc":
        recorder.write(records.Event, name=name, data={})
    assert [record.seq for record in journal.records] == [0, 1, 2]
    assert all(abs(record.time - recorder.clock.now()) < 10**9 for record in journal.records)


def test_listeners_hear_of_every_record_after_it_was_appended(capsys: pytest.CaptureFixture[str]) -> None:
    """One that raises is reported once and disturbs nobody; one that is forgotten hears no more."""
    journal = Kept()
    recorder = Recorder("run", journal, RunClock())
    heard: list[int] = []

    def listen(record: Record) -> None:
        heard.append(len(journal.records))

    def fail(record: Record) -> None:
        raise ValueError("not today")

    recorder.listen(fail)
    recorder.listen(listen)
    recorder.write(records.Event, name="a", data={})
    recorder.write(records.Event, name="b", data={})
    assert heard == [1, 2]
    assert capsys.readouterr().err.count("not today") == 1
    recorder.stop_listening(listen)
    recorder.stop_listening(fail)
    recorder.write(records.Event, name="c", data={})
    assert heard == [1, 2] and len(journal.records) == 3
    assert recorder.append == journal.append  # the short way again


def test_a_strict_recorder_raises_and_another_reports_once(capsys: pytest.CaptureFixture[str]) -> None:
    """By kind of failure, which is named even if the error has no message."""
    with pytest.raises(ValueError, match="bad"):
        Recorder("strict", Kept(), RunClock(), strict=True).failed("log", ValueError("bad"))
    recorder = Recorder("lenient", Kept(), RunClock())
    for _ in range(3):
        assert recorder.failed("log", ValueError("bad")) == {}
    recorder.failed("stage Mine", AssertionError())
    assert capsys.readouterr().err == (
        "chiplog: log: ValueError: bad; training continues\nchiplog: stage Mine: AssertionError; training continues\n"
    )


def test_after_stop_nothing_is_recorded_and_the_reason_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    """By whatever way a record comes."""
    journal = Kept()
    recorder = Recorder("stopped", journal, RunClock())
    recorder.stop("the run has finished")
    assert recorder.inert and not recorder.keeps
    assert recorder.write(records.Event, name="a", data={}) is None
    recorder.append(records.Event(0, 0, "b", {}))
    recorder.listen(lambda _: pytest.fail("nothing was recorded"))
    recorder.append(records.Event(1, 0, "c", {}))
    assert journal.records == []
    assert capsys.readouterr().err.count("the run has finished; what is logged here is not kept") == 1
