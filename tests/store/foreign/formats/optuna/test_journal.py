"""Optuna's journal, written by its client."""

from __future__ import annotations

from pathlib import Path

from chiplog.store.reader import Stored
from tests.store.foreign.formats.optuna import cases
from tests.support import foreign_stores
from tests.support.foreign_data import copied
from tests.support.foreign_stores import opened, values

SOURCE = "optuna-5.0.0/journal.log"


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


def test_a_journal_that_grows_adds_what_is_new(tmp_path: Path) -> None:
    """Opened while a worker writes it; a last line without its end waits."""
    source = copied(SOURCE, tmp_path)
    lines = source.read_bytes().splitlines(keepends=True)
    for count in (5, 12, len(lines)):
        source.write_bytes(b"".join(lines[:count]) + (lines[count][:20] if count < len(lines) else b""))
        trials = by_number(opened(source, tmp_path / "cache"))
    assert repr(values(trials[1])) == repr(cases.reported(1)) and len(trials[1].attempts) == 1


def test_a_damaged_line_is_left_out_and_counted(tmp_path: Path) -> None:
    """The other operations are applied."""
    source = copied(SOURCE, tmp_path)
    data = source.read_bytes()
    source.write_bytes(data.replace(b'"step":2,"intermediate', b'"step":2,#"intermediate', 1))
    trials = by_number(opened(source, tmp_path / "cache"))
    assert [step for step, _ in values(trials[0])["value"]] == [0, 1, 3, 4]
    assert foreign_stores.lost(trials[0]) == {"operations that are damaged": 1}
