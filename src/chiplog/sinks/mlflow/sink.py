"""MLflow: a run on a tracking server or in a local store, under the experiment of the project.

A point has the time of its record, and a store keeps a point once by name, step, time and value: so sending a batch
again, after a crash or a lost response, changes nothing.
"""

from __future__ import annotations

import filecmp
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import requests
from mlflow.entities import Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from chiplog.core import messages
from chiplog.core.errors import Rejected, RejectedByService
from chiplog.core.files import reading
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Plain, Table
from chiplog.sinks.mlflow import login
from chiplog.sinks.mlflow.machine_monitor import MachineMonitor, training_here
from chiplog.sinks.mlflow.payload import KEPT, Payload, Prefixes, clean_tags, folder_of, pack, params_and_tags, safe
from chiplog.sinks.shared import project_name, record_file, saved_state
from chiplog.sinks.shared.lease import wait_for_files
from chiplog.sinks.shared.rows import read_journal, tabulate
from chiplog.store.runs import state

RUN_ID, PROJECT = "chiplog.run_id", "chiplog.project"  # the tags by which a run is found again
EXPERIMENT = ("MLFLOW_EXPERIMENT_NAME", *project_name.PROJECT_VARIABLES)
MOST_METRICS = 1000  # per request, MLflow's limit
REFUSED = frozenset((400, 413, 422))  # because of the content of a request, not its sender or time


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],
    *,
    experiment: str | None = None,
    uri: str | None = None,
    prefix: str = "chiplog.",
    config_prefix: str = "",
    artifacts: bool = True,
    system: bool = True,
) -> Mlflow:
    variables = login.variables(identity, environ)
    client = login.connect(identity, environ, variables, uri)
    name = experiment or project_name.project(identity, variables, EXPERIMENT)
    prefixes = Prefixes(prefix, config_prefix)
    return Mlflow(identity, client, name, prefixes=prefixes, artifacts=artifacts, system=system)


class Mlflow:
    """One run at MLflow; `client` and `run_id` are its native handles."""

    commits = True

    def __init__(
        self,
        identity: Identity,
        client: MlflowClient,
        experiment: str,
        *,
        prefixes: Prefixes,
        artifacts: bool,
        system: bool,
    ) -> None:
        self.client = client
        self.run_id: str | None = None
        self.answered = 0  # requests that were accepted
        self._identity, self._experiment = identity, experiment
        self._prefixes, self._artifacts, self._system = prefixes, artifacts, system
        self._counter = 0  # the step of the next row that has none
        self._reduced = False  # there are statistics across ranks
        self._tables: set[str] = set()
        self._complete = False  # nothing has arrived since the files of the run were sent
        self._run: Run | None = None  # as it was when this process opened it
        self._machine: MachineMonitor | None = None

    @property
    def url(self) -> str | None:
        """The page of the run if MLflow is a server, without a password that its address may contain."""
        place = urlsplit(self.client.tracking_uri)
        if self._run is None or place.scheme not in ("http", "https"):
            return None
        host = place.netloc.rpartition("@")[2]
        path = f"#/experiments/{self._run.info.experiment_id}/runs/{self._run.info.run_id}"
        return f"{place.scheme}://{host}{place.path.rstrip('/')}/{path}"

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if not batch:
            return
        payload = pack(batch, self._prefixes, self._counter, self._reduced)
        run = self._run or self._open(batch[0].time)
        self._send(run.info.run_id, payload)
        self._counter, self._reduced = payload.counter, payload.reduced
        self._tables |= payload.tables
        self._complete = False

    def close(self) -> None:
        """Send the files that the run has made by its end."""
        if self._machine is not None:
            self._machine.stop()
        if self.run_id is None or self._complete:
            return
        run = self._run or self._open(0)
        if self._artifacts:
            wait_for_files(self._identity.dir)
            for path, folder in files_at_end(self._identity.files):
                self._upload_at_end(path, folder)
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
        self.run_id = saved_state.text(state, "run") if state.get("run") is not None else None
        self._counter = saved_state.whole(state, "counter")
        self._reduced = saved_state.flag(state, "reduced")
        self._tables = set(saved_state.texts(state, "tables"))
        self._complete = saved_state.flag(state, "complete")
        if self._run is not None and self._run.info.run_id != self.run_id:
            self._run = None

    # -- the run -----------------------------------------------------------------------------------------------------

    def _open(self, time: int) -> Run:
        """Open the run: the saved one, the one with our tags, or a new one."""
        if self.run_id is None:
            runs = self._ours() or self._create(time)
            self.run_id = runs[0].info.run_id
        self._run = run = self._load(self.run_id)
        if self._system and (started := training_here(self._identity.dir)):
            self._machine = self._machine or MachineMonitor.watch(run.info.run_id, self.client.tracking_uri, started)
        return run

    def _load(self, run_id: str) -> Run:
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
        """The runs with our tags, the one to continue first: several if a response to `create_run` was lost."""
        tags = {RUN_ID: self._identity.id, PROJECT: self._identity.project}
        quotes = [next((quote for quote in "'\"" if quote not in text), "") for text in tags.values()]
        if not all(quotes):  # the language of MLflow's filters cannot express it
            return []
        wanted = (
            f"tags.`{tag}` = {quote}{text}{quote}" for quote, (tag, text) in zip(quotes, tags.items(), strict=True)
        )
        runs = self.client.search_runs([self._experiment_id()], " and ".join(wanted))
        return sorted(runs, key=lambda run: (not run.data.metrics, run.info.start_time, run.info.run_id))

    def _create(self, time: int) -> list[Run]:
        identity = self._identity
        tags = {RUN_ID: identity.id, PROJECT: identity.project, "mlflow.source.name": identity.script or "chiplog"}
        if identity.tags:
            tags[f"{self._prefixes.facts}tags"] = ",".join(identity.tags)
        self.client.create_run(self._experiment_id(), time // 1_000_000, clean_tags(tags), identity.name or None)
        return self._ours()

    def _experiment_id(self) -> str:
        experiment = self.client.get_experiment_by_name(self._experiment)
        if experiment is None:
            try:
                return str(self.client.create_experiment(self._experiment))
            except MlflowException:  # another process created it, or our first response was lost
                experiment = self.client.get_experiment_by_name(self._experiment)
                if experiment is None:
                    raise
        return str(experiment.experiment_id)

    def _delete_strays(self) -> None:
        """Delete empty duplicates, left by a `create_run` that timed out here but succeeded on the server."""
        for run in self._ours():
            if run.info.run_id != self.run_id and not run.data.metrics:
                self.client.delete_run(run.info.run_id)

    # -- what goes there ---------------------------------------------------------------------------------------------

    def _send(self, run_id: str, payload: Payload) -> None:
        existing = self._run.data if self._run is not None else None
        params, tags = params_and_tags(
            payload.params, existing.params if existing else {}, existing.tags if existing else {}
        )
        tags |= clean_tags(payload.tags)
        with self._refusals():
            self._log(
                run_id, params=[Param(*one) for one in params.items()], tags=[RunTag(*one) for one in tags.items()]
            )
            for at in range(0, len(payload.metrics), MOST_METRICS):
                self._log(run_id, metrics=payload.metrics[at : at + MOST_METRICS])
        if existing is not None:
            existing.params.update(params)
            existing.tags.update(tags)
        for file in payload.files if self._artifacts else ():
            if (path := record_file.path_of(self._identity.dir, file)) is not None:
                self._upload(run_id, path, folder_of(file))
        for name, text in payload.texts.items() if self._artifacts else ():
            with self._refusals(artifact=True):
                self.client.log_text(run_id, text, name)
        if payload.status == "RUNNING":
            self.client.update_run(run_id, status="RUNNING")
        elif payload.status:
            if self._machine is not None:
                self._machine.stop()
            self.client.set_terminated(run_id, payload.status, payload.ended)

    def _log(self, run_id: str, **items: Sequence[object]) -> None:
        self.client.log_batch(run_id, **items, synchronous=True)

    def _upload(self, run_id: str, path: Path, folder: str) -> None:
        send = self.client.log_artifacts if path.is_dir() else self.client.log_artifact
        with self._refusals(artifact=True):
            send(run_id, str(path), (f"{folder}/{path.name}".lstrip("/") if path.is_dir() else folder) or None)

    def _upload_at_end(self, path: Path, folder: str) -> None:
        """Upload a file at the end, where there is no record to count as rejected."""
        try:
            self._upload(str(self.run_id), path, folder)
        except Rejected as error:
            messages.say(f"MLflow rejects the file {path}: {error}")

    def _send_tables(self) -> None:
        """Send each table whole, as MLflow shows them, from the journal: its rows may have arrived over days."""
        if not self._tables:
            return
        tables = read_tables(self._identity.dir, self._tables)
        listed = [{"path": f"tables/{safe(name)}.json", "type": "table"} for name in tables]
        for (name, table), at in zip(tables.items(), listed, strict=True):
            try:
                with self._refusals(artifact=True):
                    self.client.log_text(str(self.run_id), msgspec.json.encode(table).decode(), at["path"])
            except Rejected as error:
                messages.say(f"MLflow rejects the table {name!r}: {error}")
        self.client.set_tag(str(self.run_id), "mlflow.loggedArtifacts", msgspec.json.encode(listed).decode())

    @contextmanager
    def _refusals(self, artifact: bool = False) -> Iterator[None]:
        """Raise `Rejected` for what MLflow will never accept; other errors are retried."""
        try:
            yield
            self.answered += 1
        except (MlflowException, requests.HTTPError) as error:
            code = status(error)
            if code not in REFUSED and not (artifact and 400 <= code < 500 and code not in (408, 429)):
                raise
            self._load(str(self.run_id))  # a deleted run refuses everything
            raise RejectedByService(f"{error}"[:500]) from None
        except (ImportError, PermissionError) as error:
            if not artifact:
                raise
            raise Rejected(f"{type(error).__name__}: {error}"[:500]) from None


def status(error: Exception) -> int:
    """The HTTP status behind an error of the client, which turns unknown ones into 500 with the status in the text."""
    if isinstance(error, requests.HTTPError):
        return int(error.response.status_code) if error.response is not None else 500
    if (code := re.search(r"failed with error code (\d{3})", str(error))) is not None:
        return int(code[1])
    return int(error.get_http_status_code()) if isinstance(error, MlflowException) else 500


def files_at_end(files: Path) -> Iterator[tuple[Path, str]]:
    """The files of a run at its end, with their folders, except those that have records those that W&B keeps
    there, and those of the environment, which stay here.
    A file with the name of one that has a record gets a folder of its own."""
    run = files.parent
    for name, about in reading.walk(run, files.name):
        path, inside = run / name, Path(name).relative_to(files.name)
        kept_here = path.name.startswith(".") or inside.parts[0] in (*KEPT, "environment", "wandb")
        if kept_here or about.st_nlink != 1:
            continue
        others = [files / kind / inside for kind in KEPT if reading.exists(run, f"{files.name}/{kind}/{inside}")]
        if any(filecmp.cmp(path, other, shallow=False) for other in others):
            continue
        folder = Path("files", inside.parent) if others else inside.parent
        yield path, "" if folder == Path() else folder.as_posix()


def read_tables(run: Path, names: set[str]) -> dict[str, dict[str, Plain]]:
    """The tables of a run from its journal, each as columns and rows."""
    rows: dict[str, list[dict[str, Plain]]] = {name: [] for name in names}
    for record in read_journal(run):
        if isinstance(record, Table) and record.name in rows:
            step = {} if record.step is None else {"step": record.step}
            rows[record.name] += ({**step, **row} for row in record.rows)
    tables = {name: tabulate(listed, f"mlflow: table {name[:60]!r}") for name, listed in sorted(rows.items()) if listed}
    return {name: {"columns": columns, "data": data} for name, (columns, data) in tables.items()}
