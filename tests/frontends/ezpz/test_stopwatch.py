"""`StopWatch`: what it reports and records."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chiplog.frontends.ezpz import History, StopWatch
from tests.frontends.ezpz.scripts import run_script


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("EZPZ_", "WANDB_", "WB_"))]:
        monkeypatch.delenv(name)


def test_a_stopwatch_says_its_time_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    """To the logger, and with a tag to the run; the time is there to be asked for."""
    history = History()
    history.update({"loss": 1.0}, step=5)
    with (
        caplog.at_level(logging.INFO, "chiplog.ezpz"),
        StopWatch("forward pass", wbtag="timing/forward", iter=3) as watch,
    ):
        pass
    assert watch.elapsed > 0 and watch.data == {"timing/forward/iter": 3, "timing/forward/dt": watch.elapsed}
    assert re.search(r"forward pass took 0\.\d{3} seconds", caplog.text)
    found = history.history
    assert found["StopWatch/timing/forward/dt"] == [watch.elapsed] and found["StopWatch/timing/forward/iter"] == [3]


def test_a_stopwatch_is_shown_where_nobody_has_set_up_logging() -> None:
    """As ezpz's own logger does."""
    code = (
        "from chiplog.frontends.ezpz import StopWatch\nwith StopWatch('work'): pass\nStopWatch('x', log_output=False)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stderr
    assert re.fullmatch(r"work took 0\.\d{3} seconds\n", said)


def test_a_stopwatch_inside_itself_logs_both_times() -> None:
    """The inner one's is its own, not what the outer one has taken so far."""
    history = History()
    history.update({"loss": 1.0}, step=5)
    watch = StopWatch("w", wbtag="w")
    watch._watch._clock = iter([0.0, 1.0, 3.0, 7.0]).__next__
    with watch, watch:
        pass
    assert history.history["StopWatch/w/dt"] == [2.0, 7.0]


def test_a_stopwatch_is_a_decorator_and_lets_exceptions_through() -> None:
    """Also inside itself, and without any run."""
    watch = StopWatch("work")

    @watch
    def work(depth: int) -> int:
        return work(depth - 1) if depth else 1 // 0

    with pytest.raises(ZeroDivisionError):
        work(2)
    assert watch.elapsed > 0


ACTIVE = """
import json, sys
from pathlib import Path
import wandb
from chiplog.frontends.ezpz import History, StopWatch

run = wandb.init(project="p")
if sys.argv[1:] == ["history"]:
    history = History()
    history.update({"loss": 1.0}, step=0)
with StopWatch("forward", wbtag="forward", iter=3, commit=True, log_output=False) as watch:
    pass
if sys.argv[1:] == ["history"]:
    history.run.finish()
assert dict(run.summary)["StopWatch/forward/dt"] == watch.elapsed, dict(run.summary)
assert dict(run.summary)["StopWatch/forward/iter"] == 3
run.finish()
"""


@pytest.mark.parametrize("beside", [[], ["history"]])
def test_a_stopwatch_reaches_an_active_run_of_wandb(beside: list[str], tmp_path: Path) -> None:
    """With a tag, and with or without a history; the run belongs to the script."""
    run_script(ACTIVE.replace("sys.argv[1:]", repr(beside)), tmp_path)
