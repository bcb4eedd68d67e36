"""The buffer that collects the values of a step."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from chiplog.metrics import rl
from chiplog.metrics.step_values.buffer import Buffer


def only(buffer: Buffer, **kwargs: Any) -> Any:
    (step,) = buffer.drain(**kwargs)
    return step


def test_a_step_is_given_out_when_it_is_complete() -> None:
    """B1: and each value is in it once."""
    buffer = Buffer()
    for score, most in ((1.0, [1, 2]), (2.0, [3, 9])):
        buffer.add({"rewards/score/mean": (score, np.mean), "m": (most, np.max)}, "train", 0)
    assert buffer.drain() == []
    buffer.add({"m": (0, np.max)}, "train", 1)
    buffer.complete(before=1)
    found = only(buffer)
    assert (found.step, found.mode, found.row) == (0, "train", {"rewards/score/mean": 1.5, "m": 9})
    assert buffer.drain() == [] and len(buffer) == 1


def test_steps_may_come_in_any_order() -> None:
    """B3: 0, 1, 0 are two steps, and step 0 has both of its values."""
    buffer = Buffer()
    for step, value in ((0, 1.0), (1, 5.0), (0, 3.0)):
        buffer.add({"x": (value, np.mean)}, "train", step)
    buffer.complete()
    assert [(one.step, one.row["x"]) for one in buffer.drain()] == [(0, 2.0), (1, 5.0)]


def test_train_and_eval_are_apart() -> None:
    """B2: eval may come first, and has its own record."""
    buffer = Buffer()
    buffer.add({"x": (1.0, None)}, "eval", 0)
    buffer.add({"x": (2.0, None)}, "train", 0)
    buffer.complete()
    assert [(one.mode, one.row["x"]) for one in buffer.drain()] == [("eval", 1.0), ("train", 2.0)]


def test_texts_become_rows_of_a_table() -> None:
    """B4: prompts, completions and ids beside each other, however many calls they came in."""
    buffer = Buffer()
    buffer.add(rl.samples(["p0", "p1"], ["c0", "c1"]), "train", 3)
    for ident in ("0_0", "0_1"):
        buffer.add({"trajectory_ids": (ident, None)}, "train", 3)
    buffer.complete()
    found = only(buffer)
    assert found.row == {}
    assert found.samples == [
        {"prompt": "p0", "completion": "c0", "trajectory_id": "0_0"},
        {"prompt": "p1", "completion": "c1", "trajectory_id": "0_1"},
    ]


def test_what_cannot_be_reduced_is_named_and_the_rest_is_kept() -> None:
    """Nothing is dropped in silence."""
    buffer = Buffer()
    buffer.add({"bad": ([1, "a"], np.mean), "good": (1.0, None), "worse": (object(), None)}, "train", 0)
    buffer.complete()
    found = only(buffer)
    assert found.row == {"good": 1.0} and set(found.troubles) == {"bad", "worse"}


def test_a_value_on_a_device_is_not_waited_for() -> None:
    """Its step comes when it has arrived; at the end it is given up, by name, and the rest of its step is kept."""
    away = {7.0}
    buffer = Buffer(lambda value: value in away)
    buffer.add({"x": (7.0, None)}, "train", 0)
    buffer.add({"x": (8.0, None)}, "train", 1)
    buffer.complete()
    assert only(buffer).step == 1
    away.clear()
    assert only(buffer).row == {"x": 7.0}
    away.add(9.0)
    buffer.add({"x": (9.0, None), "y": (1.0, None)}, "train", 2)
    buffer.complete()
    assert buffer.drain() == []
    last = only(buffer, rest=True)
    assert last.row == {"y": 1.0} and last.troubles == {"x": "it was still on a device"}


def test_threads_may_add_at_once() -> None:
    """Every value is counted."""
    buffer = Buffer()

    def add() -> None:
        for _ in range(500):
            buffer.add({"x": (1, np.sum)}, "train", 0)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffer.complete()
    assert only(buffer).row == {"x": 2000}
