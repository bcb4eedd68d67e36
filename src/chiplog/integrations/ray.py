"""Ray Tune, Ray Train: `callbacks=[TuneCallback()]` or `train_callbacks()`, from `chiplog.integrations.ray`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray.train import UserCallback
from ray.tune.logger import LoggerCallback

from chiplog import assembly
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook
from chiplog.integrations.shared.trial_runs import TrialRuns

try:
    from ray.train.v2._internal.execution.callback import ControllerCallback
except ImportError:  # it has another place in this version
    ControllerCallback = object

RAY = Framework("Ray", "ray", "2.60")
STEP = "training_iteration"
# What Tune adds to every result, and the trial did not report.
ADDED = {
    "config",
    "date",
    "timestamp",
    "pid",
    "hostname",
    "node_ip",
    "done",
    "trial_id",
    "experiment_tag",
    "iterations_since_restore",
    STEP,
}


class TuneCallback(LoggerCallback):
    """Keeps a run per trial of Ray Tune, in the driver; hundreds may be open and share one background thread."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._runs = TrialRuns("Ray Tune", **_with_directory(settings))

    @hook(RAY, None)
    def log_trial_start(self, trial: Any) -> None:
        experiment = str(getattr(trial, "experiment_dir_name", "") or "")
        tags = [experiment] if experiment else []
        self._runs.start(trial.trial_id, dict(trial.config or {}), name=str(trial), tags=tags)

    @hook(RAY, None)
    def log_trial_result(self, iteration: int, trial: Any, result: Mapping[str, Any]) -> None:
        run = self._runs.start(trial.trial_id, name=str(trial))
        if run is not None:
            row = {name: value for name, value in result.items() if name not in ADDED and value is not None}
            run.log(row, result.get(STEP, iteration))

    @hook(RAY, None)
    def log_trial_save(self, trial: Any) -> None:
        checkpoint = getattr(trial, "checkpoint", None)
        if (run := self._runs.run(trial.trial_id)) is not None and checkpoint is not None:
            run.event("checkpoint", path=str(getattr(checkpoint, "path", checkpoint)))

    @hook(RAY, None)
    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """`failed` is true if the trial raised, whatever Ray's documentation says."""
        reason = str(getattr(trial, "error_file", "") or "") if failed else ""
        self._runs.end(trial.trial_id, "failed" if failed else "finished", reason)


class TrainCallback(UserCallback):
    """Records what the workers of Ray Train report: the first worker's numbers, and all of them with `workers=True`.

    Ray calls it in its controller, which is another process and is killed in the end: `train_callbacks` ends the run.
    """

    def __init__(self, workers: bool = False, **settings: Any) -> None:
        self._hooks = FrameworkRun("Ray Train", **_with_directory(settings))
        self._workers = workers
        self._reports = 0

    @hook(RAY, None)
    def after_report(self, run_context: Any, metrics: Sequence[Mapping[str, Any]], checkpoint: Any) -> None:
        run = self._started(run_context)
        if run is None:
            return
        row: dict[str, object] = dict(metrics[0]) if metrics else {}
        if self._workers:
            for rank, one in enumerate(metrics):
                row |= {f"{name}/worker_{rank}": value for name, value in one.items()}
        run.log(row, self._reports)
        if checkpoint is not None:
            run.event("checkpoint", self._reports, path=str(getattr(checkpoint, "path", checkpoint)))
        self._reports += 1

    @hook(RAY, None)
    def after_exception(self, run_context: Any, worker_exceptions: Mapping[int, BaseException]) -> None:
        """Workers raised; Ray may start them again, so the run goes on with an alert."""
        if (run := self._started(run_context)) is not None:
            for rank, error in worker_exceptions.items():
                run.alert(f"worker {rank} raised", "error", f"{type(error).__name__}: {error}")

    @hook(RAY, None)
    def end(self, result: Any) -> None:
        """Training has ended, with its error if it failed."""
        self._hooks.end(getattr(result, "error", None))

    def _started(self, run_context: Any) -> Any:
        if (run := self._hooks.run) is not None:
            return run
        config = getattr(run_context, "train_loop_config", None)
        name = getattr(getattr(run_context, "run_config", None), "name", None)
        return self._hooks.start(config if isinstance(config, Mapping) else None, **({"name": name} if name else {}))


class TrainingEnd(ControllerCallback):
    """Ends the run of a callback when Ray's controller has finished."""

    def __init__(self, callback: TrainCallback) -> None:
        self._callback = callback

    def after_controller_finish(self, result: Any) -> None:
        self._callback.end(result)


def train_callbacks(workers: bool = False, **settings: Any) -> list[Any]:
    """The callbacks for `ray.train.RunConfig`: one that records, and one that ends the run."""
    callback = TrainCallback(workers, **settings)
    return [callback] if ControllerCallback is object else [callback, TrainingEnd(callback)]


def _with_directory(settings: dict[str, Any]) -> dict[str, Any]:
    """Ray's processes work in directories of their own."""
    return {
        "dir": assembly.runs_dir(settings.get("dir")).absolute(),
        **{k: v for k, v in settings.items() if k != "dir"},
    }
