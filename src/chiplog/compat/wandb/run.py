"""A run as W&B's scripts see it. Everything is written by a run of chiplog as it is logged; nothing is held back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from chiplog.compat.wandb import messages as reports
from chiplog.compat.wandb.data.artifact import Artifact, find, log_artifact
from chiplog.compat.wandb.data.files import Files
from chiplog.compat.wandb.names_without_effect import Inert
from chiplog.compat.wandb.recording.config import Config
from chiplog.compat.wandb.recording.metrics import Metric, operations
from chiplog.compat.wandb.recording.rows import RowRecorder
from chiplog.compat.wandb.recording.watch import Watches
from chiplog.compat.wandb.settings import Settings
from chiplog.core import run as engine


class Run:
    """One run; made by `init`."""

    def __init__(
        self,
        recorded: engine.Run,
        settings: Settings,
        config: Mapping[str, object],
        summary: Mapping[str, object],
        ended: Callable[[Run], None],
    ) -> None:
        self.recorded = recorded  # the run of chiplog
        self.settings = self._settings = settings
        self.resumed = recorded.identity.attempt > 1
        self.start_time = self._start_time = time.time()
        self.pid = os.getpid()
        self.sweep_id = self.sweep_url = None
        self._attach_id = None
        self._config = Config(config, recorded.config.update)
        self._files = Files(recorded)
        self.starting_step = recorded.next_step if self.resumed else 0
        self.rows = RowRecorder(recorded, self._files, summary, self.starting_step)
        self.summary = self.rows.summary
        self._watches = Watches(self._log_media)
        self._alerted: dict[str, float] = {}
        self._ended = ended
        recorded.before_finish(self._complete)

    # -- logging -------------------------------------------------------------------------------------------------------

    def log(
        self,
        data: Mapping[str, Any] | None = None,
        step: int | None = None,
        commit: bool | None = None,
        sync: object = None,  # noqa: ARG002  W&B ignores it, too
        **more: object,
    ) -> None:
        """Record values of the current step, which ends with the call unless `commit=False` or a `step` is passed."""
        self.rows.log(data if not more else {**(data or {}), **more}, step, commit)

    def define_metric(
        self,
        name: str,
        step_metric: str | Metric | None = None,
        step_sync: bool | None = None,
        hidden: bool | None = None,
        summary: str | None = None,
        overwrite: bool | None = None,
        goal: str | None = None,
        **_: object,
    ) -> Metric:
        """Choose the x axis of a metric, or of all that start alike (`val/*`), and how its summary is made."""
        axis = step_metric.name if isinstance(step_metric, Metric) else step_metric
        metric = Metric(str(name), axis and str(axis), step_sync, operations(summary), goal, hidden)
        try:
            self.rows.definitions.add(metric, overwrite=bool(overwrite))
            options = {"step_metric": metric.step_metric, "summary": ",".join(metric.summary), "goal": goal}
            about: dict[str, Any] = {key: one for key, one in options.items() if one}
            self.recorded.event("define_metric", None, name=metric.name, **about)
        except Exception as error:
            reports.failed("wandb.define_metric", error)
        return metric

    @reports.guarded(None)
    def alert(
        self, title: str, text: str = "", level: object = None, wait_duration: float | timedelta | None = None
    ) -> None:
        """Record an alert, unless the same one was recorded less than `wait_duration` ago."""
        wait = wait_duration.total_seconds() if isinstance(wait_duration, timedelta) else float(wait_duration or 0)
        now = time.monotonic()
        if title in self._alerted and now - self._alerted[title] < wait:
            return
        self._alerted[title] = now
        word = str(getattr(level, "value", level) or "INFO").lower()
        self.recorded.alert(title, level=word if word in ("info", "warn", "error") else "warn", text=text)

    @reports.guarded(None)
    def watch(
        self,
        models: Any,
        criterion: object = None,  # noqa: ARG002  W&B uses it for the graph only
        log: str | None = "gradients",
        log_freq: int = 1000,
        idx: int | None = None,
        log_graph: bool = False,
    ) -> None:
        """Record histograms of gradients and parameters every `log_freq` batches."""
        if log_graph:
            reports.not_kept("watch(log_graph=True)", "there is no view of graphs")
        self._watches.add(models, log, int(log_freq), idx or 0)

    @reports.guarded(None)
    def unwatch(self, models: Any = None, idx: object = None) -> None:  # noqa: ARG002
        """Stop recording histograms."""
        self._watches.close()

    # -- files and artifacts -------------------------------------------------------------------------------------------

    def save(
        self, glob_str: str | Path | None = None, base_path: str | Path | None = None, policy: str = "live"
    ) -> Any:
        """Copy files to the run: now and at the end ("live"), only "now", or only at the "end"."""
        try:
            return self._files.save(glob_str, base_path, policy) if glob_str is not None else True
        except Exception as error:
            reports.failed("wandb.save", error)
            return []

    def restore(self, name: str, run_path: str | None = None, replace: bool = False, root: str | None = None) -> Any:  # noqa: ARG002
        """A saved file of this run, opened; None if there is none."""
        path = self._files.restore(name)
        return path.open(encoding="utf-8") if path is not None else None

    def log_artifact(
        self,
        artifact_or_path: Artifact | str | Path,
        name: str | None = None,
        type: str | None = None,
        aliases: Sequence[str] | None = None,
        tags: object = None,  # noqa: ARG002
    ) -> Artifact:
        """Copy the files of an artifact to the run."""
        artifact = artifact_or_path
        if not isinstance(artifact, Artifact):
            path = artifact
            artifact = Artifact(name or f"run-{self.id}-{Path(path).name}", type or "unspecified")
            artifact.add_path(path)
        try:
            log_artifact(self.recorded, artifact, aliases or ())
        except Exception as error:
            reports.failed("wandb.log_artifact", error)
        return artifact

    upsert_artifact = finish_artifact = log_artifact

    def use_artifact(self, artifact_or_name: Artifact | str, type: str | None = None, **_: object) -> Artifact:
        """An artifact of a run in the same directory, by name; note in this run that it was used."""
        artifact = artifact_or_name
        if not isinstance(artifact, Artifact):
            artifact = find(self.recorded.dir.parent.parent, artifact, type)
        try:
            self.recorded.event("use_artifact", name=artifact.name, type=artifact.type)
        except Exception as error:
            reports.failed("wandb.use_artifact", error)
        return artifact

    def log_model(self, path: str | Path, name: str | None = None, aliases: Sequence[str] | None = None) -> None:
        """Copy a model to the run."""
        self.log_artifact(path, name, "model", aliases)

    def use_model(self, name: str) -> str:
        """The path of a model that a run has logged."""
        folder = self.use_artifact(name, "model").download()
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        return str(files[0]) if len(files) == 1 else folder

    def link_artifact(self, artifact: Artifact, *_: object, **__: object) -> Artifact:
        reports.not_kept("link_artifact", "there is no registry; log_artifact keeps the files")
        return artifact

    def link_model(self, path: str | Path, registered_model_name: str = "", *_: object, **__: object) -> None:
        reports.not_kept("the link of link_model", "there is no registry; the files are kept")
        self.log_model(path, registered_model_name or None)

    def log_code(self, *_: object, **__: object) -> None:
        reports.not_kept("log_code", "the git state of every run is kept")

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.recorded.id

    @property
    def name(self) -> str:
        return self.recorded.name

    @name.setter
    def name(self, name: str) -> None:
        self.recorded.name = name

    @property
    def config(self) -> Config:
        return self._config

    @config.setter
    def config(self, values: object) -> None:
        if values is not self._config:
            self._config.update(values)

    @property
    def project(self) -> str:
        return self.recorded.project

    @property
    def entity(self) -> str:
        return str(self.settings.entity or "")

    @property
    def group(self) -> str:
        return str(self.settings.run_group or "")

    @property
    def job_type(self) -> str:
        return str(self.settings.run_job_type or "")

    @property
    def notes(self) -> str:
        return str(self.settings.run_notes or "")

    @notes.setter
    def notes(self, text: str) -> None:
        self.settings.update(run_notes=text)
        self.recorded.event("wandb", notes=str(text))

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.recorded.tags)

    @tags.setter
    def tags(self, tags: Sequence[str]) -> None:
        self.recorded.tags[:] = list(tags)

    @property
    def dir(self) -> str:
        """Where the script may put files of the run."""
        return str(self._files.dir)

    @property
    def path(self) -> str:
        return "/".join(part for part in (self.entity, self.project, self.id) if part)

    @property
    def url(self) -> str:
        return self.recorded.dir.as_uri()

    @property
    def project_url(self) -> str:
        return self.recorded.dir.parent.as_uri()

    @property
    def step(self) -> int:
        return self.rows.step

    @property
    def disabled(self) -> bool:
        return bool(self.settings.mode == "disabled")

    @property
    def offline(self) -> bool:
        return True

    @property
    def config_static(self) -> dict[str, Any]:
        return self.config.as_dict()

    def get_url(self) -> str:
        return self.url

    def get_project_url(self) -> str:
        return self.project_url

    def get_sweep_url(self) -> None:
        return None

    def project_name(self) -> str:
        return self.project

    def __repr__(self) -> str:
        return f"<stand-in for a W&B run: {self.path}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Inert(f"run.{name}")

    # -- ending --------------------------------------------------------------------------------------------------------

    def finish(self, exit_code: int | None = None, quiet: object = None) -> None:  # noqa: ARG002
        """End the run; failed if the exit code is not 0."""
        try:
            self.rows.finished = True
            self._ended(self)
            if exit_code:
                self.recorded.finish(state="failed", reason=f"exit code {exit_code}")
            else:
                self.recorded.finish()
        except Exception as error:
            reports.failed("wandb.finish", error)

    join = finish

    def mark_preempting(self) -> None:
        self.recorded.event("preempting")

    def status(self) -> Settings:
        return Settings(sync_items_pending=0, sync_time=None)

    def display(self, *_: object, **__: object) -> bool:
        return False

    def to_html(self, *_: object, **__: object) -> str:
        return ""

    def _label(self, *_: object, **__: object) -> None:
        """Frameworks tell W&B who they are."""

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.finish()
            return
        self.rows.finished = True
        self._ended(self)
        self.recorded.__exit__(kind, error, None)

    def start_at(self, step: int) -> None:
        """Continue at a step, before anything is logged."""
        self.rows.step = self.starting_step = step

    # -- for `sync_tensorboard` --------------------------------------------------------------------------------------

    def next_row(self) -> int:
        return self.rows.next_row()

    def log_at(self, data: dict[str, Any], at: int) -> None:
        self.rows.log_at(data, at)

    def is_finished(self) -> bool:
        return self.rows.finished or self.pid != os.getpid()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _log_media(self, data: Mapping[str, Any]) -> None:
        self.log(data, commit=False)

    def _complete(self) -> None:
        """Record what is known only at the end. Called once, before the run ends in any way."""
        try:
            self._watches.close()
            self.rows.complete()
            self._files.complete()
        except Exception as error:
            reports.failed("wandb.finish", error)
