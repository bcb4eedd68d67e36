"""The vocabulary: every fact about a run is one of these records.

A record is one line of the journal. There are few kinds; a new family of metrics is an `Event` or a `Matrix` with a
name, not a new kind. Only `points` decides which numbers of a record are points of which series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import msgspec

Number: TypeAlias = int | float
Row: TypeAlias = dict[str, Number]
Plain: TypeAlias = Any  # what JSON can represent

NONFINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
LONG_PREFIX = 256  # characters of a name before its last part: shorter ones may be repeated in any number of names
REPEATED = 1 << 16  # characters of longer prefixes in the names that are made from one record
LEVELS = ("info", "warn", "error")


class Record(msgspec.Struct, frozen=True, gc=False, tag_field="log", omit_defaults=True):
    """The fields of every record: `seq` orders the records of an attempt, `time` is wall-clock nanoseconds."""

    seq: int
    time: int


class Attempt(Record, frozen=True, gc=False, tag="attempt"):
    """The first record of every attempt: which process writes, since when, and by which clock."""

    attempt: int
    launch: str
    rank: int
    world: int
    host: str
    pid: int
    monotonic: int
    durability: str
    version: str
    boot: str = ""
    born: int = 0  # start of the process in clock ticks since boot, which identifies a reused pid
    attached: bool = False  # a worker that joined a run of another process
    pid_namespace: int = 0  # in which `pid` means the process
    format: int = 1


class Step(Record, frozen=True, gc=False, tag="step"):
    step: int | float
    metrics: dict[str, int | float | bool | str]
    auto: bool = False  # chiplog counted the step, the caller did not pass it
    across: bool = False  # statistics across ranks, which no caller logged


class Eval(Record, frozen=True, gc=False, tag="eval"):
    step: int | float
    metrics: dict[str, int | float | bool | str]
    across: bool = False  # as for a step


class Event(Record, frozen=True, gc=False, tag="event"):
    """A named fact: dataset, gpu, moe, allocator, config, environment, gap, ..."""

    name: str
    data: dict[str, Plain] = {}
    step: int | float | None = None


class Table(Record, frozen=True, gc=False, tag="table"):
    """Rows appended to a named table."""

    name: str
    rows: list[dict[str, Plain]]
    step: int | float | None = None


class HistogramRecord(Record, frozen=True, gc=False, tag="histogram"):
    name: str
    edges: list[float | str]
    counts: list[int | float]
    step: int | float | None = None
    min: float | None = None  # of the values themselves, if it was made from values
    max: float | None = None
    mean: float | None = None


class MatrixRecord(Record, frozen=True, gc=False, tag="matrix"):
    """Numbers in rows and columns under one name, such as tokens by [layer, expert]."""

    name: str
    values: list[list[int | float | str]]
    step: int | float | None = None


class TextRecord(Record, frozen=True, gc=False, tag="text"):
    name: str
    text: str
    step: int | float | None = None


class File(Record, frozen=True, gc=False, tag="file"):
    """A file kept in the run directory; `path` is relative to it."""

    name: str
    path: str
    media: str = "application/octet-stream"
    size: int = 0
    caption: str = ""
    step: int | float | None = None


class SpansRecord(Record, frozen=True, gc=False, tag="spans"):
    """A batch of finished spans, one list per column; `name` and `thread` are indices into `names` and `threads`."""

    names: list[str]
    threads: list[str]
    name: list[int]
    thread: list[int]
    id: list[int]
    parent: list[int]  # 0: none
    start: list[int]  # wall-clock nanoseconds, the clock of `time`
    duration: list[int]
    step: list[int | float | None]
    tags: dict[str, dict[str, Plain]] = {}  # by the span's id
    failed: list[int] = []  # ids of spans that ended with an exception or were abandoned
    errors: dict[str, str] = {}  # the error, by the span's id
    launched: list[int] = []  # ids of spans with work on a device, which has spans of its own
    kinds: dict[str, str] = {}  # of timelines other than threads: task, device or queue


class ConsoleRecord(Record, frozen=True, gc=False, tag="console"):
    """Lines that the process wrote to its standard streams, in order."""

    lines: list[str]
    times: list[int]  # wall-clock nanoseconds of the last write to each, on the clock of `time`
    stderr: list[int] = []  # indices of the lines written to stderr; the others were written to stdout
    open: list[int] = []  # indices of unfinished lines: the next line of their stream replaces them


class Alert(Record, frozen=True, gc=False, tag="alert"):
    title: str
    level: str = "warn"
    text: str = ""
    rule: str = ""
    step: int | float | None = None
    evidence: dict[str, Plain] = {}


class Clock(Record, frozen=True, gc=False, tag="clock"):
    """The wall clock jumped by `jump` nanoseconds against the attempt's own clock."""

    wall: int
    jump: int


class Finish(Record, frozen=True, gc=False, tag="finish"):
    """The last record of an attempt: finished, failed or interrupted, and how many records are missing."""

    state: str
    reason: str = ""
    missing: int = 0


class Unknown(msgspec.Struct, frozen=True):
    """A record of a kind that this version does not know, complete."""

    kind: str
    seq: int
    time: int
    fields: dict[str, Plain]


Known: TypeAlias = (
    Attempt
    | Step
    | Eval
    | Event
    | Table
    | HistogramRecord
    | MatrixRecord
    | TextRecord
    | File
    | SpansRecord
    | ConsoleRecord
    | Alert
    | Clock
    | Finish
)
AnyRecord: TypeAlias = Known | Unknown
KINDS: dict[str, type[Record]] = {str(kind.__struct_config__.tag): kind for kind in Known.__args__}

_encoder = msgspec.json.Encoder()
encode_plain = _encoder.encode  # only for records without NaN, infinities and null: it writes all of them as null


@cache
def _decoder() -> msgspec.json.Decoder[Known]:
    """Created on first use: a process that only writes needs none."""
    return msgspec.json.Decoder(Known)


def kind_of(record: AnyRecord) -> str:
    """The tag of a record: `step`, `eval`, ..."""
    return record.kind if isinstance(record, Unknown) else str(record.__struct_config__.tag)


def encode(record: Record) -> bytes:
    """A record as one strict JSON object; raises for values that JSON cannot represent (see `values`)."""
    line = _encoder.encode(record)
    if b"null" in line:  # msgspec writes NaN and infinities as null; defaults are omitted, never null
        line = _encoder.encode(_strict(msgspec.to_builtins(record)))
    return line


def decode(line: bytes) -> AnyRecord:
    """The record in a line of JSON; a kind or shape of a newer version becomes `Unknown`.

    Raises `msgspec.DecodeError` or `ValueError` if the bytes are not a record at all.
    """
    try:
        record = _decoder().decode(line)
    except msgspec.ValidationError:
        return _odd(line)
    if isinstance(record, (Step, Eval)) and (b'"nan"' in line or b'inf"' in line):
        _restore(record.metrics)
    return record


def points(record: AnyRecord, refuse: Callable[[str], object] = len) -> Iterable[tuple[str, Number]]:
    """The points of a record, as (series, value).

    A step's metrics are points under their own names, an eval's under `eval/`. The numbers of an event are points
    under `name/key`; nested mappings and lists add their keys, an `id` or `split` next to the numbers becomes part of
    the name, and a mapping in a list is named by its own `name` or `id`: `gpu/0/power`, `allocator/weights/device`.
    Numbers below a prefix so long that their names would be much larger than the record are left out; `refuse` is
    called with the prefix.
    """
    if isinstance(record, Step):
        return record.metrics.items()  # type: ignore[return-value]
    if isinstance(record, Eval):
        return ((in_group("eval", name), value) for name, value in record.metrics.items())  # type: ignore[misc]
    if isinstance(record, Event) and record.name not in _NO_POINTS:
        return _leaves(record.name, record.data, _Room(refuse))
    return ()


def in_group(group: str, name: str) -> str:
    """`loss` in group `eval` is `eval/loss`; a name that is already in the group stays as it is."""
    return name if name.startswith(f"{group}/") else f"{group}/{name}"


def fields(record: AnyRecord) -> dict[str, Plain]:
    """A record as plain data, tag first, with non-finite numbers as strings, as in `cat` and JSON files."""
    if isinstance(record, Unknown):
        return {"log": record.kind, **record.fields}
    plain: dict[str, Plain] = _strict(msgspec.to_builtins(record))
    return plain


_NO_POINTS = frozenset(("config", "environment", "summary", "gap", "plan", "name", "tags"))


def _leaves(prefix: str, data: Mapping[str, Plain], room: _Room) -> Iterator[tuple[str, Number]]:
    labels = [key for key in ("id", "split") if isinstance(data.get(key), (str, int))]
    prefix = "/".join((prefix, *(str(data[label]) for label in labels)))
    if not room.has(prefix, len(data)):
        return
    for key, value in data.items():
        if key in labels:
            continue
        if isinstance(value, (int, float)):
            yield f"{prefix}/{key}", value
        elif isinstance(value, str):
            if value in NONFINITE:
                yield f"{prefix}/{key}", NONFINITE[value]
        elif isinstance(value, Mapping):
            yield from _leaves(f"{prefix}/{key}", value, room)
        elif isinstance(value, Sequence):
            yield from _items(f"{prefix}/", key, value, room)


def _items(prefix: str, key: str, items: Sequence[Plain], room: _Room) -> Iterator[tuple[str, Number]]:
    if not room.has(prefix + key, len(items)):
        return
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            label = item.get("name", item.get("id"))
            rest = {k: v for k, v in item.items() if k not in ("name", "id")}
            yield from _leaves(f"{prefix}{key}/{index}" if label is None else f"{prefix}{label}", rest, room)
        elif isinstance(item, (int, float)):
            yield f"{prefix}{key}/{index}", item


class _Room:
    """How much of long prefixes may be repeated in the names that are made from one record."""

    __slots__ = ("_left", "_refuse")

    def __init__(self, refuse: Callable[[str], object]) -> None:
        self._left, self._refuse = REPEATED, refuse

    def has(self, prefix: str, times: int) -> bool:
        if len(prefix) <= LONG_PREFIX:
            return True
        self._left -= len(prefix) * times
        if self._left < 0:
            self._refuse(prefix)
        return self._left >= 0


def _strict(value: Plain) -> Plain:
    if type(value) is float:
        if value != value:
            return "nan"
        if value in (NONFINITE["inf"], NONFINITE["-inf"]):
            return "inf" if value > 0 else "-inf"
        return value
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value


def _restore(metrics: dict[str, int | float | bool | str]) -> None:
    for name, value in metrics.items():
        if type(value) is str:
            metrics[name] = NONFINITE.get(value, value)


def _odd(line: bytes) -> AnyRecord:
    """A record with a step that is not finite, or one of a newer version."""
    data = msgspec.json.decode(line)
    if not isinstance(data, dict):
        raise ValueError("a record is a JSON object")
    if isinstance(step := data.get("step"), str) and step in NONFINITE:
        try:
            record: Known = msgspec.convert({**data, "step": NONFINITE[step]}, Known)
        except msgspec.ValidationError:
            pass
        else:
            if isinstance(record, (Step, Eval)):
                _restore(record.metrics)
            return record
    kind, seq, time = data.pop("log", None), data.get("seq"), data.get("time")
    if not (isinstance(kind, str) and isinstance(seq, int) and isinstance(time, int)):
        raise ValueError("a record has a kind, a seq and a time")
    data.pop("crc", None)
    return Unknown(kind, seq, time, data)
