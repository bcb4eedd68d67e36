"""`History`: its constructor, `update` and `finalize`."""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

import chiplog
from chiplog import cli
from chiplog.frontends import ezpz
from chiplog.frontends.ezpz import History, NullTracker, Tracker, TrackerBackend
from chiplog.views.charts import plot_files
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("EZPZ_", "WANDB_", "WB_"))]:
        monkeypatch.delenv(name)


def lines(path: Path) -> list[dict[str, Any]]:
    def never(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return [json.loads(line, parse_constant=never) for line in path.read_text().splitlines()]


# -- the constructor ---------------------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_documentation(tmp_path: Path) -> None:
    """No backends, a report, and a file of lines under the id of the run."""
    history = History()
    assert history.distributed_history is False and history.report_enabled is True
    assert isinstance(history.tracker, NullTracker)
    assert history.jsonl_path == tmp_path / "outputs" / "history" / f"{history.run.id}.jsonl"


@pytest.mark.parametrize(
    ("world", "asked", "variables", "expected"),
    [
        (1, None, {}, False),
        (384, None, {}, True),
        (385, None, {}, False),
        (385, True, {}, True),
        (8, False, {}, False),
        (8, None, {"EZPZ_NO_DISTRIBUTED_HISTORY": "1"}, False),
        (8, None, {"EZPZ_LOCAL_HISTORY": "1"}, False),
        (8, True, {"EZPZ_LOCAL_HISTORY": "1"}, False),
        (8, None, {"EZPZ_LOCAL_HISTORY": "0", "EZPZ_NO_DISTRIBUTED_HISTORY": "0"}, True),
    ],
)
def test_whether_statistics_are_made(
    world: int, asked: bool | None, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 384 ranks unless it is said otherwise; "0" is no."""
    for name, value in {"RANK": "0", "WORLD_SIZE": str(world), **variables}.items():
        monkeypatch.setenv(name, value)
    from chiplog.frontends.ezpz.history import _is_distributed

    assert _is_distributed(asked) is expected


def test_report_dir_is_where_the_lines_are(tmp_path: Path) -> None:
    history = History(report_dir=tmp_path / "reports")
    history.update({"loss": 1.0})
    wait_for((tmp_path / "reports" / f"{history.run.id}.jsonl").exists)


def test_without_a_report(tmp_path: Path) -> None:
    history = History(report_enabled=False)
    history.update({"loss": 1.0})
    history.finalize(outdir=tmp_path / "out", plot=False)
    assert not (tmp_path / "out" / "report.md").exists() and (tmp_path / "out" / "dataset.h5").exists()


@pytest.mark.parametrize(("overwrite", "count"), [(True, 1), (False, 2)])
def test_an_existing_file_of_lines_at_the_end(overwrite: bool, count: int, tmp_path: Path) -> None:
    """`finalize` continues it too, or replaces it; doing it twice adds nothing."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "metrics.jsonl").write_text('{"old":1}\n')
    history = History(jsonl_overwrite=overwrite)
    history.update({"loss": 1.0})
    for _ in range(2):
        history.finalize(outdir=tmp_path / "out", plot=False)
    assert len(lines(tmp_path / "out" / "metrics.jsonl")) == count
    assert history.jsonl_path == tmp_path / "out" / "metrics.jsonl"


@pytest.mark.parametrize(("overwrite", "count"), [(True, 1), (False, 2)])
def test_an_existing_file_of_lines(overwrite: bool, count: int, tmp_path: Path) -> None:
    """It is continued, or started again."""
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"old":1}\n')
    history = History(jsonl_path=path, jsonl_overwrite=overwrite)
    history.update({"loss": 1.0})
    history.run.finish()
    assert len(lines(path)) == count


def test_the_project_is_that_of_the_run() -> None:
    assert History(project_name="My Project").run.project == "My Project"


def test_the_config_is_kept_without_any_backend() -> None:
    history = History(config={"lr": 1e-4})
    history.run.finish()
    assert chiplog.read(history.run.dir).config == {"lr": 1e-4}


class Kept(TrackerBackend):
    """A backend that remembers."""

    name = "kept"

    def __init__(self, **facts: Any) -> None:
        self.facts, self.calls = facts, []

    def log(self, metrics: Any, step: Any = None, commit: bool = True) -> None:
        self.calls.append(("log", dict(metrics), step))

    def log_config(self, config: Any) -> None:
        self.calls.append(("config", dict(config)))

    def log_table(self, key: str, columns: Any, data: Any) -> None:
        self.calls.append(("table", key, columns, data))

    def log_image(self, key: str, image_path: str, caption: str | None = None) -> None:
        self.calls.append(("image", key, caption))

    def log_artifacts(self, artifacts: Any) -> None:
        self.calls.append(("artifacts", *artifacts))

    def finish(self) -> None:
        self.calls.append(("finish",))

    def of(self, what: str) -> list[Any]:
        return [call[1:] for call in self.calls if call[0] == what]


def test_a_ready_tracker_is_taken() -> None:
    """Its backends get what the history records."""
    backend = Kept()
    history = History(tracker=Tracker([backend]), config={"lr": 1.0})
    assert history.tracker.get_backend("kept") is backend
    history.update({"loss": 0.5}, step=3)
    history.run.finish()
    assert backend.of("log") == [({"loss": 0.5}, 3)] and backend.of("config") == [({"lr": 1.0},)]


# -- update ------------------------------------------------------------------------------------------------------------


def test_update_returns_the_line() -> None:
    history = History()
    assert history.update({"loss": 0.42}) == "loss=0.420000"
    assert history.update({"loss": 0.42, "lr": 1e-3}, step=42, precision=2) == "loss=0.42 lr=0.001000"
    assert history.update({"loss": 0.5}, summarize=False) == ""
    assert history.history["loss"] == [0.42, 0.42, 0.5]


def test_memory_is_one_word_of_the_line() -> None:
    memory = {f"train/{name}": 1.5 for name in ("mem_alloc", "mem_peak_alloc", "mem_reserved", "mem_peak_reserved")}
    assert History().update({"loss": 1.0, **memory}, precision=1) == "loss=1.0 memory=1.50/1.50GiB"


def test_steps_count_on_from_the_last_one() -> None:
    """0, 1, 10, 11; an update that is not committed shares the step of the next."""
    history = History()
    for step in (None, None, 10, None):
        history.update({"a": 1.0}, step=step)
    history.update({"a": 2.0}, commit=False)
    history.update({"b": 1.0})
    history.run.finish()
    stored = chiplog.read(history.run.dir)
    assert stored.series("a").steps.tolist() == [0, 1, 10, 11, 12] and stored.series("b").steps.tolist() == [12]


def test_names_stay_as_they_are() -> None:
    """Whatever groups are in one call."""
    history = History()
    history.update({"lr": 0.1, "train/loss": 1.0, "eval/loss": 2.0})
    assert set(history.history) == {"lr", "train/loss", "eval/loss"}
    assert history.groups == {"": {"lr": [0.1]}, "train": {"loss": [1.0]}, "eval": {"loss": [2.0]}}
    assert history.data == history.history


def test_lines_have_the_step_and_are_strict_json() -> None:
    """NaN too."""
    history = History()
    history.update({"loss": math.nan, "x": math.inf}, step=7)
    wait_for(lambda: history.jsonl_path.exists() and len(lines(history.jsonl_path)) == 1)
    (line,) = lines(history.jsonl_path)
    assert line.keys() == {"timestamp", "rank", "step", "metrics"} and abs(line["timestamp"] - time.time()) < 60
    assert (line["rank"], line["step"], line["metrics"]) == (0, 7, {"loss": "nan", "x": "inf"})


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (torch.tensor(1.5, requires_grad=True), [1.5]),
        (np.float32(0.5), [0.5]),
        (np.array([2.5]), [2.5]),
        (True, [True]),
        ([1.0, 2.0, 3.0], [[1.0, 2.0, 3.0]]),
        (torch.tensor([1.0, 2.0]), [[1.0, 2.0]]),
        (np.array([[1.0, 2.0], [3.0, math.inf]]), [[[1.0, 2.0], [3.0, math.inf]]]),
        ("abc", ["abc"]),
    ],
)
def test_values_of_all_kinds(value: Any, kept: list[Any]) -> None:
    """Numbers, vectors, matrices and texts come back as they were."""
    history = History()
    history.update({"x": value})
    assert history.history == {"x": kept}


def test_bad_values_disturb_nothing(tmp_path: Path) -> None:
    """A string, None, a ragged list, bytes, an object: the rest of the row is there, at the end too."""
    history = History()
    for bad in ("abc", None, [1, [2, 3]], b"x", object(), {"deep": {"er": 1.0}}, [], [[1.0], [2.0, 3.0]]):
        history.update({"loss": 1.0, "bad": bad})
    result = history.finalize(outdir=tmp_path / "out", plot=False)
    assert isinstance(result, xr.Dataset) and result["loss"].shape == (8,)


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("metrics", "step"), [(None, 1), (["loss"], 1), ({"loss": 1.0}, "seven"), ({3: 1.0}, 1), ({"x": Mute()}, 1)]
)
def test_nothing_is_raised_into_the_loop(metrics: Any, step: Any) -> None:
    """No row, a bad step, a key that is not a text, a value without words; the next update works."""
    history = History()
    history.update(metrics, step=step)
    assert history.update({"loss": 0.5}) == "loss=0.500000"
    assert history.history["loss"][-1] == 0.5


def test_use_wandb_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="use_wandb"):
        History().update({"loss": 1.0}, use_wandb=True)


def test_an_unwritable_place_of_lines_disturbs_nothing(tmp_path: Path) -> None:
    """It is said, and training goes on."""
    (tmp_path / "file").write_text("")
    history = History(jsonl_path=tmp_path / "file" / "x.jsonl")
    assert history.update({"loss": 1.0}) == "loss=1.000000"


class Late:
    """A value on a device, as a JAX array is, until it is let go."""

    dtype, shape = "float32", ()

    def __init__(self, value: float) -> None:
        self.value, self.ready = value, False

    def is_ready(self) -> bool:
        return self.ready

    def copy_to_host_async(self) -> None:
        pass

    def devices(self) -> list[Any]:
        return []

    def item(self) -> float:
        return self.value


def test_values_that_come_later_are_in_their_row(tmp_path: Path) -> None:
    """In the sheet, in the lines and for backends, in the order of the updates; two of one step stay two."""
    backend = Kept()
    history = History(tracker=Tracker([ezpz.CSVBackend(tmp_path / "sheets"), backend]))
    late = Late(0.5), Late(0.25)
    history.update({"loss": late[0], "lr": 0.1}, step=1)
    history.update({"acc": late[1], "t": "words"}, step=1)
    history.update({"loss": 1.0}, step=2)
    for one in late:
        one.ready = True
    history.finalize(outdir=tmp_path / "out", plot=False)
    whole = [(1, {"loss": 0.5, "lr": 0.1}), (1, {"acc": 0.25, "t": "words"}), (2, {"loss": 1.0})]
    assert [(line["step"], line["metrics"]) for line in lines(tmp_path / "out" / "metrics.jsonl")] == whole
    assert [(step, row) for row, step in backend.of("log")] == whole
    header, *rows = csv.reader((tmp_path / "out" / "metrics.csv").read_text().splitlines())
    assert header == ["step", "time", "loss", "lr", "acc", "t"]
    assert [row[:1] + row[2:] for row in rows] == [
        ["1", "0.5", "0.1", "", ""],
        ["1", "", "", "0.25", "words"],
        ["2", "1.0", "", "", ""],
    ]


def test_a_metric_called_step_is_the_step_where_none_is_given() -> None:
    """One that is given goes before it."""
    history = History()
    history.update({"step": 40, "loss": 1.0})
    history.update({"loss": 2.0})
    history.update({"step": 7, "loss": 3.0}, step=50)
    assert chiplog.read(history.run.dir).series("loss").steps.tolist() == [40, 41, 50]


def test_a_wide_row_is_one_line() -> None:
    """Also where the journal needs several records for it."""
    history = History()
    history.update({f"m{number}": 1.0 for number in range(6000)}, summarize=False)
    history.run.finish()
    (line,) = lines(history.jsonl_path)
    assert len(line["metrics"]) == 6000


def test_log_metrics_says_a_row_and_keeps_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Without `train/`; what has one of the prefixes only in the debug log."""
    history = History()
    mine = logging.getLogger("mine")
    with caplog.at_level(logging.DEBUG, "mine"):
        row = {"train/iter": 3, "train/iter/std": 1.0, "train/loss": 0.5, "train/loss/std": 0.1, "hist/w": 1.0}
        history.log_metrics(row, logger=mine, precision=1)
        history.log_metrics({"train/loss": 0.5, "train/mem_alloc": 1.5}, logger=mine, precision=1)
        history.log_metrics(row, logger=mine, precision=1, include_summary=False, debug_prefixes=())
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("INFO", "iter=3    loss=0.5(±  0.10)"),
        ("DEBUG", "hist/w=1.0"),
        ("INFO", "loss=0.5 memory=1.50GiB (cur)"),
        ("INFO", "iter=3    loss=0.5 hist/w=1.0"),
    ]
    assert history.history == {}
    assert History.split_metrics_for_logging({"a": 1, "hist/b": 2}, ["hist/"]) == ({"a": 1}, {"hist/b": 2})
    assert History.summarize_min_max_std({"a": 2}) == {"a/mean": 2.0, "a/max": 2.0, "a/min": 2.0, "a/std": 0.0}


# -- data and pictures -------------------------------------------------------------------------------------------------


# -- finalize ----------------------------------------------------------------------------------------------------------


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_the_outputs_are_where_the_documentation_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The grouped tree, with the sheets of the csv backend; text plots on the terminal; a link to the journal."""
    history = History(backends="csv", outdir=tmp_path / "elsewhere", config={"lr": 1e-4})
    for step in range(6):
        history.update({"train/loss": 1.0 / (step + 1)}, step=step)
        if step % 2:
            history.update({"eval/acc": 0.1 * step}, step=step)
    out = tmp_path / "outputs" / "my-experiment"
    result = history.finalize(outdir=out)
    assert {group: one.sizes["draw"] for group, one in result.items()} == {"train": 6, "eval": 3}
    (link,) = [path for path in out.iterdir() if path.is_symlink()]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\d{6}-rank0\.jsonl", link.name)
    assert link.resolve() == next((history.run.dir / "journal").glob("*.jsonl")).resolve()
    assert tree(out) - {link.name} == {
        "train.h5", "eval.h5", "report.md", "report.html", "run_info.json", "metrics.jsonl", "metrics.csv", "config.json",
        "training_history.csv", "plots/mplot/train/loss.png", "plots/mplot/eval/acc.png",
        "plots/tplot/train/loss.txt", "plots/tplot/eval/acc.txt",
    }  # fmt: skip
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert json.loads((out / "config.json").read_text()) == {"lr": 1e-4}
    rows = list(csv.reader((out / "metrics.csv").read_text().splitlines()))
    assert len(rows) == 10 and rows[0] == ["step", "time", "train/loss", "eval/acc"]
    assert len((out / "training_history.csv").read_text().splitlines()) == 7
    assert len(lines(out / "metrics.jsonl")) == 9
    report = (out / "report.md").read_text()
    assert report.startswith("# History Report (") and "## Environment" in report and "## Metric Overview" in report
    shown = capsys.readouterr().out
    assert "train/loss histogram" in shown and "\x1b" not in shown


def test_one_group_is_one_dataset(tmp_path: Path) -> None:
    history = History()
    for _ in range(10):
        history.update({"loss": 1.0})
    result = history.finalize(outdir=tmp_path / "out", warmup=3, plot=False)
    assert isinstance(result, xr.Dataset) and result["loss"].dims == ("draw",) and result.sizes["draw"] == 7


def test_twice_is_the_same(tmp_path: Path) -> None:
    """Nothing is doubled."""
    history = History(backends="csv", outdir=tmp_path)
    history.update({"loss": 1.0})
    first = history.finalize(outdir=tmp_path / "out")
    again = history.finalize(outdir=tmp_path / "out")
    xr.testing.assert_identical(first, again)
    assert len(lines(tmp_path / "out" / "metrics.jsonl")) == 1


def test_a_failing_plot_costs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Sheets, datasets and lines are complete, the backends finished, the failure said."""
    monkeypatch.setattr(plot_files, "pictures", lambda *_, **__: 1 / 0)
    backend = Kept()
    history = History(tracker=Tracker([backend]))
    history.update({"loss": 1.0})
    history.finalize(outdir=tmp_path / "out")
    assert {"dataset.h5", "metrics.jsonl", "report.md"} <= tree(tmp_path / "out")
    assert backend.of("finish") == [()] and "could not write plots" in capsys.readouterr().err


def test_backends_get_the_table_the_pictures_and_the_files(tmp_path: Path) -> None:
    """And then the end."""
    backend = Kept()
    history = History(tracker=Tracker([backend]))
    for step in (3, 4):
        history.update({"loss": 1.0 * step}, step=step)
    history.finalize(outdir=tmp_path / "out")
    assert backend.of("table") == [("training_history", ["step", "loss"], [[3, 3.0], [4, 4.0]])]
    assert backend.of("image") == [("plots/loss", "matplotlib:loss")]
    assert {name for (name,) in backend.of("artifacts")} == {
        "dataset.h5", "report.md", "report.html", "metrics.jsonl",
    }  # fmt: skip
    assert backend.calls[-1] == ("finish",)


def test_overviews_of_groups_have_names_of_their_own(tmp_path: Path) -> None:
    """At services a picture is where it is on the disk."""
    backend = Kept()
    history = History(tracker=Tracker([backend]))
    history.update({"train/loss": 1.0, "train/lr": 0.1, "eval/a": 1.0, "eval/b": 2.0})
    history.finalize(outdir=tmp_path / "out")
    keys = [key for key, _ in backend.of("image")]
    assert {"plots/train/overview", "plots/eval/overview", "plots/train/loss"} <= set(keys)
    assert len(keys) == len(set(keys))


def test_the_only_dataset_may_have_a_name(tmp_path: Path) -> None:
    history = History()
    history.update({"loss": 1.0})
    history.finalize(outdir=tmp_path / "out", dataset_fname="train", plot=False)
    assert "train.h5" in tree(tmp_path / "out") and "dataset.h5" not in tree(tmp_path / "out")


def test_data_and_options_of_ones_own(tmp_path: Path) -> None:
    """In the place of what was recorded: the dataset, its file and its pictures."""
    given = {"train/loss": [3.0, 2.0], "tokens": [10.0, 20.0]}
    for number, how in enumerate(({"data": given}, {"dataset": History().get_dataset(data=given)})):
        history = History()
        history.update({"loss": 1.0})
        out = tmp_path / str(number)
        result = history.finalize(
            outdir=out, xkey="tokens", plot_kwargs={"color": "red"}, subplots_kwargs={"figsize": (2, 1)}, **how
        )
        assert isinstance(result, xr.Dataset) and result["train_loss"].to_numpy().tolist() == [3.0, 2.0]
        found = tree(out)
        assert {"dataset.h5", "plots/mplot/train_loss.png", "plots/mplot/tokens.png"} <= found
        assert not {"plots/mplot/loss.png", "plots/tplot/loss.txt"} & found, "not beside what replaces it"


def test_options_of_matplotlib_are_for_recorded_metrics_too(tmp_path: Path) -> None:
    """A picture of another size is in the place of the usual one."""
    from PIL import Image

    history = History()
    for step in range(3):
        history.update({"train/loss": 1.0 / (step + 1), "train/tokens": 10 * step})
    history.finalize(outdir=tmp_path, xkey="train/tokens", subplots_kwargs={"figsize": (2.0, 1.0), "dpi": 50})
    with Image.open(tmp_path / "plots" / "mplot" / "train" / "loss.png") as picture:
        assert picture.width < 150


def test_an_update_after_the_end_says_that_it_is_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once; the line is there as before, and nothing changes in the files."""
    history = History()
    history.update({"loss": 1.0})
    history.finalize(outdir=tmp_path / "out", plot=False)
    assert [history.update({"loss": 2.0}), history.update({"loss": 3.0})] == ["loss=2.000000", "loss=3.000000"]
    assert capsys.readouterr().err.count("the run has finished; what is logged here is not kept") == 1
    assert len(lines(tmp_path / "out" / "metrics.jsonl")) == 1


def test_facts_that_are_given_are_in_run_info(tmp_path: Path) -> None:
    history = History()
    history.update({"loss": 1.0})
    history.finalize(outdir=tmp_path, plot=False, env_info={"Torch": {"Version": "2"}}, timings={"train": 1.25})
    about = json.loads((tmp_path / "run_info.json").read_text())
    assert about["env_info"] == {"Torch": {"Version": "2"}} and about["timings"] == {"train": 1.25}
    assert len(lines(tmp_path / "metrics.jsonl")) == 1


def test_sheets_that_are_there_are_kept(tmp_path: Path) -> None:
    """A second history that ends in the same place puts those of the first aside."""
    for number in range(2):
        history = History(backends="csv", outdir=tmp_path / str(number))
        history.update({"loss": float(number)})
        history.finalize(outdir=tmp_path / "out", plot=False)
    assert (tmp_path / "out" / "metrics.1.csv").read_text().endswith(",0.0\n")
    assert (tmp_path / "out" / "metrics.csv").read_text().endswith(",1.0\n")


def test_two_histories_live_side_by_side(tmp_path: Path) -> None:
    """Neither ends the other, nor a run that was there before them."""
    run = chiplog.init(sinks="none")
    first, second = History(report_dir="a"), History(report_dir="b")
    for step in range(3):
        first.update({"loss": 1.0}, step=step)
        second.update({"acc": 0.5}, step=step)
    run.log({"x": 1.0})
    for name, history in (("first", first), ("second", second)):
        history.finalize(outdir=tmp_path / name, plot=False)
        assert len(lines(tmp_path / name / "metrics.jsonl")) == 3
    assert run.finish() and chiplog.read(run.dir).names() == ["x"]


def test_nothing_was_recorded(tmp_path: Path) -> None:
    assert History().finalize(outdir=tmp_path / "out").sizes == {}


def test_without_a_place_it_has_the_name_of_the_run(tmp_path: Path) -> None:
    history = History()
    history.update({"loss": 1.0})
    history.finalize(run_name="my-experiment", plot=False)
    assert (tmp_path / "outputs" / "my-experiment" / "report.md").exists()


def test_a_run_is_called_by_the_name_that_it_is_finalized_with(tmp_path: Path) -> None:
    """In every list of runs and in the report; before that by its id, and not by its project, which others have too."""
    history = History(project_name="My Project 2")
    history.update({"loss": 1.0})
    assert history.run.name == history.run.id
    history.finalize(outdir=tmp_path / "out", run_name="my-experiment", plot=False)
    stored = chiplog.read(history.run.dir)
    assert (stored.project, stored.name) == ("My Project 2", "my-experiment")
    assert (tmp_path / "out" / "report.md").read_text().startswith("# History Report (my-experiment)")


def test_vectors_have_chains(tmp_path: Path) -> None:
    history = History()
    for _ in range(4):
        history.update({"v": [1.0, 2.0, 3.0], "m": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})
    result = history.finalize(outdir=tmp_path / "out", num_chains=2)
    assert result["v"].dims == ("chain", "draw") and result["v"].shape == (3, 4)
    assert result["m"].dims == ("chain", "leapfrog", "draw")
    assert (tmp_path / "out" / "plots" / "mplot" / "v_ridge.png").exists()


@pytest.mark.parametrize(
    ("name", "value", "sign"), [("EZPZ_TPLOT_MARKER", "hd", "▀"), ("EZPZ_TPLOT_TYPE", "hist", None)]
)
def test_text_plots_follow_the_environment(
    name: str, value: str, sign: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read when they are drawn."""
    history = History()
    for step in range(30):
        history.update({"loss": 1.0 / (step + 1)})
    monkeypatch.setenv(name, value)
    history.finalize(outdir=tmp_path / "out")
    text = (tmp_path / "out" / "plots" / "tplot" / "loss.txt").read_text()
    assert sign in text if sign else text.startswith("loss histogram")


def test_a_killed_history_is_finalised_later(tmp_path: Path) -> None:
    """By the command line, from the run alone: the same data and pictures."""
    code = (
        "import os, sys\n"
        "from chiplog.frontends.ezpz import History\n"
        "history = History(project_name='p')\n"
        "for step in range(20):\n"
        "    history.update({'train/loss': 3.0 / (step + 1)}, step=step)\n"
        "if sys.argv[1] == 'kill': os.kill(os.getpid(), 9)\n"
        "history.finalize(outdir='ended')\n"
    )
    for word in ("end", "kill"):
        subprocess.run([sys.executable, "-c", code, word], check=False, capture_output=True)
    assert cli.main(["report", "latest", "-o", "killed"]) == 0
    same = ["plots/mplot/train/loss.png", "plots/tplot/train/loss.txt"]
    assert [(tmp_path / "killed" / one).read_bytes() for one in same] == [
        (tmp_path / "ended" / one).read_bytes() for one in same
    ]
    with xr.open_dataset("killed/train.h5") as one, xr.open_dataset("ended/train.h5") as other:
        xr.testing.assert_equal(one.drop_vars("time"), other.drop_vars("time"))


# -- around it ---------------------------------------------------------------------------------------------------------


def test_importing_is_light_and_leaves_nothing(tmp_path: Path) -> None:
    """No heavy package, and no file."""
    code = (
        "import sys; from chiplog.frontends.ezpz import History, StopWatch\n"
        "from chiplog.frontends import ezpz; ezpz.tracker, ezpz.utils, ezpz.history\n"
        "heavy = {'numpy', 'torch', 'pyarrow', 'xarray', 'matplotlib', 'wandb', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert list(tmp_path.iterdir()) == []


def test_the_names_are_those_of_the_documentation() -> None:
    for name in ezpz.__all__:
        assert getattr(ezpz, name) is not None
    for module, name in (("history", "StopWatch"), ("tracker", "register_backend"), ("flops", "try_estimate")):
        assert hasattr(getattr(ezpz, module), name)
