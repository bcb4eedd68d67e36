"""Rules in a run: rows, events, silence, and restarts."""

from __future__ import annotations

import time

import pytest

import chiplog
from chiplog.core.protocols import Finding
from chiplog.metrics.limits import Limit


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
