"""Optuna's journal storage: a file with an operation per line, which several machines may append to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

from chiplog.core.files import reading
from chiplog.core.records import NONFINITE, Number, Plain
from chiplog.store.foreign.formats.optuna.trial import NAME as NAME
from chiplog.store.foreign.formats.optuna.trial import STATES, WAITING, Trial, param
from chiplog.store.foreign.growing_file import GrowingFile
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses
from chiplog.store.foreign.row_columns import moment
from chiplog.store.foreign.yaml_and_json import decoded

ENDINGS = (".log", ".journal", ".jsonl")
HEAD = b'{"op_code":'
FINISHED = ("COMPLETE", "PRUNED", "FAIL")
_CREATE_STUDY, _DELETE_STUDY, _STUDY_ATTRIBUTE = 0, 1, 2
_CREATE_TRIAL, _PARAM, _STATE, _REPORT, _ATTRIBUTE = 4, 5, 6, 7, 8


def find(folder: Folder) -> list[ForeignRun]:
    runs: list[ForeignRun] = []
    for name in folder.free(*ENDINGS):
        path = folder.path / name
        if not _is_journal(path):
            continue
        folder.taken.add(name)
        stamp = _stamp(path)
        trials = [trial for trial in _replay(path, stamp).trials if trial.state != WAITING]
        for at, trial in enumerate(trials):
            key = f"{NAME}:{trial.study}:{trial.number}:{trial.started}"
            place = trial.study, trial.number, at
            runs.append(ForeignRun(NAME, key, path, (path,), partial(_about, path, place), partial(_read, path, place)))
    return runs


def _is_journal(path: Path) -> bool:
    try:
        with reading.open_path(path, regular=True) as file:
            return file.read(64).replace(b" ", b"").startswith(HEAD)
    except OSError:
        return False


def _stamp(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def _about(path: Path, place: tuple[str, int, int], _: Plain) -> About:
    return _trial(path, place).about()


def _read(path: Path, place: tuple[str, int, int], position: Plain, losses: Losses) -> Iterator[Item]:
    replayed = _replay(path, _stamp(path))
    losses.set("operations that are damaged", replayed.damaged)
    yield from _trial(path, place).items(position)


def _trial(path: Path, place: tuple[str, int, int]) -> Trial:
    study, number, _ = place
    trials = _replay(path, _stamp(path)).by_number
    return trials.get((study, number)) or Trial(study, number)


class _Replay:
    """The trials after all operations, as Optuna applies them."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.by_number: dict[tuple[str, int], Trial] = {}
        self.damaged = 0
        self._studies: list[str | None] = []  # None: deleted
        self._counts: dict[int, int] = {}
        self._about: dict[int, dict[str, Plain]] = {}
        self._deleted: set[int] = set()

    def apply(self, line: bytes) -> None:
        log = decoded(line)
        try:
            self._apply(log["op_code"], log)
        except (KeyError, TypeError, IndexError, ValueError, AttributeError):
            self.damaged += 1

    def _apply(self, code: Plain, log: dict[str, Plain]) -> None:
        if code == _CREATE_STUDY:
            if log["study_name"] not in self._studies:
                self._studies.append(str(log["study_name"]))
        elif code == _DELETE_STUDY:
            self._delete(self._studies[log["study_id"]])
            self._studies[log["study_id"]] = None
        elif code == _STUDY_ATTRIBUTE:
            self._about.setdefault(log["study_id"], {}).update(log["user_attr"])
        elif code == _CREATE_TRIAL:
            self._create(log)
        elif code in (_PARAM, _STATE, _REPORT, _ATTRIBUTE):
            trial = self.trials[log["trial_id"]]
            if trial.state not in FINISHED:
                self._change(trial, code, log)

    def _create(self, log: dict[str, Plain]) -> None:
        study = self._studies[log["study_id"]]
        if study is None:
            return
        number = self._counts.get(log["study_id"], 0)
        self._counts[log["study_id"]] = number + 1
        trial = Trial(study, number, STATES[log.get("state", 0)], moment(log.get("datetime_start")))
        trial.ended = moment(log.get("datetime_complete"))
        distributions = log.get("distributions") or {}
        trial.params = {
            name: param(value, distributions.get(name)) for name, value in (log.get("params") or {}).items()
        }
        trial.attributes = dict(log.get("user_attrs") or {})
        trial.values = _numbers(log.get("values") or ([log["value"]] if log.get("value") is not None else []))
        for step, value in (log.get("intermediate_values") or {}).items():
            trial.reported[int(step)] = _number(value)
        trial.about_study = self._about.setdefault(log["study_id"], {})
        self.trials.append(trial)
        self.by_number[study, number] = trial

    def _change(self, trial: Trial, code: int, log: dict[str, Plain]) -> None:
        if code == _PARAM:
            trial.params[log["param_name"]] = param(log["param_value_internal"], log["distribution"])
        elif code == _REPORT:
            trial.reported[int(log["step"])] = _number(log["intermediate_value"])
        elif code == _ATTRIBUTE:
            trial.attributes.update(log["user_attr"])
        else:
            trial.state = STATES[log["state"]]
            trial.started = moment(log.get("datetime_start")) or trial.started
            trial.ended = moment(log.get("datetime_complete")) or trial.ended
            if log.get("values") is not None:
                trial.values = _numbers(log["values"])

    def _delete(self, study: str | None) -> None:
        for trial in self.trials:
            if trial.study == study:
                trial.state = WAITING
        self.by_number = {key: trial for key, trial in self.by_number.items() if key[0] != study}


@lru_cache(8)
def _replay(path: Path, stamp: tuple[int, int]) -> _Replay:  # noqa: ARG001  read again when it has changed
    replay = _Replay()
    for lines in GrowingFile(path).lines():
        for line in lines:
            if line.strip():
                replay.apply(line)
    return replay


def _numbers(values: list[Plain]) -> list[Number]:
    return [_number(value) for value in values]


def _number(value: Plain) -> Number:
    if isinstance(value, (int, float)):
        return value
    return NONFINITE.get(str(value).lower(), float("nan"))
