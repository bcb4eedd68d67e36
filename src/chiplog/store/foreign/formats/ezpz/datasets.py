"""ezpz's datasets: an HDF5 file per group of metrics, `train_dataset.h5`, read with h5py in another process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.store.foreign import child_reader
from chiplog.store.foreign.formats.ezpz.lines import FACTS, is_history
from chiplog.store.foreign.identity_from_path import identity
from chiplog.store.foreign.protocol import (
    LATEST,
    About,
    Folder,
    ForeignRun,
    Item,
    Losses,
    Points,
    Position,
    Rewritten,
    clean_name,
    digest,
)
from chiplog.store.foreign.yaml_and_json import load_json

NAME = "ezpz"
ENDING = "_dataset.h5"
MAGIC = b"\x89HDF\r\n\x1a\n"
FLAT = "dataset"  # the group of the file with all metrics once more
READER = "chiplog.store.foreign.formats.ezpz.dataset_reader"
MISSING = "everything: reading HDF5 needs its package: pip install 'chiplog[data]'"


def find(folder: Folder) -> list[ForeignRun]:
    names = [name for name in folder.free(ENDING) if _is_hdf5(folder.path / name)]
    if not names:
        return []
    folder.taken |= {*names, FACTS}
    if any(is_history(folder.path / name) for name in folder.files if name.endswith(".jsonl")):
        return []  # the same metrics, with their times
    groups = {name.removesuffix(ENDING): folder.path / name for name in names}
    if len(groups) > 1:
        groups.pop(FLAT, None)
    installed = find_spec("h5py") is not None
    key = f"{NAME}:{folder.path.resolve()}"
    read = partial(_read, groups) if installed else _read_nothing
    files = tuple(groups.values())
    return [ForeignRun(NAME, key, folder.path, files, partial(_about, folder.path), read, "h5py" if installed else "")]


def _is_hdf5(path: Path) -> bool:
    try:
        with reading.open_path(path, regular=True) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _about(place: Path, _: Plain) -> About:
    about = identity(place / "x", NAME, generic=("x",))
    facts = load_json(place / FACTS)
    about.environment = facts if isinstance(facts, dict) else {}
    return about


def _read_nothing(_: Plain, losses: Losses) -> Iterator[Item]:
    losses.set(MISSING, 1)
    yield from ()


def _read(groups: dict[str, Path], position: Plain, losses: Losses) -> Iterator[Item]:
    """They are written at the end of a run, once; written again, they are another attempt."""
    losses.set(MISSING, 0)
    stamp = digest(repr([(group, path.stat().st_size, path.stat().st_mtime_ns) for group, path in groups.items()]))
    if position == stamp:
        return
    if position is not None:
        raise Rewritten
    for group, path in groups.items():
        written = int(path.stat().st_mtime * 1e9)
        try:
            for line in child_reader.lines(READER, (path,)):
                if "lost" in line:
                    losses.add(f"{line['lost']} of {path.name}, which is not a series of numbers")
                else:
                    yield _points("" if group == FLAT else f"{group}/", line, written)
        except child_reader.ChildFailed as error:
            losses.set(f"the rest of {path.name} ({error})", 1)
    yield Position(stamp, 1.0)


def _points(prefix: str, line: dict[str, Plain], written: int) -> Points:
    values = np.array(line["values"], np.float64)
    steps = np.array(line["steps"])
    times = np.array(line.get("times") or [written] * len(values), np.int64)
    return Points(
        [clean_name(f"{prefix}{line['name']}")],
        np.zeros(len(values), np.int64),
        steps.astype(np.int64) if steps.dtype.kind in "iu" else steps.astype(np.float64),
        np.where((times > 0) & (times < LATEST), times, written),
        values,
    )
