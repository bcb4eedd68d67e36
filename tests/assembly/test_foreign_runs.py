"""Paths of other trackers' files, as directories of runs in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.assembly import foreign_runs
from chiplog.core.errors import RunNotFound
from chiplog.store import layout


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "metrics.csv").write_text("step,loss\n1,0.5\n")
    return tmp_path / "logs" / "metrics.csv"


def test_a_path_of_another_tracker_becomes_a_directory_of_runs(table: Path, cache: Path) -> None:
    """In the user's cache, for a file as well as for its folder; `~` is the user's own folder."""
    for path in (table, table.parent):
        root = foreign_runs.cached(path)
        assert root is not None and root.is_relative_to(cache)
        assert foreign_runs.directory(path) == root
        (run,) = layout.find_runs(root)
        assert chiplog.read(run).series("loss").values.tolist() == [0.5]


def test_the_users_home_may_be_abbreviated(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a shell."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert foreign_runs.cached(Path("~/logs/metrics.csv")) == foreign_runs.cached(table)


def test_a_path_of_our_own_is_never_another_trackers(table: Path, cache: Path) -> None:
    """Neither a run, whose files may look like one of theirs, nor a directory with runs and tables beside them."""
    with chiplog.init("p", dir=table.parent, sinks="csv") as run:
        run.log({"loss": 1.0}, step=1)
    for path in (run.dir, table.parent):
        assert foreign_runs.cached(path) is None and foreign_runs.directory(path) == path
    assert not cache.exists()


@pytest.mark.parametrize("path", ["absent", "a\0b", "x" * 5000, ""])
def test_what_is_not_a_path_is_none(path: str) -> None:
    """The name of a run, say; it never raises."""
    assert foreign_runs.cached(Path(path)) is None


def test_an_error_is_explained_by_the_path_that_it_names(tmp_path: Path) -> None:
    """A file that exists and holds no run gets the reason; a name, a directory of our runs or another path does not."""
    (tmp_path / "bad.csv").write_text("loss,acc\n1,2\n")
    bad = str(tmp_path / "bad.csv")
    with chiplog.init("p", dir=tmp_path / "runs", sinks="none") as run:
        run.log({"loss": 1.0})
    named = foreign_runs.explained(RunNotFound(f"no run {bad!r}"), "other", bad)
    assert "none of its columns (loss, acc) is a step" in str(named)
    for text in ("other", str(tmp_path / "runs"), "a\0b"):
        error = RunNotFound(f"no run {text!r}")
        assert foreign_runs.explained(error, text, bad) is error
    assert "in a format that chiplog reads: tensorboard" in foreign_runs.no_runs_in(tmp_path)
