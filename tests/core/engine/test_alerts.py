"""Alerts: recorded, redacted and passed to listeners."""

from __future__ import annotations

import pytest

from chiplog.core.clock import RunClock
from chiplog.core.engine.alerts import Alerts
from chiplog.core.engine.recorder import Recorder
from chiplog.core.protocols import Finding
from chiplog.core.records import Alert
from tests.core.engine.test_recorder import Kept


def test_a_finding_becomes_an_alert_without_secrets() -> None:
    """The rule's own name is used unless the finding has one."""
    journal = Kept()
    alerts = Alerts(Recorder("run", journal, RunClock()))
    alerts.write(Finding("spike", text="hf_abcdefghijklmnop1234", evidence={"value": 9}), "limit", 3)
    (alert,) = journal.records
    assert isinstance(alert, Alert) and (alert.rule, alert.step, alert.evidence) == ("limit", 3, {"value": 9})
    assert "hf_" not in alert.text


def test_a_listener_that_raises_does_not_stop_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported."""
    alerts = Alerts(Recorder("run", Kept(), RunClock()))
    titles: list[str] = []

    def fail(alert: Alert) -> None:
        raise ValueError("not today")

    alerts.listeners += [fail, lambda alert: titles.append(alert.title)]
    alerts.write(Finding("spike"), "", 0)
    assert titles == ["spike"] and "on_alert: not today" in capsys.readouterr().err


def test_an_unknown_level_becomes_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """And the choices are listed."""
    journal = Kept()
    Alerts(Recorder("run", journal, RunClock())).write_by_hand(Finding("x", "loud"), 0)
    assert [alert.level for alert in journal.records if isinstance(alert, Alert)] == ["warn"]
    assert "no alert level 'loud'; there are: info, warn, error" in capsys.readouterr().err
