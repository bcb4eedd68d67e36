"""Facts about the newest row of a run."""

from __future__ import annotations

import math

from chiplog.sinks.console.layout import DEFAULT
from chiplog.sinks.console.progress import Progress
from chiplog.sinks.shared.rows import Row

SECOND = 1_000_000_000


def test_share_and_time_left_follow_from_the_total() -> None:
    """At the speed of the rows so far, without the time between attempts."""
    progress = Progress(DEFAULT, {"max_steps": 10})
    facts = [progress.step(Row(step, step * SECOND, {})) for step in (1, 2, 3)]
    assert facts[-1]["@share"] == 30.0 and facts[-1]["@eta"] == 7.0
    progress.restart()
    assert "@eta" not in progress.step(Row(4, 1000 * SECOND, {}))
    assert progress.step(Row(5, 1002 * SECOND, {}))["@eta"] == 10.0


def test_a_plan_overrides_a_config() -> None:
    """Also one that comes later; what is not a number of steps is ignored."""
    progress = Progress(DEFAULT, {"max_steps": True, "steps": 10})
    assert progress.total == 10
    progress.plan({"steps": 20})
    progress.configure({"max_steps": 30})
    assert progress.total == 20


def test_trend_and_spike_compare_with_recent_rows() -> None:
    """A loss that is not finite has no trend; a norm that is not finite is a spike."""
    progress = Progress(DEFAULT, {})
    rows = [{"loss": 2.0, "grad_norm": 1.0}, {"loss": 1.0, "grad_norm": 6.0}, {"loss": math.nan, "grad_norm": math.inf}]
    facts = [progress.step(Row(step, 0, row)) for step, row in enumerate(rows)]
    assert [one["@trend"] for one in facts] == [0, -1, 0]
    assert [one["@spike"] for one in facts] == [0, 1, 1]


def test_the_gap_of_an_eval_is_to_the_loss_of_its_step() -> None:
    """Or to the newest loss before it; without any there is no gap."""
    progress = Progress(DEFAULT, {})
    assert progress.eval({"loss": 2.5}, 0) == {}
    for step, loss in ((0, 4.0), (2, 3.0), (4, 1.0)):
        progress.step(Row(step, 0, {"loss": loss}))
    for step, gap in ((4, 1.5), (9, 1.5), (3, -0.5), (2, -0.5)):
        assert progress.eval({"loss": 2.5}, step) == {"@gap": gap}


def test_a_layout_may_compare_evals_with_the_training_since_the_last_one() -> None:
    """The mean of the losses in between; without any there is none."""
    progress = Progress(DEFAULT._replace(mean_gap=True), {})
    for step, loss in enumerate((1.0, 3.0)):
        progress.step(Row(step, 0, {"loss": loss}))
    assert progress.eval({"loss": 2.5}) == {"@gap": 0.5}
    assert progress.eval({"loss": 2.5}) == {}


def test_steps_between_rows_count() -> None:
    """A loop that logs every fifth step has done all of them; one that continues elsewhere has not done those before."""
    for steps, count in (((0, 5, 10), 11), ((5, 10, 15), 15), ((1, 2, 3), 3), ((1000, 1005), 6), ((7,), 1)):
        progress = Progress(DEFAULT, {})
        for step in steps:
            progress.step(Row(step, 0, {}))
        assert progress.steps == count


def test_tokens_in_the_row_count_for_all_ranks() -> None:
    """With the statistics of a step the rate is that of all ranks; later rows without them estimate it."""
    progress = Progress(DEFAULT, {})
    own: dict[str, float] = {"train/tokens": 1000}
    rows = [Row(step, step * SECOND, own) for step in range(4)]
    assert "@tokens_per_sec" not in progress.step(rows[0])
    assert progress.step(rows[1])["@tokens_per_sec"] == 1000.0
    assert progress.step(rows[2], {"train/tokens/sum": 2500.0})["@tokens_per_sec"] == 2500.0
    assert progress.step(rows[3])["@tokens_per_sec"] == 2500.0
    timed = Row(4, 4 * SECOND, own | {"train/step_time_sec": 0.5})
    assert progress.step(timed, {"train/step_time_sec/max": 1.0})["@tokens_per_sec"] == 2500.0


def test_rates_over_different_times_are_not_added() -> None:
    """Of two ranks with 1,000 tokens each and a slow first step on one, the rate is 2,000 in the time that is shown."""
    progress = Progress(DEFAULT, {})
    row = Row(0, SECOND, {"train/step_time_sec": 0.4, "train/tokens_per_sec": 2500.0})
    across = {
        "train/step_time_sec/max": 0.4, "train/step_time_sec/min": 0.2, "train/tokens_per_sec/min": 2500.0,
        "train/tokens_per_sec/mean": 3750.0, "train/tokens_per_sec/sum": 7500.0,
    }  # fmt: skip
    facts = progress.step(row, across)
    assert (facts["train/step_time_sec"], facts["train/tokens_per_sec"]) == (0.4, 5000.0)
