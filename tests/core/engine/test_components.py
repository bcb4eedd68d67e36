"""The components of a run, connected to each other."""

from __future__ import annotations

import pytest

from chiplog.core import records
from chiplog.core.journals.memory_journal import MemoryJournal
from chiplog.core.protocols import Finding
from chiplog.core.records import Row
from tests.support.components import components
from tests.support.journals import Kept


class NoSinks:
    def health(self) -> dict[str, dict[str, object]]:
        return {}


def test_without_a_journal_nothing_is_recorded() -> None:
    """No span is kept either, and the run is healthy."""
    made = components(None)
    assert made.recorder.inert and not made.tracer.on
    with made.tracer.span("work"):
        pass
    made.rows.write({"x": 1}, 0)
    assert not made.tasks.write_spans()
    assert made.health(NoSinks()) == {  # type: ignore[arg-type]
        "journal": {"waiting": 0, "dropped": 0, "trouble": None},
        "device": 0,
        "spans_dropped": 0,
        "sinks": {},
    }


def test_a_run_says_what_it_is_and_how_far() -> None:
    """The name only where it differs from the id, and no step before the first."""
    made = components(Kept())
    assert made.describe() == "<chiplog run p/one: running, runs/p/one>"
    made.count.resolve(1233)
    assert made.describe() == "<chiplog run p/one: running, step 1,233, runs/p/one>"
    assert components(None).describe() == "<chiplog run p/one: not recording, runs/p/one>"


def test_statistics_across_ranks_pass_no_stage_and_no_rule() -> None:
    """They are records of their own beside the row."""
    seen: list[Row] = []
    journal = Kept()
    made = components(
        journal, stages=[lambda row, step: {**row, "more": 1}], rules=[lambda row, step: seen.append(row)]
    )
    made.rows.write({"x": 1}, 0)
    made.add_statistics({"x/mean": 2}, 0)
    first, second = journal.records
    assert isinstance(first, records.Step) and (first.metrics, first.across) == ({"x": 1, "more": 1}, False)
    assert isinstance(second, records.Step) and (second.metrics, second.across) == ({"x/mean": 2}, True)
    assert seen == [{"x": 1, "more": 1}]


def test_an_alert_from_the_background_never_raises(capsys: pytest.CaptureFixture[str]) -> None:
    """It is written with the name of its rule."""
    journal = Kept()
    made = components(journal)
    made.alert(Finding("stalled"), "heartbeat", 7)
    (alert,) = journal.records
    assert isinstance(alert, records.Alert) and (alert.rule, alert.title, alert.step) == ("heartbeat", "stalled", 7)
    made.alert(None, "broken", 7)  # type: ignore[arg-type]
    assert "rule broken: " in capsys.readouterr().err


def test_a_run_that_is_held_traces_once_it_is_kept() -> None:
    """What was asked for before is done then."""
    journal = MemoryJournal(lambda: None)
    made = components(journal)
    made.trace(True, 5, None, None)
    assert not made.tracer.on and made.recorder.held
    kept = Kept()
    journal.open(kept, 3, "process")
    assert made.take_over(3, []).attempt == 3
    assert made.tracer.every == 5


def test_a_wrong_way_to_trace_does_not_keep_a_rank_from_the_run() -> None:
    """It is refused where it is called, and not again when the rank takes over, whose records would be lost."""
    journal = MemoryJournal(lambda: None)
    made = components(journal)
    with pytest.raises(ValueError, match="positive integer, not 0"):
        made.trace(True, 0, None, None)
    journal.open(Kept(), 1, "process")
    assert made.take_over(1, []).attempt == 1 and made.tracer.on


def test_a_fork_records_nothing_and_says_whose_run_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """With the call that gives it a journal of its own."""
    journal = Kept()
    made = components(journal)
    with made.tracer.span("open"):
        made.forked()
    made.rows.write({"x": 1}, 0)
    assert journal.records == [] and not made.tracer.on
    said = capsys.readouterr().err
    assert said.count("chiplog.attach('runs/p/one')") == 1, said
    components(None).forked()  # a run that keeps nothing has nothing to say
    assert capsys.readouterr().err == ""
