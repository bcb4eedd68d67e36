"""`History`: metrics call by call, a line of text for each, and at the end data, plots and a report.

Everything is a run: `update` logs a row, `history` and `finalize` read what is stored. The journal has a row before
`update` returns; files and backends follow within a fraction of a second, and are complete when `finalize` returns.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiplog.core import notes
from chiplog.core import run as engine
from chiplog.core.records import NONFINITE
from chiplog.core.values import NUMBERS
from chiplog.frontends.ezpz import tracker as trackers
from chiplog.frontends.ezpz.arrays import arrays
from chiplog.frontends.ezpz.stopwatch import StopWatch
from chiplog.frontends.ezpz.summary import MEMORY, format_compact_summary, format_memory_summary
from chiplog.frontends.ezpz.tracker import NullTracker, Tracker
from chiplog.frontends.ezpz.utils import device_total, is_on
from chiplog.runtime import ranks
from chiplog.sinks.rowlines import row_lines
from chiplog.store.reader import Stored

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["History", "StopWatch"]

logger = logging.getLogger("chiplog.ezpz")

AUTOMATIC = 384  # ranks up to which statistics are made where nothing is said
LOCAL = ("EZPZ_NO_DISTRIBUTED_HISTORY", "EZPZ_LOCAL_HISTORY")
REPORTS = Path("outputs") / "history"
SHEETS = ("metrics.csv", "config.json", "training_history.csv")


class History:
    """One training run as `ezpz.History` has it.

    >>> history = History(project_name="my-project", backends="csv", outdir="outputs", config={"lr": 1e-4})
    >>> history.update({"loss": 0.42}, step=7)
    'loss=0.420000'
    >>> dataset = history.finalize(outdir="outputs")
    """

    def __init__(
        self,
        keys: Iterable[str] | None = None,  # noqa: ARG002  taken from those who are used to it
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
        self.report_enabled = report_enabled
        self.distributed_history = _is_distributed(distributed_history)
        self._outdir = Path(outdir).expanduser().absolute() if outdir is not None else None
        self._next: int | float = 0  # the step of an update that does not say
        sinks, self._tracker = _tracker(tracker, project_name, backends, config or {}, self._outdir)
        lines = _Lines(jsonl_path, Path(report_dir or REPORTS).expanduser().absolute(), jsonl_overwrite)
        self._run = trackers.begin(
            project_name, config or {}, {**sinks, "ezpz-jsonl": lines.open}, **_across(self.distributed_history)
        )
        self.jsonl_path = lines.path
        self._log = self._run.log
        trackers.bind(self._tracker, self._run)

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
            return self._update(metrics, precision, commit, summarize, self._next if step is None else step)
        except Exception as error:  # nothing of ours may stop a training
            notes.once(f"update {self._run.id} {type(error).__name__}", f"update: {error!r}; training goes on")
            return ""

    def _update(
        self, metrics: Mapping[str, Any], precision: int, commit: bool, summarize: bool, step: int | float
    ) -> str:
        if type(metrics) is dict and NUMBERS.issuperset(map(type, metrics.values())):
            row = self._log(metrics, step)
        else:
            row = self._log(arrays(metrics), step)
        self._next = step + 1 if commit else step
        if not summarize:
            return ""
        if self.distributed_history and len(row) > len(metrics):
            metrics = {**metrics, **row}
        line = format_compact_summary(metrics, precision)
        memory = format_memory_summary(metrics, ask=device_total) if _has_memory(tuple(metrics)) else ""
        return f"{line} memory={memory}".lstrip() if memory else line

    @property
    def history(self) -> dict[str, list[Any]]:
        """All values so far by name, in the order they came; read from the run."""
        self._run.flush()
        stored = self._stored
        found: dict[str, list[Any]] = {name: stored.series(name).exact for name in stored.names()}
        for record in stored.records():
            if (name := getattr(record, "name", None)) is None:
                continue
            if (values := getattr(record, "values", None)) is not None:
                rows = [[NONFINITE.get(one, one) for one in row] for row in values]
                found.setdefault(name, []).append(rows[0] if len(rows) == 1 else rows)
            elif (text := getattr(record, "text", None)) is not None and not hasattr(record, "title"):
                found.setdefault(name, []).append(text)
        return found

    @property
    def data(self) -> dict[str, list[Any]]:
        return self.history

    @property
    def groups(self) -> dict[str, dict[str, list[Any]]]:
        """The same by group: `groups["train"]["loss"]`; names without a group are under `""`."""
        from chiplog.views.families import grouped

        flat = self.history
        return {
            group: {
                name.removeprefix(f"{group}/"): flat[name]
                for one in members
                for name in (one.name, *one.statistics.values())
            }
            for group, members in grouped(flat).items()
        }

    @property
    def tracker(self) -> Tracker:
        return self._tracker

    @property
    def run(self) -> engine.Run:
        """The chiplog run underneath."""
        return self._run

    def get_dataset(self, warmup: int | float = 0) -> xr.Dataset | dict[str, xr.Dataset]:
        """The dataset so far, or those of all groups."""
        from chiplog.views.datasets import datasets

        self._run.flush()
        return _one(datasets(self._stored, warmup=warmup))

    # -- ending ----------------------------------------------------------------------------------------------------

    def finalize(
        self,
        outdir: str | Path | None = None,
        run_name: str | None = None,
        *,
        num_chains: int = 128,
        warmup: int | float = 0.0,
        save: bool = True,
        plot: bool = True,
        append_tplot: bool = True,
        title: str | None = None,
        tplot_type: str | None = None,
        env_info: Mapping[str, Any] | None = None,
        timings: Mapping[str, float] | None = None,
        verbose: bool = False,  # noqa: ARG002
    ) -> xr.Dataset | dict[str, xr.Dataset]:
        """End the run: data, then plots, then the report, all in `outdir`; returns the dataset, or those of all groups.

        What fails is said and costs nothing else. Doing it twice gives the same files.
        """
        from chiplog.views.finalize import finalize

        if (
            self._run.identity.rank != 0 or not (self._run.dir / "journal").is_dir()
        ):  # rank 0 does it, or nobody kept it
            self._run.finish()
            return _one({})
        out = Path(outdir).expanduser().absolute() if outdir is not None else self._place(run_name)
        _note(self._run, env_info, timings)
        self._run.flush()
        stages = [
            *(["data"] if save else []),
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
            look=_look(tplot_type),
            show=sys.stdout.write,
        )
        if not save:
            with ending.stage("datasets"):
                from chiplog.views.datasets import datasets

                ending.datasets = datasets(self._stored, warmup=warmup)
        with ending.stage("backends"):
            self._hand_over(ending.pictures, [path for path in ending.made if path.suffix not in (".png", ".txt")])
        self._tracker.finish()
        self._run.finish()
        with ending.stage("files"):
            self._collect(out)
        return _one(ending.datasets)

    @property
    def _stored(self) -> Stored:
        return Stored(self._run.dir)

    def _place(self, run_name: str | None) -> Path:
        return Path.cwd() / "outputs" / (Path(run_name).name if run_name else self._run.id)

    def _hand_over(self, pictures: Mapping[str, Path], files: list[Path]) -> None:
        """Give the backends the table of everything, the pictures and the files."""
        if self._run.inert or isinstance(self._tracker, NullTracker):
            return
        columns, data = _table(self._stored)
        if data:
            self._tracker.log_table("training_history", columns, data)
        for name, path in pictures.items():
            self._tracker.log_image(f"plots/{name}", path, caption=f"matplotlib:{name}")
        self._tracker.log_artifacts({path.stem: path for path in files})

    def _collect(self, out: Path) -> None:
        """Bring what was written elsewhere to the rest, and lead from there to the journal."""
        out.mkdir(parents=True, exist_ok=True)
        self.jsonl_path = _move(self.jsonl_path, out / "metrics.jsonl")
        csv = self._tracker.get_backend("csv")
        if csv is not None and getattr(csv, "sink", None) is not None:
            for name in SHEETS:
                _move(csv.sink.directory / name, out / name)
        created = time.localtime(self._stored.created / 1e9) if self._stored.created else time.localtime()
        journals = sorted((self._run.dir / "journal").glob("r*-a*-*.jsonl"))
        link = out / f"{time.strftime('%Y-%m-%d-%H%M%S', created)}-rank0.jsonl"
        if journals and not link.is_symlink():
            link.symlink_to(os.path.relpath(journals[-1], out))
        about = self._run.dir / "run.json"
        if about.exists():
            shutil.copyfile(about, out / "run_info.json")


# -- at the beginning --------------------------------------------------------------------------------------------------


class _Lines:
    """The file with a line for every update; its place is known when the run has its id."""

    def __init__(self, path: str | Path | None, folder: Path, overwrite: bool) -> None:
        self.path = Path(path).expanduser().absolute() if path is not None else folder
        self._named, self._overwrite = path is not None, overwrite

    def open(self, outdir: str = "", rank: int = 0) -> Any:
        """A factory of the sink; `outdir` is the `files` of a run, below the folder that has its id."""
        if not self._named:
            self.path = self.path / f"{Path(outdir).parent.name}.jsonl"
        if self._overwrite:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("%s cannot be removed: %s", self.path, error)
        return row_lines(self.path, rank)


def _tracker(
    tracker: Tracker | None,
    project_name: str | None,
    backends: str | Iterable[str] | None,
    config: Mapping[str, Any],
    outdir: Path | None,
) -> tuple[dict[str, Any], Tracker]:
    """The sinks for a run, and the tracker they are the backends of."""
    if tracker is not None:
        return {trackers._name(one): one for one in tracker.backends}, tracker
    names = trackers.resolve_backend_names(backends)
    if names:
        sinks, faces = trackers.open_backends(names, project_name=project_name, config=config, outdir=outdir)
        return sinks, Tracker(faces) if faces else NullTracker()
    active = getattr(sys.modules.get("wandb"), "run", None)
    if backends is None and active is not None and "EZPZ_TRACKER_BACKENDS" not in os.environ:
        advice = "an active wandb.run is used, which is deprecated: History(backends='wandb')"
        warnings.warn(advice, DeprecationWarning, stacklevel=3)
        face = trackers.ActiveWandb(active)
        return {"wandb-active": face}, Tracker([face])
    return {}, NullTracker()


def _is_distributed(asked: bool | None) -> bool:
    """Whether statistics across ranks are made: by default where there are several, and not too many."""
    if any(is_on(os.environ.get(name)) for name in LOCAL):
        return False
    world = ranks.detect(os.environ).world
    return world > 1 and (world <= AUTOMATIC if asked is None else asked)


def _across(distributed: bool) -> dict[str, Any]:
    """What `init` is told about statistics across ranks: `update` gives them back, so it waits for them."""
    return {"reduce": "sync"} if distributed else {}


# -- values ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _has_memory(names: tuple[str, ...]) -> bool:
    return any(name.endswith(MEMORY[:2]) for name in names)


def _table(stored: Stored) -> tuple[list[str], list[list[Any]]]:
    """Everything as one table: a row a step, a column a metric; empty where a step has none."""
    frame = stored.to_pandas()
    columns = [str(name) for name in frame.columns]
    cells = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    steps = frame.index.tolist()
    return ["step", *columns], [[step, *row] for step, row in zip(steps, cells, strict=True)]


def _one(found: Mapping[str, xr.Dataset]) -> xr.Dataset | dict[str, xr.Dataset]:
    """The only dataset, or all by group."""
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        import xarray

        return xarray.Dataset()
    return dict(found)


def _look(kind: str | None) -> Any:
    """How text plots look here."""
    from chiplog.views.textplots import KINDS, Look

    marker = os.environ.get("EZPZ_TPLOT_MARKER", "").lower()
    chosen = (kind or os.environ.get("EZPZ_TPLOT_TYPE", "")).lower()
    return Look(
        width=max(60, min(120, shutil.get_terminal_size((100, 30)).columns)),
        colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
        ascii=not (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf"),
        marker=marker if marker in ("braille", "fhd", "hd") else "braille",
        kind=chosen if chosen in KINDS else "line",
    )


def _note(run: engine.Run, env_info: Mapping[str, Any] | None, timings: Mapping[str, float] | None) -> None:
    if env_info:
        run.event("env_info", **{str(key): value for key, value in env_info.items()})
    if timings:
        run.event("timings", **{str(key): value for key, value in timings.items()})


def _move(source: Path, target: Path) -> Path:
    """Where a file is when it has been moved, if that was possible; one that has been moved before stays there."""
    if source == target or not source.exists():
        return target if target.exists() else source
    try:
        shutil.move(source, target)
    except OSError as error:
        logger.warning("%s cannot be moved to %s: %s", source, target, error)
        return source
    return target
