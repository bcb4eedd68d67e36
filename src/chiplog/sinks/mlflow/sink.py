"""MLflow: a run on a tracking server or in a local store, under the experiment of the project.

Points have the times of their records, and a store keeps a point once by name, step, time and value: so a batch that is
sent again, after a crash or an answer that was lost, changes nothing.
"""

from __future__ import annotations

import filecmp
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import requests
from mlflow.entities import Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from chiplog.core import messages
from chiplog.core.errors import Rejected
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Attempt, Plain, Table
from chiplog.sinks import registry
from chiplog.sinks.delivery.couriers import settled
from chiplog.sinks.mlflow import login
from chiplog.sinks.mlflow.batch import KEPT, Batch, folder_of, pack, safe, settle, texts
from chiplog.sinks.shared import project_name
from chiplog.store.journal.tail import Tail
from chiplog.store.runs import liveness, manifest, state

RUN_ID, PROJECT = "chiplog.run_id", "chiplog.project"  # the tags by which a run is found again
EXPERIMENT = ("MLFLOW_EXPERIMENT_NAME", *project_name.PROJECT_VARIABLES)
MOST_METRICS = 1000  # in a request, says MLflow
REFUSED = frozenset((400, 413, 422))  # for what is in the request, and not for who sends it or when


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],
    *,
    experiment: str | None = None,
    uri: str | None = None,
    prefix: str = "chiplog.",
    artifacts: bool = True,
    system: bool = True,
) -> Mlflow:
    known = login.variables(identity, environ)
    client = login.connect(identity, environ, known, uri)
    name = experiment or project_name.project(identity, known, EXPERIMENT)
    return Mlflow(identity, client, name, prefix=prefix, artifacts=artifacts, system=system)


class Mlflow:
    """One run at MLflow; `client` and `run_id` are its native handles."""

    commits = True

    def __init__(
        self, identity: Identity, client: MlflowClient, experiment: str, *, prefix: str, artifacts: bool, system: bool
    ) -> None:
        self.client = client
        self.run_id: str | None = None
        self._identity, self._experiment = identity, experiment
        self._prefix, self._artifacts, self._system = prefix, artifacts, system
        self._counter = 0  # the step of the next row that has none
        self._reduced = False  # there are statistics across ranks
        self._tables: set[str] = set()
        self._complete = False  # nothing has come since the files of the run were sent
        self._run: Run | None = None  # as it was when this process met it
        self._machine: MachineMonitor | None = None

    @property
    def url(self) -> str | None:
        """The page of the run, where MLflow is a server; without the password that its address may have."""
        place = urlsplit(self.client.tracking_uri)
        if self._run is None or place.scheme not in ("http", "https"):
            return None
        host = place.netloc.rpartition("@")[2]
        path = f"#/experiments/{self._run.info.experiment_id}/runs/{self._run.info.run_id}"
        return f"{place.scheme}://{host}{place.path.rstrip('/')}/{path}"

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if not batch:
            return
        parcel = pack(batch, self._prefix, self._counter, self._reduced)
        run = self._run or self._begin(batch[0].time)
        self._send(run.info.run_id, parcel)
        self._counter, self._reduced = parcel.counter, parcel.reduced
        self._tables |= parcel.tables
        self._complete = False

    def close(self) -> None:
        """Send the files that the run has made by its end."""
        if self._machine is not None:
            self._machine.stop()
        if self.run_id is None or self._complete:
            return
        run = self._run or self._begin(0)
        if self._artifacts:
            settled(self._identity.dir, registry.SERVICES)
            for path, folder in made(self._identity.files):
                self._keep(path, folder)
            self._send_tables()
        if state.state_of(self._identity.dir) in ("killed", "lost"):
            self.client.set_terminated(run.info.run_id, "KILLED")
        self._delete_strays()
        self._complete = True

    def state(self) -> dict[str, Plain]:
        return {
            "run": self.run_id,
            "counter": self._counter,
            "reduced": self._reduced,
            "tables": sorted(self._tables),
            "complete": self._complete,
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        self.run_id = state.get("run")
        self._counter = state.get("counter", 0)
        self._reduced = state.get("reduced", False)
        self._tables = set(state.get("tables", ()))
        self._complete = state.get("complete", False)
        if self._run is not None and self._run.info.run_id != self.run_id:
            self._run = None

    # -- the run -----------------------------------------------------------------------------------------------------

    def _begin(self, time: int) -> Run:
        """Meet the run: the one that is remembered, the one that has our tag, or a new one."""
        if self.run_id is None:
            found = self._ours() or self._create(time)
            self.run_id = found[0].info.run_id
        self._run = run = self._meet(self.run_id)
        if self._system and (started := here(self._identity.dir)):
            self._machine = self._machine or MachineMonitor.watch(run.info.run_id, self.client.tracking_uri, started)
        return run

    def _meet(self, run_id: str) -> Run:
        try:
            run = self.client.get_run(run_id)
        except MlflowException as error:
            if error.get_http_status_code() != 404:
                raise
            run = None
        if run is None or run.info.lifecycle_stage != "active":
            raise RuntimeError(
                f"MLflow's run {run_id} has been deleted; restore it there, or delete cursors/mlflow.json in "
                f"{self._identity.dir} to deliver everything to a new one"
            )
        return run

    def _ours(self) -> list[Run]:
        """The runs with our tags, the one to go on with first: several if an answer to `create_run` was lost."""
        identity = self._identity
        found = self.client.search_runs(
            [self._experiment_id()],
            f"tags.`{RUN_ID}` = '{identity.id}' and tags.`{PROJECT}` = '{identity.project}'",
        )
        return sorted(found, key=lambda run: (not run.data.metrics, run.info.start_time, run.info.run_id))

    def _create(self, time: int) -> list[Run]:
        identity = self._identity
        tags = {RUN_ID: identity.id, PROJECT: identity.project, "mlflow.source.name": identity.script or "chiplog"}
        if identity.tags:
            tags[f"{self._prefix}tags"] = ",".join(identity.tags)
        self.client.create_run(self._experiment_id(), time // 1_000_000, texts(tags), identity.name or None)
        return self._ours()

    def _experiment_id(self) -> str:
        found = self.client.get_experiment_by_name(self._experiment)
        if found is None:
            try:
                return str(self.client.create_experiment(self._experiment))
            except MlflowException:  # somebody else was quicker, or our first try was answered to nobody
                found = self.client.get_experiment_by_name(self._experiment)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _delete_strays(self) -> None:
        """A `create_run` that was given up and done after all has left an empty run under our tags."""
        for run in self._ours():
            if run.info.run_id != self.run_id and not run.data.metrics:
                self.client.delete_run(run.info.run_id)

    # -- what goes there ---------------------------------------------------------------------------------------------

    def _send(self, run_id: str, parcel: Batch) -> None:
        known = self._run.data if self._run is not None else None
        params, tags = settle(parcel.params, known.params if known else {}, known.tags if known else {})
        tags |= texts(parcel.tags)
        with self._refusals():
            self._log(
                run_id, params=[Param(*one) for one in params.items()], tags=[RunTag(*one) for one in tags.items()]
            )
            for at in range(0, len(parcel.metrics), MOST_METRICS):
                self._log(run_id, metrics=parcel.metrics[at : at + MOST_METRICS])
        if known is not None:
            known.params.update(params)
            known.tags.update(tags)
        for file in parcel.files if self._artifacts else ():
            self._upload(run_id, self._identity.dir / file.path, folder_of(file))
        for name, text in parcel.texts.items() if self._artifacts else ():
            with self._refusals(artifact=True):
                self.client.log_text(run_id, text, name)
        if parcel.status == "RUNNING":
            self.client.update_run(run_id, status="RUNNING")
        elif parcel.status:
            if self._machine is not None:
                self._machine.stop()
            self.client.set_terminated(run_id, parcel.status, parcel.ended)

    def _log(self, run_id: str, **what: Any) -> None:
        self.client.log_batch(run_id, **what, synchronous=True)

    def _upload(self, run_id: str, path: Path, folder: str) -> None:
        if not path.exists():
            return  # somebody has tidied up
        send = self.client.log_artifacts if path.is_dir() else self.client.log_artifact
        with self._refusals(artifact=True):
            send(run_id, str(path), (f"{folder}/{path.name}".lstrip("/") if path.is_dir() else folder) or None)

    def _keep(self, path: Path, folder: str) -> None:
        """The same at the end, where no record stands for the file that could be counted as rejected."""
        try:
            self._upload(str(self.run_id), path, folder)
        except Rejected as error:
            messages.say(f"MLflow does not take the file {path}: {error}")

    def _send_tables(self) -> None:
        """Each table whole, as MLflow shows them; read from the journal, since its rows may have come over days."""
        if not self._tables:
            return
        tables = gather(self._identity.dir, self._tables)
        listed = [{"path": f"tables/{safe(name)}.json", "type": "table"} for name in tables]
        for (name, table), at in zip(tables.items(), listed, strict=True):
            try:
                with self._refusals(artifact=True):
                    self.client.log_text(str(self.run_id), msgspec.json.encode(table).decode(), at["path"])
            except Rejected as error:
                messages.say(f"MLflow does not take the table {name!r}: {error}")
        self.client.set_tag(str(self.run_id), "mlflow.loggedArtifacts", msgspec.json.encode(listed).decode())

    @contextmanager
    def _refusals(self, artifact: bool = False) -> Iterator[None]:
        """Tell what MLflow will never take from what it does not take now."""
        try:
            yield
        except (MlflowException, requests.HTTPError) as error:
            code = status(error)
            if code not in REFUSED and not (artifact and 400 <= code < 500 and code not in (408, 429)):
                raise
            self._meet(str(self.run_id))  # a run that was deleted refuses everything
            raise Rejected(f"{error}"[:500]) from None
        except (ImportError, PermissionError) as error:
            if not artifact:
                raise
            raise Rejected(f"{type(error).__name__}: {error}"[:500]) from None


class MachineMonitor:
    """MLflow's own measurements of the machine, for as long as the training runs on it."""

    def __init__(self, monitor: Any, alive: Callable[[], bool]) -> None:
        self._monitor, self._alive = monitor, alive
        self._over = threading.Event()
        threading.Thread(target=self._work, name="chiplog-mlflow-system", daemon=True).start()

    @classmethod
    def watch(cls, run_id: str, uri: str, started: Attempt) -> MachineMonitor | None:
        try:
            from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor  # needs psutil

            monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=uri)
        except Exception as error:  # it is an extra, and has reasons of its own to fail
            print(f"no system metrics: {type(error).__name__}: {error}", flush=True)
            return None
        return cls(monitor, lambda: liveness.alive(started.pid, started.born))

    def stop(self) -> None:
        self._over.set()

    def _work(self) -> None:
        while not self._over.wait(self._monitor.sampling_interval) and self._alive():
            try:
                self._monitor.collect_metrics()
                self._monitor.publish_metrics(self._monitor.aggregate_metrics())
            except Exception:  # the server is away; the next sample may find it
                continue


def status(error: Exception) -> int:
    """The HTTP status behind an error of the client; MLflow turns one that it does not know into 500, and says it."""
    if isinstance(error, requests.HTTPError):
        return int(error.response.status_code) if error.response is not None else 500
    if (said := re.search(r"failed with error code (\d{3})", str(error))) is not None:
        return int(said[1])
    return int(error.get_http_status_code()) if isinstance(error, MlflowException) else 500


def made(files: Path) -> Iterator[tuple[Path, str]]:
    """What a run has in `files/` at its end, with the folder it belongs in, but for what a record has brought already
    and what W&B keeps there for itself. A file with the name of another that was brought has a folder of its own."""
    for path in sorted(files.rglob("*")):
        inside = path.relative_to(files)
        if not path.is_file() or path.name.startswith(".") or inside.parts[0] in (*KEPT, "wandb"):
            continue
        others = [files / kind / inside for kind in KEPT if (files / kind / inside).is_file()]
        if any(filecmp.cmp(path, other, shallow=False) for other in others):
            continue
        folder = Path("files", inside.parent) if others else inside.parent
        yield path, "" if folder == Path() else folder.as_posix()


def gather(run: Path, names: set[str]) -> dict[str, dict[str, Plain]]:
    """The tables of a run from its journal, each as columns and rows."""
    rows: dict[str, list[dict[str, Plain]]] = {name: [] for name in names}
    tail = Tail(run, rank=manifest.load(run).rank)
    while batch := tail.read():
        for record in batch:
            if isinstance(record, Table) and record.name in rows:
                step = {} if record.step is None else {"step": record.step}
                rows[record.name] += ({**step, **row} for row in record.rows)
    tables = {}
    for name, listed in sorted(rows.items()):
        if not listed:
            continue
        columns = list(dict.fromkeys(key for row in listed for key in row))
        tables[name] = {"columns": columns, "data": [[row.get(key) for key in columns] for row in listed]}
    return tables


def here(run: Path) -> Attempt | None:
    """The start of the training, if that runs on this machine."""
    last = state.attempts(run, rank=manifest.load(run).rank)[-1:]
    start = last[0].start if last and last[0].state == "running" else None
    return start if start is not None and start.host == liveness.hostname() else None
