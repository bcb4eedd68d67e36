"""The built-in backends: a sink each, in the run of a tracker, or in a run of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import chiplog
from chiplog import TrackerBackend
from chiplog.core.operating_system import hostname
from chiplog.frontends.ezpz.backends import service_runs
from chiplog.frontends.ezpz.environment import EXPERIMENT_VARIABLES, default_project
from chiplog.frontends.ezpz.run_writer import Writer, start_run
from chiplog.runtime.ranks import detect
from chiplog.sinks import registry
from chiplog.sinks.csv.sink import Csv
from chiplog.sinks.shared import dotenv
from chiplog.sinks.shared.history_updates import Updates

START = 30.0  # s that the constructor of a history waits for W&B, if the script uses W&B itself


class BuiltInBackend(TrackerBackend):
    """A sink as a backend. On ranks other than 0 it accepts everything and does nothing."""

    def __init__(
        self,
        project_name: str | None = None,
        config: Mapping[str, Any] | None = None,
        outdir: str | Path | None = None,
        rank: int | None = None,
        **options: object,
    ) -> None:
        self.project_name, self.config, self.options = project_name, dict(config or {}), options
        self.outdir = Path(outdir or ".").expanduser().absolute()
        self.rank = detect.detect(os.environ).rank if rank is None else rank
        self._writer: Writer | None = None

    @property
    def writes(self) -> bool:
        return self.rank == 0

    def sink(self) -> Csv | dict[str, object]:
        """The sink for a run: an object, or the options of the sink with this name."""
        return self._sink_options()

    def _sink_options(self) -> dict[str, object]:
        options = registry.service_options(self.name) if self.name in registry.SERVICES else ()
        return {key: value for key, value in self.options.items() if key in options}

    def bind(self, writer: Writer) -> None:
        """Belong to this run."""
        self._writer = writer

    def log(self, metrics: Mapping[str, object], step: int | float | None = None, commit: bool = True) -> None:
        if (writer := self._open()) is not None:
            writer.log(metrics, step, commit)

    def log_config(self, config: Mapping[str, object]) -> None:
        if (writer := self._open()) is not None:
            writer.log_config(config)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[object]]) -> None:
        if (writer := self._open()) is not None:
            writer.log_table(key, columns, data)

    def log_image(self, key: str, image_path: str | Path, caption: str | None = None) -> None:
        if (writer := self._open()) is not None:
            writer.log_image(key, image_path, caption)

    def log_artifacts(self, artifacts: Mapping[str, str | Path]) -> None:
        if (writer := self._open()) is not None:
            writer.log_artifacts(artifacts)

    def finish(self) -> None:
        if (writer := self._open()) is not None:
            writer.run.finish()

    def _open(self) -> Writer | None:
        if self._writer is None and self.writes:
            self._writer = Writer(start_run(self.project_name, self.config, {self.name: self.sink()}))
        return self._writer


class CSVBackend(BuiltInBackend):
    """`metrics.csv`, `config.json` and a file for each table, in `outdir`."""

    name = "csv"
    sheet: Csv | None = None

    def __init__(self, outdir: str | Path | None = None, rank: int | None = None, **arguments: Any) -> None:
        super().__init__(outdir=outdir, rank=rank, **arguments)

    def sink(self) -> Csv:
        self.sheet = Csv(self.outdir, config=self.config, rows=Updates(), table_steps=False)
        return self.sheet


class WandbBackend(BuiltInBackend):
    """A run at Weights & Biases, which is also `wandb.run`, unless one is active."""

    name = "wandb"

    def sink(self) -> dict[str, object]:
        torch = getattr(sys.modules.get("torch"), "__version__", None)
        about = {"hostname": hostname(), "ezpz_version": chiplog.__version__}  # ezpz puts these in the config
        if torch:
            about["torch_version"] = str(torch)
        project = self.project_name or default_project(os.environ)
        return {"project": project, **self._sink_options(), "config": about, "current": True}

    def bind(self, writer: Writer) -> None:
        """Belong to this run; if the script has imported W&B, wait for its run, since the script calls it."""
        super().bind(writer)
        if self.writes and hasattr(sys.modules.get("wandb"), "init"):
            service_runs.wandb_run(writer.run, START)

    @property
    def run(self) -> Any:
        """W&B's own object; waits for it. None if W&B cannot start, and on other ranks."""
        return None if (writer := self._open()) is None else service_runs.wandb_run(writer.run)

    def watch(self, model: object, **options: object) -> Any:
        """W&B's `watch`: gradients and weights of a torch model."""
        return None if (run := self.run) is None else run.watch(model, **options)


class MLflowBackend(BuiltInBackend):
    """A run at MLflow."""

    name = "mlflow"

    def sink(self) -> dict[str, object]:
        environ = dotenv.load(str(Path.cwd()), os.environ)
        experiment = self.project_name or default_project(environ, EXPERIMENT_VARIABLES)
        return {"prefix": "ezpz.", "config_prefix": "config.", "experiment": experiment, **self._sink_options()}

    @property
    def run(self) -> Any:
        """MLflow's run, as its store has it now; None if there is none."""
        return None if (writer := self._open()) is None else service_runs.mlflow_run(writer.run)


class OtherSink(BuiltInBackend):
    """Any other sink, by its name."""

    def __init__(self, name: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.name = name
