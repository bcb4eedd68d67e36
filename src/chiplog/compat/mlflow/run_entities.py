"""A stored run as MLflow's entities."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LifecycleStage,
    LoggedModelInput,
    LoggedModelOutput,
    Param,
    Run,
    RunData,
    RunInfo,
    RunInputs,
    RunOutputs,
    RunTag,
)
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME

from chiplog.compat.mlflow import facts as fact_table
from chiplog.compat.mlflow import metric_points
from chiplog.compat.mlflow.facts import RunFacts
from chiplog.store import layout
from chiplog.store.reader import Stored

ARTIFACTS = f"{layout.FILES}/artifacts"
RUNNING = "RUNNING"
# The states of chiplog, and MLflow's words for how they ended.
STATUSES = {
    "running": "RUNNING",
    "empty": "RUNNING",
    "finished": "FINISHED",
    "interrupted": "KILLED",
    "killed": "KILLED",
}
STATES = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "interrupted"}
FAILED = "FAILED"


def run_of(stored: Stored, experiment_id: str) -> Run:
    """All that MLflow wants to know of a run."""
    facts = fact_table.read(stored)
    metrics = [metric_points.as_metric(name, point, stored.id) for name, point in metric_points.latest(stored).items()]
    data = RunData(
        metrics,
        [Param(key, value) for key, value in params(stored.config).items()],
        [RunTag(key, value) for key, value in tags(stored, facts).items()],
    )
    return Run(info(stored, facts, experiment_id), data, _inputs(facts), _outputs(facts))


def info(stored: Stored, facts: RunFacts, experiment_id: str) -> RunInfo:
    status = status_of(stored, facts)
    return RunInfo(
        run_id=stored.id,
        experiment_id=experiment_id,
        user_id=facts.get("user", ""),
        status=status,
        start_time=int(facts.get("start_time", stored.created // 10**6)),
        end_time=_end_time(stored, facts, status),
        lifecycle_stage=facts.get("lifecycle_stage", LifecycleStage.ACTIVE),
        artifact_uri=facts.get("artifact_uri") or str(artifact_folder(stored.path)),
        run_name=name_of(stored, facts),
    )


def status_of(stored: Stored, facts: RunFacts) -> str:
    """The status that was set; that of a run whose process is gone is how it ended."""
    status = facts.get("status", RUNNING)
    if status not in (RUNNING, "SCHEDULED"):
        return status
    state = stored.state
    return status if state == "running" else STATUSES.get(state, FAILED)


def name_of(stored: Stored, facts: RunFacts) -> str:
    """The name; in `run.json` it may be a moment older."""
    name: str | None = facts.get(fact_table.TAG + MLFLOW_RUN_NAME)
    return name or stored.name


def artifact_folder(run: Path) -> Path:
    return run / ARTIFACTS


def params(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A config as MLflow's params: the keys of nested mappings are joined by dots, values are texts."""
    texts: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            texts.update(params(value, f"{prefix}{key}."))
        else:
            texts[f"{prefix}{key}"] = str(value)
    return texts


def tags(stored: Stored, facts: RunFacts) -> dict[str, str]:
    """The tags that MLflow has set, and the words that the run has otherwise."""
    own = fact_table.under(facts, fact_table.TAG)
    others = dict(word.partition("=")[::2] for word in stored.tags)
    others = {key: value for key, value in others.items() if fact_table.TAG + key not in facts.deleted}
    return {MLFLOW_RUN_NAME: stored.name, **others, **own}


def _end_time(stored: Stored, facts: RunFacts, status: str) -> int | None:
    if "end_time" in facts:
        return int(facts["end_time"])
    if status == RUNNING:
        return None
    ends = [attempt.last.time for attempt in stored.attempts if attempt.last is not None]
    return max(ends) // 10**6 if ends else None


def _inputs(facts: RunFacts) -> RunInputs:
    datasets = [json.loads(text) for text in fact_table.under(facts, "dataset.").values()]
    return RunInputs(
        dataset_inputs=[
            DatasetInput(Dataset(**one["dataset"]), [InputTag(key, value) for key, value in one["tags"].items()])
            for one in datasets
        ],
        model_inputs=[LoggedModelInput(model_id) for model_id in fact_table.under(facts, "model_input.")],
    )


def _outputs(facts: RunFacts) -> RunOutputs:
    steps: Iterable[tuple[str, str]] = fact_table.under(facts, "model_output.").items()
    return RunOutputs(model_outputs=[LoggedModelOutput(model_id, int(step)) for model_id, step in steps])
