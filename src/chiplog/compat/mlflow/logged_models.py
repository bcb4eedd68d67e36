"""MLflow's logged models: a folder each, in the files of the run that made them, or in the project.

`model.json` describes a model, `metrics.jsonl` has what was measured with it, and `artifacts` is the model.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import msgspec
from mlflow.entities import (
    LoggedModel,
    LoggedModelParameter,
    LoggedModelStatus,
    LoggedModelTag,
    Metric,
)
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, RESOURCE_DOES_NOT_EXIST
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking import SEARCH_LOGGED_MODEL_MAX_RESULTS_DEFAULT
from mlflow.tracking.default_experiment import DEFAULT_EXPERIMENT_ID
from mlflow.utils import validation
from mlflow.utils.name_utils import _generate_random_name
from mlflow.utils.search_utils import SearchLoggedModelsUtils

from chiplog.compat.mlflow.experiments import Experiments
from chiplog.core.files import reading, writing
from chiplog.core.paths import make_dir
from chiplog.store import layout

MODELS = "models"
FILE = "model.json"
METRICS = "metrics.jsonl"


class ModelFile(msgspec.Struct, omit_defaults=True):
    """What `model.json` holds."""

    experiment: str
    name: str
    created: int  # ms
    updated: int
    run: str | None = None
    type: str | None = None
    status: int = LoggedModelStatus.PENDING.to_int()  # as MLflow counts them
    params: dict[str, str] = {}
    tags: dict[str, str] = {}
    deleted: bool = False


class MetricLine(msgspec.Struct, omit_defaults=True):
    """A line of `metrics.jsonl`."""

    key: str
    value: str  # as a text, for NaN and infinities
    timestamp: int
    step: int
    run: str
    dataset: str | None = None
    digest: str | None = None


class LoggedModels:
    """The models of a directory of runs."""

    def __init__(self, root: Path, experiments: Experiments) -> None:
        self._root, self._experiments = root, experiments
        self._lock = threading.RLock()

    def create(
        self, experiment_id: str, name: str | None, run: tuple[str, Path] | None, tags: Sequence[LoggedModelTag],
        params: Sequence[LoggedModelParameter], kind: str | None,
    ) -> LoggedModel:  # fmt: skip
        """Create a model that was made by a run, given by its id and directory, or by none."""
        validation._validate_logged_model_name(name)
        self._experiments.active(experiment_id)
        parent = run[1] / layout.FILES if run is not None else self._experiments.folder(experiment_id)
        folder = parent / MODELS / f"m-{uuid.uuid4().hex}"
        make_dir(folder / "artifacts")
        now = _now()
        about = ModelFile(
            experiment_id,
            name or _generate_random_name(),
            now,
            now,
            run=run[0] if run is not None else None,
            type=kind,
            params=_params(params),
            tags={tag.key: str(tag.value) for tag in tags},
        )
        _save(folder, about)
        return _entity(folder, about)

    def get(self, model_id: str, *, deleted: bool = False) -> LoggedModel:
        folder = self._folder(model_id)
        return _entity(folder, self._about(folder, deleted=deleted))

    def change(self, model_id: str, change: Callable[[ModelFile], object]) -> LoggedModel:
        """Change what describes a model."""
        with self._lock:
            folder = self._folder(model_id)
            about = self._about(folder)
            change(about)
            about.updated = _now()
            _save(folder, about)
        return _entity(folder, about)

    def measure(self, run_id: str, metrics: Iterable[Metric]) -> None:
        """Add metrics to the models that they were measured with."""
        for metric in metrics:
            if metric.model_id is not None:
                line = MetricLine(
                    metric.key, repr(float(metric.value)), metric.timestamp, metric.step, run_id,
                    metric.dataset_name, metric.dataset_digest,
                )  # fmt: skip
                with self._lock, (self._folder(metric.model_id) / METRICS).open("ab") as file:
                    file.write(msgspec.json.encode(line) + b"\n")

    def search(
        self, experiment_ids: Iterable[str], filter_string: str | None, datasets: list[dict[str, Any]] | None,
        max_results: int | None, order_by: list[dict[str, Any]] | None, page_token: str | None,
    ) -> PagedList:  # fmt: skip
        if datasets and not all(one.get("dataset_name") for one in datasets):
            raise MlflowException("`dataset_name` in the `datasets` clause must be specified.", INVALID_PARAMETER_VALUE)
        every = {model.model_id: model for experiment_id in experiment_ids for model in self._of(experiment_id)}
        models = [_with_newest(model) for model in every.values()]
        models = SearchLoggedModelsUtils.filter_logged_models(models, filter_string, datasets)
        models = SearchLoggedModelsUtils.sort(models, order_by)
        most = max_results or SEARCH_LOGGED_MODEL_MAX_RESULTS_DEFAULT
        page, token = SearchLoggedModelsUtils.paginate(models, page_token, most)
        return PagedList([every[model.model_id] for model in page], token)

    def _of(self, experiment_id: str) -> Iterator[LoggedModel]:
        project = self._experiments.folder(experiment_id)
        for pattern in (f"{MODELS}/*/{FILE}", f"*/{layout.FILES}/{MODELS}/*/{FILE}"):
            for path in project.glob(pattern):
                about = self._about(path.parent, deleted=True)
                if not about.deleted:
                    yield _entity(path.parent, about)

    def _folder(self, model_id: str) -> Path:
        if layout.directory(model_id) == model_id:
            for pattern in (f"*/{MODELS}/{model_id}", f"*/*/{layout.FILES}/{MODELS}/{model_id}"):
                for path in self._root.glob(pattern):
                    return path
        raise MlflowException(f"Logged model with ID '{model_id}' not found.", RESOURCE_DOES_NOT_EXIST)

    def _about(self, folder: Path, *, deleted: bool = False) -> ModelFile:
        about = msgspec.json.decode(reading.read_bytes(folder, FILE), type=ModelFile)
        if about.deleted and not deleted:
            raise MlflowException(f"Logged model with ID '{folder.name}' not found.", RESOURCE_DOES_NOT_EXIST)
        return about


class LoggedModelStore:
    """The methods of MLflow's store for models."""

    models: LoggedModels

    def run_directory(self, run_id: str) -> Path:
        raise NotImplementedError

    def create_logged_model(
        self,
        experiment_id: str = DEFAULT_EXPERIMENT_ID,
        name: str | None = None,
        source_run_id: str | None = None,
        tags: list[LoggedModelTag] | None = None,
        params: list[LoggedModelParameter] | None = None,
        model_type: str | None = None,
    ) -> LoggedModel:
        run = (source_run_id, self.run_directory(source_run_id)) if source_run_id else None
        return self.models.create(str(experiment_id), name, run, tags or (), params or (), model_type)

    def log_logged_model_params(self, model_id: str, params: list[LoggedModelParameter]) -> None:
        self.models.change(model_id, lambda about: about.params.update(_params(params)))

    def finalize_logged_model(self, model_id: str, status: LoggedModelStatus) -> LoggedModel:
        return self.models.change(model_id, lambda about: setattr(about, "status", LoggedModelStatus(status).to_int()))

    def get_logged_model(self, model_id: str, allow_deleted: bool = False) -> LoggedModel:
        return self.models.get(model_id, deleted=allow_deleted)

    def delete_logged_model(self, model_id: str) -> None:
        self.models.change(model_id, lambda about: setattr(about, "deleted", True))

    def set_logged_model_tags(self, model_id: str, tags: list[LoggedModelTag]) -> None:
        for tag in tags:
            validation._validate_tag_name(tag.key)
        self.models.change(model_id, lambda about: about.tags.update({tag.key: str(tag.value) for tag in tags}))

    def delete_logged_model_tag(self, model_id: str, key: str) -> None:
        if key not in self.models.get(model_id).tags:
            raise MlflowException(f"No tag with key {key!r} found for model {model_id}.", RESOURCE_DOES_NOT_EXIST)
        self.models.change(model_id, lambda about: about.tags.pop(key, None))

    def search_logged_models(
        self,
        experiment_ids: list[str],
        filter_string: str | None = None,
        datasets: list[dict[str, Any]] | None = None,
        max_results: int | None = None,
        order_by: list[dict[str, Any]] | None = None,
        page_token: str | None = None,
    ) -> PagedList:
        return self.models.search(experiment_ids, filter_string, datasets, max_results, order_by, page_token)


def _params(params: Iterable[LoggedModelParameter]) -> dict[str, str]:
    for param in params:
        validation._validate_param(param.key, param.value)
    return {param.key: str(param.value) for param in params}


def _save(folder: Path, about: ModelFile) -> None:
    writing.replace(folder, FILE, msgspec.json.encode(about))


def _entity(folder: Path, about: ModelFile) -> LoggedModel:
    return LoggedModel(
        experiment_id=about.experiment,
        model_id=folder.name,
        name=about.name,
        artifact_location=str(folder / "artifacts"),
        creation_timestamp=about.created,
        last_updated_timestamp=about.updated,
        model_type=about.type,
        source_run_id=about.run,
        status=about.status,
        tags=about.tags,
        params=about.params,
        metrics=_metrics(folder),
    )


def _metrics(folder: Path) -> list[Metric]:
    if not (folder / METRICS).exists():
        return []
    lines = reading.read_bytes(folder, METRICS).splitlines()
    measured = [msgspec.json.decode(line, type=MetricLine) for line in lines]
    return [
        Metric(one.key, float(one.value), one.timestamp, one.step, folder.name, one.dataset, one.digest, one.run)
        for one in measured
    ]


def _with_newest(model: LoggedModel) -> LoggedModel:
    """A model with the newest of each metric and dataset, by which it is searched."""
    newest: dict[tuple[str, str | None, str | None], Metric] = {}
    for one in sorted(model.metrics, key=lambda one: (one.step, one.timestamp)):
        newest[one.key, one.dataset_name, one.dataset_digest] = one
    reduced = copy(model)
    reduced.metrics = list(newest.values())
    return reduced


def _now() -> int:
    return time.time_ns() // 10**6
