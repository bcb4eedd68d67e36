"""Where the time of a run went, over all its attempts."""

from __future__ import annotations

import numpy as np
import pytest

from chiplog.metrics.goodput import KINDS, AttemptTime, ledger


def life(start: float, end: float, first: float, steps: int, each: float = 1.0, **more) -> AttemptTime:
    """An attempt whose steps follow each other from `first` on."""
    ends = first + each * np.arange(1, steps + 1)
    given = {"waits": np.zeros(steps), "counted": np.ones(steps, bool), "others": (), **more}
    return AttemptTime(start, end, ends, np.full(steps, each), **given)


def seconds(*lives: AttemptTime) -> dict[str, float]:
    found = ledger(lives)
    assert sum(found.seconds.values()) == pytest.approx(found.wall)
    return {kind: pytest.approx(spent) for kind, spent in found.seconds.items() if spent > 1e-9}


def test_init_steps_and_idle_add_up_to_the_wall_time() -> None:
    """Ten seconds to begin, twenty steps of one, five at the end."""
    assert seconds(life(0, 35, 10, 20)) == {"init": 10, "step": 20, "idle": 5}
    assert ledger([life(0, 35, 10, 20)]).goodput == pytest.approx(20 / 35)


def test_the_wait_for_data_is_no_useful_time() -> None:
    """It is inside the steps, and counted apart."""
    assert seconds(life(0, 20, 0, 20, waits=np.full(20, 0.25))) == {"step": 15, "data": 5}


def test_steps_that_were_done_again_are_lost() -> None:
    """A crash at step 20, a restart from step 10 a minute later."""
    first = life(0, 20, 0, 20, counted=np.arange(20) < 10)
    second = life(80, 100, 80, 20)
    assert seconds(first, second) == {"step": 30, "lost": 10, "down": 60}


def test_logged_times_do_not_exceed_the_time_there_was() -> None:
    """Steps that claim twice as long as they can have taken share what is left beside an evaluation."""
    long = life(0, 12, 0, 20, each=1.0, waits=np.full(20, 0.25), others=[("eval", 10, 12)])
    assert seconds(long._replace(ends=np.linspace(0.5, 10, 20))) == {"step": 7.5, "data": 2.5, "eval": 2}
    assert ledger([life(0, 0, 0, 3)]).seconds["step"] == 0


def test_a_slow_first_step_is_a_warmup() -> None:
    """Its excess over the usual step; whether it compiled is unknown."""
    slow = life(0, 30, 0, 11)
    slow = slow._replace(ends=np.concatenate([[20.0], 20 + np.arange(1, 11)]), lengths=np.array([20.0, *[1.0] * 10]))
    assert seconds(slow) == {"step": 11, "warmup": 19}


def test_spans_within_and_between_steps_are_spent_once() -> None:
    """An eval between two steps, a checkpoint inside one, two that overlap."""
    between = life(0, 21, 0, 20)._replace(ends=np.array([*range(1, 11), *range(12, 22)], float))
    others = [("eval", 10.0, 11.0), ("checkpoint", 12.5, 12.75), ("eval", 12.6, 12.85)]
    assert seconds(between._replace(others=others)) == {"step": 19.65, "eval": 1.1, "checkpoint": 0.25}


def test_a_run_without_steps_has_no_goodput() -> None:
    """All of it is idle; nothing divides by zero."""
    none = np.empty(0)
    assert seconds(AttemptTime(0, 5, none, none, none, none.astype(bool))) == {"idle": 5}
    assert ledger([]).goodput == 0.0 and set(ledger([]).seconds) == set(KINDS)
