"""TensorBoard: event files, written without TensorFlow, torch or TensorBoard itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from chiplog.core import messages, records
from chiplog.core.identity import Identity
from chiplog.core.records import (
    Alert,
    AnyRecord,
    Eval,
    Event,
    File,
    Finish,
    HistogramRecord,
    MatrixRecord,
    Number,
    Plain,
    Step,
    TextRecord,
)
from chiplog.core.values.flatten import flatten
from chiplog.core.values.media import Histogram as Distribution
from chiplog.sinks.shared import record_file, saved_state
from chiplog.sinks.shared.append_file import AppendFile
from chiplog.sinks.shared.clean_values import whole_step
from chiplog.sinks.shared.service_metrics import service_points
from chiplog.sinks.tensorboard import events
from chiplog.store import layout

FILE = "events.out.tfevents.chiplog"
LARGEST = 4 << 20  # bytes of an image; its CRC is computed in Python, in the training process
_MOST = 1e300


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],  # noqa: ARG001
    *,
    dir: str | None = None,
    folder: str | None = None,
) -> Tensorboard:
    """`dir` is a log directory in which each run has a folder; `folder` is the folder of this run's event file."""
    if folder is not None:
        return Tensorboard(
            Path(folder).expanduser().absolute(), identity.dir, f"{FILE}.{layout.directory(identity.id)}"
        )
    parent = (
        identity.files / "tensorboard"
        if dir is None
        else Path(dir).expanduser().absolute() / layout.directory(identity.id)
    )
    return Tensorboard(parent, identity.dir)


class Tensorboard:
    """One event file in a folder; images are read from the run directory. An empty state means an empty file."""

    def __init__(self, folder: Path, run: Path, name: str = FILE) -> None:
        self.path = folder / name
        self._run = run
        self._file = AppendFile(self.path)
        self._tags = events.Tags()
        self._config: dict[str, Plain] = {}
        self._step = 0  # of the newest record that has one
        self._started = False

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._start()
        if batch:
            first = [] if self._file.size else [events.version(batch[0].time)]
            self._file.append(b"".join([*first, *self._events(batch)]))

    def close(self) -> None:
        self._file.close()

    def state(self) -> dict[str, Plain]:
        self._start()
        return {"size": self._file.size, "step": self._step, "config": self._config}

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Cut the file back to what it held when the state was saved."""
        size = saved_state.count(state, "size")
        step, config = saved_state.whole(state, "step"), saved_state.mapping(state, "config")
        if not self._file.restore(size):
            left = f"{self._file.length():,} of {size:,} bytes are left"
            messages.say(f"{self.path} was changed by another program: {left}; it starts again")
            self._file.cut(0)  # the middle of an event is not a place to continue from
        self._step, self._config = step, config
        self._started = True

    def _start(self) -> None:
        if not self._started:
            self.restore({})

    def _events(self, batch: Sequence[AnyRecord]) -> Iterator[bytes]:
        scalars = self._tags.scalars
        for record in batch:
            if type(record) is Step:
                self._step = whole_step(record.step, self._step)
                if record.metrics:
                    yield scalars(record.time, self._step, record.metrics)  # type: ignore[arg-type]
            elif isinstance(record, (Eval, Event)):
                self._step = whole_step(record.step, self._step)
                if row := service_points(record):
                    yield scalars(record.time, self._step, row)
                elif isinstance(record, Event) and record.name == "config":
                    yield from self._configured(record)
            else:
                yield from self._media(record)

    def _configured(self, record: Event) -> Iterator[bytes]:
        """As hyperparameters the first time, since TensorBoard reads no others, and as text every time."""
        if not self._config:
            yield events.session_start(
                record.time,
                {name: value for name, value in flatten(record.data, ".") if not isinstance(value, Mapping)},
            )
        self._config = {**self._config, **_strict(record)}
        text = msgspec.json.format(msgspec.json.encode(self._config), indent=2).decode()
        yield events.text(record.time, self._step, "config", "\n".join(f"    {line}" for line in text.splitlines()))

    def _media(self, record: AnyRecord) -> Iterator[bytes]:
        if isinstance(record, (TextRecord, HistogramRecord, MatrixRecord, File, Alert)):
            step = whole_step(record.step, self._step)
        if isinstance(record, TextRecord):
            yield events.text(record.time, step, record.name, record.text)
        elif isinstance(record, HistogramRecord):
            edges, counts = _finite(record.edges), _finite(record.counts)
            if 2 <= len(edges) == len(counts) + 1:  # not one that was truncated to fit a line
                yield events.histogram(record.time, step, record.name, edges, counts)
        elif isinstance(record, MatrixRecord):
            if numbers := _finite([value for row in record.values for value in row]):
                bins = Distribution(numbers)
                sums = sum(numbers), sum(one * one for one in numbers)
                counts = [float(one) for one in bins.counts]
                if len(bins.edges) == len(counts) + 1:
                    yield events.histogram(record.time, step, record.name, bins.edges, counts, sums)
        elif isinstance(record, File) and record.media.startswith("image/"):
            if (data := self._image(record)) is not None:
                yield events.image(record.time, step, record.name, data)
        elif isinstance(record, Alert):
            yield events.text(record.time, step, "alerts", f"**{record.level}: {record.title}** {record.text}".rstrip())
        elif isinstance(record, Finish) and record.state == "finished":
            yield events.session_end(record.time)

    def _image(self, record: File) -> bytes | None:
        return record_file.contents_of(self._run, record, LARGEST)


def _strict(record: Event) -> dict[str, Plain]:
    data: dict[str, Plain] = records.fields(record).get("data", {})
    return data


def _finite(numbers: Sequence[Number | str]) -> list[float]:
    """Numbers as doubles, without NaN and infinities, which TensorBoard cannot draw."""
    return [float(one) for one in numbers if not isinstance(one, str) and -_MOST <= one <= _MOST]
