"""Optuna's SQLite storage, with any number of studies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from chiplog.core.records import Number, Plain
from chiplog.store.foreign import sqlite_file
from chiplog.store.foreign.formats.optuna.trial import NAME as NAME
from chiplog.store.foreign.formats.optuna.trial import WAITING, Trial, param
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, nanoseconds
from chiplog.store.foreign.sqlite_file import Database
from chiplog.store.foreign.yaml_and_json import decoded

TABLES = ("studies", "trials", "trial_params", "trial_values")
_SPECIAL = {"NAN": float("nan"), "INF_POS": float("inf"), "INF_NEG": float("-inf")}


def find(folder: Folder) -> list[ForeignRun]:
    runs: list[ForeignRun] = []
    for name in folder.free(*sqlite_file.ENDINGS):
        path = folder.path / name
        database = Database(path)
        if not set(TABLES) <= set(database.tables()):
            continue
        folder.taken.add(name)
        query = (
            "SELECT trial_id, number, state, datetime_start, datetime_complete, study_name "
            "FROM trials JOIN studies ON trials.study_id = studies.study_id ORDER BY trial_id"
        )
        try:
            listed = database.all(query)
        except sqlite_file.Unreadable:
            continue
        runs += [_run(database, path, row) for row in listed if row[2] != WAITING]
    return runs


def _run(database: Database, path: Path, row: tuple[object, ...]) -> ForeignRun:
    trial_id, number, state, started, ended, study = row
    trial = Trial(str(study), number if isinstance(number, int) else 0, str(state), _moment(started), _moment(ended))
    key = f"{NAME}:{study}:{number}:{started}"
    about = partial(_about, database, trial_id, trial)
    return ForeignRun(NAME, key, path, sqlite_file.files_of(path), about, partial(_read, database, trial_id, trial))


def _about(database: Database, trial_id: object, trial: Trial, _: Plain) -> About:
    tables = database.tables()
    chosen = (trial_id,)
    for name, value, distribution in database.all(
        "SELECT param_name, param_value, distribution_json FROM trial_params WHERE trial_id = ? ORDER BY param_id",
        chosen,
    ):
        trial.params[str(name)] = param(value, distribution)
    kind = "value_type" if "value_type" in tables["trial_values"] else "'FINITE'"
    values = database.all(f"SELECT value, {kind} FROM trial_values WHERE trial_id = ? ORDER BY objective", chosen)
    trial.values = [_number(value, kind) for value, kind in values]
    if "trial_user_attributes" in tables:
        for name, data in database.all("SELECT key, value_json FROM trial_user_attributes WHERE trial_id = ?", chosen):
            trial.attributes[str(name)] = decoded(str(data).encode())
    return trial.about()


def _read(database: Database, trial_id: object, trial: Trial, position: Plain, losses: Losses) -> Iterator[Item]:
    columns = database.tables().get("trial_intermediate_values", [])
    if columns:
        kind = "intermediate_value_type" if "intermediate_value_type" in columns else "'FINITE'"
        query = (
            f"SELECT step, intermediate_value, {kind} FROM trial_intermediate_values WHERE trial_id = ? "
            "ORDER BY trial_intermediate_value_id"
        )
        try:
            trial.reported = {
                int(str(step)): _number(value, kind) for step, value, kind in database.all(query, (trial_id,))
            }
        except (sqlite_file.Unreadable, ValueError) as error:
            losses.set(f"what the trial reported: {error}", 1)
    yield from trial.items(position)


def _moment(value: object) -> int:
    """Optuna stores the local time of the machine, as if every reader were in the same zone."""
    try:
        return nanoseconds(datetime.fromisoformat(str(value)).timestamp())
    except (ValueError, OverflowError, OSError):
        return 0


def _number(value: object, kind: object) -> Number:
    if isinstance(value, (int, float)):
        return _SPECIAL.get(str(kind), value)
    return _SPECIAL.get(str(kind), float("nan"))  # older versions stored NaN as NULL
