"""The arithmetic of steps: speeds, shares, time left, and the steps between two rows."""

from __future__ import annotations

import json
import math

import pytest

from chiplog.metrics.flops import Flops
from chiplog.metrics.throughput import Between, Meter, perplexity, rate, time_left


def test_a_step_has_its_speeds() -> None:
    """Each by its formula; what is not known is not in the row."""
    assert Meter().measure(0, {}, took=0.5) == {"train/step_time_sec": 0.5, "train/steps_per_sec": 2.0}
    row = Meter().measure(0, {"x": 1}, took=0.5, waited=0.125, tokens=1000, samples=8)
    assert row == {
        "x": 1,
        "train/tokens": 1000,
        "train/step_time_sec": 0.5,
        "train/steps_per_sec": 2.0,
        "train/data_time_sec": 0.125,
        "train/data_wait": 0.25,
        "train/samples_per_sec": 16.0,
        "train/tokens_per_sec": 2000.0,
    }


def test_a_step_without_a_time_has_no_speeds() -> None:
    """Not even absurd ones."""
    assert Meter().measure(0, {"x": 1}, took=None, tokens=5) == {"x": 1, "train/tokens": 5}
    assert Meter().measure(0, {}, took=0.0, tokens=5) == {"train/tokens": 5}


def test_mfu_and_hfu_are_shares_of_the_peak() -> None:
    """HFU only where something is computed twice; neither where the peak is not known."""
    flops = Flops(blocks=6 * 10**9, attention=0, head=0, recomputed=2 * 10**9)
    row = Meter(flops_per_token=flops, peak_tflops=100.0, devices=2).measure(0, {}, took=1.0, tokens=10_000)
    assert row is not None and (row["train/mfu"], row["train/hfu"]) == pytest.approx((0.3, 0.4))
    row = Meter(flops_per_token=6e9, peak_tflops=100.0).measure(0, {}, took=1.0, tokens=10_000)
    assert row is not None and row["train/mfu"] == pytest.approx(0.6) and "train/hfu" not in row
    row = Meter(flops_per_step=6e13, peak_tflops=100.0).measure(0, {}, took=2.0)
    assert row is not None and row["train/mfu"] == pytest.approx(0.3)
    row = Meter(flops_per_token=6e9).measure(0, {}, took=1.0, tokens=10_000)
    assert row is not None and "train/mfu" not in row


def test_the_time_left_comes_from_steps_or_tokens() -> None:
    """By the speed of the last steps; counters have no limit."""
    meter = Meter(total_steps=100)
    rows = [meter.measure(step, {}, took=2.0) for step in range(10)]
    assert [row["train/eta_sec"] for row in rows if row] == [2.0 * (99 - step) for step in range(10)]
    meter = Meter(total_tokens=3 * 10**12)
    row = meter.measure(0, {}, took=1.0, tokens=10**6)
    assert row is not None and row["train/eta_sec"] == pytest.approx(3e6 - 1)
    row = Meter(total_steps=1).measure(0, {}, took=1.0)
    assert row is not None and row["train/eta_sec"] == 0.0


def test_every_pass_through_a_loader_is_planned() -> None:
    """Whether its steps go on or begin with 0 again; a total that was given stays."""
    for start in (10, 0):
        meter = Meter()
        meter.plan(total=10, done=0)
        for step in range(10):
            meter.measure(step, {}, 1.0)
        meter.plan(total=start + 10, done=start)
        row = meter.measure(start, {}, 1.0)
        assert row is not None and row["train/eta_sec"] == 9.0
    meter = Meter(total_steps=100)
    meter.plan(total=10, done=0)
    row = meter.measure(0, {}, 1.0)
    assert row is not None and row["train/eta_sec"] == 99.0


def test_a_slow_start_is_forgotten() -> None:
    """The time left follows the last 64 steps."""
    meter = Meter(total_steps=1065)
    meter.measure(0, {}, took=1000.0)
    for step in range(64):
        row = meter.measure(1 + step, {}, took=1.0)
    assert row is not None and row["train/eta_sec"] == pytest.approx(1000.0)


def test_epochs_come_from_steps_or_tokens() -> None:
    """As a fraction: 1.25 is a quarter into the second."""
    meter = Meter(steps_per_epoch=4)
    rows = [meter.measure(step, {}, took=1.0) for step in range(5)]
    assert rows[4] is not None and rows[4]["train/epoch"] == 1.25
    row = Meter(tokens_per_epoch=1000).measure(0, {}, took=1.0, tokens=2500)
    assert row is not None and row["train/epoch"] == 2.5


def test_a_loss_has_a_perplexity() -> None:
    """And none that is too large for a double raises."""
    row = Meter().measure(0, {"train/loss": 2.0}, took=1.0)
    assert row is not None and row["train/perplexity"] == pytest.approx(math.e**2)
    assert perplexity(1e6) == math.inf and math.isnan(perplexity(math.nan)) and perplexity(-math.inf) == 0


def test_steps_between_two_rows_are_not_lost() -> None:
    """A row says what this step was, and mean, least and most of those since the last one."""
    meter = Meter(log_every=4)
    rows = [meter.measure(step, {"train/loss": float(step)}, took=1.0 + step) for step in range(1, 9)]
    assert [row is not None for row in rows] == [True, False, False, True, False, False, False, True]
    assert rows[0] is not None and "train/loss/mean" not in rows[0]
    last = rows[7]
    assert last is not None and last["train/interval_steps"] == 4
    assert [last[f"train/loss{part}"] for part in ("", "/mean", "/min", "/max")] == [8.0, 6.5, 5.0, 8.0]
    assert [last[f"train/step_time_sec{part}"] for part in ("", "/mean", "/min", "/max")] == [9.0, 7.5, 6.0, 9.0]


def test_a_bad_value_makes_a_row_at_once() -> None:
    """NaN between two rows is neither lost nor in the mean."""
    meter = Meter(log_every=100)
    meter.measure(1, {"train/loss": 1.0}, took=1.0)
    assert meter.measure(2, {"train/loss": 3.0}, took=1.0) is None
    row = meter.measure(3, {"train/loss": math.nan}, took=1.0)
    assert row is not None and math.isnan(row["train/loss"])
    assert (row["train/loss/mean"], row["train/loss/nonfinite"]) == (3.0, 1)


def test_the_end_writes_what_is_left() -> None:
    """The last steps before the end of a run have a row as well."""
    meter = Meter(log_every=10)
    for step in range(1, 14):
        meter.measure(step, {"train/loss": float(step)}, took=1.0)
    row = meter.rest()
    assert row is not None and (row["train/loss"], row["train/loss/mean"]) == (13.0, 12.0)
    assert meter.rest() is None


def test_what_is_counted_can_be_kept() -> None:
    """A meter that goes on from a checkpoint knows how far the run is."""
    first = Meter()
    first.measure(0, {}, took=1.0, tokens=2**40, samples=3)
    second = Meter(total_tokens=2**41, steps_per_epoch=1)
    second.restore(json.loads(json.dumps(first.state())))
    row = second.measure(1, {}, took=1.0, tokens=2**40)
    assert row is not None and (row["train/eta_sec"], row["train/epoch"]) == (0.0, 2.0)


def test_memory_is_read_for_rows_only() -> None:
    """Not for the steps between them."""
    asked: list[int] = []

    def memory() -> dict[str, float]:
        asked.append(1)
        return {"peak": 5}

    meter = Meter(log_every=10, memory=memory)
    rows = [meter.measure(step, {}, took=1.0) for step in range(1, 11)]
    assert len(asked) == 2 and rows[9] is not None and rows[9]["memory/peak"] == 5


def test_an_interval_below_one_is_refused() -> None:
    """At the door."""
    with pytest.raises(ValueError, match="at least 1"):
        Meter(log_every=0)


def test_small_pieces() -> None:
    """Nothing divides by zero."""
    assert (rate(10, 2), rate(10, 0)) == (5.0, 0.0)
    assert time_left(10_000_000 - 1000, 1000, 1.0) == 9999.0
    assert time_left(5, 0, 1.0) is None and time_left(-5, 1, 1.0) == 0
    between = Between()
    assert between.add({"a": 1, "b": math.inf}) is False and between.take() == {}
