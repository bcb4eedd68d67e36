"""TensorBoard: event files by a writer of our own, without TensorFlow, torch or TensorBoard itself."""

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
    Histogram,
    Matrix,
    Number,
    Plain,
    Step,
    Text,
)
from chiplog.core.values.flatten import flatten
from chiplog.core.values.media import Histogram as Distribution
from chiplog.sinks.shared.append_file import AppendFile
from chiplog.sinks.shared.service_metrics import outward
from chiplog.sinks.tensorboard import events

FILE = "events.out.tfevents.chiplog"
LARGEST = 4 << 20  # bytes of a picture; its CRC is counted in Python, beside the training
_MOST = 1e300


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],  # noqa: ARG001
    *,
    dir: str | None = None,
    folder: str | None = None,
) -> Tensorboard:
    """`dir` is a log directory of several runs, where this one has a folder; `folder` is one where it has a file."""
    if folder is not None:
        return Tensorboard(Path(folder).expanduser().absolute(), identity.dir, f"{FILE}.{identity.id}")
    place = identity.files / "tensorboard" if dir is None else Path(dir).expanduser().absolute() / identity.id
    return Tensorboard(place, identity.dir)


class Tensorboard:
    """One event file in a folder; pictures are read from the run's directory. An empty state is an empty file."""

    def __init__(self, folder: Path, run: Path, name: str = FILE) -> None:
        self.path = folder / name
        self._run = run
        self._tape = AppendFile(self.path)
        self._tags = events.Tags()
        self._config: dict[str, Plain] = {}
        self._step = 0  # of the newest record that has one
        self._behind: Mapping[str, Plain] | None = {}  # a state that is still to be restored

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._begin()
        if batch:
            first = [] if self._tape.size else [events.version(batch[0].time)]
            self._tape.append(b"".join([*first, *self._events(batch)]))

    def close(self) -> None:
        self._tape.close()

    def state(self) -> dict[str, Plain]:
        self._begin()
        return {"size": self._tape.size, "step": self._step, "config": self._config}

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Bring the file back to what it held; where that fails it is tried again before the next write."""
        self._behind = state
        self._tape.close()  # the file may have been replaced since
        self._begin()

    def _begin(self) -> None:
        if self._behind is None:
            return
        size = self._behind.get("size", 0)
        if (length := self._tape.length()) < size:
            messages.say(
                f"{self.path} was changed by somebody else: {length:,} of {size:,} bytes were left; it begins anew"
            )
            size = 0  # the middle of an event is no place to go on from
        self._tape.cut(size)
        self._step, self._config = self._behind.get("step", 0), dict(self._behind.get("config", {}))
        self._behind = None

    def _events(self, batch: Sequence[AnyRecord]) -> Iterator[bytes]:
        scalars = self._tags.scalars
        for record in batch:
            if type(record) is Step:
                self._step = _whole(record.step, self._step)
                if record.metrics:
                    yield scalars(record.time, self._step, record.metrics)  # type: ignore[arg-type]
            elif isinstance(record, (Eval, Event)):
                self._step = _whole(record.step, self._step)
                if row := outward(record):
                    yield scalars(record.time, self._step, row)
                elif isinstance(record, Event) and record.name == "config":
                    yield from self._configured(record)
            else:
                yield from self._media(record)

    def _configured(self, record: Event) -> Iterator[bytes]:
        """As hyperparameters the first time, which is all that TensorBoard looks at; and as text every time."""
        if not self._config:
            yield events.session_start(
                record.time,
                {name: value for name, value in flatten(record.data, ".") if not isinstance(value, Mapping)},
            )
        self._config = {**self._config, **_strict(record)}
        said = msgspec.json.format(msgspec.json.encode(self._config), indent=2).decode()
        yield events.text(record.time, self._step, "config", "\n".join(f"    {line}" for line in said.splitlines()))

    def _media(self, record: AnyRecord) -> Iterator[bytes]:
        if isinstance(record, (Text, Histogram, Matrix, File, Alert)):
            step = _whole(record.step, self._step)
        if isinstance(record, Text):
            yield events.text(record.time, step, record.name, record.text)
        elif isinstance(record, Histogram):
            edges, counts = _finite(record.edges), _finite(record.counts)
            if 2 <= len(edges) == len(counts) + 1:  # not one that was cut to fit into a line
                yield events.histogram(record.time, step, record.name, edges, counts)
        elif isinstance(record, Matrix):
            if numbers := _finite([value for row in record.values for value in row]):
                bins = Distribution(numbers)
                sums = sum(numbers), sum(one * one for one in numbers)
                counts = [float(one) for one in bins.counts]
                yield events.histogram(record.time, step, record.name, bins.edges, counts, sums)
        elif isinstance(record, File) and record.media.startswith("image/"):
            if (data := self._picture(record)) is not None:
                yield events.image(record.time, step, record.name, data)
        elif isinstance(record, Alert):
            yield events.text(record.time, step, "alerts", f"**{record.level}: {record.title}** {record.text}".rstrip())
        elif isinstance(record, Finish) and record.state == "finished":
            yield events.session_end(record.time)

    def _picture(self, record: File) -> bytes | None:
        path = self._run / record.path
        try:
            if path.stat().st_size <= LARGEST:
                return path.read_bytes()
            why = f"it has more than {LARGEST >> 20} MiB"
        except OSError as error:
            why = str(error)
        messages.once(f"tensorboard {path}", f"{path} is not in TensorBoard's file: {why}")
        return None


def _strict(record: Event) -> dict[str, Plain]:
    data: dict[str, Plain] = records.fields(record).get("data", {})
    return data


def _finite(numbers: Sequence[Number | str]) -> list[float]:
    """Numbers as doubles, without those that are not finite, which TensorBoard cannot draw."""
    return [float(one) for one in numbers if not isinstance(one, str) and -_MOST <= one <= _MOST]


def _whole(step: int | float | None, before: int) -> int:
    """A step as TensorBoard counts: whole, in 64 bits."""
    if step is None or step - step != 0:
        return before
    return max(-events.FURTHEST, min(events.FURTHEST, int(step)))
