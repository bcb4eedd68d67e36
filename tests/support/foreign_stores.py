"""Opens the files of other trackers, and damages copies of them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from chiplog.store import layout
from chiplog.store.foreign import conversion
from chiplog.store.foreign.cached_runs import refresh
from chiplog.store.reader import Stored

Values = dict[str, list[tuple[float, float]]]


def opened(source: Path, cache: Path) -> list[Stored]:
    """The runs of a foreign path, opened in place, by name; checks that nothing was written beside them."""
    before = snapshot(source)
    root = refresh(source, cache)
    assert snapshot(source) == before
    runs = [] if root is None else [Stored(path) for path in layout.find_runs(root)]
    for run in runs:
        assert run.damage == [] and run.missing == {}
    return sorted(runs, key=lambda run: run.name)


def lost(run: Stored) -> dict[str, int]:
    source = conversion.load(run.path)
    assert source is not None
    return source.lost


def values(run: Stored) -> Values:
    """The points of all series in the default view, as repr-exact pairs of step and value."""
    return {
        name: sorted(zip(series.steps.tolist(), series.values.tolist(), strict=True), key=repr)
        for name in run.names()
        if len(series := run.series(name))
    }


def snapshot(source: Path) -> dict[str, tuple[int, int]]:
    """The files of a folder with sizes and times."""
    paths = [source] if source.is_file() else sorted(source.rglob("*"))
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths if path.is_file()}


def cuts(source: Path, file: str, folder: Path, count: int = 24) -> Iterator[Path]:
    """Copies of a folder in which a file ends early, at bytes all over it."""
    size = (source / file).stat().st_size
    for number, at in enumerate(sorted({round(size * part / count) for part in range(count)})):
        copy = folder / f"cut{number}" / source.name
        shutil.copytree(source, copy)
        with (copy / file).open("r+b") as damaged:
            damaged.truncate(at)
        yield copy


def flips(source: Path, file: str, folder: Path, count: int = 24) -> Iterator[Path]:
    """Copies of a folder in which one bit of a file is wrong."""
    data = (source / file).read_bytes()
    chance = random.Random(7)
    for number in range(count):
        copy = folder / f"flip{number}" / source.name
        shutil.copytree(source, copy)
        at = chance.randrange(len(data))
        (copy / file).write_bytes(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
        yield copy


def assert_part_of(some: Values, whole: Values) -> None:
    """Every point is one of the whole: what could not be read may be missing, and nothing is wrong."""
    for name, pairs in some.items():
        assert name in whole, name
        left = list(map(repr, whole[name]))
        for pair in map(repr, pairs):
            assert pair in left, (name, pair)
