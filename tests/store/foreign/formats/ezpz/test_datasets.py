"""ezpz's datasets in HDF5, in its own form and as chiplog writes them."""

from __future__ import annotations

import math
from pathlib import Path

import h5py
import numpy as np
import pytest

import chiplog
from chiplog.cli import main
from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values

LOSS = [2.0, 1.5, math.inf, 0.25]


def original(folder: Path) -> Path:
    """As ezpz writes them: arrays without coordinates, and all of them once more in a flat file."""
    folder.mkdir(parents=True)
    with h5py.File(folder / "train_dataset.h5", "w") as file:
        file.create_dataset("loss", data=np.array(LOSS), maxshape=(None,), chunks=True, compression="gzip")
        file.create_dataset("iter", data=np.arange(4))
        file.create_dataset("matrix", data=np.zeros((4, 2)))
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "/x")
        file["soft"] = h5py.SoftLink("/loss")
    with h5py.File(folder / "eval_dataset.h5", "w") as file:
        file.create_dataset("loss", data=np.array([3.0]))
    with h5py.File(folder / "dataset_dataset.h5", "w") as file:
        file.create_dataset("train_loss", data=np.array(LOSS))
    return folder


def test_a_folder_is_one_run(tmp_path: Path) -> None:
    """A series per array, by the index of its row; links are not followed, and the flat file is not read again."""
    (run,) = opened(original(tmp_path / "out"), tmp_path / "cache")
    assert values(run) == {
        "train/loss": sorted(enumerate(LOSS), key=repr),
        "train/iter": [(at, float(at)) for at in range(4)],
        "eval/loss": [(0, 3.0)],
    }
    assert {reason.split()[0] for reason in lost(run)} == {"matrix", "elsewhere", "soft"}


def test_other_hdf5_is_left_alone(tmp_path: Path) -> None:
    """Weights of a model are not a run, and a name is not a file."""
    with h5py.File(tmp_path / "model.h5", "w") as file:
        file.create_dataset("weights", data=np.zeros(10))
    (tmp_path / "train_dataset.h5").write_bytes(b"nothing")
    assert opened(tmp_path, tmp_path.parent / f"{tmp_path.name}-cache") == []


def test_our_own_export_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its steps and times."""
    monkeypatch.chdir(tmp_path)
    with chiplog.init("p", id="one", sinks="none") as run:
        for step in range(5, 9):
            run.log({"train/loss": 1 / step}, step=step)
    assert main(["export", "one", "--to", "h5", "-o", "out"]) == 0
    Path("out/train.h5").rename("out/train_dataset.h5")  # as the front end of ezpz names it
    (back,) = opened(tmp_path / "out", tmp_path / "cache")
    stored = chiplog.read(run.dir)
    assert values(back)["train/loss"] == values(stored)["train/loss"]
    assert (back.series("train/loss").times == stored.series("train/loss").times).all()


def test_damage_is_named(tmp_path: Path) -> None:
    """HDF5 may crash on it; that is another process."""
    source = original(tmp_path / "out")
    (whole,) = opened(source, tmp_path / "cache")
    for number, copy in enumerate(foreign_stores.cuts(source, "train_dataset.h5", tmp_path, 3)):
        for run in opened(copy, tmp_path / f"cache{number}"):
            foreign_stores.assert_part_of(values(run), values(whole))
