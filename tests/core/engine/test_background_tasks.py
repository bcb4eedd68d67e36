"""What a run does in the background: spans, device values, jumps of the clock, saved state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from chiplog.core import records
from chiplog.core.background.thread import IdlePause
from chiplog.core.clock import RunClock
from chiplog.core.device_hooks import DeviceHooks
from chiplog.core.engine.background_tasks import POLL_DEVICE, SPANS_EVERY
from chiplog.core.records import Plain, Row
from chiplog.metrics.step_spans import StepTimes
from tests.support.components import components
from tests.support.journals import Kept

SECOND = 1_000_000_000


class Device:
    """Values on a device that arrive when the test says so."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, Row]] = []
        self.arrived = 0

    def holds(self, value: object) -> bool:
        return value is self

    def add(self, step: float, later: Mapping[str, object]) -> None:
        self.rows.append((step, dict.fromkeys(later, step * 10)))

    def ready(self) -> Iterable[tuple[float, Row]]:
        while self.arrived:
            self.arrived -= 1
            yield self.rows.pop(0)

    def __len__(self) -> int:
        return len(self.rows)


class Counter:
    """A stage whose state is kept over a restart."""

    name, rows = "counter", 0

    def __call__(self, row: Row, step: float) -> Row:
        self.rows += 1
        return row

    def state(self) -> dict[str, Plain]:
        return {"rows": self.rows}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self.rows = int(state["rows"])


def steps(journal: Kept) -> list[tuple[float, Row]]:
    return [(one.step, one.metrics) for one in journal.records if isinstance(one, records.Step)]


def gaps(journal: Kept) -> list[dict[str, Plain]]:
    return [one.data for one in journal.records if isinstance(one, records.Event) and one.name == "gap"]


def test_values_are_polled_until_they_have_arrived() -> None:
    """In the order in which they were logged, with the step of their own."""
    journal, device = Kept(), Device()
    tasks = components(journal, machine=DeviceHooks(values=device))
    for step in (1, 2):
        tasks.splitter.split({"loss": device}, step)
    assert tasks.tasks.run_due() == POLL_DEVICE and steps(journal) == []
    device.arrived = 1
    assert tasks.tasks.run_due() == POLL_DEVICE and steps(journal) == [(1, {"loss": 10})]
    device.arrived = 1
    assert tasks.tasks.run_due() == SPANS_EVERY and steps(journal) == [(1, {"loss": 10}), (2, {"loss": 20})]


def test_values_that_do_not_arrive_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The end does not wait for a device that has stopped, and the journal says what is missing."""
    journal, device = Kept(), Device()
    made = components(journal, machine=DeviceHooks(values=device))
    for step in range(3):
        made.splitter.split({"loss": device}, step)
    made.tasks.end_device(0.0)
    assert gaps(journal) == [{"device_rows": 3}] and steps(journal) == []
    assert "3 rows had values still on a device when the run ended; those are lost" in capsys.readouterr().err


def test_a_run_with_nothing_to_do_is_called_less_often() -> None:
    """Runs that share a thread tell each other so; a span, or whoever collects, is something to do."""
    tasks = components(Kept())
    assert isinstance(tasks.tasks.run_due(), IdlePause)
    with tasks.tracer.span("work"):
        pass
    assert not isinstance(tasks.tasks.run_due(), IdlePause)
    assert isinstance(tasks.tasks.run_due(), IdlePause)
    tasks.tasks.collecting.append(lambda: None)
    assert not isinstance(tasks.tasks.run_due(), IdlePause)


def test_a_jump_of_the_wall_clock_is_recorded_once() -> None:
    """So that the times of the other records can be compared with those of other machines."""
    wall, journal = [100 * SECOND], Kept()
    made = components(journal, clock=RunClock(lambda: wall[0], lambda: 5 * SECOND))
    wall[0] += 3600 * SECOND
    made.tasks.run_due()
    made.tasks.run_due()
    (jump,) = (record for record in journal.records if isinstance(record, records.Clock))
    assert (jump.wall, jump.jump, jump.time) == (3700 * SECOND, 3600 * SECOND, 100 * SECOND)


def test_the_state_of_stages_is_saved_now_and_then() -> None:
    """Not at every turn, and never without anything to save."""
    saved: list[Mapping[str, Plain]] = []
    made = components(Kept(), stages=[Counter()], save_state=saved.append)
    made.rows.write({"x": 1}, 0)
    for _ in range(3):
        made.tasks.run_due()
    assert [one["parts"] for one in saved] == [{"counter": {"rows": 1}}]
    components(Kept(), save_state=saved.append).tasks.run_due()
    assert len(saved) == 1


def test_a_disk_that_refuses_the_state_is_not_taken_for_one_that_hangs() -> None:
    """While it hangs, the end of the run waits for it."""
    during: list[bool] = []

    def refuse(_: Mapping[str, Plain]) -> None:
        during.append(made.tasks.saving)
        raise OSError("full")

    made = components(Kept(), stages=[Counter()], save_state=refuse)
    with pytest.raises(OSError, match="full"):
        made.tasks.save_state()
    assert during == [True] and not made.tasks.saving


def test_what_cannot_be_collected_is_reported_by_flush(capsys: pytest.CaptureFixture[str]) -> None:
    """Which says so to its caller; a run that keeps nothing has nothing left to write."""

    def fail() -> None:
        raise OSError("full")

    made = components(Kept())
    assert made.tasks.flush(fsync=False)
    made.tasks.collecting.append(fail)
    assert not made.tasks.flush(fsync=False)
    assert "flush: OSError: full; training continues" in capsys.readouterr().err
    assert components(None).tasks.flush(fsync=True)


def test_the_times_of_the_last_step_are_written_when_timing_stops() -> None:
    """A step is complete when the next one begins, and the last one has none after it."""
    journal = Kept()
    made = components(journal, machine=DeviceHooks(times=StepTimes))
    made.tasks.time_steps(True)
    for made.tracer.step in (0, 1, 2):
        with made.tracer.span("step"):
            pass
    made.tasks.time_steps(False)
    timed = {step for step, _ in steps(journal)}
    assert timed == {0, 1, 2}
    with made.tracer.span("step"):
        pass
    made.tasks.write_spans()
    assert {step for step, _ in steps(journal)} == timed


def test_spans_that_were_dropped_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """And those that are still open are ended and marked."""
    journal = Kept()
    made = components(journal)
    made.tracer.dropped = 1234
    made.tasks.end_spans(0.0)
    assert gaps(journal) == [{"spans": 1234}]
    assert "dropped 1,234 spans" in capsys.readouterr().err
