"""The end of a run, stage by stage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

import chiplog
from chiplog.core.errors import BadSetting
from chiplog.views.charts import plot_files
from chiplog.views.report.write import finalize


@pytest.fixture
def stored() -> chiplog.Stored:
    with chiplog.init(project="p", sinks="none", id="first") as run:
        for step in range(20):
            run.log({"train/loss": 3.0 / (step + 1), "eval/acc": 0.1}, step=step)
    return chiplog.read(run.dir)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_everything_is_in_one_place(stored: chiplog.Stored, tmp_path: Path) -> None:
    """A dataset for each group, pictures and text plots by group, and the report in two forms."""
    ending = finalize(stored, tmp_path / "out")
    assert ending.trouble == {} and set(ending.datasets) == {"train", "eval"}
    assert set(tree(tmp_path / "out")) == {
        "train.h5", "eval.h5", "report.md", "report.html",
        "plots/mplot/train/loss.png", "plots/mplot/eval/acc.png",
        "plots/tplot/train/loss.txt", "plots/tplot/eval/acc.txt",
    }  # fmt: skip
    assert sorted(map(str, ending.made)) == sorted(str(tmp_path / "out" / name) for name in tree(tmp_path / "out"))


def test_twice_is_the_same(stored: chiplog.Stored, tmp_path: Path) -> None:
    """To the byte, into a directory that is there."""
    finalize(stored, tmp_path / "out")
    first = tree(tmp_path / "out")
    finalize(stored, tmp_path / "out")
    assert tree(tmp_path / "out") == first


def test_by_default_it_is_with_the_run(stored: chiplog.Stored) -> None:
    finalize(stored, stages=["report"])
    assert (stored.path / "files" / "report.html").exists()


def test_a_failing_plot_costs_nothing_else(
    stored: chiplog.Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is reported; data, text plots and report are there."""
    monkeypatch.setattr(plot_files, "pictures", lambda *_, **__: 1 / 0)
    ending = finalize(stored, tmp_path / "out")
    assert list(ending.trouble) == ["plots"] and "ZeroDivisionError" in ending.trouble["plots"]
    assert "could not write plots" in capsys.readouterr().err
    assert {"train.h5", "eval.h5", "report.md", "plots/tplot/train/loss.txt"} <= set(tree(tmp_path / "out"))


@pytest.mark.parametrize(
    ("package", "stage", "extra"),
    [("matplotlib", "plots", "plot"), ("xarray", "data", "data"), ("h5py", "data as h5", "data")],
)
def test_a_missing_package_is_said_and_everything_else_is_made(
    stored: chiplog.Stored, tmp_path: Path, package: str, stage: str, extra: str
) -> None:
    """In a process that does not have it."""
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "import chiplog; from chiplog.views.report.write import finalize\n"
        f"ending = finalize(chiplog.read({str(stored.path)!r}), {str(tmp_path / 'out')!r})\n"
        f"assert list(ending.trouble) == [{stage!r}], ending.trouble\n"
        f"assert \"pip install 'chiplog[{extra}]'\" in ending.trouble[{stage!r}], ending.trouble\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    made = set(tree(tmp_path / "out"))
    assert "report.html" in made and ("train.h5" in made) == (stage == "plots")
    assert ("plots/mplot/train/loss.png" in made) == (stage != "plots")


def test_a_place_that_cannot_be_written_is_said(stored: chiplog.Stored, tmp_path: Path) -> None:
    """Every stage is tried, and nothing is raised."""
    (tmp_path / "file").write_text("in the way")
    ending = finalize(stored, tmp_path / "file" / "out")
    assert set(ending.trouble) == {"data as h5", "plots", "text plots", "report"} and ending.made == []


def test_a_killed_run_ends_the_same_way(tmp_path: Path) -> None:
    """Finalised by another process it has the same curves as one that ended well."""
    code = (
        "import chiplog, os, sys\n"
        "run = chiplog.init('p', sinks='none', id=sys.argv[1])\n"
        "for step in range(20):\n"
        "    run.log({'train/loss': 3.0 / (step + 1)}, step=step)\n"
        "if sys.argv[1] == 'killed': os.kill(os.getpid(), 9)\n"
        "run.finish()\n"
    )
    for name in ("killed", "ended"):
        subprocess.run([sys.executable, "-c", code, name], check=False)
        finalize(chiplog.read(name), tmp_path / name)
    killed, ended = tree(tmp_path / "killed"), tree(tmp_path / "ended")
    assert killed.keys() == ended.keys()
    for name in ("plots/mplot/train/loss.png", "plots/tplot/train/loss.txt"):
        assert killed[name] == ended[name]
    with (
        xr.open_dataset(tmp_path / "killed" / "train.h5") as one,
        xr.open_dataset(tmp_path / "ended" / "train.h5") as other,
    ):
        xr.testing.assert_equal(one.drop_vars("time"), other.drop_vars("time"))


def test_an_unknown_stage_is_said(stored: chiplog.Stored) -> None:
    with pytest.raises(BadSetting, match="available: data, plots, text, report"):
        finalize(stored, stages=["video"])


def test_a_run_without_points(tmp_path: Path) -> None:
    """It has a report, and nothing else."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"a": "text", "b": None, "c": [1, [2]], "d": b"x", "e": object()})
    ending = finalize(chiplog.read(run.dir), tmp_path / "out")
    assert ending.trouble == {} and set(tree(tmp_path / "out")) == {"report.md", "report.html"}


def test_a_process_may_end_its_own_run(tmp_path: Path) -> None:
    """The report is written before the run has ended, and says how it did."""
    run = chiplog.init(project="p", sinks="none")
    run.log({"loss": 1.0}, step=0)
    run.flush()
    ending = finalize(chiplog.read(run.dir), tmp_path, state="finished")
    run.finish()
    text = (tmp_path / "report.md").read_text()
    assert "**state**: finished" in text and "**finalize/plots**" in text and ending.seconds["plots"] > 0
