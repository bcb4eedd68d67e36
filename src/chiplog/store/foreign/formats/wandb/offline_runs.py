"""W&B's `.wandb` files, which hold everything an offline run has logged. Needs no package of W&B."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.records import Number, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.formats.wandb import items, media
from chiplog.store.foreign.leveldb_log import LogReader
from chiplog.store.foreign.protocol import (
    About,
    Folder,
    ForeignRun,
    Item,
    Losses,
    Position,
    nanoseconds,
)
from chiplog.store.foreign.yaml_and_json import decoded
from chiplog.store.protobuf import reader, writer
from chiplog.store.protobuf.reader import BadMessage

NAME = "wandb"
HEADER = 7  # bytes before the first block's first piece
FIRST = 50  # records among which the one that describes the run is
SAVED_EVERY = 2000  # records
LEVELS = {"INFO": "info", "WARN": "warn", "WARNING": "warn", "ERROR": "error"}
_HISTORY, _SUMMARY, _OUTPUT, _CONFIG, _STATS, _ARTIFACT, _ALERT, _METRIC = 2, 3, 4, 5, 7, 8, 10, 12
_OUTPUT_RAW, _RUN, _EXIT, _ENVIRONMENT = 13, 17, 18, 26
_STDERR = 0  # of `OutputType`
_FACTS = {1: "os", 2: "python", 6: "program", 10: "email", 12: "host", 14: "executable", 18: "gpu", 25: "cuda"}


class State(msgspec.Struct):
    """How far a file has been read, and what it told about the run."""

    offset: int = HEADER
    run: dict[str, Plain] = {}
    config: dict[str, Plain] = {}
    environment: dict[str, Plain] = {}
    summary: dict[str, Plain] = {}
    axes: list[tuple[str, str]] = []  # (name or pattern, the metric that is its step)
    places: dict[str, Number] = {}  # the last value of each such metric
    printed: dict[str, str] = {}  # unfinished lines
    exit: int | None = None
    step: Number = 0


def find(folder: Folder) -> list[ForeignRun]:
    runs = []
    for name in folder.free(".wandb"):
        path = folder.path / name
        about = _about(path, None)
        if about is not None:
            folder.taken |= {name, "files", "logs", "tmp"}
            key = f"{NAME}:{about.id}:{about.created}"
            runs.append(ForeignRun(NAME, key, folder.path, (path,), partial(_described, path), partial(_read, path)))
    return runs


def _is_log(path: Path) -> bool:
    try:
        with reading.open_path(path, regular=True) as file:
            return file.read(4) == b":W&B"
    except OSError:
        return False


def _about(path: Path, position: Plain) -> About | None:
    """What a file says about its run; None if it is not one of W&B's."""
    if position is None:
        if not _is_log(path):
            return None
        state = State()
        rows = _Rows(state, path.parent / "files", Losses())
        for record in islice(LogReader(path, HEADER).read(), FIRST):
            list(rows.items(record))
            if state.run:
                break
    else:
        state = msgspec.convert(position, State)
    run = state.run
    state_word = "running" if state.exit is None else "failed" if state.exit else "finished"
    return About(
        project=str(run.get("project") or "uncategorized"),
        id=str(run.get("id") or path.stem.removeprefix("run-")),
        name=str(run.get("name") or ""),
        created=int(run.get("created") or 0),
        tags=run.get("tags") or (),
        config=state.config,
        environment=state.environment,
        source={key: run[key] for key in ("entity", "group", "job_type", "notes", "sweep") if run.get(key)},
        summary={key: value for key, value in state.summary.items() if not key.startswith("_")},
        state=state_word,
        reason=f"exit code {state.exit}" if state.exit else "",
    )


def _described(path: Path, position: Plain) -> About:
    return _about(path, position) or About("", path.stem)


def _read(path: Path, position: Plain, losses: Losses) -> Iterator[Item]:
    state = msgspec.convert(position, State) if position else State()
    rows = _Rows(state, path.parent / "files", losses)
    log = LogReader(path, state.offset)
    size = max(1, path.stat().st_size)
    for number, record in enumerate(log.read()):
        try:
            yield from rows.items(record)
        except (BadMessage, ValueError, IndexError, TypeError, KeyError, AttributeError):
            losses.add("records that could not be decoded")
        if number % SAVED_EVERY == SAVED_EVERY - 1:
            state.offset = log.offset
            rows.save()
            yield Position(msgspec.to_builtins(state), log.offset / size)
    state.offset = log.offset
    rows.save()
    if log.damaged:
        losses.add("damaged bytes", log.damaged)
    losses.set("bytes of an unfinished record at the end", log.unfinished)
    yield Position(msgspec.to_builtins(state), 1.0)


class _Rows:
    """Records of a log as items, one after the other."""

    def __init__(self, state: State, files: Path, losses: Losses) -> None:
        self._state, self._files, self._losses = state, files, losses
        self._axis_of: dict[str, str] = {}
        self._summary: dict[bytes, bytes] = {}  # not decoded until it is needed
        self._time = int(state.run.get("created") or 0)

    def items(self, record: bytes) -> Iterator[Item]:
        for number, _, value in reader.fields(record):
            data = reader.message(value)
            if number == _HISTORY:
                yield from self._history(data)
            elif number == _SUMMARY:
                self._summarize(data)
            elif number in (_OUTPUT, _OUTPUT_RAW):
                yield from self._output(data)
            elif number == _STATS:
                yield from self._stats(data)
            elif number == _CONFIG:
                self._configure(data)
            elif number == _METRIC:
                self._define(data)
            elif number == _RUN:
                self._describe(data)
            elif number == _EXIT:
                self._state.exit = reader.integer(reader.by_number(data).get(1))
            elif number == _ALERT:
                yield self._alert(data)
            elif number == _ARTIFACT:
                yield self._artifact(data)
            elif number == _ENVIRONMENT:
                about = reader.by_number(data)
                self._state.environment |= {name: reader.text(about[at]) for at, name in _FACTS.items() if at in about}

    def save(self) -> None:
        """Bring the state up to date."""
        if self._summary:
            changes = {items.path_of(key): decoded(value) for key, value in self._summary.items()}
            self._state.summary |= items.nested(changes)
            self._summary = {}

    # -- history -----------------------------------------------------------------------------------------------------

    def _history(self, data: bytes) -> Iterator[Item]:
        metrics: dict[str, int | float | bool | str] = {}
        others: dict[tuple[str, ...], Plain] = {}
        step: Number | None = None
        time = 0
        pairs = items.raw_items(data)
        numbers = items.numbers(pairs)
        if numbers is not None:  # most rows hold nothing else, and are decoded at once
            counted, time = numbers.pop("_step", None), nanoseconds(numbers.pop("_timestamp", 0))
            step = counted if isinstance(counted, (int, float)) else None
            numbers.pop("_runtime", None)
            metrics, pairs = numbers, []
        for key, raw in pairs:
            path, value = (items.path_of(key), decoded(raw)) if key else items.odd(raw)
            if not path:
                continue
            if isinstance(value, (int, float)):
                name = path[0] if len(path) == 1 else ".".join(path)
                if name[0:1] == "_":
                    if name == "_step":
                        step = value
                        continue
                    if name == "_timestamp":
                        time = nanoseconds(value)
                        continue
                    if name == "_runtime":
                        continue
                metrics[name] = value
            elif value is not None:
                others[path] = value
        if step is None:  # the field next to the items; zero is left out
            step = reader.integer(reader.by_number(reader.message(reader.by_number(data).get(2))).get(1))
        self._time = time = time or self._time
        self._state.step = step
        if metrics:
            yield from self._rows(step, time, metrics)
        if others:
            tree = items.nested(others)
            for name, value in tree.items():
                yield from media.items(name, value, step, time, self._files, metrics, self._losses)

    def _rows(self, step: Number, time: int, metrics: dict[str, int | float | bool | str]) -> Iterator[records.Step]:
        """A row, or several: a metric with a step metric of its own is at the step that this one has in the row."""
        if not self._state.axes:
            yield records.Step(0, time, step, metrics)
            return
        rows: dict[Number, dict[str, int | float | bool | str]] = {}
        for name, value in metrics.items():
            axis = self._axis(name)
            place = step
            if axis and axis != name:
                own = metrics.get(axis, self._state.places.get(axis, step))
                place = own if isinstance(own, (int, float)) and own == own else step
            rows.setdefault(place, {})[name] = value
        for _, axis in self._state.axes:
            if isinstance(last := metrics.get(axis), (int, float)):
                self._state.places[axis] = last
        for place, row in rows.items():
            yield records.Step(0, time, place, row)

    def _axis(self, name: str) -> str:
        axis = self._axis_of.get(name)
        if axis is None:
            exact = [one for pattern, one in self._state.axes if pattern == name]
            alike = [one for pattern, one in self._state.axes if fnmatchcase(name, pattern)]
            axis = self._axis_of[name] = (exact or alike or [""])[-1]
        return axis

    # -- everything else ---------------------------------------------------------------------------------------------

    def _summarize(self, data: bytes) -> None:
        for key, value in items.raw_items(data):
            if key:
                self._summary[key] = value
            else:
                path, typed = items.odd(value)
                if path and isinstance(typed, (int, float, str)) and "_type" not in path:
                    self._state.summary[".".join(path)] = typed

    def _configure(self, data: bytes) -> None:
        for path, value in items.items(data).items():
            if path[0] != "_wandb":
                place = self._state.config
                for key in path[:-1]:
                    below = place.get(key)
                    place[key] = place = below if isinstance(below, dict) else {}
                place[path[-1]] = value

    def _describe(self, data: bytes) -> None:
        about = reader.by_number(data)
        tags = [reader.text(value) for number, _, value in reader.fields(data) if number == 10]
        self._configure(reader.message(about.get(4)))
        started = self._timestamp(about.get(17))
        names = {1: "id", 2: "entity", 3: "project", 6: "group", 7: "job_type", 8: "name", 9: "notes", 12: "sweep"}
        self._state.run |= {name: reader.text(about[at]) for at, name in names.items() if at in about}
        self._state.run |= {"tags": tags, "created": started or self._state.run.get("created", 0)}
        if 13 in about:
            self._state.environment["host"] = reader.text(about[13])
        self._time = self._time or started

    def _define(self, data: bytes) -> None:
        about = reader.by_number(data)
        name, axis = reader.text(about.get(1)) or reader.text(about.get(2)), reader.text(about.get(4))
        if name and axis and axis != "_step":
            self._state.axes = [*(one for one in self._state.axes if one[0] != name), (name, axis)]
            self._axis_of = {}

    def _stats(self, data: bytes) -> Iterator[Item]:
        time = self._timestamp(reader.by_number(data).get(2)) or self._time
        stats = b"".join(writer.message(3, reader.message(one)) for at, _, one in reader.fields(data) if at == 3)
        values = {
            ".".join(path): value
            for path, value in items.items(stats, 3).items()
            if isinstance(value, (int, float)) and not path[0].startswith("_")
        }
        if values:
            yield records.Event(0, time, "system", values, self._state.step)

    def _output(self, data: bytes) -> Iterator[Item]:
        about = reader.by_number(data)
        stream = "stderr" if reader.integer(about.get(1)) == _STDERR else "stdout"
        time = self._timestamp(about.get(2)) or self._time
        text = self._state.printed.pop(stream, "") + reader.text(about.get(3))
        *lines, rest = text.split("\n")
        if rest:
            self._state.printed[stream] = rest[-65_536:]
        if lines:
            shown = [
                cut(line.rpartition("\r")[2] if "\r" in line.rstrip("\r") else line.rstrip("\r")) for line in lines
            ]
            error = list(range(len(shown))) if stream == "stderr" else []
            yield records.ConsoleRecord(0, time, shown, [time] * len(shown), error)

    def _alert(self, data: bytes) -> records.Alert:
        about = reader.by_number(data)
        level = LEVELS.get(reader.text(about.get(3)).upper(), "warn")
        text = reader.text(about.get(2))
        return records.Alert(0, self._time, reader.text(about.get(1)), level, text, "", self._state.step)

    def _artifact(self, data: bytes) -> records.Table:
        about = reader.by_number(data)
        row = {name: reader.text(about.get(at)) for at, name in ((5, "name"), (4, "type"), (6, "digest"))}
        return records.Table(0, self._time, "artifacts", [row], self._state.step)

    @staticmethod
    def _timestamp(value: int | bytes | None) -> int:
        parts = reader.by_number(reader.message(value))
        time = reader.integer(parts.get(1)) * 10**9 + reader.integer(parts.get(2))
        return time if 0 <= time < 2**62 else 0
