"""The same calls on a store of MLflow's own and on chiplog's, compared value by value."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow, about its own changes

HUGE = 1.7976931348623157e308  # how MLflow's database spells an infinity
NOW = 1_700_000_000_000


class Answers:
    """What MLflow's client answers, with names in place of what differs between two stores: ids and paths."""

    def __init__(self, place: str) -> None:
        self.client = MlflowClient()
        self.given: list[Any] = []
        self.names: dict[str, str] = {place: "PLACE"}

    def add(self, *what: Any) -> None:
        self.given.append(self._plain(list(what)))

    def error(self, call: Callable[[], Any]) -> None:
        """Add the code of the error that a call raises."""
        with pytest.raises(MlflowException) as raised:
            call()
        self.given.append(raised.value.error_code)

    def experiment(self, experiment_id: str, name: str) -> str:
        self.names[experiment_id] = name
        return experiment_id

    def run(self, run_id: str, *, times: bool = False) -> None:
        """Add all that there is of a run."""
        run = self.client.get_run(run_id)
        self.names.setdefault(run_id, f"RUN{len(self.names)}")
        info, data = run.info, run.data
        self.add(
            self.names.get(info.experiment_id, info.experiment_id),
            info.run_name, info.status, info.lifecycle_stage, info.user_id, info.end_time is None,
            dict(sorted(data.metrics.items())), dict(sorted(data.params.items())), dict(sorted(data.tags.items())),
            [one.to_dictionary() for one in run.inputs.dataset_inputs],
        )  # fmt: skip
        if times:
            self.add(info.start_time, info.end_time)
        for key in sorted(data.metrics):
            history = self.client.get_metric_history(run_id, key)
            self.add(key, sorted((one.step, one.value, one.timestamp if times else 0) for one in history))

    def _plain(self, value: Any) -> Any:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else math.copysign(math.inf, value) if abs(value) >= HUGE else value
        if isinstance(value, str):
            for text, name in self.names.items():
                value = value.replace(text, name) if len(text) > 20 else value
            return value
        if isinstance(value, dict):
            return {self._plain(key): self._plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        return value


def plain_script(to: Answers) -> None:
    with mlflow.start_run(run_name="first") as run:
        mlflow.log_param("lr", 0.1)
        mlflow.log_params(
            {
                "model/depth": 12,
                "name": "tiny lm",
                "flag": True,
                "none": None,
                "list": [1, 2],
                "exp": "1e-05",
                "long": 10**30,
                "empty": "",
            }
        )
        for step in range(5):
            mlflow.log_metric("loss", 1 / (step + 1), step=step)
            mlflow.log_metrics({"train/acc": step / 5, "val acc-1.x": 1.0}, step=step)
        mlflow.log_metric("no step", 3)
        mlflow.set_tag("team", "nlp")
        mlflow.set_tags({"a.b/c": "x=y", "n": 3, "empty": "", "mlflow.note.content": "two\nlines"})
        to.run(run.info.run_id)
    to.run(run.info.run_id)


def odd_values(to: Answers) -> None:
    with mlflow.start_run(run_name="odd") as run:
        for value in (math.nan, math.inf, -math.inf, 1e-320, 2**53 + 1, -0.0, True):
            mlflow.log_metric("odd", value, step=3)
        mlflow.log_metric("nan last", 1.0, step=0)
        mlflow.log_metric("nan last", math.nan, step=1)
        for step in (10, 2, -7, 2**40, 2, 2):
            mlflow.log_metric("order", float(step), step=step)
        mlflow.log_metric("twice", 1.0, step=4)
        mlflow.log_metric("twice", 2.0, step=4)
    to.run(run.info.run_id)


def explicit_times(to: Answers) -> None:
    client = to.client
    run = client.create_run("0", start_time=NOW, run_name="times")
    for step in range(4):
        client.log_metric(run.info.run_id, "late", step / 2, timestamp=NOW + step, step=step)
    client.log_metric(run.info.run_id, "late", 9.0, timestamp=NOW - 5, step=3)  # older than the one before
    metrics = [Metric("batch", float(at), NOW + 1000 * at, at % 3) for at in range(50)]
    client.log_batch(run.info.run_id, metrics, [Param("p", "v")], [RunTag("t", "w")])
    client.log_batch(
        run.info.run_id, [Metric("same", 1.0, NOW, 0), Metric("same", 2.0, NOW, 0), Metric("same", 1.5, NOW, 0)]
    )
    client.set_terminated(run.info.run_id, "FINISHED", end_time=NOW + 60_000)
    to.run(run.info.run_id, times=True)


def states(to: Answers) -> None:
    with mlflow.start_run(run_name="outer") as outer, mlflow.start_run(nested=True, run_name="inner") as inner:
        mlflow.log_metric("inner", 1.0)
    with pytest.raises(ZeroDivisionError), mlflow.start_run(run_name="broken") as broken:
        raise ZeroDivisionError
    killed = mlflow.start_run(run_name="killed")
    mlflow.end_run("KILLED")
    for one in (outer, inner, broken, killed):
        to.run(one.info.run_id)


def changed_later(to: Answers) -> None:
    with mlflow.start_run(run_name="before") as run:
        mlflow.log_metric("loss", 1.0, step=5)
        mlflow.log_param("p", 1)
        mlflow.set_tag("kept", "old")
        mlflow.set_tag("gone", "x")
    run_id = run.info.run_id
    with mlflow.start_run(run_id=run_id):
        mlflow.log_metric("loss", 2.0, step=0)
        mlflow.log_param("p", 1)  # the same value
        mlflow.set_tag("kept", "new")
        mlflow.delete_tag("gone")
        to.run(run_id)
    client = to.client
    client.log_metric(run_id, "after", 3.0)
    client.set_tag(run_id, "after", "y")
    client.update_run(run_id, name="another name")
    to.run(run_id)
    client.delete_run(run_id)
    to.add(
        client.get_run(run_id).info.lifecycle_stage,
        len(client.search_runs(["0"], run_view_type=ViewType.DELETED_ONLY, filter_string="run_name = 'another name'")),
    )
    to.error(lambda: client.log_metric(run_id, "x", 1.0))
    client.restore_run(run_id)
    to.run(run_id)


def errors(to: Answers) -> None:
    client = to.client
    with mlflow.start_run(run_name="errors") as run:
        mlflow.log_param("p", 1)
        to.error(lambda: mlflow.log_param("p", 2))
        to.error(lambda: mlflow.log_params({"p": 3}))
        to.error(lambda: mlflow.log_metric("bad:key%", 1.0))
        to.error(lambda: mlflow.log_metric("text", "x"))
        to.error(lambda: mlflow.delete_tag("nothing"))
    to.error(lambda: client.get_run("0" * 32))
    to.error(lambda: client.log_metric("0" * 32, "x", 1.0))
    to.error(lambda: client.get_run("../../etc"))
    to.error(lambda: client.get_experiment("98765"))
    to.error(lambda: client.create_run("98765"))
    to.error(lambda: client.search_runs(["0"], "params.p ="))
    to.add(client.get_experiment_by_name("nothing"), list(client.search_runs(["98765"])))
    to.add(list(client.get_metric_history(run.info.run_id, "nothing")))
    to.run(run.info.run_id)


def experiments(to: Answers) -> None:
    client = to.client
    first = to.experiment(client.create_experiment("vision / 1", tags={"k": "v"}), "VISION")
    second = to.experiment(mlflow.set_experiment("text").experiment_id, "TEXT")
    to.error(lambda: client.create_experiment("text"))
    with mlflow.start_run(run_name="in text") as run:
        mlflow.log_metric("x", 1.0)
    to.run(run.info.run_id)
    client.set_experiment_tag(second, "a", "b")
    for experiment_id in (first, second):
        one = client.get_experiment(experiment_id)
        to.add(one.name, one.tags, one.lifecycle_stage)
    client.delete_experiment(first)
    to.error(lambda: client.create_run(first))
    to.add(
        sorted(one.name for one in client.search_experiments()),
        sorted(one.name for one in client.search_experiments(ViewType.DELETED_ONLY)),
    )
    client.restore_experiment(first)
    client.rename_experiment(first, "vision 2")
    to.add(client.get_experiment(first).name, client.get_experiment_by_name("vision / 1"))
    to.add(
        sorted(one.name for one in client.search_experiments(filter_string="name LIKE 'vis%'")),
        client.get_experiment("0").name,
    )


QUERIES = [
    "", "metrics.loss < 0.5", "params.lr = '0.1'", "params.kind != 'a'", "tags.even = 'yes' and metrics.loss > 0.2",
    "attributes.status = 'FAILED'", "run_name LIKE 'run-%'", "tags.mlflow.parentRunId = 'x'", "metrics.missing > 0",
]  # fmt: skip


def searches(to: Answers) -> None:
    experiment = to.experiment(mlflow.set_experiment("searched").experiment_id, "SEARCHED")
    for number in range(6):
        with mlflow.start_run(run_name=f"run-{number}"):
            mlflow.log_params({"lr": number / 10, "kind": "ab"[number % 2]})
            mlflow.log_metric("loss", 1 / (number + 1))
            if number % 2 == 0:
                mlflow.set_tag("even", "yes")
            if number == 3:
                mlflow.end_run("FAILED")
    for query in QUERIES:
        runs = to.client.search_runs([experiment], query, order_by=["metrics.loss DESC"])
        to.add(query, [run.info.run_name for run in runs])
    for order in ("params.lr ASC", "metrics.loss", "tags.even", "attributes.start_time DESC", "attributes.status"):
        to.add(order, [run.info.run_name for run in to.client.search_runs([experiment], order_by=[order, "run_name"])])
    page = to.client.search_runs([experiment], max_results=4, order_by=["run_name"])
    rest = to.client.search_runs([experiment], max_results=4, order_by=["run_name"], page_token=page.token)
    to.add([run.info.run_name for run in page], [run.info.run_name for run in rest])
    frame = mlflow.search_runs(order_by=["run_name"])
    columns = sorted(
        name
        for name in frame.columns
        if not name.startswith("tags.mlflow")
        and name not in ("run_id", "experiment_id", "artifact_uri", "start_time", "end_time")
    )
    to.add(columns, frame[columns].astype(str).values.tolist())


def files(to: Answers) -> None:
    Path("weights.bin").write_bytes(b"\x00\x01")
    Path("folder/deep").mkdir(parents=True, exist_ok=True)
    Path("folder/deep/a.txt").write_text("a")
    with mlflow.start_run(run_name="files") as run:
        mlflow.log_artifact("weights.bin")
        mlflow.log_artifacts("folder", "more")
        mlflow.log_text("hello", "notes/a.txt")
        mlflow.log_dict({"a": 1}, "d.json")
        mlflow.log_table({"x": [1, 2]}, "table.json")
    run_id = run.info.run_id
    for folder in (None, "more", "more/deep", "notes"):
        to.add([(one.path, one.is_dir, one.file_size) for one in to.client.list_artifacts(run_id, folder)])
    to.add(
        mlflow.artifacts.load_text(f"runs:/{run_id}/notes/a.txt"),
        mlflow.load_table("table.json", run_ids=[run_id]).values.tolist(),
    )


def threads(to: Answers) -> None:
    client = to.client
    runs = [client.create_run("0", run_name=f"thread {number}").info.run_id for number in range(3)]

    def work(number: int) -> None:
        for step in range(12):
            client.log_metric(runs[number % 3], f"m{number}", step / 3, step=step)
        client.set_tag(runs[number % 3], f"t{number}", "done")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for run_id in runs:
        client.set_terminated(run_id)
        to.run(run_id)


def later(to: Answers) -> None:
    """The calls that return before they are done."""
    with mlflow.start_run(run_name="async") as run:
        for step in range(20):
            mlflow.log_metric("m", step, step=step, synchronous=False)
        mlflow.log_params({"p": 1}, synchronous=False)
        mlflow.set_tag("t", 1, synchronous=False)
        mlflow.flush_async_logging()
        to.run(run.info.run_id)
    to.run(run.info.run_id)


SCRIPTS = [
    plain_script,
    odd_values,
    explicit_times,
    states,
    changed_later,
    errors,
    experiments,
    searches,
    files,
    threads,
    later,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_answers_are_those_of_mlflow(
    script: Callable[[Answers], None],
    own_store: str,
    chiplog_store: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Every value that the client returns is the same, and so is the code of every error."""
    theirs = _answers(script, own_store, monkeypatch)
    ours = _answers(script, chiplog_store, monkeypatch)
    assert ours == theirs


def _answers(script: Callable[[Answers], None], uri: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    mlflow.tracking.fluent._active_experiment_id = None
    answers = Answers(uri)
    script(answers)
    assert len(answers.given) > 1
    return answers.given
