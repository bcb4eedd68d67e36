"""`History`: metrics call by call, a line of text for each, and at the end data, plots and a report.

Everything is a run: `update` logs a row, `history` and `finalize` read what is stored. The journal has a row before
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

from chiplog.core import messages
from chiplog.core import run as engine
from chiplog.frontends.ezpz import console_rows
from chiplog.frontends.ezpz import tracker as trackers
from chiplog.frontends.ezpz.backends.service_runs import ActiveWandb
from chiplog.frontends.ezpz.messages import say
from chiplog.frontends.ezpz.output import files as outputs
from chiplog.frontends.ezpz.output import jsonl
from chiplog.frontends.ezpz.output.read_back import StoredHistory
from chiplog.frontends.ezpz.rows_in_memory import OwnRows
from chiplog.frontends.ezpz.stopwatch import StopWatch
from chiplog.frontends.ezpz.summary_line import COUNTERS, format_compact_summary
from chiplog.frontends.ezpz.tracker import NullTracker, Tracker
from chiplog.frontends.ezpz.utils import is_on
from chiplog.frontends.ezpz.writer import Writer
from chiplog.runtime.ranks import detect

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["History", "StopWatch"]

logger = logging.getLogger("chiplog.ezpz")

AUTOMATIC = 384  # ranks up to which statistics are made where nothing is said
TEXT = frozenset((str,))
LOCAL = ("EZPZ_NO_DISTRIBUTED_HISTORY", "EZPZ_LOCAL_HISTORY")
REPORTS = Path("outputs") / "history"
# `update` gives the statistics back; rows need no steps; NaN is NaN; `setup_torch` may come after the constructor.
ACROSS = "sync,order,nan,late"


class History(StoredHistory):
    """One training run as `ezpz.History` has it.

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
        config: Mapping[str, Any] | None = None,
        outdir: str | Path | None = None,
        tracker: Tracker | None = None,
    ) -> None:
        self.keys = None if keys is None else list(keys)  # nothing depends on it
        self.report_enabled = report_enabled
        self.distributed_history = _is_distributed(distributed_history)
        self._outdir = Path(outdir).expanduser().absolute() if outdir is not None else None
        self._tracker = tracker or _tracker(project_name, backends, config or {}, self._outdir)
        self._report_dir = Path(report_dir).expanduser().absolute() if report_dir is not None else None
        self._lines = jsonl.Lines(jsonl_path, self._report_dir or REPORTS.absolute(), jsonl_overwrite)
        feed = self._tracker.adopt()
        if feed is None:
            across = {"reduce": ACROSS if self.distributed_history else False} if _world() > 1 else {}
            sinks = {**trackers.sinks_of(self._tracker.backends), jsonl.SINK: self._lines.open}
            known = {**self._tracker.config, **(config or {})}
            feed = Writer(trackers.begin(project_name or self._tracker.project_name, known, sinks, **across))
            self._tracker.bind(feed)
        else:  # the tracker has logged before, into a run without statistics
            self.distributed_history = False
            self._lines.join(feed.run)
            if config:
                feed.log_config(config)
        self._feed, self._run = feed, feed.run
        if feed.run.identity.rank != 0:
            feed.own = OwnRows()
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
        """Record a row and say it in one line. Without a step it is the next one; `commit=False` keeps to it."""
        if use_wandb is not None:
            warnings.warn("use_wandb is deprecated: History(backends='wandb')", DeprecationWarning, stacklevel=2)
        try:
            if not TEXT.issuperset(map(type, metrics)):
                metrics = {str(name): value for name, value in metrics.items()}
            if self._is_first:
                self._look_for_ranks()
            row = self._feed.log(metrics, step, commit)
            self._tracker.forward(metrics, step, commit)
            return self._line(metrics, row, precision) if summarize else ""
        except Exception as error:  # nothing of ours may stop a training
            messages.once(f"update {self._run.id} {type(error).__name__}", f"update: {error!r}; training goes on")
            return ""

    def _look_for_ranks(self) -> None:
        """At the first update: say so where the other ranks cannot be reached."""
        self._is_first = False
        if self._run.across is not None and not self._run.across.has_group and self._run.identity.rank == 0:
            logger.warning(
                "no statistics across ranks: the environment names %d processes and there is no process group; "
                "call ezpz.setup_torch() before the first update(), or set EZPZ_LOCAL_HISTORY=1",
                self._run.identity.world,
            )

    def _line(self, metrics: Mapping[str, Any], row: Mapping[str, Any], precision: int) -> str:
        if self.distributed_history and len(row) > len(metrics):
            metrics = console_rows.with_deviations(metrics, row)
        return format_compact_summary(metrics, precision)

    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        *,
        logger: logging.Logger | None = None,
        debug_prefixes: Sequence[str] = ("hist/",),
        include_summary: bool = True,
        rank0_only_summary: bool = True,
        precision: int = 6,
        omit_counter_metrics: bool = True,
        counter_tokens: Collection[str] = COUNTERS,
    ) -> None:
        """Say a row in one line of the log, and what has one of the prefixes in its debug log; nothing is recorded.

        `include_summary` adds deviations across ranks where the row has them; counters never have any, unless
        `omit_counter_metrics=False`.
        """
        log = logger or globals()["logger"]
        info, debug = console_rows.by_prefix(metrics, debug_prefixes)
        if not include_summary:
            info = {name: value for name, value in info.items() if not name.endswith("/std")}
        elif omit_counter_metrics:
            bare = tuple(f"{token}/std" for token in counter_tokens)
            info = {name: value for name, value in info.items() if not name.endswith(bare)}
        if info and (self._run.identity.rank == 0 or not rank0_only_summary):
            log.info("%s", format_compact_summary(info, precision).replace("train/", ""))
        if debug:
            log.debug("%s", format_compact_summary(debug, precision))

    split_metrics_for_logging = staticmethod(console_rows.by_prefix)
    summarize_min_max_std = staticmethod(console_rows.statistics)

    @property
    def tracker(self) -> Tracker:
        return self._tracker

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def jsonl_path(self) -> Path:
        """The file with a line for every update. `finalize` brings it to the rest; of one that you named, a copy."""
        return self._lines.path

    @property
    def run(self) -> engine.Run:
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
        data: Mapping[str, Sequence[Any]] | None = None,
        dataset: xr.Dataset | None = None,
        xkey: str | None = None,
        plot_kwargs: Mapping[str, Any] | None = None,
        subplots_kwargs: Mapping[str, Any] | None = None,
        tplot_type: str | None = None,
        env_info: Mapping[str, Any] | None = None,
        timings: Mapping[str, float] | None = None,
    ) -> xr.Dataset | dict[str, xr.Dataset]:
        """End the run: data, then plots, then the report, all in `outdir`; returns the dataset, or those of all groups.

        `data` or `dataset` stand in the place of what was recorded, and `dataset_fname` names the file of the only
        dataset. `xkey`, `plot_kwargs` and `subplots_kwargs` are for matplotlib. What fails is reported and costs
        nothing else. Doing it twice gives the same files.
        """
        from chiplog.views.report.write import finalize

        if (
            self._run.identity.rank != 0 or not (self._run.dir / "journal").is_dir()
        ):  # rank 0 does it, or nobody kept it
            self._tracker.finish()
            self._run.finish()
            return outputs.one({})
        out = Path(outdir).expanduser().absolute() if outdir is not None else self._place(run_name)
        report_to = self._report_dir if outdir is None else None
        self._note(env_info, timings)
        self._run.flush()
        given = data is not None or dataset is not None or dataset_fname is not None
        stages = [
            *(["data"] if save and not given else []),
            *(["plots"] if plot else []),
            *(["text"] if plot and append_tplot else []),
            *(["report"] if self.report_enabled else []),
        ]
        ending = finalize(
            self._stored,
            out,
            stages=stages,
            warmup=warmup,
            chains=num_chains,
            title=title or f"History Report ({self._run.id})",
            look=outputs.look(tplot_type),
            show=sys.stdout.write,
            state="finished",
            report_to=report_to,
        )
        if given or not save:
            with ending.stage("datasets"):
                found = self._given_datasets(data, dataset, warmup)
                ending.datasets = found
                if save:
                    ending.made += outputs.save(found, out, dataset_fname)
        if plot and (xkey or plot_kwargs or subplots_kwargs or data is not None or dataset is not None):
            with ending.stage("plots of your own"):
                how = {"xkey": xkey, "plot_kwargs": plot_kwargs, "subplots_kwargs": subplots_kwargs, "title": title}
                ending.pictures |= outputs.draw(ending.datasets, out / "plots" / "mplot", **how)
        with ending.stage("backends"):
            self._hand_over(ending.pictures, [path for path in ending.made if path.suffix not in (".png", ".txt")])
        self._tracker.finish()
        self._run.finish()
        with ending.stage("files"):
            self._collect(out, together=outdir is not None)
        say(
            "History: files of run %s are in %s%s",
            self._run.id,
            out,
            f", its report in {report_to}" if report_to else "",
        )
        return outputs.one(ending.datasets)

    def _given_datasets(
        self, data: Mapping[str, Sequence[Any]] | None, dataset: xr.Dataset | None, warmup: int | float
    ) -> dict[str, xr.Dataset]:
        if dataset is not None:
            return {"": dataset}
        return {"": self.get_dataset(data, warmup)} if data is not None else self.get_grouped_datasets(warmup)

    def _hand_over(self, pictures: Mapping[str, Path], files: list[Path]) -> None:
        """Give the backends the table of everything, the pictures and the files."""
        if self._run.inert or isinstance(self._tracker, NullTracker):
            return
        columns, data = outputs.table(self._stored)
        if data:
            self._tracker.log_table("training_history", columns, data)
        for name, path in pictures.items():
            key = path.stem if " " in name else name  # one of several metrics
            self._tracker.log_image(f"plots/{key}", path, caption=f"matplotlib:{name}")
        artifacts = {path.name: path for path in files}
        if not self._run.inert and self._run.settle(5.0, "ezpz-jsonl") and self.jsonl_path.exists():
            artifacts["metrics.jsonl"] = self.jsonl_path
        self._tracker.log_artifacts(artifacts)

    def _note(self, env_info: Mapping[str, Any] | None, timings: Mapping[str, float] | None) -> None:
        for name, facts in (("env_info", env_info), ("timings", timings)):
            if facts:
                self._facts[name] = {str(key): value for key, value in facts.items()}
                self._run.event(name, **self._facts[name])

    def _collect(self, out: Path, *, together: bool) -> None:
        """Bring the files to `out`; those at a place that was named in the constructor, only if `together`."""
        out.mkdir(parents=True, exist_ok=True)
        if together or self._report_dir is None:
            self._lines.bring(out / "metrics.jsonl")
        sheet = getattr(self._tracker.get_backend("csv"), "sheet", None)
        moves = together or self._outdir is None
        outputs.collect(self._stored, out, sheet.directory if sheet is not None and moves else None, self._facts)


def _tracker(
    project_name: str | None, backends: str | Iterable[str] | None, config: Mapping[str, Any], outdir: Path | None
) -> Tracker:
    """The tracker with the backends that are named, here or in the environment."""
    if names := trackers.resolve_backend_names(backends):
        found = trackers.open_backends(names, project_name=project_name, config=config, outdir=outdir)
        return Tracker(found) if found else NullTracker()
    active = getattr(sys.modules.get("wandb"), "run", None)
    if backends is None and active is not None and "EZPZ_TRACKER_BACKENDS" not in os.environ:
        advice = "an active wandb.run is used, which is deprecated: History(backends='wandb')"
        warnings.warn(advice, DeprecationWarning, stacklevel=3)
        return Tracker([ActiveWandb(active)])
    return NullTracker()


def _is_distributed(asked: bool | None) -> bool:
    """Whether statistics across ranks are made: by default where there are several, and not too many."""
    if any(is_on(os.environ.get(name)) for name in LOCAL):
        return False
    world = _world()
    return world > 1 and (world <= AUTOMATIC if asked is None else asked)


def _world() -> int:
    return detect.detect(os.environ).world
