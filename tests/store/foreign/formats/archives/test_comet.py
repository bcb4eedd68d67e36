"""Comet's offline experiments, written by its client."""

from __future__ import annotations

import math
from pathlib import Path

from chiplog.core.records import TextRecord
from chiplog.store.foreign import registry
from tests.support import foreign_stores
from tests.support.foreign_data import copied
from tests.support.foreign_stores import lost, opened, values

SOURCE = "comet-3.58"
FILE = "359c7b0fc60a42088251a8043158ff01.zip"


def test_an_experiment_is_a_run(tmp_path: Path) -> None:
    """Metrics with NaN, nested params, name, tags, times, printed lines, text and the machine."""
    (run,) = opened(copied(SOURCE, tmp_path), tmp_path / "cache")
    assert values(run)["loss"] == [(step, 1 / (step + 3)) for step in range(6)]
    assert values(run)["train_acc"] == [(step, step / 7) for step in range(6)]
    assert all(math.isnan(value) for _, value in values(run)["train_bad"])
    assert (run.project, run.name, run.tags, run.state) == ("proj", "a name", ("blue",), "finished")
    assert run.config == {"lr": 0.1, "model": {"dim": 8}}
    assert run.environment["host"] == "host" and run.environment["source"]["others"] == {"team": "blue"}
    assert run.created == 1795125731752 * 10**6 and values(run)["system/ram.total"][0][1] == 25276510208
    assert [line.text for line in run.console()][-1:] == ["printed line"]
    assert [record.text for record in run.records("text") if isinstance(record, TextRecord)] == ["hello comet"]
    assert lost(run) == {"files of type histogram3d": 1}


def test_cuts_and_flips_give_no_wrong_values(tmp_path: Path) -> None:
    """The archive has a CRC per file: what fails it is not used, and named."""
    source = copied(SOURCE, tmp_path)
    (run,) = opened(source, tmp_path / "cache")
    for make in (foreign_stores.cuts, foreign_stores.flips):
        for number, copy in enumerate(make(source, FILE, tmp_path, 32)):
            for damaged in opened(copy, tmp_path / f"{make.__name__}{number}"):
                foreign_stores.assert_part_of(values(damaged), values(run))
                assert "loss" in values(damaged) or "messages.json" in str(lost(damaged))


def test_an_archive_that_was_cut_off_says_so(tmp_path: Path) -> None:
    """Its list of files is at its end, so nothing of it is found."""
    source = copied(SOURCE, tmp_path) / FILE
    source.write_bytes(source.read_bytes()[:-30])
    assert registry.find(source) == []
    assert "the archive is cut off or damaged (File is not a zip file)" in registry.no_runs_in(str(source))
