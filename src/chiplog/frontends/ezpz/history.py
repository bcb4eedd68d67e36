"""`History`: metrics call by call, a line of text for each, and at the end data, plots and a report.

Everything is a run: `update` logs a row, `history` and `finalize` read what is stored. A row is in the journal before
`update` returns; files and backends follow within a fraction of a second, and are complete when `finalize` returns.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiplog import Run
from chiplog.core.messages import once
from chiplog.core.values import convert
from chiplog.frontends.ezpz import messages, output, summary_line
from chiplog.frontends.ezpz.backends.service_runs import ActiveWandb
from chiplog.frontends.ezpz.environment import is_on
from chiplog.frontends.ezpz.output import files
from chiplog.frontends.ezpz.output.jsonl import SINK, JsonlFile
from chiplog.frontends.ezpz.output.rows import table
from chiplog.frontends.ezpz.rows_in_memory import RowsInMemory
from chiplog.frontends.ezpz.run_writer import Writer, leaves, start_run
from chiplog.frontends.ezpz.stopwatch import StopWatch
from chiplog.frontends.ezpz.stored_history import StoredHistory
from chiplog.frontends.ezpz.summary_line import COUNTERS, format_compact_summary
from chiplog.frontends.ezpz.tracker import NullTracker, Tracker, open_backends, resolve_backend_names, sinks_of
from chiplog.metrics.ranks.statistics import ALWAYS
from chiplog.runtime.ranks import detect
from chiplog.runtime.ranks.reduce_options import AUTOMATIC

if TYPE_CHECKING:
    import xarray as xr

    from chiplog.views.report.write import EndFiles

__all__ = ["History", "StopWatch"]

logger = logging.getLogger("chiplog.ezpz")

STRINGS = frozenset((str,))
LOCAL = ("EZPZ_NO_DISTRIBUTED_HISTORY", "EZPZ_LOCAL_HISTORY")
REPORTS = Path("outputs") / "history"
PICTURES = Path("plots") / "mplot"
# `update` returns the statistics; rows need no steps; NaN stays NaN; `setup_torch` may follow the constructor.
REDUCE = "sync,order,nan,late"


class History(StoredHistory):
    """One training run, with the API of `ezpz.History`.

    >>> history = History(project_name="my-project", backends="csv", outdir="outputs", config={"lr": 1e-4})
    >>> history.update({"loss": 0.42}, step=7)
    'loss=0.420000'
    >>> dataset = history.finalize(outdir="outputs")
    """

    def __init__(
        self,
        keys: Iterable[str] | None = None,
        *,
        report_dir: str | Path | None = None,
        report_enabled: bool = True,
        jsonl_path: str | Path | None = None,
        jsonl_overwrite: bool = False,
        distributed_history: bool | None = None,
        project_name: str | None = None,
        backends: str | Iterable[str] | None = None,
        config: Mapping[str, object] | None = None,
        outdir: str | Path | None = None,
        tracker: Tracker | None = None,
    ) -> None:
        self.keys = None if keys is None else list(keys)  # nothing depends on it
        self.report_enabled = report_enabled
        self.distributed_history = _is_distributed(distributed_history)
        self._outdir = None if outdir is None else _absolute(outdir)
        self._tracker = tracker or _tracker(project_name, backends, config or {}, self._outdir)
        self._report_dir = None if report_dir is None else _absolute(report_dir)
        self._lines = JsonlFile(jsonl_path, self._report_dir or REPORTS.absolute(), jsonl_overwrite)
        writer = self._tracker.adopt()
        if writer is None:
            options = {"reduce": REDUCE if self.distributed_history else False} if _world() > 1 else {}
            sinks = {**sinks_of(self._tracker.backends), SINK: self._lines.open}
            settings = {**self._tracker.config, **(config or {})}
            writer = Writer(start_run(project_name or self._tracker.project_name, settings, sinks, **options))
            self._tracker.bind(writer)
        else:  # the tracker has already logged, to a run without statistics
            self.distributed_history = False
            self._lines.follow(writer.run)
            if config:
                writer.log_config(config)
        self._writer, self._run = writer, writer.run
        if writer.run.identity.rank != 0:
            writer.memory = RowsInMemory()
        self._facts: dict[str, dict[str, Any]] = {}
        self._is_first = self.distributed_history

    # -- recording -------------------------------------------------------------------------------------------------

    def update(
        self,
        metrics: Mapping[str, Any],
        precision: int = 6,
        use_wandb: bool | None = None,
        commit: bool = True,
        summarize: bool = True,
        step: int | float | None = None,
    ) -> str:
        """Record a row and return it as one line.

        Without a step the row gets the next one; after `commit=False` the next row shares its step.
        """
        if use_wandb is not None:
            warnings.warn("use_wandb is deprecated: use History(backends='wandb')", DeprecationWarning, stacklevel=2)
        try:
            if not STRINGS.issuperset(map(type, metrics)):
                metrics = {str(name): value for name, value in metrics.items()}
            if self._is_first:
                self._check_ranks()
            row = self._writer.log(metrics, step, commit)
            self._tracker.forward(metrics, step, commit)
            if not summarize:
                return ""
            if self.distributed_history and len(row) > len(metrics):
                metrics = summary_line.with_deviations(metrics, row)
            return format_compact_summary(metrics, precision)
        except Exception as error:  # nothing of ours may stop the training
            once(f"update {self._run.id} {type(error).__name__}", f"update: {error!r}; training continues")
            return ""

    def _check_ranks(self) -> None:
        """At the first update: warn if the other ranks cannot be reached."""
        self._is_first = False
        if self._run.across is not None and not self._run.across.has_group and self._run.identity.rank == 0:
            logger.warning(
                "no statistics across ranks: the environment names %d processes, but there is no process group; "
                "call ezpz.setup_torch() before the first update(), or set EZPZ_LOCAL_HISTORY=1",
                self._run.identity.world,
            )

    def log_metrics(
        self,
        metrics: Mapping[str, object],
        *,
        logger: logging.Logger | None = None,
        debug_prefixes: Sequence[str] = ("hist/",),
        include_summary: bool = True,
        rank0_only_summary: bool = True,
        precision: int = 6,
        omit_counter_metrics: bool = True,
        counter_tokens: Collection[str] = COUNTERS,
    ) -> None:
        """Log a row as one line, and metrics with one of the prefixes as a debug line, without recording anything.

        `include_summary` shows the deviations across ranks that the row has; those of counters only with
        `omit_counter_metrics=False`.
        """
        log = logger or globals()["logger"]
        info, debug = summary_line.by_prefix(metrics, debug_prefixes)
        if not include_summary:
            info = {name: value for name, value in info.items() if not name.endswith("/std")}
        elif omit_counter_metrics:
            omitted = tuple(f"{token}/std" for token in counter_tokens)
            info = {name: value for name, value in info.items() if not name.endswith(omitted)}
        if info and (self._run.identity.rank == 0 or not rank0_only_summary):
            log.info("%s", format_compact_summary(info, precision).replace("train/", ""))
        if debug:
            log.debug("%s", format_compact_summary(debug, precision))

    split_metrics_for_logging = staticmethod(summary_line.by_prefix)

    @staticmethod
    def summarize_min_max_std(metrics: Mapping[str, object]) -> dict[str, float]:
        """Mean, extremes and deviation of each number, on this rank alone."""
        statistics: dict[str, float] = {}
        for name, value in leaves(metrics):
            if (number := convert.number(value)) is not None:
                statistics |= {f"{name}/{one}": 0.0 if one == "std" else float(number) for one in ALWAYS}
        return statistics

    @property
    def tracker(self) -> Tracker:
        return self._tracker

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def jsonl_path(self) -> Path:
        """The file with a line per update. `finalize` moves it to the other files, or copies one that you named."""
        return self._lines.path

    @property
    def run(self) -> Run:
        """The chiplog run underneath."""
        return self._run

    # -- ending ----------------------------------------------------------------------------------------------------

    def finalize(
        self,
        outdir: str | Path | None = None,
        run_name: str | None = None,
        dataset_fname: str | None = None,
        num_chains: int = 128,
        warmup: int | float = 0.0,
        verbose: bool = False,  # noqa: ARG002
        save: bool = True,
        plot: bool = True,
        append_tplot: bool = True,
        title: str | None = None,
        data: Mapping[str, Sequence[object]] | None = None,
        dataset: xr.Dataset | None = None,
        xkey: str | None = None,
        plot_kwargs: Mapping[str, Any] | None = None,
        subplots_kwargs: Mapping[str, Any] | None = None,
        tplot_type: str | None = None,
        env_info: Mapping[str, object] | None = None,
        timings: Mapping[str, float] | None = None,
    ) -> xr.Dataset | dict[str, xr.Dataset]:
        """End the run: write data, plots and a report to `outdir`; returns the dataset, or the datasets of all groups.

        `data` or `dataset` replace what was recorded, and `dataset_fname` names the file of a single dataset. `xkey`,
        `plot_kwargs` and `subplots_kwargs` are for matplotlib. What fails is reported and does not affect the rest.
        Calling it twice gives the same files.
        """
        if self._run.identity.rank != 0 or not (self._run.dir / "journal").is_dir():  # nothing is stored here
            self._finish()
            return output.datasets.only({})
        out = self._default_outdir(run_name) if outdir is None else _absolute(outdir)
        if run_name and run_name != self._run.name:
            self._run.name = run_name
        report_to = self._report_dir if outdir is None else None
        self._record_facts(env_info=env_info, timings=timings)
        is_replaced = data is not None or dataset is not None
        writes_data = save and not is_replaced and dataset_fname is None
        draws = plot and not is_replaced  # what was recorded
        chosen = {
            "data": writes_data,
            "plots": draws,
            "text": draws and append_tplot,
            "report": self.report_enabled,
        }
        from chiplog.views.report.write import finalize as write_files  # which needs numpy

        ending = write_files(
            self._stored,
            out,
            stages=[stage for stage, is_chosen in chosen.items() if is_chosen],
            warmup=warmup,
            chains=num_chains,
            title=title or f"History Report ({self._run.name})",
            look=files.text_style(tplot_type),
            show=sys.stdout.write,
            state="finished",
            report_to=report_to,
        )
        if not writes_data:
            with ending.stage("datasets"):
                ending.datasets = self._chosen_datasets(data, dataset, warmup)
                ending.made += output.datasets.save(ending.datasets, out, dataset_fname) if save else []
        if plot and (xkey or plot_kwargs or subplots_kwargs or is_replaced):
            style: dict[str, Any] = {"plot_kwargs": plot_kwargs, "subplots_kwargs": subplots_kwargs, "title": title}
            with ending.stage("plots of your own"):
                ending.pictures |= output.plots.plot_all(ending.datasets, out / PICTURES, xkey=xkey, **style)
        self._deliver(ending, out, together=outdir is not None)
        report = f", its report in {report_to}" if report_to else ""
        messages.info("History: files of run %s are in %s%s", self._run.id, out, report)
        return output.datasets.only(ending.datasets)

    def _deliver(self, ending: EndFiles, out: Path, *, together: bool) -> None:
        """Send everything to the backends, finish them, and move the files."""
        with ending.stage("backends"):
            artifacts = [path for path in ending.made if path.suffix not in (".png", ".txt")]
            self._hand_over(ending.pictures, out / PICTURES, artifacts)
        self._finish()
        with ending.stage("files"):
            self._collect(out, together=together)

    def _chosen_datasets(
        self, data: Mapping[str, Sequence[object]] | None, dataset: xr.Dataset | None, warmup: int | float
    ) -> dict[str, xr.Dataset]:
        if dataset is not None:
            return {"": dataset}
        return {"": self.get_dataset(data, warmup)} if data is not None else self.get_grouped_datasets(warmup)

    def _hand_over(self, pictures: Mapping[str, Path], folder: Path, artifacts: list[Path]) -> None:
        """Send the table of everything, the plots and the files to the backends."""
        if self._run.inert or isinstance(self._tracker, NullTracker):
            return
        columns, data = table(self._stored)
        if data:
            self._tracker.log_table("training_history", columns, data)
        for name, path in pictures.items():
            # A plot of several metrics has a title, such as "train overview", and a place: `train/overview`.
            key = path.relative_to(folder).with_suffix("").as_posix() if " " in name else name
            self._tracker.log_image(f"plots/{key}", path, caption=f"matplotlib:{name}")
        by_name = {path.name: path for path in artifacts}
        if self._run.settle(5.0, SINK) and self.jsonl_path.exists():
            by_name["metrics.jsonl"] = self.jsonl_path
        self._tracker.log_artifacts(by_name)

    def _record_facts(self, **facts: Mapping[str, object] | None) -> None:
        for name, values in facts.items():
            if values:
                self._facts[name] = {str(key): value for key, value in values.items()}
                self._run.event(name, **self._facts[name])
        self._run.flush()

    def _finish(self) -> None:
        self._tracker.finish()
        self._run.finish()

    def _collect(self, out: Path, *, together: bool) -> None:
        """Move the files to `out`; those at a place that the constructor was given, only if `together`."""
        out.mkdir(parents=True, exist_ok=True)
        if together or self._report_dir is None:
            self._lines.move(out / "metrics.jsonl")
        sheet = getattr(self._tracker.get_backend("csv"), "sheet", None)
        moves = together or self._outdir is None
        files.collect(self._stored, out, sheet.directory if sheet is not None and moves else None, self._facts)


def _tracker(
    project_name: str | None, backends: str | Iterable[str] | None, config: Mapping[str, object], outdir: Path | None
) -> Tracker:
    """The tracker with the backends that are named, by the caller or in the environment."""
    if names := resolve_backend_names(backends):
        opened = open_backends(names, project_name=project_name, config=config, outdir=outdir)
        return Tracker(opened) if opened else NullTracker()
    active = getattr(sys.modules.get("wandb"), "run", None)
    if backends is None and active is not None and "EZPZ_TRACKER_BACKENDS" not in os.environ:
        advice = "using the active wandb.run is deprecated: use History(backends='wandb')"
        warnings.warn(advice, DeprecationWarning, stacklevel=3)
        return Tracker([ActiveWandb(active)])
    return NullTracker()


def _is_distributed(requested: bool | None) -> bool:
    """Whether to compute statistics across ranks: by default if there are several, and not too many."""
    if any(is_on(os.environ.get(name)) for name in LOCAL):
        return False
    world = _world()
    return world > 1 and (world <= AUTOMATIC if requested is None else requested)


def _world() -> int:
    return detect.detect(os.environ).world


def _absolute(path: str | Path) -> Path:
    return Path(path).expanduser().absolute()
