"""Rules in a run: rows, events, silence, and restarts."""

from __future__ import annotations

import math
import time

import pytest

import chiplog
from chiplog.core.clock import RunClock
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rules import Alerts
from chiplog.core.protocols import Finding
from chiplog.core.records import Alert
from chiplog.metrics.rules.limits import Limit
from tests.support.journals import Kept


def alerts(run: chiplog.Run) -> list[tuple[str, str]]:
    return [(record.rule, record.title) for record in chiplog.read(run.dir).records(kind="alert")]


def test_the_numbers_of_an_event_are_judged_like_a_row(tmp_path) -> None:
    """`run.event("moe", load_imbalance=4)` crosses the same limit as a metric of that name."""
    with chiplog.init(dir=tmp_path, sinks="none", rules=[Limit("moe/load_imbalance", above=2.5, rows=2)]) as run:
        for step in range(3):
            run.event("moe", step=step, load_imbalance=4.0)
    assert alerts(run) == [("limit", "moe/load_imbalance above 2.5: 4")]


def test_alerts_all_adds_throttling_trend_pace_and_router(tmp_path) -> None:
    """`init(alerts="all")` hears what the GPU says in words."""
    with chiplog.init(dir=tmp_path, sinks="none", alerts="all") as run:
        run.event("gpu", id=3, power=350, throttle="HW thermal")
    assert alerts(run) == [("throttled", "GPU 3 is throttled: HW thermal")]


def test_all_that_a_row_has_is_told(tmp_path) -> None:
    """A loss and its gradients spike together, and are NaN together; two limits are crossed at once."""
    limits = [Limit("a", "b", above=1.0, rows=1)]
    with chiplog.init(dir=tmp_path, sinks="none", rules=limits) as run:
        for step in range(50):
            run.log({"train/loss": 2.0 + step % 7 / 100, "train/grad_norm": 1.0 + step % 5 / 100}, step=step)
        run.log({"train/loss": 9.0, "train/grad_norm": 50.0}, step=50)
        run.log({"train/loss": math.nan, "train/grad_norm": math.inf, "a": 2.0, "b": 3.0}, step=51)
    assert alerts(run) == [
        ("spike", "train/loss spikes: 9"),
        ("spike", "train/grad_norm spikes: 50"),
        ("non-finite", "train/loss is nan"),
        ("non-finite", "train/grad_norm is inf"),
        ("limit", "a above 1: 2"),
        ("limit", "b above 1: 3"),
    ]


def test_routers_that_fail_in_two_ways_are_two_alerts(tmp_path) -> None:
    """`alerts="all"`: idle experts and an uneven load, of the same rows."""
    with chiplog.init(dir=tmp_path, sinks="none", alerts="all") as run:
        for step in range(12):
            run.event("moe", step=step, expert_utilization=0.3, load_imbalance=4.0)
    assert [rule for rule, _ in alerts(run)] == ["router", "imbalance"]


def test_two_losses_that_turn_together_are_two_alerts(tmp_path) -> None:
    """Each has its own phase."""
    with chiplog.init(dir=tmp_path, sinks="none", alerts="all") as run:
        for step in range(110):
            run.log({"actor/loss": 2.0, "critic/loss": 3.0}, step=step)
    assert alerts(run) == [("trend", "actor/loss: plateau"), ("trend", "critic/loss: plateau")]


def test_a_rule_is_asked_while_no_row_comes(tmp_path) -> None:
    """What `tick` finds is an alert too, from the background."""

    class Bored:
        name = "bored"
        asked = 0

        def __call__(self, row, step):
            return None

        def tick(self):
            self.asked += 1
            return Finding("nothing happens") if self.asked == 2 else None

    rule = Bored()
    with chiplog.init(dir=tmp_path, sinks="none", rules=[rule]) as run:
        deadline = time.monotonic() + 20
        while rule.asked < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert alerts(run) == [("bored", "nothing happens")]


@pytest.mark.parametrize(("first", "found"), [(200, [("spike", "train/loss spikes: 9")]), (150, [])])
def test_a_restart_goes_on_with_what_rules_knew_unless_it_goes_back(tmp_path, first, found) -> None:
    """Behind the last step a spike is found at once; a restart at an older step begins with no past."""
    with chiplog.init(dir=tmp_path, sinks="none", id="again") as run:
        for step in range(200):
            run.log({"train/loss": 2.0 + step % 7 / 100}, step=step)
    with chiplog.init(dir=tmp_path, sinks="none", id="again", resume="must") as run:
        run.log({"train/loss": 9.0}, step=first)
    assert alerts(run) == found


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
    assert titles == ["spike"] and "on_alert: ValueError: not today" in capsys.readouterr().err


def test_an_unknown_level_becomes_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """And the choices are listed."""
    journal = Kept()
    Alerts(Recorder("run", journal, RunClock())).write_by_hand(Finding("x", "loud"), 0)
    assert [alert.level for alert in journal.records if isinstance(alert, Alert)] == ["warn"]
    assert "no alert level 'loud'; it is stored as 'warn'; available: info, warn, error" in capsys.readouterr().err
