"""The built-in backends: faces of sinks, with a run of their own where nobody gives them one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiplog.frontends.ezpz.backends import service_runs
from chiplog.frontends.ezpz.project import EXPERIMENTS, default_project
from chiplog.frontends.ezpz.writer import Writer
from chiplog.runtime.ranks import detect
from chiplog.sinks import registry
from chiplog.sinks.adapters.backends import TrackerBackend
from chiplog.sinks.shared import dotenv
from chiplog.version import VERSION

if TYPE_CHECKING:
    from chiplog.sinks.csv.sink import Csv

BEGIN = 30.0  # s that the constructor of a history waits for W&B, where the script itself uses it
OFF = ("", "0", "false", "no", "off")


def wandb_is_off(environ: Mapping[str, str]) -> bool:
    return environ.get("WANDB_MODE") == "disabled" or environ.get("WANDB_DISABLED", "").lower() not in OFF


def _about() -> dict[str, Any]:
    """What ezpz puts in W&B's config by itself, as far as the run does not say it elsewhere."""
    torch = getattr(sys.modules.get("torch"), "__version__", None)
    known = {"hostname": os.uname().nodename, "ezpz_version": VERSION, "torch_version": torch and str(torch)}
    return {key: value for key, value in known.items() if value}


class Face(TrackerBackend):
    """A sink as a backend. Where a rank other than 0 has one, it accepts everything and does nothing."""

    def __init__(
        self,
        project_name: str | None = None,
        config: Mapping[str, Any] | None = None,
        outdir: str | Path | None = None,
        rank: int | None = None,
        **options: Any,
    ) -> None:
        self.project_name, self.config, self.options = project_name, dict(config or {}), options
        self.outdir = Path(outdir or ".").expanduser().absolute()
        self.rank = detect.detect(os.environ).rank if rank is None else rank
        self._feed: Writer | None = None

    @property
    def writes(self) -> bool:
        return self.rank == 0

    def sink(self) -> Any:
        """The sink for a run: an object, or the options of one by name."""
        taken = registry.service_options(self.name) if self.name in registry.SERVICES else ()
        return {key: value for key, value in self.options.items() if key in taken}

    def bind(self, feed: Writer) -> None:
        self._feed = feed

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None, commit: bool = True) -> None:
        if (feed := self._open()) is not None:
            feed.log(metrics, step, commit)

    def log_config(self, config: Mapping[str, Any]) -> None:
        if (feed := self._open()) is not None:
            feed.log_config(config)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[Any]]) -> None:
        if (feed := self._open()) is not None:
            feed.log_table(key, columns, data)

    def log_image(self, key: str, image_path: str | Path, caption: str | None = None) -> None:
        if (feed := self._open()) is not None:
            feed.log_image(key, image_path, caption)

    def log_artifacts(self, artifacts: Mapping[str, str | Path]) -> None:
        if (feed := self._open()) is not None:
            feed.log_artifacts(artifacts)

    def finish(self) -> None:
        if (feed := self._open()) is not None:
            feed.run.finish()

    def _open(self) -> Writer | None:
        if self._feed is None and self.writes:
            from chiplog.frontends.ezpz.tracker import begin  # which imports us

            self._feed = Writer(begin(self.project_name, self.config, {self.name: self.sink()}))
        return self._feed


class CSVBackend(Face):
    """`metrics.csv`, `config.json` and a sheet for each table, in `outdir`."""

    name = "csv"
    sheet: Csv | None = None

    def __init__(self, outdir: str | Path | None = None, rank: int | None = None, **facts: Any) -> None:
        super().__init__(outdir=outdir, rank=rank, **facts)

    def sink(self) -> Csv:
        from chiplog.sinks.csv.sink import Csv
        from chiplog.sinks.shared.update_rows import Updates

        self.sheet = Csv(self.outdir, config=self.config, rows=Updates(), table_steps=False)
        return self.sheet


class WandbBackend(Face):
    """A run at Weights & Biases, which is also `wandb.run`, unless one is active."""

    name = "wandb"

    def sink(self) -> dict[str, Any]:
        project = self.project_name or default_project(os.environ)
        return {"project": project, **super().sink(), "config": _about(), "current": True}

    def bind(self, feed: Writer) -> None:
        """A script that has imported W&B calls it: its run is there when this returns."""
        super().bind(feed)
        if self.writes and hasattr(sys.modules.get("wandb"), "init"):
            service_runs.wandb_run(feed.run, BEGIN)

    @property
    def run(self) -> Any:
        """W&B's own object, as soon as it is there; None where W&B cannot begin, or on another rank."""
        return None if (feed := self._open()) is None else service_runs.wandb_run(feed.run)

    def watch(self, model: Any, **options: Any) -> Any:
        """W&B's `watch`: gradients and weights of a torch model."""
        return None if (run := self.run) is None else run.watch(model, **options)


class MLflowBackend(Face):
    """A run at MLflow."""

    name = "mlflow"

    def sink(self) -> dict[str, Any]:
        known = dotenv.known(str(Path.cwd()), os.environ)
        experiment = self.project_name or default_project(known, EXPERIMENTS)
        return {"prefix": "ezpz.", "experiment": experiment, **super().sink()}

    @property
    def run(self) -> Any:
        """MLflow's run as its store has it now; None where there is none."""
        return None if (feed := self._open()) is None else service_runs.mlflow_run(feed.run)


class Named(Face):
    """Any other sink by its name."""

    def __init__(self, name: str, **facts: Any) -> None:
        super().__init__(**facts)
        self.name = name
