"""Runs that several processes and parts of a script write to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

import chiplog
from chiplog.compat.mlflow import open_runs
from chiplog.core import run as engine

pytestmark = pytest.mark.filterwarnings("ignore")

CHILD = """
import mlflow
with mlflow.start_run(run_id={run_id!r}):
    mlflow.log_metric("loss", 2.0, step=1)
    mlflow.log_param("child", 1)
    mlflow.set_tag("who", "child")
"""


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def values(run_id: str, key: str) -> list[float]:
    return [point.value for point in MlflowClient().get_metric_history(run_id, key)]


@pytest.mark.parametrize("ended", [True, False])
def test_a_run_goes_on_in_another_process(ended: bool, tmp_path: Path) -> None:
    """One that has ended is continued; one that is being written is joined, and its process writes on."""
    run_id = mlflow.start_run(run_name="shared").info.run_id
    mlflow.log_metric("loss", 1.0, step=0)
    mlflow.set_tag("who", "parent")
    if ended:
        mlflow.end_run()
    done = python(CHILD.format(run_id=run_id))
    assert done.returncode == 0, done.stderr
    if not ended:
        mlflow.log_metric("loss", 3.0, step=2)
        mlflow.end_run()
    run = mlflow.get_run(run_id)
    assert values(run_id, "loss") == ([1.0, 2.0] if ended else [1.0, 2.0, 3.0])
    assert run.data.params == {"child": "1"} and run.data.tags["who"] == "child" and run.info.status == "FINISHED"
    stored = chiplog.read(tmp_path / "runs" / "default" / run_id)
    assert len(stored.attempts) == (2 if ended else 1) and stored.state == "finished" and not stored.missing


@pytest.mark.parametrize(
    ("end", "status"),
    [("pass", "FINISHED"), ("1 / 0", "FAILED"), ("import os; os.kill(os.getpid(), 9)", "KILLED")],
)
def test_the_end_of_a_script_is_the_end_of_its_run(end: str, status: str) -> None:
    """Without `end_run`, by an error, or by a signal that leaves no time."""
    done = python(f"import mlflow\nmlflow.start_run(run_name='script')\nmlflow.log_metric('loss', 1.0)\n{end}")
    assert (done.returncode == -signal.SIGKILL) == (status == "KILLED")
    (run,) = mlflow.search_runs(output_format="list")
    assert (run.info.status, run.data.metrics) == (status, {"loss": 1.0}) and run.info.end_time >= run.info.start_time


def test_the_current_run_stays_current() -> None:
    """MLflow's runs are open beside it, and leave it open."""
    with chiplog.init(project="own", sinks="none") as run:
        with mlflow.start_run() as active:
            mlflow.log_metric("theirs", 1.0)
        assert engine.current is run
        run.log({"ours": 2.0}, step=0)
    assert chiplog.read(run.dir).names() == ["ours"]
    assert mlflow.get_run(active.info.run_id).data.metrics == {"theirs": 1.0}


def test_a_run_that_the_script_has_ended_stays_ended(tmp_path: Path) -> None:
    """It is the script's current run if there is no other, and `chiplog.finish` ends that."""
    with mlflow.start_run() as active:
        mlflow.log_metric("loss", 1.0)
        chiplog.finish()
    run = mlflow.get_run(active.info.run_id)
    assert (run.info.status, run.data.metrics) == ("FINISHED", {"loss": 1.0})
    assert len(chiplog.read(tmp_path / "runs" / "default" / run.info.run_id).attempts) == 1


def test_runs_that_are_opened_again_keep_how_they_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only a few of them are open at a time."""
    monkeypatch.setattr(open_runs, "REOPENED", 2)
    client = MlflowClient()
    run_ids = [client.create_run("0").info.run_id for _ in range(4)]
    for run_id in run_ids:
        client.set_terminated(run_id, "FAILED")
    for run_id in run_ids:
        client.set_tag(run_id, "seen", "yes")
    states = [chiplog.read(tmp_path / "runs" / "default" / run_id).state for run_id in run_ids]
    assert states[:2] == ["failed", "failed"] and states.count("running") == 2
    assert [client.get_run(run_id).info.status for run_id in run_ids] == ["FAILED"] * 4
    assert all(client.get_run(run_id).data.tags["seen"] == "yes" for run_id in run_ids)
    for run_id in run_ids:
        client.set_terminated(run_id, "FINISHED")
    assert {chiplog.read(tmp_path / "runs" / "default" / run_id).state for run_id in run_ids} == {"finished"}


def test_threads_open_an_ended_run_once(tmp_path: Path) -> None:
    """And each keeps all of its points, params and tags, while another thread searches."""
    client = MlflowClient()
    run_id = client.create_run("0").info.run_id
    client.set_terminated(run_id)

    def work(number: int) -> None:
        for step in range(20):
            client.log_metric(run_id, f"m{number}", step, step=step)
        client.log_param(run_id, f"p{number}", number)
        client.set_tag(run_id, f"t{number}", number)
        client.search_runs(["0"])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    run = client.get_run(run_id)
    assert all(values(run_id, f"m{number}") == list(range(20)) for number in range(6))
    assert run.data.params == {f"p{number}": str(number) for number in range(6)}
    assert all(run.data.tags[f"t{number}"] == str(number) for number in range(6)) and run.info.status == "FINISHED"
    assert len(chiplog.read(tmp_path / "runs" / "default" / run_id).attempts) == 2


def test_the_end_of_the_process_ends_runs_that_it_opened_again(tmp_path: Path) -> None:
    """As they had ended before."""
    client = MlflowClient()
    run_id = client.create_run("0").info.run_id
    client.set_terminated(run_id, "FAILED")
    done = python(f"import mlflow\nmlflow.MlflowClient().set_tag({run_id!r}, 'seen', 'yes')")
    assert done.returncode == 0, done.stderr
    stored = chiplog.read(tmp_path / "runs" / "default" / run_id)
    assert (stored.state, len(stored.attempts)) == ("failed", 2)
    run = client.get_run(run_id)
    assert (run.info.status, run.data.tags["seen"]) == ("FAILED", "yes")


def test_a_forked_process_joins_the_run() -> None:
    """What it logs is kept beside what its parent logs."""
    client = MlflowClient()
    run_id = client.create_run("0").info.run_id
    client.log_metric(run_id, "loss", 1.0, step=0)
    child = os.fork()
    if not child:
        try:
            client.log_metric(run_id, "loss", 2.0, step=1)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    client.log_metric(run_id, "loss", 3.0, step=2)
    client.set_terminated(run_id)
    assert values(run_id, "loss") == [1.0, 2.0, 3.0]


def test_a_directory_that_cannot_be_written_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run is kept in a temporary one, and is there as long as the process."""
    (tmp_path / "runs").write_text("a file")
    with mlflow.start_run() as active:
        mlflow.log_metric("loss", 1.0)
    MlflowClient().set_tag(active.info.run_id, "later", "yes")
    run = mlflow.get_run(active.info.run_id)
    assert (run.data.metrics, run.data.tags["later"], run.info.status) == ({"loss": 1.0}, "yes", "FINISHED")
    assert "instead, which the system may delete" in capsys.readouterr().err


def test_where_chiplog_is_disabled_a_run_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says why, before training starts."""
    monkeypatch.setenv("CHIPLOG_MODE", "disabled")
    with pytest.raises(mlflow.MlflowException, match="mode='disabled'"):
        mlflow.start_run()


def test_any_rank_may_call() -> None:
    """The process that calls is the one that is recorded."""
    code = (
        "import mlflow\nwith mlflow.start_run(run_name='last') as run:\n    mlflow.log_metric('loss', 1.0)\n"
        "with mlflow.start_run(run_id=run.info.run_id):\n    mlflow.log_metric('loss', 2.0, step=1)\n"
    )
    done = python(code, RANK="7", WORLD_SIZE="8", LOCAL_RANK="7")
    assert done.returncode == 0, done.stderr
    (run,) = mlflow.search_runs(output_format="list")
    assert (run.info.status, values(run.info.run_id, "loss")) == ("FINISHED", [1.0, 2.0])
