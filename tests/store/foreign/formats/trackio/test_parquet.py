"""trackio's exports to Parquet, written by its own functions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import foreign_stores
from tests.support.foreign_stores import opened, values

Written = tuple[Path, list[dict[str, object]]]


@pytest.mark.parametrize("place", ["proj", "."])
def test_every_value_is_that_of_the_database(everything: Written, written: Written, tmp_path: Path, place: str) -> None:
    """An export for a static page, and the files beside a database: rows, config, system metrics, id, name, times."""
    source = tmp_path / "proj"
    shutil.copytree(everything[0] / "static" / place, source, ignore=shutil.ignore_patterns("inbox", "proj"))
    (run,), (original,) = opened(source, tmp_path / "cache"), opened(written[0], tmp_path / "other")
    assert repr(values(run)) == repr(values(original))
    assert (run.project, run.id, run.name, run.config) == (
        original.project,
        original.id,
        original.name,
        original.config,
    )
    times, expected = run.series("loss").times, original.series("loss").times
    assert (times == expected).all() and [one.text for one in run.records("text")] == ["hello"]  # type: ignore[union-attr]


def test_beside_its_database_an_export_is_no_second_run(everything: Written, written: Written, tmp_path: Path) -> None:
    """trackio writes it there each time its page is opened."""
    source = tmp_path / "source"
    shutil.copytree(written[0], source)
    for path in (everything[0] / "static").glob("*.parquet"):
        shutil.copy(path, source)
    assert len(opened(source, tmp_path / "cache")) == 1


def test_damage_gives_no_wrong_values(everything: Written, tmp_path: Path) -> None:
    """Cut or flipped."""
    source = tmp_path / "source"
    shutil.copytree(everything[0] / "static", source, ignore=shutil.ignore_patterns("inbox", "proj"))
    (whole,) = opened(source, tmp_path / "cache")
    for number, copy in enumerate(foreign_stores.cuts(source, "proj.parquet", tmp_path, 12)):
        for run in opened(copy, tmp_path / f"cut{number}"):
            foreign_stores.assert_part_of(values(run), values(whole))
