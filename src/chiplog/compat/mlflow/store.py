"""MLflow's tracking store over a directory of runs."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlflow.entities import (
    DatasetInput,
    Experiment,
    ExperimentTag,
    LifecycleStage,
    LoggedModelInput,
    LoggedModelOutput,
    Metric,
    Param,
    Run,
    RunInfo,
    RunStatus,
    RunTag,
    ViewType,
)
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, INVALID_STATE, RESOURCE_DOES_NOT_EXIST
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking import SEARCH_MAX_RESULTS_DEFAULT
from mlflow.store.tracking.abstract_store import AbstractStore
from mlflow.tracking.default_experiment import DEFAULT_EXPERIMENT_ID
from mlflow.utils import validation
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_MODELS, MLFLOW_RUN_NAME
from mlflow.utils.name_utils import _generate_random_name
from mlflow.utils.search_utils import SearchExperimentsUtils, SearchUtils

import chiplog
from chiplog.assembly import runs_dir
from chiplog.compat.mlflow import artifacts, ended_runs, metric_points, run_entities, unsupported
from chiplog.compat.mlflow import facts as fact_table
from chiplog.compat.mlflow.ended_runs import EndedRuns
from chiplog.compat.mlflow.experiments import Experiments
from chiplog.compat.mlflow.logged_models import LoggedModels, LoggedModelStore
from chiplog.compat.mlflow.open_runs import NothingKept, OpenRun, OpenRuns
from chiplog.core import messages
from chiplog.store import layout
from chiplog.store.foreign.yaml_and_json import from_text
from chiplog.store.reader import Stored


def directory(uri: str) -> Path:
    """The directory in a URI: relative after three slashes, as in `chiplog:///runs`, absolute after four."""
    parts = urlsplit(uri)
    path = unquote(parts.netloc + parts.path).removeprefix("/")
    return (Path(path).expanduser() if path else runs_dir()).absolute()


@unsupported.refuse_the_rest
class ChiplogStore(LoggedModelStore, AbstractStore):
    """The runs of a directory, as MLflow's client asks for them."""

    def __init__(self, store_uri: str, artifact_uri: str | None = None) -> None:
        super().__init__()
        self.root = directory(store_uri)
        self.artifact_root = artifact_uri
        self._experiments = Experiments(self.root)
        self._runs = OpenRuns(self.root)
        self._ended = EndedRuns()
        self.models = LoggedModels(self.root, self._experiments)

    # -- experiments ---------------------------------------------------------------------------------------------------

    def search_experiments(
        self,
        view_type: int = ViewType.ACTIVE_ONLY,
        max_results: int = SEARCH_MAX_RESULTS_DEFAULT,
        filter_string: str | None = None,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList:
        if not isinstance(max_results, int) or max_results < 1:
            raise MlflowException(f"max_results is a positive number, not {max_results!r}", INVALID_PARAMETER_VALUE)
        stages = LifecycleStage.view_type_to_stages(view_type)
        experiments = [one for one in self._experiments.all() if one.lifecycle_stage in stages]
        chosen = SearchExperimentsUtils.filter(experiments, filter_string)
        chosen = SearchExperimentsUtils.sort(chosen, order_by or ["creation_time DESC", "experiment_id ASC"])
        return PagedList(*SearchUtils.paginate(chosen, page_token, max_results))

    def create_experiment(
        self, name: str, artifact_location: str | None = None, tags: Iterable[ExperimentTag] | None = None
    ) -> str:
        validation._validate_experiment_name(name)
        for tag in tags or ():
            validation._validate_experiment_tag(tag.key, tag.value)
        return self._experiments.create(name, artifact_location, {tag.key: tag.value for tag in tags or ()})

    def get_experiment(self, experiment_id: str) -> Experiment:
        return self._experiments.entity(str(experiment_id))

    def get_experiment_by_name(self, experiment_name: str) -> Experiment | None:
        experiment_id = self._experiments.named(experiment_name)
        return None if experiment_id is None else self._experiments.entity(experiment_id)

    def delete_experiment(self, experiment_id: str) -> None:
        """Mark an experiment as deleted; its runs stay where they are."""
        self._experiments.active(experiment_id)
        self._experiments.change(experiment_id, stage=LifecycleStage.DELETED)

    def restore_experiment(self, experiment_id: str) -> None:
        self._experiments.change(experiment_id, stage=LifecycleStage.ACTIVE)

    def rename_experiment(self, experiment_id: str, new_name: str) -> None:
        """Give an experiment another name for MLflow; chiplog's project keeps its own."""
        validation._validate_experiment_name(new_name)
        self._experiments.active(experiment_id)
        self._experiments.rename(experiment_id, new_name)

    def set_experiment_tag(self, experiment_id: str, tag: ExperimentTag) -> None:
        validation._validate_experiment_tag(tag.key, tag.value)
        tags = self._experiments.active(experiment_id).tags
        self._experiments.change(experiment_id, tags={**tags, tag.key: str(tag.value)})

    def delete_experiment_tag(self, experiment_id: str, key: str) -> None:
        tags = self._experiments.active(experiment_id).tags
        if key not in tags:
            raise MlflowException(f"No tag with name: {key} in experiment {experiment_id}", RESOURCE_DOES_NOT_EXIST)
        self._experiments.change(experiment_id, tags={name: value for name, value in tags.items() if name != key})

    # -- runs ----------------------------------------------------------------------------------------------------------

    def create_run(
        self, experiment_id: str | None, user_id: str, start_time: int, tags: Sequence[RunTag] | None, run_name: str
    ) -> Run:
        experiment_id = DEFAULT_EXPERIMENT_ID if experiment_id is None else str(experiment_id)
        about = self._experiments.active(experiment_id)
        named = {tag.key: tag.value for tag in tags or ()}
        run_name, tagged = run_name or "", named.get(MLFLOW_RUN_NAME, "")
        if run_name and tagged and run_name != tagged:
            raise MlflowException(
                f"Both 'run_name' argument and 'mlflow.runName' tag are specified, but with different values "
                f"(run_name='{run_name}', mlflow.runName='{tagged}').",
                INVALID_PARAMETER_VALUE,
            )
        run_id = uuid.uuid4().hex
        named[MLFLOW_RUN_NAME] = run_name or tagged or _generate_random_name()
        try:
            held = self._runs.start(about.project, run_id, named[MLFLOW_RUN_NAME])
        except NothingKept:
            raise MlflowException(
                "chiplog keeps no runs here, because of mode='disabled' or an error above; change that, or unset "
                "MLFLOW_TRACKING_URI",
                INVALID_STATE,
            ) from None
        facts = {"status": run_entities.RUNNING, "start_time": str(int(start_time or time.time() * 1000))}
        if user_id:
            facts["user"] = user_id
        if place := about.artifacts or self.artifact_root:
            facts["artifact_uri"] = f"{place.rstrip('/')}/{run_id}/artifacts"
        fact_table.write(held.recorded, facts)
        self._write_tags(held, [RunTag(key, value) for key, value in named.items()])
        return self.get_run(run_id)

    def get_run(self, run_id: str) -> Run:
        stored = self._stored(run_id)
        return run_entities.run_of(stored, self._experiments.id_of(stored.path))

    def update_run_info(
        self, run_id: str, run_status: int | None, end_time: int | None, run_name: str | None
    ) -> RunInfo:
        status = None if run_status is None else RunStatus.to_string(run_status)
        ends = status in run_entities.STATES
        if not (ends and self._runs.ended_at_exit(run_id)):  # which knows better how the script ended
            held = self._open(run_id)
            if run_name:
                self._write_tags(held, [RunTag(MLFLOW_RUN_NAME, run_name)])
            if status:
                held.state = "" if not ends else held.state
                stamp = None if end_time is None else str(int(end_time))
                fact_table.write(held.recorded, {"status": status, "end_time": stamp})
            if ends and status:
                artifacts.record(held.recorded)
                self._runs.close(run_id, run_entities.STATES[status])
        stored = self._stored(run_id)
        return run_entities.info(stored, fact_table.read(stored), self._experiments.id_of(stored.path))

    def delete_run(self, run_id: str) -> None:
        """Mark a run as deleted; `chiplog rm` deletes it."""
        self._set_stage(run_id, LifecycleStage.DELETED)

    def restore_run(self, run_id: str) -> None:
        self._set_stage(run_id, LifecycleStage.ACTIVE)

    def _search_runs(
        self,
        experiment_ids: Iterable[str],
        filter_string: str | None,
        run_view_type: int,
        max_results: int,
        order_by: list[str] | None,
        page_token: str | None,
    ) -> tuple[list[Run], str | None]:
        stages = LifecycleStage.view_type_to_stages(run_view_type)
        runs = [
            run
            for experiment_id in experiment_ids
            for path in layout.find_runs(self._experiments.folder(experiment_id))
            if (run := self._entity(path, experiment_id)) is not None and run.info.lifecycle_stage in stages
        ]
        chosen = SearchUtils.sort(SearchUtils.filter(runs, filter_string), order_by)
        page, token = SearchUtils.paginate(chosen, page_token, max_results)
        return deepcopy(page), token  # callers may change what they get

    # -- what a run holds ----------------------------------------------------------------------------------------------

    def log_batch(
        self, run_id: str, metrics: Sequence[Metric], params: Sequence[Param], tags: Sequence[RunTag]
    ) -> None:
        validation._validate_run_id(run_id)
        metrics, params, tags = validation._validate_batch_log_data(metrics, params, tags)
        validation._validate_batch_log_limits(metrics, params, tags)
        validation._validate_param_keys_unique(params)
        held = self._open(run_id)
        with held.lock:
            self._write_params(held, params)
            metric_points.write(held.recorded, metrics)
            self._write_tags(held, tags)
        self.models.measure(run_id, metrics)

    def get_metric_history(
        self, run_id: str, metric_key: str, max_results: int | None = None, page_token: str | None = None
    ) -> PagedList:
        validation._validate_metric_name(metric_key)
        stored = self._stored(run_id)
        points = [
            metric_points.as_metric(metric_key, point, run_id) for point in metric_points.history(stored, metric_key)
        ]
        if max_results is None:
            return PagedList(points[SearchUtils.parse_start_offset_from_page_token(page_token) :], None)
        return PagedList(*SearchUtils.paginate(points, page_token, max_results))

    def delete_tag(self, run_id: str, key: str) -> None:
        held = self._open(run_id)
        with held.lock:
            if key not in held.tags:
                raise MlflowException(f"No tag with name: {key} in run with id {run_id}", RESOURCE_DOES_NOT_EXIST)
            fact_table.write(held.recorded, {fact_table.TAG + key: None})
            _replace_word(held, key, None)

    def record_logged_model(self, run_id: str, mlflow_model: Any) -> None:
        held = self._open(run_id)
        with held.lock:
            models = [*json.loads(held.tags.get(MLFLOW_LOGGED_MODELS, "[]")), mlflow_model.get_tags_dict()]
            self._write_tags(held, [RunTag(MLFLOW_LOGGED_MODELS, json.dumps(models))])

    def log_inputs(
        self,
        run_id: str,
        datasets: Sequence[DatasetInput] | None = None,
        models: Sequence[LoggedModelInput] | None = None,
    ) -> None:
        inputs: dict[str, str | None] = {
            f"dataset.{one.dataset.name}.{one.dataset.digest}": json.dumps(one.to_dictionary())
            for one in datasets or ()
        }
        inputs |= {f"model_input.{one.model_id}": "" for one in models or ()}
        fact_table.write(self._open(run_id).recorded, inputs)

    def log_outputs(self, run_id: str, models: Sequence[LoggedModelOutput]) -> None:
        fact_table.write(self._open(run_id).recorded, {f"model_output.{one.model_id}": str(one.step) for one in models})

    def run_directory(self, run_id: str) -> Path:
        return self._stored(run_id).path

    # -- inside --------------------------------------------------------------------------------------------------------

    def _stored(self, run_id: str) -> Stored:
        """The run with this id, to read; raises if there is none, or several."""
        validation._validate_run_id(run_id)
        if (held := self._runs.get(run_id)) is not None:
            return self._read(held.recorded.dir)
        if (path := self._runs.directory(run_id)) is not None:
            return self._read(path)
        name = layout.directory(run_id)
        paths = [path for path in self.root.glob(f"*/{name}") if (path / layout.JOURNAL).is_dir()]
        if not paths:
            raise MlflowException(f"Run with id={run_id} not found in {self.root}", RESOURCE_DOES_NOT_EXIST)
        if len(paths) > 1:
            where = ", ".join(sorted(path.parent.name for path in paths))
            raise MlflowException(f"runs of several projects have the id {run_id}: {where}", INVALID_PARAMETER_VALUE)
        return self._read(paths[0])

    def _read(self, path: Path) -> Stored:
        if (held := self._runs.get(path.name)) is not None:
            held.recorded.flush()
        return chiplog.read(path)

    def _entity(self, path: Path, experiment_id: str) -> Run | None:
        """A run, from an earlier search if it has not changed since it ended; None if it cannot be read."""
        try:
            stamp = ended_runs.stamp_of(path)
            run = self._ended.get(path, stamp)
            if run is None:
                stored = self._read(path)
                ended = stored.state != "running"
                run = run_entities.run_of(stored, experiment_id)
                if ended:
                    self._ended.keep(path, stamp, run)
        except Exception as error:  # deleted just now, or damaged: the others are there
            messages.once(f"mlflow cannot read {path}", f"left run {path} out of a search of MLflow: {error}")
            return None
        return run

    def _open(self, run_id: str, *, deleted: bool = False) -> OpenRun:
        """The run with this id, to write."""
        held = self._runs.get(run_id)
        if held is None:
            stored = self._stored(run_id)
            facts = fact_table.read(stored)
            params, tags = run_entities.params(stored.config), run_entities.tags(stored, facts)
            held = self._runs.open(stored, params, tags)
            held.active = facts.get("lifecycle_stage", LifecycleStage.ACTIVE) == LifecycleStage.ACTIVE
        if not held.active and not deleted:
            raise MlflowException(f"The run {run_id} must be in the 'active' state.", INVALID_PARAMETER_VALUE)
        return held

    def _set_stage(self, run_id: str, stage: str) -> None:
        held = self._open(run_id, deleted=True)
        fact_table.write(held.recorded, {"lifecycle_stage": stage})
        held.active = stage == LifecycleStage.ACTIVE

    def _write_params(self, held: OpenRun, params: Sequence[Param]) -> None:
        new: dict[str, str] = {}
        for param in params:
            value = "" if param.value is None else str(param.value)
            if (before := held.params.get(param.key, value)) != value:
                raise MlflowException(
                    f"Changing param values is not allowed. Param with key='{param.key}' was already logged with "
                    f"value='{before}' for run ID='{held.recorded.id}'. Attempted logging new value '{value}'.",
                    INVALID_PARAMETER_VALUE,
                )
            new[param.key] = value
        if new:
            held.params.update(new)
            held.recorded.config.update({key: from_text(value) for key, value in new.items()})

    def _write_tags(self, held: OpenRun, tags: Sequence[RunTag]) -> None:
        if not tags:
            return
        values = {tag.key: "" if tag.value is None else str(tag.value) for tag in tags}
        with held.lock:
            fact_table.write(held.recorded, {fact_table.TAG + key: value for key, value in values.items()})
            for key, value in values.items():
                _replace_word(held, key, value)
            if values.get(MLFLOW_RUN_NAME):
                held.recorded.name = values[MLFLOW_RUN_NAME]


def _replace_word(held: OpenRun, key: str, value: str | None) -> None:
    """Keep a tag among the words to find the run by, as far as it is one."""
    before = held.tags.pop(key, None)
    old = None if before is None else fact_table.as_word(key, before)
    new = None if value is None else fact_table.as_word(key, value)
    if value is not None:
        held.tags[key] = value
    if old != new:
        words = [word for word in held.recorded.tags if word != old]
        held.recorded.tags = [*words, new] if new is not None else words
