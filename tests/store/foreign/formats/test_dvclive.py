"""DVCLive's folder, written by its client."""

from __future__ import annotations

import math
from pathlib import Path

from tests.support import foreign_stores
from tests.support.foreign_data import copied
from tests.support.foreign_stores import opened, values

SOURCE = "dvclive-3.49"
WHOLE = {
    "train/loss": [(step, 1 / (step + 3)) for step in range(6)],
    "acc": [(step, math.nan if step == 3 else step / 7) for step in range(6)],
}


def test_a_folder_is_one_run(tmp_path: Path) -> None:
    """A table per metric, with times where it has them; params are the config, and `metrics.json` the summary."""
    (run,) = opened(copied(SOURCE, tmp_path), tmp_path / "cache")
    assert values(run).keys() == WHOLE.keys()
    for name, pairs in WHOLE.items():
        assert repr(values(run)[name]) == repr(sorted(pairs, key=repr))
    assert run.config == {"lr": 0.1, "model": {"dim": 8}} and run.summary["best"] == 0.5
    assert run.series("acc").times.astype("int64")[0] == 1795125745104 * 10**6


def test_a_folder_that_grows_adds_what_is_new(tmp_path: Path) -> None:
    """Every table from where it was."""
    source = copied(SOURCE, tmp_path)
    for path in source.rglob("*.tsv"):
        path.touch()  # it is still being written
    opened(source, tmp_path / "cache")
    with (source / "plots" / "metrics" / "train" / "loss.tsv").open("a") as file:
        file.write("6\t0.1\n7\t0.0")
    (run,) = opened(source, tmp_path / "cache")
    assert values(run)["train/loss"] == [*WHOLE["train/loss"], (6, 0.1)] and len(run.attempts) == 1
    assert foreign_stores.lost(run) == {"bytes of an unfinished line of train/loss": 5}


def test_cuts_give_no_wrong_values(tmp_path: Path) -> None:
    """`0.12` may be the start of `0.125`: it waits for its end."""
    source = copied(SOURCE, tmp_path)
    for number, copy in enumerate(foreign_stores.cuts(source, "plots/metrics/train/loss.tsv", tmp_path)):
        for run in opened(copy, tmp_path / f"cache{number}"):
            foreign_stores.assert_part_of(values(run), WHOLE)
