"""W&B's public API over stored runs: `Api().run(path)` and `Api().runs(path, filters)`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import chiplog
from chiplog.assembly import runs_dir
from chiplog.compat.wandb import filters as filter_language
from chiplog.compat.wandb import history, messages
from chiplog.compat.wandb.data.artifact import Artifact, find
from chiplog.compat.wandb.errors import CommError
from chiplog.compat.wandb.names_without_effect import Inert
from chiplog.compat.wandb.recording.metrics import Definitions, Metric, aggregate, operations
from chiplog.core.errors import RunNotFound
from chiplog.core.records import Event, File
from chiplog.store.reader import Stored

# W&B's words for the states of a run.
STATES = {"interrupted": "killed", "killed": "crashed", "lost": "crashed", "empty": "pending"}


class Api:
    """The runs of a directory: `CHIPLOG_DIR`, that of the settings, or `runs`."""

    def __init__(self, overrides: Mapping[str, Any] | None = None, timeout: float | None = None, **_: object) -> None:
        self.settings = dict(overrides or {})
        self.timeout = timeout
        self.api_key = None

    def run(self, path: str = "") -> StoredRun:
        """A run by `entity/project/id`, `project/id` or `id`."""
        *_, project, run_id = ["", "", *str(path).strip("/").split("/")]
        for stored in self._stored(project or None):
            if run_id in (stored.id, stored.name):
                return StoredRun(stored)
        raise CommError(f"there is no run {path!r} under {runs_dir()}; `chiplog ls` lists the runs")

    def runs(
        self,
        path: str | None = None,
        filters: Mapping[str, Any] | None = None,
        order: str = "+created_at",
        per_page: int = 50,  # noqa: ARG002  there are no pages
        **_: object,
    ) -> Runs:
        """The runs of a project that fit the filters, oldest first, or as `order` says."""
        project = str(path).strip("/").rpartition("/")[2] if path else None
        runs = [StoredRun(stored) for stored in self._stored(project)]
        if filters:
            runs = [run for run in runs if filter_language.matches(filters, run.value)]
        key = order.lstrip("+-")
        if key not in ("created_at", "createdAt"):
            present = [run for run in runs if isinstance(run.value(key), int | float | str)]
            runs = [*sorted(present, key=lambda run: run.value(key)), *(run for run in runs if run not in present)]
        return Runs(runs[::-1] if order.startswith("-") else runs)

    def artifact(self, name: str, type: str | None = None) -> Artifact:
        return find(runs_dir(), name, type)

    def projects(self, entity: str | None = None, **_: object) -> list[str]:  # noqa: ARG002
        return sorted({stored.project for stored in self._stored(None)})

    @property
    def default_entity(self) -> str:
        return os.environ.get("WANDB_ENTITY", "")

    @property
    def viewer(self) -> Inert:
        return Inert("Api().viewer")

    def flush(self) -> None:
        """Nothing to do: runs are read as they are."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Inert(f"Api().{name}")

    def _stored(self, project: str | None) -> list[Stored]:
        try:
            return list(chiplog.runs(runs_dir(), project))
        except RunNotFound:
            return []


class Runs(list["StoredRun"]):
    """A list of runs."""

    def histories(self, *_: object, **__: object) -> Inert:
        return Inert("Api().runs(...).histories")


class StoredRun:
    """A stored run, as W&B's public API shows it."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.id, self.name, self.project = stored.id, stored.name, stored.project
        self.tags = list(stored.tags)

    @property
    def state(self) -> str:
        """running, finished, failed, crashed or killed."""
        state = self.stored.state
        return STATES.get(state, state)

    @property
    def config(self) -> dict[str, Any]:
        return self.stored.config

    @property
    def summary(self) -> HistorySummary:
        """The last values, what the script set, and the aggregates of `define_metric`."""
        rows = history.rows(self.stored)
        values: dict[str, Any] = {name: value for row in rows for name, value in row.items()}
        for event in self._events("summary"):
            values.update(event.data)
        for name, metric in self._defined(values).items():
            made = aggregate(metric, [row[name] for row in rows if isinstance(row.get(name), int | float)])
            for operation in metric.summary:
                values.pop(f"{name}.{operation}", None)
            if "none" in metric.summary:
                values.pop(name)
            elif made:
                values[name] = made
        return HistorySummary(values)

    @property
    def summary_metrics(self) -> dict[str, Any]:
        return dict(self.summary)

    def history(
        self,
        samples: int = 500,
        keys: Sequence[str] | None = None,
        x_axis: str = "_step",
        pandas: bool = True,
        stream: str = "default",
    ) -> Any:
        """At most `samples` rows, evenly spread: a data frame, or a list of dictionaries."""
        if stream not in ("default", "history"):
            messages.not_kept(
                f"history(stream={stream!r})", "`chiplog.read(...).series('gpu/0/power')` has such series"
            )
            rows: list[dict[str, Any]] = []
        else:
            rows = history.sampled(history.chosen(history.rows(self.stored), keys, x_axis), samples)
        if not pandas:
            return rows
        from pandas import DataFrame

        return DataFrame.from_records(rows)

    def scan_history(
        self,
        keys: Sequence[str] | None = None,
        page_size: int = 1000,  # noqa: ARG002  there are no pages
        min_step: int | None = None,
        max_step: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """All rows, or those that have all of the keys, from `min_step` on and before `max_step`."""
        for row in history.rows(self.stored):
            if (min_step is None or row["_step"] >= min_step) and (max_step is None or row["_step"] < max_step):
                yield from history.chosen([row], keys, next(iter(keys)) if keys else "_step")

    beta_scan_history = scan_history

    @property
    def lastHistoryStep(self) -> int:
        rows = history.rows(self.stored)
        return int(rows[-1]["_step"]) if rows else -1

    @property
    def created_at(self) -> str:
        return datetime.fromtimestamp(self.stored.created / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def metadata(self) -> dict[str, Any]:
        return self.stored.environment

    @property
    def entity(self) -> str:
        return str(self._about.get("entity", ""))

    @property
    def group(self) -> str:
        return str(self._about.get("group", ""))

    @property
    def job_type(self) -> str:
        return str(self._about.get("job_type", ""))

    @property
    def notes(self) -> str:
        return str(self._about.get("notes", ""))

    @property
    def path(self) -> list[str]:
        return [self.entity, self.project, self.id]

    @property
    def url(self) -> str:
        return self.stored.path.as_uri()

    def files(self, names: Sequence[str] | None = None, **_: object) -> list[Path]:
        """The paths of the files of the run."""
        kept = [record for record in self.stored.records("file") if isinstance(record, File)]
        return [self.stored.path / record.path for record in kept if not names or record.name in names]

    def file(self, name: str) -> Path | None:
        return next(iter(self.files([name])), None)

    def logged_artifacts(self, *_: object, **__: object) -> list[Artifact]:
        return [
            find(self.stored.path, f"{event.data['name']}:{event.data['version']}")
            for event in self._events("artifact")
        ]

    def value(self, key: str) -> Any:
        """A value that a filter names: `state`, `config.lr`, `summary_metrics.loss`."""
        group, _, rest = key.partition(".")
        if group == "config":
            return filter_language.within(self.config, rest)
        if group in ("summary", "summary_metrics"):
            return filter_language.within(self.summary_metrics, rest)
        attributes = ("id", "name", "state", "tags", "group", "job_type", "notes", "project", "entity", "created_at")
        return getattr(self, key) if key in attributes else filter_language.within({}, key)

    def wait_until_finished(self) -> None:
        for _ in self.stored.follow():
            pass

    def load(self, *_: object, **__: object) -> None:
        """Nothing to do: every access reads the run as it is."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Inert(f"Api().run(...).{name}")

    def __repr__(self) -> str:
        return f"<Run {self.project}/{self.id} ({self.state})>"

    @cached_property
    def _about(self) -> dict[str, Any]:
        about: dict[str, Any] = {}
        for event in self._events("wandb"):
            about.update(event.data)
        return about

    def _defined(self, names: Iterable[str]) -> dict[str, Metric]:
        """The definitions of the names whose summary is an aggregate."""
        definitions = Definitions()
        for event in self._events("define_metric"):
            data = event.data
            definitions.add(
                Metric(data["name"], data.get("step_metric"), None, operations(data.get("summary")), data.get("goal"))
            )
        metrics = {name: definitions.of(name) for name in names}
        return {name: metric for name, metric in metrics.items() if metric is not None and metric.summary}

    def _events(self, name: str) -> list[Event]:
        return [record for record in self.stored.records("event") if isinstance(record, Event) and record.name == name]


class HistorySummary(dict[str, Any]):
    """The summary of a stored run."""

    @property
    def _json_dict(self) -> dict[str, Any]:
        return dict(self)

    def update(self, *_: Any, **__: Any) -> None:
        messages.not_kept("Api().run(...).summary.update", "stored runs are not changed")
