"""What `finalize` leaves: beside files of an earlier run, from a place that somebody named, after a warm-up."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from chiplog.frontends.ezpz import CSVBackend, History
from chiplog.store.reader import Stored
from chiplog.views.charts import plot_files
from tests.frontends.ezpz.scripts import run_script

TRAINING = """
from chiplog.frontends.ezpz import CSVBackend, History

history = History(backends="csv", outdir="logs", config={{"run": {run}}})
history.update({{"loss": {run}.0}}, step=0)
{end}
"""


@pytest.mark.parametrize("end", ["", "history.finalize(outdir='logs', plot=False)"])
def test_a_second_training_keeps_the_sheets_of_the_first(tmp_path: Path, end: str) -> None:
    """Also where the first one was not finalized; its config and its table stay with it."""
    run_script(TRAINING.format(run=1, end=end), tmp_path)
    said = run_script(TRAINING.format(run=2, end=end), tmp_path)
    logs = tmp_path / "logs"
    assert [path.read_text().rpartition(",")[2] for path in (logs / "metrics.1.csv", logs / "metrics.csv")] == [
        "1.0\n",
        "2.0\n",
    ]
    assert [json.loads((logs / name).read_text())["run"] for name in ("config.1.json", "config.json")] == [1, 2]
    assert "the old file is now metrics.1.csv" in said
    assert (logs / "training_history.1.csv").exists() == bool(end)


def test_lines_stay_at_a_place_that_was_named(tmp_path: Path) -> None:
    """The rest gets a copy; what another run has left there is kept, and doing it twice adds nothing."""
    named, out = tmp_path / "mine.jsonl", tmp_path / "out"
    out.mkdir()
    (out / "metrics.jsonl").write_text('{"old":1}\n')
    history = History(jsonl_path=named)
    history.update({"loss": 1.0})
    for _ in range(2):
        history.finalize(outdir=out, plot=False)
    assert history.jsonl_path == named
    assert named.read_text() == (out / "metrics.jsonl").read_text() != ""
    assert [path.read_text() for path in out.glob("metrics.*.jsonl")] == ['{"old":1}\n']


def test_a_warm_up_is_left_out_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of pictures, of text plots with their histogram and table, and of the report, as of the dataset."""
    history = History()
    for step in range(20):
        history.update({"loss": 700.0 if step < 2 else 1.0 + step / 100, "v": [float(step), 1.0]}, step=step)
    dataset = history.finalize(outdir=tmp_path / "out", warmup=0.1)
    assert dataset.sizes["draw"] == 18
    drawn = (tmp_path / "out" / "plots" / "tplot" / "loss.txt").read_text()
    for text in (drawn, capsys.readouterr().out):
        assert "700" not in text
        assert " 18 " in text
    report = (tmp_path / "out" / "report.md").read_text()
    assert "without the first 0.1 of all" in report
    assert "| loss | 18 | 1.02 |" in " ".join(report.split(" ")).replace("  ", " ")
    (picture,) = [one for one in plot_files.pictures(Stored(history.run.dir), warmup=0.1) if one.name == "loss"]
    (axes,) = picture.figure().axes
    assert max(line.get_ydata().max() for line in axes.lines) < 2
    assert min(line.get_xdata().min() for line in axes.lines) == 2


def test_a_table_has_the_columns_it_was_given(tmp_path: Path) -> None:
    """And no step, whatever was logged before."""
    backend = CSVBackend(tmp_path / "logs")
    backend.log({"loss": 1.0}, step=3)
    backend.log_table("predictions", ["i", "o"], [[1, 2]])
    backend.finish()
    assert (tmp_path / "logs" / "predictions.csv").read_text() == "i,o\n1,2\n"


def test_files_stay_where_the_constructor_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where `finalize` is given no directory: backends in theirs, the report in its own; and one line says so."""
    monkeypatch.chdir(tmp_path)
    history = History(backends="csv", outdir="./A_logs", report_dir="./A_rep")
    history.update({"loss": 1.0})
    with caplog.at_level(logging.INFO, "chiplog.ezpz"):
        history.finalize()
    logs, report = tmp_path / "A_logs", tmp_path / "A_rep"
    assert {"metrics.csv", "config.json", "training_history.csv", "dataset.h5"} <= {one.name for one in logs.iterdir()}
    assert {"report.md", "report.html", f"{history.run_id}.jsonl"} <= {one.name for one in report.iterdir()}
    assert "(../A_logs/plots/mplot/loss.png)" in (report / "report.md").read_text()
    assert not (tmp_path / "outputs").exists()
    assert len([line for line in caplog.messages if str(logs) in line and str(report) in line]) == 1


def test_runs_of_one_second_have_a_link_each(tmp_path: Path) -> None:
    histories = [History(report_dir=tmp_path / "report") for _ in range(2)]
    for history in histories:
        history.update({"loss": 1.0})
        for _ in range(2):
            history.finalize(outdir=tmp_path / "out", plot=False)
    links = [path.resolve().parents[1].name for path in (tmp_path / "out").glob("*-rank0.jsonl")]
    assert sorted(links) == sorted(history.run_id for history in histories)
