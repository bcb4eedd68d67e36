"""The formats, and the search for their runs in a folder and those below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from chiplog.core import messages
from chiplog.core.paths import is_run
from chiplog.core.records import Plain
from chiplog.core.values.text import words
from chiplog.store.foreign.formats import csv_files, dvclive, json_files, mlflow, parquet_files, surogate, trainer_state
from chiplog.store.foreign.formats.aim import repository as aim
from chiplog.store.foreign.formats.archives import archived_runs, clearml, comet
from chiplog.store.foreign.formats.ezpz import datasets as ezpz_datasets
from chiplog.store.foreign.formats.ezpz import lines as ezpz
from chiplog.store.foreign.formats.optuna import database as optuna
from chiplog.store.foreign.formats.optuna import journal as optuna_journal
from chiplog.store.foreign.formats.tensorboard import event_files as tensorboard
from chiplog.store.foreign.formats.trackio import database as trackio
from chiplog.store.foreign.formats.trackio import parquet as trackio_parquet
from chiplog.store.foreign.formats.wandb import offline_runs as wandb
from chiplog.store.foreign.protocol import LATEST, About, Folder, ForeignRun, Format

# The first that recognises a file has it, so those that look at any file of a kind come last.
FORMATS: Sequence[Format] = (
    tensorboard, wandb, mlflow, trackio, trackio_parquet, optuna, optuna_journal, dvclive, clearml, comet,
    aim, trainer_state, surogate, ezpz, ezpz_datasets, json_files, csv_files, parquet_files,
)  # fmt: skip
DEEPEST = 12  # folders below the one that was named
MOST = 50_000  # folders that are looked into
SKIPPED = frozenset(("__pycache__", "node_modules", "site-packages"))


def find(path: Path) -> list[ForeignRun]:
    """The runs of other trackers in a file, or in a folder and those below; links are not followed."""
    runs: list[ForeignRun] = []
    waiting = [(path, 0)]
    looked = 0
    while waiting and looked < MOST:
        place, depth = waiting.pop()
        looked += 1
        try:
            folder = Folder.open(place)
        except OSError:
            continue
        if place.is_dir() and is_run(place):
            continue
        for one in FORMATS:
            try:
                runs += [_guarded(run) for run in one.find(folder)]
            except Exception as error:  # what a format did not foresee takes no other file with it
                messages.once(
                    f"foreign {one.NAME} {place}", f"files of {one.NAME} in {place} cannot be read: {words(error)}"
                )
        if depth < DEEPEST:
            below = [name for name in folder.folders if name not in folder.taken and not _is_skipped(name)]
            waiting += [(place / name, depth + 1) for name in reversed(below)]
    return _newest(runs)


def _guarded(run: ForeignRun) -> ForeignRun:
    """The run, with a description of its own where the source's cannot be read or makes no sense."""

    def about(position: Plain) -> About:
        try:
            about = run.about(position)
        except Exception as error:
            messages.once(f"foreign {run.key}", f"{run.path}: what describes the run cannot be read: {words(error)}")
            return About(project=run.format, id="")
        for name in ("project", "id", "name", "state", "reason"):
            if not isinstance(value := getattr(about, name), str):
                setattr(about, name, str(value or ""))
        for name in ("created", "ended"):
            if not isinstance(value := getattr(about, name), int) or not 0 <= value < LATEST:
                setattr(about, name, 0)
        return about

    return replace(run, about=about)


def _newest(runs: Sequence[ForeignRun]) -> list[ForeignRun]:
    """Each run once: of several copies, the one that was written last."""
    newest: dict[str, ForeignRun] = {}
    for run in runs:
        if (other := newest.setdefault(run.key, run)) is not run and run.modified() > other.modified():
            newest[run.key] = run
    return list(newest.values())


def names() -> list[str]:
    return list(dict.fromkeys(one.NAME for one in FORMATS))


def no_runs_in(path: str) -> str:
    """The message for a file or a folder in which `find` finds nothing."""
    place = Path(path).expanduser()
    reason = csv_files.no_run_in(place) or archived_runs.no_run_in(place)
    return f"{path!r} has no runs in a format that chiplog reads: {reason or ', '.join(names())}"


def _is_skipped(name: str) -> bool:
    return name in SKIPPED or name.startswith(".")
