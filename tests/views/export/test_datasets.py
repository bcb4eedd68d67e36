"""Runs as datasets."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import chiplog
from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.views.export import datasets


def stored(*rows: tuple[object, dict[str, object]], **how: object) -> chiplog.Stored:
    with chiplog.init(project="p", sinks="none", alerts=False, **how) as run:
        for step, row in rows:
            run.log(row, step=step)
    return chiplog.read(run.dir)


def test_each_group_has_its_own_draws() -> None:
    """Six steps of training and three evaluations are two datasets, of six and of three."""
    run = stored(
        *[(step, {"train/loss": 1.0}) for step in range(6)], *[(step, {"eval/loss": 2.0}) for step in range(3)]
    )
    found = datasets.datasets(run)
    assert {group: one.sizes["draw"] for group, one in found.items()} == {"train": 6, "eval": 3}


def test_a_metric_that_begins_late_stands_at_its_steps() -> None:
    """It is NaN before, and never moved to the front."""
    run = stored(*[(step, {"a": step, **({"b": step} if step >= 3 else {})}) for step in range(5)])
    one = datasets.datasets(run)[""]
    assert one["step"].values.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(one["b"].values, [np.nan, np.nan, np.nan, 3, 4])


def test_steps_and_times_are_coordinates() -> None:
    """Where and when each draw was logged is in the dataset."""
    one = datasets.datasets(stored((10, {"a": 1.0}), (20, {"a": 2.0})))[""]
    assert one["step"].values.tolist() == [10, 20]
    assert one["time"].dtype == "datetime64[ns]" and one["time"].values[0] <= one["time"].values[1]


def test_the_same_name_twice_at_a_step_is_two_draws() -> None:
    """Nothing is written over."""
    one = datasets.datasets(stored((7, {"a": 1.0}), (7, {"a": 2.0})))[""]
    assert one["a"].values.tolist() == [1.0, 2.0] and one["step"].values.tolist() == [7, 7]


def test_values_are_doubles() -> None:
    """An integer above 2^24 is what it was."""
    one = datasets.datasets(stored((0, {"a": 16777217})))[""]
    assert one["a"].dtype == "float64" and one["a"].item() == 16777217


def test_statistics_across_ranks_are_variables_of_their_metric() -> None:
    """Also where the metric has no group: `loss/mean` and `loss/count` are not a separate group."""
    alone = {"loss": 1.0, "loss/mean": 1.5, "loss/count": 3, "loss/p50": 1.5, "loss/max_rank": 1, "loss/mean/std": 0.0}
    found = datasets.datasets(stored((0, alone), (1, {"train/x": 1.0, "train/x/std": 0.5, "eval/acc/mean": 0.5})))
    assert set(found[""].data_vars) == {name.replace("/", "_") for name in alone}
    assert set(found["train"].data_vars) == {"x", "x_std"}
    assert set(found["eval"].data_vars) == {"acc_mean"}


def test_vectors_have_chains_and_matrices_leapfrogs() -> None:
    """A vector is (chain, draw), a matrix (chain, leapfrog, draw): its columns, its rows, its steps."""
    vector, matrix = chiplog.Matrix([[1, 2, 3]]), chiplog.Matrix([[1, 2, 3], [4, 5, float("nan")]])
    one = datasets.datasets(stored(*[(step, {"v": vector, "m": matrix}) for step in range(4)]))[""]
    assert one["v"].dims == ("chain", "draw") and one["v"].shape == (3, 4)
    assert one["m"].dims == ("chain", "leapfrog", "draw") and one["m"].shape == (3, 2, 4)
    np.testing.assert_array_equal(one["m"].values[:, :, 2], [[1, 4], [2, 5], [3, np.nan]])


def test_vectors_of_other_lengths_have_other_dimensions() -> None:
    """Two vectors that do not fit together are in one dataset all the same."""
    one = datasets.datasets(stored((0, {"v": chiplog.Matrix([[1, 2, 3]]), "w": chiplog.Matrix([[1, 2]])})))[""]
    assert one["v"].dims == ("chain", "draw") and one["w"].dims == ("chain_2", "draw")


def test_matrices_that_differ_end_in_nan() -> None:
    """Shorter ones are filled up."""
    rows = [(0, {"v": chiplog.Matrix([[1, 2, 3]])}), (1, {"v": chiplog.Matrix([[4]])})]
    np.testing.assert_array_equal(datasets.datasets(stored(*rows))[""]["v"].values, [[1, 4], [2, np.nan], [3, np.nan]])


@pytest.mark.parametrize(
    ("warmup", "left"), [(0.1, 90), (1.0, 0), (3, 97), (29, 71), (57, 43), (1000, 0), (0, 100), (-1, 100), (1.7, 0)]
)
def test_a_warmup_is_left_out(warmup: float, left: int) -> None:
    """A fraction of all draws, or exactly as many as are said."""
    assert datasets.datasets(stored(*[(n, {"a": 1.0}) for n in range(100)]), warmup=warmup)[""].sizes["draw"] == left


def test_files_are_read_by_xarray_and_by_h5py(tmp_path: Path) -> None:
    """What they hold is what was logged."""
    found = datasets.datasets(stored((3, {"train/loss": 0.5, "train/v": chiplog.Matrix([[1.0, 2.0]])})))
    (path,) = datasets.write(found, tmp_path)
    assert path == tmp_path / "train.h5"
    with xr.open_dataset(path, engine="h5netcdf") as read:
        xr.testing.assert_identical(read.load(), found["train"])
    with h5py.File(path) as file:
        assert file["loss"][:].tolist() == [0.5] and file["step"][:].tolist() == [3]


def test_many_metrics_share_the_scale_of_their_steps(tmp_path: Path) -> None:
    """Each of hundreds leads to the steps, and they lead back to each, as NetCDF asks; their order is kept."""
    names = [f"train/metric_{number}" for number in range(300)]
    (path,) = datasets.write(datasets.datasets(stored((0, dict.fromkeys(names, 1.0)))), tmp_path, "nc")
    with h5py.File(path) as file:
        draw = file["draw"]
        assert all(h5py.h5ds.is_attached(file[name[6:]].id, draw.id, 0) for name in names)
        assert [name for name in file if name.startswith("metric")] == [name[6:] for name in names]


def test_writing_twice_gives_the_same_file(tmp_path: Path) -> None:
    """Nothing is appended."""
    found = datasets.datasets(stored((0, {"train/loss": 0.5})))
    first = [path.read_bytes() for path in datasets.write(found, tmp_path)]
    assert [path.read_bytes() for path in datasets.write(found, tmp_path)] == first
    assert len(list(tmp_path.glob("*.h5"))) == 1


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_tables_have_the_names_as_they_were_logged(tmp_path: Path, format: str) -> None:
    """Step, time, and a column for every metric."""
    found = datasets.datasets(stored((0, {"train/a b": 0.5}), (1, {"train/a b": float("nan")})))
    (path,) = datasets.write(found, tmp_path, format)
    frame = pd.read_parquet(path) if format == "parquet" else pd.read_csv(path)
    assert list(frame.columns) == ["step", "time", "train/a b"]
    np.testing.assert_array_equal(frame["train/a b"], [0.5, np.nan])


def test_names_of_all_kinds_become_variables_and_files(tmp_path: Path) -> None:
    """Spaces, unicode, dots and names that are taken: each has its own place, and no file is outside the folder."""
    names = ["a b", "a_b", "../x", "..", "größe", "step", "time", "draw", "9", "", "train/step", "x/../../y", "chain"]
    found = datasets.datasets(stored((0, dict.fromkeys(names, 1.0))))
    kept = {one[variable].attrs["name"] for one in found.values() for variable in one.data_vars}
    assert kept == set(names)
    for path in datasets.write(found, tmp_path / "out"):
        assert path.parent == tmp_path / "out"
        with xr.open_dataset(path, engine="h5netcdf") as read:
            assert read.sizes["draw"] == 1


def test_a_run_without_points_has_no_datasets(tmp_path: Path) -> None:
    """Texts are none either."""
    assert datasets.datasets(stored((0, {"a": "text", "b": None, "c": [1, [2]]}))) == {}
    assert datasets.write({}, tmp_path) == []


def test_steps_that_are_not_finite_are_kept() -> None:
    """So is what was logged there."""
    found = datasets.datasets(stored((0, {"a": 1.0}), (float("nan"), {"a": 2.0}), (float("inf"), {"a": 3.0})))
    assert sorted(found[""]["a"].values.tolist()) == [1.0, 2.0, 3.0]


def test_a_missing_package_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which one, and how to get it."""
    found = datasets.datasets(stored((0, {"a": 1.0})))
    monkeypatch.delitem(sys.modules, "chiplog.views.export.hdf5", raising=False)
    monkeypatch.delattr("chiplog.views.export.hdf5", raising=False)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingPackage, match=r"h5py.*pip install 'chiplog\[data\]'"):
        datasets.write(found, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_unknown_format_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="available: h5, nc, parquet, csv"):
        datasets.write({}, tmp_path, "xlsx")


def test_a_metric_called_step_is_not_there_twice(tmp_path: Path) -> None:
    """Where it says the same as the step the coordinate says it; otherwise it has a name of its own, in every table."""
    same = datasets.datasets(stored((3, {"step": 3, "loss": 1.0}), (4, {"step": 4, "loss": 1.0})))
    assert set(same[""].data_vars) == {"loss"} and same[""]["step"].values.tolist() == [3, 4]
    other = datasets.datasets(stored((3, {"step": 30, "loss": 1.0})))
    assert other[""]["step"].values.tolist() == [3] and other[""]["step_value"].values.tolist() == [30]
    (path,) = datasets.write(other, tmp_path, "csv")
    assert list(pd.read_csv(path).columns) == ["step", "time", "step/value", "loss"]


def test_names_without_a_group_are_beside_the_phase_they_were_logged_with() -> None:
    """The phase's own names come first: `loss` is `train/loss`."""
    one = datasets.datasets(stored((0, {"loss": 9.0, "lr": 0.1, "train/loss": 1.0}), (1, {"train/loss": 2.0})))["train"]
    assert one["loss"].values.tolist() == [1.0, 2.0] and one["lr"].values[0] == 0.1 and one["loss_2"].values[0] == 9.0


def test_a_mapping_in_a_row_is_in_the_dataset_of_the_row() -> None:
    """Its names stay whole."""
    found = datasets.datasets(stored((0, {"loss": 1.0, "grad": {"norm": 2.0}}), (1, {"loss": 1.0})))
    assert list(found) == [""] and set(found[""].data_vars) == {"loss", "grad_norm"}


def test_events_are_in_datasets_for_those_who_ask() -> None:
    """GPUs, stopwatches and what is known about the ranks; never what a run has noted about itself."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        run.log({"loss": 1.0, "ranks/skew": 0.1, "StopWatch/a/dt": 0.2}, step=0)
        run.event("gpu", id=0, power=300.0)
        run.event("timings", train=2.0)
    read = chiplog.read(run.dir)
    assert list(datasets.datasets(read)) == [""]
    assert set(datasets.datasets(read, events=True)) == {"", "ranks", "StopWatch", "gpu"}
