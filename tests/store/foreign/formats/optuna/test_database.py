"""Optuna's storages, an SQLite file and a journal, written by its client."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.foreign.formats.optuna import cases
from tests.support import foreign_stores
from tests.support.foreign_data import copied
from tests.support.foreign_stores import opened, values

both = pytest.mark.parametrize("storage", ["optuna-5.0.0/optuna.db", "optuna-5.0.0/journal.log"])


@both
def test_every_trial_is_a_run(storage: str, tmp_path: Path) -> None:
    """Params as they were suggested, reports bit by bit, the state, and the result as summary."""
    runs = opened(copied(storage, tmp_path), tmp_path / "cache")
    trials = cases.by_number(runs)
    assert sorted(trials) == [0, 1, 2, 3, 4]
    for number, run in trials.items():
        assert run.config == cases.config(number)
        assert repr(values(run)) == repr(cases.reported(number))
        assert run.state == cases.STATES[number]
        result = cases.RESULTS[number]
        assert result is None or run.summary["value"] == result
        source = run.environment["source"]
        assert source["attributes"] == {"note": f"n{number}"}
    two = cases.by_number(runs, "two")[0]
    assert two.summary["value/1"] == "inf" and 0 < two.summary["value/0"] < 1


@both
def test_cuts_and_flips_give_no_wrong_values(storage: str, tmp_path: Path) -> None:
    """What can be read of a damaged file is right, and nothing raises."""
    source = copied(storage, tmp_path)
    whole = {run.name: values(run) for run in opened(source, tmp_path / "cache") if run.project == "lr-search"}
    for number, copy in enumerate(foreign_stores.cuts(source.parent, source.name, tmp_path, 16)):
        for run in opened(copy, tmp_path / f"cache{number}"):
            if run.project == "lr-search":
                foreign_stores.assert_part_of(values(run), whole[run.name])
