"""ClearML's offline sessions, written by its client."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from tests.support import foreign_stores
from tests.support.foreign_data import copied
from tests.support.foreign_stores import lost, opened, values

SOURCE = "clearml-2.1"
FILE = "offline-d9844089d5144c4487bf13d7a9c4e5f2.zip"
WHOLE = {f"loss/{name}": [(step, top / (step + 3)) for step in range(6)] for name, top in (("train", 1), ("val", 2))}


def test_a_session_is_a_run(tmp_path: Path) -> None:
    """Scalars by title and series, params, tags, printed lines, artifacts by reference; plots are counted."""
    (run,) = opened(copied(SOURCE, tmp_path), tmp_path / "cache")
    assert values(run) == WHOLE
    assert (run.project, run.name, run.tags, run.state) == ("a project", "a task", ("blue",), "finished")
    assert run.config == {"lr": 0.1, "layers": 3} and run.summary["best"] == 0.5
    assert run.series("loss/train").times.astype("int64")[0] == 1795125717511 * 10**6
    assert [line.text for line in run.console()][-2:] == ["hello clearml", "printed"]
    assert [row["key"] for row in run.table("artifacts")] == ["art"]
    assert lost(run) == {"events of type plot": 2}


def test_a_folder_that_was_not_packed_is_the_same_run(tmp_path: Path) -> None:
    """A task that was killed leaves its folder; next to its archive it is not a second run."""
    source = copied(SOURCE, tmp_path)
    with zipfile.ZipFile(source / FILE) as archive:
        archive.extractall(source / "session")
    for path in (source / "session").rglob("*"):
        os.utime(path, (2e9, 2e9))
    for _ in range(2):
        (run,) = opened(source, tmp_path / "cache")
        assert values(run) == WHOLE and len(run.attempts) == 1
    (source / FILE).unlink()
    (run,) = opened(source, tmp_path / "other")
    assert values(run) == WHOLE and run.state == "ended"  # its files are younger than what is in them by far


def test_cuts_and_flips_give_no_wrong_values(tmp_path: Path) -> None:
    """The archive has a CRC per file: what fails it is not used, and named."""
    source = copied(SOURCE, tmp_path)
    for make in (foreign_stores.cuts, foreign_stores.flips):
        for number, copy in enumerate(make(source, FILE, tmp_path, 32)):
            for run in opened(copy, tmp_path / f"{make.__name__}{number}"):
                foreign_stores.assert_part_of(values(run), WHOLE)
                assert values(run) == WHOLE or "metrics.jsonl" in str(lost(run))
