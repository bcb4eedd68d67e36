"""What a run uses of its machine, and what it does without it."""

from __future__ import annotations

import pytest

from chiplog.core import records
from chiplog.core.device_hooks import DeviceHooks
from chiplog.metrics.step_spans import StepTimes
from chiplog.runtime.devices.pending_values import PendingValues
from tests.support.components import components
from tests.support.device_values import Faraway
from tests.support.journals import Kept


def test_without_hooks_a_value_on_a_device_is_read_at_once() -> None:
    """Whatever waits for it; nothing is left for later."""
    made = components(Kept(), machine=DeviceHooks())
    assert made.splitter.split({"loss": Faraway(2.0), "lr": 0.1}, 3) == {"loss": 2.0, "lr": 0.1}
    assert made.tasks.on_device == 0


def test_with_pending_values_a_value_on_a_device_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read on the caller's thread, and becomes a row of its own step once it has arrived."""
    journal, values = Kept(), PendingValues()
    monkeypatch.setattr(values, "holds", lambda value: isinstance(value, Faraway))
    made = components(journal, machine=DeviceHooks(values=values))
    assert made.splitter.split({"loss": Faraway(2.0), "lr": 0.1}, 3) == {"lr": 0.1}
    assert made.tasks.on_device == 1
    made.tasks.write_arrived()
    (row,) = journal.records
    assert isinstance(row, records.Step) and (row.step, row.metrics) == (3, {"loss": 2.0})


@pytest.mark.parametrize(("hooks", "rows"), [(DeviceHooks(), 0), (DeviceHooks(times=StepTimes), 1)])
def test_steps_are_timed_with_a_timer_only(hooks: DeviceHooks, rows: int) -> None:
    """Spans are recorded in either case."""
    journal = Kept()
    made = components(journal, machine=hooks)
    made.tasks.time_steps(True)
    for made.tracer.step in (0, 1):
        with made.tracer.span("step"):
            pass
    made.tasks.end_spans(0.0)
    steps = [record for record in journal.records if isinstance(record, records.Step)]
    assert any(isinstance(record, records.SpansRecord) for record in journal.records)
    assert len(steps) >= rows and bool(steps) == bool(rows)
