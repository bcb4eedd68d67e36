"""Runs of other trackers in the user's cache: converted once, followed, and never kept beyond their room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chiplog.store import layout
from chiplog.store.foreign import cached_runs
from chiplog.store.foreign.cached_runs import refresh
from chiplog.store.foreign.protocol import ForeignRun
from chiplog.store.reader import Stored


def write(path: Path, *losses: float) -> Path:
    """A table of another program, written long ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("step,loss\n" + "".join(f"{step},{loss}\n" for step, loss in enumerate(losses)))
    os.utime(path, (1.7e9 + len(losses), 1.7e9 + len(losses)))
    return path


def losses(root: Path | None) -> dict[str, list[float]]:
    assert root is not None
    return {run.name: run.series("loss").values.tolist() for run in map(Stored, layout.find_runs(root))}


def test_what_has_not_changed_is_not_converted_again(tmp_path: Path) -> None:
    """What has is, and only that."""
    cache, converted = tmp_path / "cache", list[str]()

    def progress(run: ForeignRun, number: int, count: int, share: float) -> None:
        assert 0 <= number < count and 0 <= share <= 1
        if run.path.name not in converted:
            converted.append(run.path.name)

    write(tmp_path / "csv" / "a.csv", 0.5)
    write(tmp_path / "csv" / "b.csv", 1.5)
    root = refresh(tmp_path / "csv", cache, progress)
    assert losses(root) == {"a": [0.5], "b": [1.5]} and converted == ["a.csv", "b.csv"]
    converted.clear()
    assert refresh(tmp_path / "csv", cache, progress) == root and converted == []
    write(tmp_path / "csv" / "b.csv", 1.5, 1.25)
    assert losses(refresh(tmp_path / "csv", cache, progress)) == {"a": [0.5], "b": [1.5, 1.25]}
    assert converted == ["b.csv"]


def test_a_run_whose_source_is_gone_is_removed(tmp_path: Path) -> None:
    """With its directory; and a folder that holds no runs has none."""
    write(tmp_path / "csv" / "a.csv", 0.5)
    gone = write(tmp_path / "csv" / "b.csv", 1.5)
    refresh(tmp_path / "csv", tmp_path / "cache")
    gone.unlink()
    assert losses(refresh(tmp_path / "csv", tmp_path / "cache")) == {"a": [0.5]}
    (tmp_path / "empty").mkdir()
    assert refresh(tmp_path / "empty", tmp_path / "cache") is None


@pytest.mark.parametrize("index", [b"", b"{", b'{"a": 1}', b"\xff" * 100])
def test_an_index_that_cannot_be_read_is_made_again(tmp_path: Path, index: bytes) -> None:
    """As after a run that was removed by hand: the cache may be deleted at any time."""
    source = write(tmp_path / "csv" / "a.csv", 0.5, 0.25)
    root = refresh(source.parent, tmp_path / "cache")
    assert root is not None
    (root / cached_runs.INDEX).write_bytes(index)
    assert losses(refresh(source.parent, tmp_path / "cache")) == {"a": [0.5, 0.25]}
    (run,) = layout.find_runs(root)
    run.rename(tmp_path / "elsewhere")
    assert losses(refresh(source.parent, tmp_path / "cache")) == {"a": [0.5, 0.25]}


def test_one_source_has_one_place_by_whatever_path(tmp_path: Path) -> None:
    """A link and a path with dots lead to it; another source has another."""
    source = write(tmp_path / "csv" / "a.csv", 0.5).parent
    other = write(tmp_path / "other" / "a.csv", 9.0).parent
    (tmp_path / "link").symlink_to(source)
    roots = {refresh(path, tmp_path / "cache") for path in (source, tmp_path / "link", other / ".." / "csv")}
    assert len(roots) == 1 and refresh(other, tmp_path / "cache") not in roots


def test_the_cache_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source that was not opened for longest goes first; the one being opened stays, however large."""
    roots = []
    for number in range(3):
        source = write(tmp_path / f"source{number}" / "a.csv", float(number)).parent
        root = refresh(source, tmp_path / "cache")
        assert root is not None
        os.utime(root, (1.7e9 + number, 1.7e9 + number))
        roots.append(root)
    sizes = [sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) for root in roots]
    monkeypatch.setattr(cached_runs, "MOST", round(3.5 * max(sizes)))
    newest = refresh(write(tmp_path / "source3" / "a.csv", 3.0).parent, tmp_path / "cache")
    assert newest is not None
    assert [root.exists() for root in (*roots, newest)] == [False, True, True, True]
    monkeypatch.setattr(cached_runs, "MOST", 0)
    write(tmp_path / "source3" / "a.csv", 3.0, 4.0)
    assert losses(refresh(tmp_path / "source3", tmp_path / "cache")) == {"a": [3.0, 4.0]}
    assert [root.exists() for root in (*roots, newest)] == [False, False, False, True]
