"""Hydra: `+hydra.callbacks.chiplog._target_=chiplog.integrations.hydra.ChiplogCallback`, as an argument or in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.core.utils import JobStatus
from hydra.experimental.callback import Callback
from omegaconf import OmegaConf

from chiplog import assembly
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

HYDRA = Framework("Hydra", "hydra", "1.3")


class ChiplogCallback(Callback):
    """Keeps a run per job, with its composed configuration; in the job it is `chiplog.run`.

    Jobs of a sweep have the directory of the sweep in common, which is their tag. A job that raises is a failed run.
    """

    def __init__(self, **settings: Any) -> None:
        plain = {
            name: OmegaConf.to_container(one) if OmegaConf.is_config(one) else one for name, one in settings.items()
        }
        self._hooks = FrameworkRun("Hydra", **plain)

    @hook(HYDRA, None)
    def on_job_start(self, config: Any, *, task_function: Any = None, **_: Any) -> None:
        job, runtime = config.hydra.job, config.hydra.runtime
        about = {"overrides": list(config.hydra.overrides.task), "output_dir": str(runtime.output_dir)}
        number = OmegaConf.select(config, "hydra.job.num", throw_on_missing=False)
        name, tags = str(job.name), []
        if number is not None:
            name, tags = f"{name} {number}", [str(config.hydra.sweep.dir)]
            about["number"] = number
        folder = Path(str(runtime.cwd)) / assembly.runs_dir()  # a job may be in another directory
        self._hooks.start({**_composed(config), "hydra": about}, apart=True, name=name, tags=tags, dir=folder)

    @hook(HYDRA, None)
    def on_job_end(self, config: Any, job_return: Any, **_: Any) -> None:
        result = job_return._return_value  # `return_value` raises it
        run = self._hooks.run
        if job_return.status == JobStatus.FAILED:
            self._hooks.end(result if isinstance(result, BaseException) else None, state="" if result else "failed")
            return
        if run is not None and isinstance(result, (int, float)):
            run.summary["return_value"] = result
        elif run is not None and isinstance(result, Mapping):
            run.summary.update({str(name): value for name, value in result.items()})
        self._hooks.end()


def _composed(config: Any) -> dict[str, Any]:
    """The configuration of the job, without Hydra's own; values that depend on others are resolved."""
    values: dict[str, Any] = {}
    for name in config:
        if name != "hydra" and not OmegaConf.is_missing(config, name):
            value = config[name]
            values[str(name)] = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    return values
