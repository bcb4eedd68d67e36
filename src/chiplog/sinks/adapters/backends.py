"""Users' backends, wrapped as sinks.

Their methods decide; no base class is needed:

- `write(batch)` and `close()`: a sink;
- `log_scalar(event, value, **kwargs)` and `close()`: a metrics logger of metrax or Tunix;
- `log(metrics, step, commit)`, `log_config(config)` and `finish()`: a tracker backend; `TrackerBackend` is a base class
  with the optional methods;
- `write_scalars(step, scalars)` and `close()`: a metric writer of CLU;
- any other callable with one argument: a function of a batch.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from chiplog.core import messages
from chiplog.core.errors import BadSetting, Rejected, SinkLost
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import (
    AnyRecord,
    Event,
    File,
    HistogramRecord,
    Known,
    MatrixRecord,
    Number,
    Plain,
    Record,
    Step,
    Table,
    TextRecord,
)
from chiplog.core.values.flatten import flatten
from chiplog.core.values.text import words
from chiplog.sinks.adapters.backend_calls import PAUSES, Call, Calls
from chiplog.sinks.shared import record_file
from chiplog.sinks.shared.clean_values import int64
from chiplog.sinks.shared.rows import tabulate
from chiplog.sinks.shared.service_metrics import service_points

MOST = 10_000  # values that represent a histogram for a writer that bins them itself


class TrackerBackend(ABC):
    """A destination with one method per kind of data, all of which is already in the journal.

    All methods are called on the sink's own thread. A call that raises is retried with the same arguments; if it keeps
    raising while others succeed, it is skipped and counted. NotImplementedError means that the kind is not supported.
    `finish` is called at the end in any case.
    """

    name: str = ""

    @abstractmethod
    def log(self, metrics: Mapping[str, Number], step: int | float | None = None, commit: bool = True) -> None:
        """A row of numbers. Rows are complete, so `commit` is always true."""

    @abstractmethod
    def log_config(self, config: Mapping[str, Plain]) -> None: ...

    @abstractmethod
    def finish(self) -> None: ...

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[Plain]]) -> None:  # noqa: B027
        """Rows that were appended to a table."""

    def log_image(self, key: str, image_path: str, caption: str | None = None) -> None:  # noqa: B027
        """An image, as a file in the run directory."""

    def log_artifacts(self, artifacts: Mapping[str, str]) -> None:  # noqa: B027
        """Other files in the run directory, by name."""

    def watch(self, model: Any, **options: Any) -> None:  # noqa: B027
        """For the training itself to call: `run.sink("name").watch(model)`."""


def wrap(thing: object, identity: Identity) -> Sink:
    """An object as a sink; raises if it has none of the shapes."""
    if isinstance(thing, Wrapper):
        return thing
    shape = shape_of(thing)
    if shape is Sink:
        if hasattr(thing, "state") and hasattr(thing, "restore"):  # it is restored before a retry
            return cast(Sink, thing)
        return Batches(thing)
    if shape is not None:
        return shape(thing, identity)  # type: ignore[no-any-return]
    if callable(thing) and not isinstance(thing, type):
        return Function(thing)
    raise BadSetting(
        f"{thing!r:.200} is not a sink: a sink is a name (sinks='console,csv'), an object with write(batch) and "
        "close(), with log_scalar(event, value) and close(), with log(metrics, step, commit), log_config(config) and "
        "finish(), or a function of a batch; or a class or a function without arguments that makes one"
    )


class Wrapper:
    """A user's backend as a sink: each call is made once, or skipped if it can never succeed."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self.calls = Calls()
        self._batch: Sequence[AnyRecord] = ()  # the current one, which may have grown on a retry
        self._planned = 0
        self._closed = False

    def plan(self, records: Sequence[AnyRecord]) -> Iterator[Call]:
        """The calls for records."""
        raise NotImplementedError

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if batch:
            self.calls.add(self.plan(self._new(batch)))
            self.calls.make()
        else:
            self.idle()

    def write_last(self, batch: Sequence[AnyRecord], until: float) -> bool:
        """Like `write`, once the run has ended and all retries have failed: try each call once, until that time."""
        self.calls.add(self.plan(self._new(batch)))
        return self.calls.make_last(until)

    def left(self, batch: Sequence[AnyRecord]) -> int:
        """How many calls have not been made: those planned, and those for further records of the batch."""
        self.calls.add(self.plan(self._new(batch)))
        return len(self.calls)

    def _new(self, batch: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        """The records of a batch for which no calls have been planned."""
        if batch is not self._batch:
            self._batch, self._planned = batch, 0
        records, self._planned = batch[self._planned :], len(batch)
        return records

    def idle(self) -> None:
        """Nothing new has arrived for a moment."""

    def end(self) -> None:
        self.native.close()

    def close(self) -> None:
        """End the backend once, even if that fails."""
        if self._closed:
            raise SinkLost("it did not close")
        self._closed = True
        try:
            self.end()
        except BaseException as error:
            raise SinkLost(f"it did not close: {words(error)}") from error


class Batches(Wrapper):
    """An object with `write` as a sink: gets one record at a time if it does not accept a whole batch."""

    def __init__(self, native: Any) -> None:
        super().__init__(native)
        self._write: Callable[[Sequence[AnyRecord]], object] = getattr(native, "write", native)

    def plan(self, records: Sequence[AnyRecord]) -> Iterator[Call]:
        return (Call(partial(self._write, [record])) for record in records)

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if not batch or self.calls or not self._write_all(batch):
            super().write(batch)

    def idle(self) -> None:
        self._write([])

    def _write_all(self, batch: Sequence[AnyRecord]) -> bool:
        """Write a batch at once; whether that was possible."""
        why = ""
        for pause in (0.0, *PAUSES):
            time.sleep(pause)
            try:
                self._write(batch)
            except SinkLost:
                raise
            except Rejected:
                return False
            except BaseException as error:  # even SystemExit, which must not end the thread
                self.calls.errors += 1
                why = words(error)
            else:
                self.calls.retried = self.calls.retried or why
                return True
        return False


class Function(Batches):
    """A function as a sink, called with every batch that is not empty."""

    def idle(self) -> None:
        pass

    def end(self) -> None:
        pass


class Methods(Wrapper):
    """Records as calls of methods."""

    def __init__(self, native: Any, identity: Identity) -> None:
        super().__init__(native)
        self._dir = identity.dir
        self._step: int | float | None = None  # the newest

    def calls_for(self, record: Known) -> Iterator[Call]:
        """The calls for a record."""
        raise NotImplementedError

    def plan(self, records: Sequence[AnyRecord]) -> Iterator[Call]:
        for record in records:
            if isinstance(record, Record):
                if isinstance(record, Step) and _is_finite(record.step):
                    self._step = record.step
                yield from self.calls_for(record)

    def _at(self, record: Known) -> int | float | None:
        """The step of a record, or the newest one if it has none."""
        step = getattr(record, "step", None)  # spans have a list of them
        return step if isinstance(step, (int, float)) and _is_finite(step) else self._step

    def _path(self, record: File) -> str | None:
        """The file of a record; None if it is not a file of the run."""
        path = record_file.path_of(self._dir, record)
        return None if path is None else str(path)


class Scalars(Methods):
    """One call per number, `log_scalar(name, value, step=step)`; if a backend `takes_arrays`, one per matrix too."""

    def calls_for(self, record: Known) -> Iterator[Call]:
        step = self._at(record)
        at = {} if step is None else {"step": step}
        if isinstance(record, MatrixRecord):
            if getattr(self.native, "takes_arrays", False):
                yield Call(partial(self.native.log_scalar, record.name, _array(record), **at))
            return
        for name, value in _numbers(record).items():
            yield Call(partial(self.native.log_scalar, name, value, **at))


class TrackerAdapter(Methods):
    """One call per row, and one for a config, a table, an image or another file."""

    def calls_for(self, record: Known) -> Iterator[Call]:
        backend = self.native
        if isinstance(record, Event) and record.name == "config":
            yield Call(partial(backend.log_config, record.data), numbers=False)
        elif isinstance(record, Table) and hasattr(backend, "log_table"):
            yield Call(partial(backend.log_table, record.name, *tabulate(record.rows)), numbers=False)
        elif isinstance(record, File) and record.media.startswith("image/"):
            if hasattr(backend, "log_image") and (path := self._path(record)) is not None:
                picture = partial(backend.log_image, record.name, path, caption=record.caption or None)
                yield Call(picture, numbers=False)
        elif isinstance(record, File) and hasattr(backend, "log_artifacts"):
            if (path := self._path(record)) is not None:
                yield Call(partial(backend.log_artifacts, {record.name: path}), numbers=False)
        elif row := _numbers(record):
            step = getattr(record, "step", None)
            yield Call(partial(backend.log, row, step=step if step is None or _is_finite(step) else None, commit=True))

    def end(self) -> None:
        self.native.finish()


class WriterAdapter(Methods):
    """A metric writer of CLU: scalars, texts, histograms, images and, once, the config."""

    _configured = False

    def calls_for(self, record: Known) -> Iterator[Call]:
        writer, step = self.native, self._at(record) or 0
        if isinstance(record, Event) and record.name == "config":
            if record.data:
                yield Call(partial(self._configure, record.data), numbers=False)
        elif isinstance(record, TextRecord):
            yield Call(partial(writer.write_texts, step, {record.name: record.text}), numbers=False)
        elif isinstance(record, HistogramRecord):
            buckets = {record.name: len(record.counts)}
            yield Call(partial(writer.write_histograms, step, {record.name: _values(record)}, buckets), numbers=False)
        elif isinstance(record, MatrixRecord) and hasattr(writer, "write_histograms"):
            yield Call(partial(writer.write_histograms, step, {record.name: _array(record)}), numbers=False)
        elif isinstance(record, File) and record.media.startswith("image/"):
            yield Call(partial(self._write_image, record, step), numbers=False)
        elif row := _numbers(record):
            yield Call(partial(writer.write_scalars, step, row))

    def idle(self) -> None:
        if callable(flush := getattr(self.native, "flush", None)):
            flush()

    def _configure(self, config: Mapping[str, Plain]) -> None:
        if not self._configured:  # a writer accepts it once
            self.native.write_hparams(_flat(config))
            self._configured = True

    def _write_image(self, record: File, step: int | float) -> None:
        try:
            import numpy
            from PIL import Image
        except ImportError as error:
            messages.once(
                f"image {id(self)}",
                f"images are left out for {type(self.native).__name__}, which needs pixels: install {error.name!r}",
            )
            return
        if (path := self._path(record)) is None:
            return
        with Image.open(path) as image:
            self.native.write_images(step, {record.name: numpy.asarray(image.convert("RGB"))})


def shape_of(thing: Any) -> Any:
    """The adapter for an object, by its methods; None if it has none, and for a class."""
    if isinstance(thing, type):
        return None
    if isinstance(thing, TrackerBackend):
        return TrackerAdapter
    for shape, methods in (
        (Sink, ("write", "close")),
        (TrackerAdapter, ("log", "log_config", "finish")),
        (Scalars, ("log_scalar", "close")),
        (WriterAdapter, ("write_scalars", "close")),
    ):
        if all(callable(getattr(thing, method, None)) for method in methods):
            return shape
    return None


def _numbers(record: Known) -> dict[str, Number]:
    """The numbers of a record; an integer of more than 64 bits as a float, or an infinity."""
    return {name: int64(value) for name, value in service_points(record).items()}


def _is_finite(step: int | float) -> bool:
    return step - step == 0


def _flat(config: Mapping[str, Plain]) -> dict[str, bool | int | float | str]:
    """A config with dotted names, and values that writers of hyperparameters accept."""
    return {
        name: value if isinstance(value, (bool, int, float, str)) else str(value)
        for name, value in flatten(config, ".")
        if not isinstance(value, Mapping)  # an empty one
    }


def _values(record: HistogramRecord) -> Any:
    """Values with about this histogram: the middle of each bin, as often as it was counted."""
    import numpy  # CLU has it

    edges = numpy.asarray([float(edge) for edge in record.edges])
    counts = numpy.asarray(record.counts, dtype=float)
    scale = min(1.0, MOST / max(1.0, counts.sum()))
    return numpy.repeat((edges[:-1] + edges[1:]) / 2, numpy.ceil(counts * scale).astype(int))


def _array(record: MatrixRecord) -> Any:
    """A matrix as an array; one of a single row as a vector."""
    import numpy  # a backend for arrays has it

    rows = [[float(value) for value in row] for row in record.values]
    return numpy.asarray(rows[0] if len(rows) == 1 else rows)
