"""MLflow's experiments: the projects in a directory of runs.

What a project has no place for, such as the tags of an experiment, is in its `mlflow.json`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from mlflow.entities import Experiment, ExperimentTag, LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, RESOURCE_ALREADY_EXISTS, RESOURCE_DOES_NOT_EXIST
from mlflow.tracking.default_experiment import DEFAULT_EXPERIMENT_ID

from chiplog.core.files import reading, writing
from chiplog.core.paths import make_dir
from chiplog.store import layout, manifest

FILE = "mlflow.json"
DEFAULT = "default"  # the project of the experiment that MLflow calls "Default"


class ExperimentFile(msgspec.Struct, omit_defaults=True):
    """What `mlflow.json` holds."""

    name: str
    project: str
    created: int = 0  # ms
    updated: int = 0
    stage: str = LifecycleStage.ACTIVE
    artifacts: str = ""  # where the artifacts of its runs go, if not to the runs
    tags: dict[str, str] = {}


class Experiments:
    """The experiments of a directory of runs. The id of one is the name of its directory; `0` is that of `default`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def all(self) -> list[Experiment]:
        return [self.entity(experiment_id) for experiment_id in self.ids()]

    def ids(self) -> list[str]:
        return [DEFAULT_EXPERIMENT_ID, *(path.name for path in self._folders() if path.name != DEFAULT)]

    def folder(self, experiment_id: str) -> Path:
        return self._root / (DEFAULT if experiment_id == DEFAULT_EXPERIMENT_ID else layout.directory(experiment_id))

    def id_of(self, run: Path) -> str:
        """The id of the experiment of a run directory."""
        return DEFAULT_EXPERIMENT_ID if run.parent.name == DEFAULT else run.parent.name

    def about(self, experiment_id: str) -> ExperimentFile:
        """What is known of an experiment; raises if there is none."""
        folder = self.folder(str(experiment_id))
        if experiment_id != DEFAULT_EXPERIMENT_ID and (folder.name != experiment_id or not folder.is_dir()):
            raise MlflowException(f"No Experiment with id={experiment_id} exists", RESOURCE_DOES_NOT_EXIST)
        try:
            return msgspec.json.decode(reading.read_bytes(folder, FILE), type=ExperimentFile)
        except (OSError, ValueError):
            return self._of_project(folder)

    def active(self, experiment_id: str) -> ExperimentFile:
        about = self.about(experiment_id)
        if about.stage != LifecycleStage.ACTIVE:
            raise MlflowException(
                f"The experiment {experiment_id} must be in the 'active' state.", INVALID_PARAMETER_VALUE
            )
        return about

    def entity(self, experiment_id: str) -> Experiment:
        about = self.about(experiment_id)
        return Experiment(
            experiment_id,
            about.name,
            about.artifacts or str(self.folder(experiment_id)),
            about.stage,
            [ExperimentTag(key, value) for key, value in about.tags.items()],
            about.created,
            about.updated or about.created,
        )

    def named(self, name: str) -> str | None:
        """The id of the experiment with this name; that of `Default` for `default`, too."""
        ids = {self.about(experiment_id).name: experiment_id for experiment_id in reversed(self.ids())}
        return ids.get(name, DEFAULT_EXPERIMENT_ID if name == DEFAULT else None)

    def create(self, name: str, artifacts: str | None, tags: dict[str, str]) -> str:
        """Create an experiment; returns its id."""
        folder = self._root / layout.directory(name)
        if folder.name == DEFAULT_EXPERIMENT_ID:
            raise MlflowException(
                f"no experiment can be named {name!r}, which is the id of 'Default'", RESOURCE_ALREADY_EXISTS
            )
        if self.named(name) is not None or folder.is_dir():
            raise MlflowException(
                f"Experiment(name={name}) already exists: the directory {folder} is its project, or that of an "
                "experiment that was renamed or deleted",
                RESOURCE_ALREADY_EXISTS,
            )
        make_dir(folder)
        now = time.time_ns() // 10**6
        self.save(folder.name, ExperimentFile(name, name, now, now, artifacts=artifacts or "", tags=tags))
        return folder.name

    def save(self, experiment_id: str, about: ExperimentFile) -> None:
        folder = self.folder(experiment_id)
        make_dir(folder)
        writing.replace(folder, FILE, msgspec.json.encode(about))

    def change(self, experiment_id: str, **changes: object) -> None:
        """Save new values of an experiment."""
        about = msgspec.structs.replace(self.about(experiment_id), updated=time.time_ns() // 10**6, **changes)
        self.save(experiment_id, about)

    def rename(self, experiment_id: str, name: str) -> None:
        if self.named(name) is not None:
            raise MlflowException(f"Experiment(name={name}) already exists.", RESOURCE_ALREADY_EXISTS)
        self.change(experiment_id, name=name)

    def _of_project(self, folder: Path) -> ExperimentFile:
        """An experiment as the runs of its project show it."""
        run = next(layout.find_runs(folder), None) if folder.is_dir() else None
        about = manifest.load(run) if run is not None else None
        project = about.project if about is not None else folder.name
        created = about.created // 10**6 if about is not None else 0
        return ExperimentFile("Default" if folder.name == DEFAULT else project, project, created, created)

    def _folders(self) -> Iterator[Path]:
        if not self._root.is_dir():
            return
        for path in sorted(self._root.iterdir()):
            if path.is_dir() and not path.name.startswith(".") and ((path / FILE).exists() or _has_runs(path)):
                yield path


def _has_runs(folder: Path) -> bool:
    return not (folder / layout.JOURNAL).exists() and next(layout.find_runs(folder), None) is not None
