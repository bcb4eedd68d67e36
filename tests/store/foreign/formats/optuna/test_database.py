"""Optuna's SQLite storage, written by its client."""

from __future__ import annotations

from pathlib import Path

from chiplog.store.reader import Stored
from tests.store.foreign.formats.optuna import cases
from tests.support import foreign_stores
from tests.support.foreign_data import copied
from tests.support.foreign_stores import opened, values

SOURCE = "optuna-5.0.0/optuna.db"


def by_number(runs: list[Stored], study: str = "lr-search") -> dict[int, Stored]:
    return {int(run.name.removeprefix("trial-")): run for run in runs if run.project == study}


def test_every_trial_is_a_run(tmp_path: Path) -> None:
    """Params as they were suggested, reports bit by bit, the state, and the result as summary."""
    runs = opened(copied(SOURCE, tmp_path), tmp_path / "cache")
    trials = by_number(runs)
    assert sorted(trials) == [0, 1, 2, 3, 4]
    for number, run in trials.items():
        assert run.config == cases.config(number)
        assert repr(values(run)) == repr(cases.reported(number))
        assert run.state == cases.STATES[number]
        result = cases.RESULTS[number]
        assert result is None or run.summary["value"] == result
        source = run.environment["source"]
        assert source["attributes"] == {"note": f"n{number}"}
    two = by_number(runs, "two")[0]
    assert two.summary["value/1"] == "inf" and 0 < two.summary["value/0"] < 1


def test_cuts_and_flips_give_no_wrong_values(tmp_path: Path) -> None:
    """What can be read of a damaged file is right, and nothing raises."""
    source = copied(SOURCE, tmp_path)
    whole = {run.name: values(run) for run in opened(source, tmp_path / "cache") if run.project == "lr-search"}
    for number, copy in enumerate(foreign_stores.cuts(source.parent, source.name, tmp_path, 16)):
        for run in opened(copy, tmp_path / f"cache{number}"):
            if run.project == "lr-search":
                foreign_stores.assert_part_of(values(run), whole[run.name])
