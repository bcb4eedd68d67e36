"""Runs beside each other."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.core.errors import BadSetting
from chiplog.views.report.comparison import Measurement, compare, estimate, verdict
from chiplog.views.report.document import Document, Grid
from chiplog.views.report.text import to_text
from tests.support.waiting import wait_for


def make(id: str, level: float, *, steps: int = 400, seed: int = 0, tokens: int = 10, **config: object) -> chiplog.Stored:  # fmt: skip
    noise = np.random.default_rng(seed).normal(size=steps) * 0.1
    with chiplog.init(project="p", id=id, sinks="none", config=config, alerts=False) as run:
        for step in range(steps):
            run.log({"train/loss": level + 2 * math.exp(-step / 50) + noise[step], "train/tokens": tokens}, step=step)
    return chiplog.read(run.dir)


def grid(document: Document, title: str) -> Grid:
    (found,) = next(section for section in document.shown if section.title == title).blocks
    assert isinstance(found, Grid)
    return found


def row(document: Document, title: str) -> dict[str, str]:
    table = grid(document, title)
    return dict(zip(table.head, next(row for row in table.rows if row[0] == "train/loss"), strict=True))


def test_a_difference_that_is_noise_is_none() -> None:
    """Two runs of the same, with other seeds."""
    assert row(compare([make("a", 1.0), make("b", 1.0, seed=1)]), "At equal step")["verdict"] == "within the noise"


def test_a_difference_that_is_more_is_clear() -> None:
    found = row(compare([make("a", 1.0), make("b", 1.5, seed=1)]), "At equal step")
    assert found["verdict"] == "clear" and float(found["difference"]) == pytest.approx(0.5, abs=0.1)


def test_runs_are_compared_where_both_have_been() -> None:
    """At the last step of the shorter one; at equal tokens where the larger batches are ahead."""
    document = compare([make("a", 1.0, steps=400), make("b", 1.0, steps=100, tokens=20, seed=1)])
    assert row(document, "At equal step")["step"] == "99"
    assert row(document, "At equal tokens")["tokens"] == "2000"


def test_settings_that_differ_are_named() -> None:
    """And how many do not."""
    found = grid(compare([make("a", 1.0, lr=1, seed_=3), make("b", 1.0, lr=2, seed_=3)]), "Config")
    assert found.rows == [["lr", "1", "2"]] and found.more == "1 is the same in all"


def test_three_runs_are_each_beside_the_first() -> None:
    found = grid(compare([make("a", 1.0), make("b", 1.0, seed=1), make("c", 3.0)]), "At equal step")
    rows = [dict(zip(found.head, row, strict=True)) for row in found.rows if row[0] == "train/loss"]
    assert [(row["run"], row["verdict"]) for row in rows] == [("b", "within the noise"), ("c", "clear")]


def test_one_run_is_no_comparison() -> None:
    with pytest.raises(BadSetting, match="at least two runs"):
        compare([make("a", 1.0)])


def test_runs_that_share_nothing() -> None:
    """The settings are compared all the same."""
    with chiplog.init(project="p", sinks="none", config={"x": 1}) as run:
        run.log({"other": 1.0})
    assert grid(compare([make("a", 1.0), chiplog.read(run.dir)]), "Config").rows


def test_runs_without_a_common_metric_are_told_apart() -> None:
    """In a line, with what each has."""
    with chiplog.init(project="p", id="b", sinks="none") as run:
        run.log({"reward": 1.0})
    text = to_text(compare([make("a", 1.0), chiplog.read(run.dir)]), width=None)
    assert "The runs have no metric in common." in text and "reward" in text and "train/loss" in text


def test_a_value_is_below_the_name_of_its_run() -> None:
    """And constants that are the same in both are equal, not within a noise that they do not have."""
    for name in ("a", "b"):
        with chiplog.init(project="p", id=name, sinks="none", alerts=False) as run:
            for step in range(20):
                run.log({"train/loss": 0.5}, step=step)
    found = row(compare([chiplog.read("a"), chiplog.read("b")]), "At equal step")
    assert (found["a"], found["b"], found["verdict"]) == ("0.5 ± 0", "0.5 ± 0", "equal")


def test_the_uncertainty_is_that_of_a_mean() -> None:
    """Of independent points: their spread by the root of their number."""
    x, noise = np.arange(20_000.0), np.random.default_rng(0).normal(size=20_000)
    found = estimate(x, noise, 19_999.0)
    assert found.error == pytest.approx(1 / math.sqrt(1000), rel=0.15)


def test_points_that_resemble_their_neighbours_count_as_fewer() -> None:
    """An average over ten of them is ten times the same."""
    noise = np.repeat(np.random.default_rng(0).normal(size=2000), 10)
    x = np.arange(20_000.0)
    assert estimate(x, noise, 19_999.0).error > 2 * estimate(x, noise[np.random.default_rng(1).permutation(20_000)], 19_999.0).error  # fmt: skip


@pytest.mark.parametrize(
    ("z", "words"), [(0.5, "within the noise"), (-3.0, "likely"), (9.0, "clear"), (math.nan, "too few points")]
)
def test_verdicts(z: float, words: str) -> None:
    assert verdict(z) == words


def test_constants_that_differ_differ() -> None:
    assert Measurement(1.0, 0.0).differs(Measurement(2.0, 0.0)) == math.inf
    assert Measurement(1.0, 0.0).differs(Measurement(1.0, 0.0)) == 0.0


def test_a_rare_metric_that_bends_is_not_noise() -> None:
    """Twenty evaluations of a curve that falls and flattens: a difference of ten times their noise is clear."""
    x = np.arange(0.0, 2000.0, 100.0)
    noise = np.random.default_rng(0).normal(size=(2, 20)) * 0.005
    first, other = (estimate(x, 1 + 2 * np.exp(-x / 400) + level + one, 1900.0) for level, one in zip((0, 0.05), noise, strict=True))  # fmt: skip
    assert first.error == pytest.approx(0.005, rel=0.6) and verdict(first.differs(other)) == "clear"


def test_a_bend_without_noise_has_no_error() -> None:
    """Ten evaluations of an exponential: what the curve does between them is not noise, and noise is still found."""
    x = np.arange(19, 200, 20.0)
    curve = 2 * np.exp(-x / 50)
    assert estimate(x, curve, 199.0).error < 0.02 * curve[-1]
    noise = np.random.default_rng(0).normal(size=(200, len(x))) * 0.1
    errors = [estimate(x, curve + one, 199.0).error for one in noise]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(0.1, rel=0.1)


def test_a_point_that_only_one_run_has_reached_is_left_out(tmp_path: Path) -> None:
    """One evaluation each, at different times: there is nothing to compare at equal time, and no NaN is printed."""
    runs = []
    for late in (0.0, 0.05):
        with chiplog.init("p", dir=tmp_path, sinks="none") as run:
            start = time.monotonic()
            wait_for(lambda: time.monotonic() >= start + late)  # noqa: B023  called at once
            run.log({"eval/loss": 1.0}, step=1)
        runs.append(chiplog.read(run.dir))
    text = to_text(compare(runs), width=None)
    assert "eval/loss" in text and "nan" not in text.lower()
