"""Backends in the shapes people already have, each made a sink.

What an object is, its methods say; no base class is needed:

- `write(batch)` and `close()`: a sink as it is;
- `log_scalar(event, value, **kwargs)` and `close()`: a metrics logger, as metrax and Tunix have them;
- `log(metrics, step, commit)`, `log_config(config)` and `finish()`: a tracker backend, with `TrackerBackend` as a base
  class that has the optional methods;
- `write_scalars(step, scalars)` and `close()`: a metric writer of CLU;
- anything else that can be called with one argument: a function of a batch.
"""

from __future__ import annotations

import inspect
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any

from chiplog.core import notes
from chiplog.core.errors import BadSetting, Lost
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord, Event, File, Histogram, Known, Number, Plain, Record, Step, Table, Text
from chiplog.core.texts import words
from chiplog.sinks.outward import double, outward

MOST = 10_000  # values that stand for a histogram where a writer wants to bin them itself

Call = Callable[[], object]


class TrackerBackend(ABC):
    """A destination by methods, for those who have one; what it is given has been in the journal before.

    All are called on a thread of the sink's own. One that raises is called again later, with the same; one that raises
    NotImplementedError does not take that kind of thing.
    """

    name: str = ""

    @abstractmethod
    def log(self, metrics: Mapping[str, Number], step: int | float | None = None, commit: bool = True) -> None:
        """A row of numbers. Rows come whole, so `commit`, which says that a row is complete, is always true."""

    @abstractmethod
    def log_config(self, config: Mapping[str, Plain]) -> None: ...

    @abstractmethod
    def finish(self) -> None: ...

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[Plain]]) -> None:  # noqa: B027
        """Rows that were appended to a table."""

    def log_image(self, key: str, image_path: str, caption: str | None = None) -> None:  # noqa: B027
        """A picture, as a file of the run's directory."""

    def log_artifacts(self, artifacts: Mapping[str, str]) -> None:  # noqa: B027
        """Other files of the run's directory, by name."""

    def watch(self, model: Any, **options: Any) -> None:  # noqa: B027
        """For the training itself to call: `run.sink("name").watch(model)`."""


def is_factory(thing: Any) -> bool:
    """Whether a thing makes a backend, rather than being one: a class, or what is called without arguments.

    A function that must be given something, or takes any number of things, is a function of a batch.
    """
    if isinstance(thing, type):
        return True
    if _shape(thing) is not None or not callable(thing):
        return False
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):  # some that are written in C do not say
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in kinds and one.default is one.empty]
    return not needed and not any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)


def make(factory: Callable[..., Any], identity: Identity, options: Mapping[str, Any] | None = None) -> Any:
    """What a factory makes, once. It is given the options, and what it has parameters for of the run it is for:
    `project_name`, `config`, `outdir`, `rank`."""
    given = dict(options or {})
    facts = {
        "project_name": identity.project,
        "config": dict(identity.config),
        "outdir": str(identity.files),
        "rank": identity.rank,
    }
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (ValueError, TypeError):
        parameters = ()  # type: ignore[assignment]
    named = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    return factory(**{key: fact for key, fact in facts.items() if takes_all or key in named} | given)


def opened(make: Callable[[], Any], identity: Identity) -> Sink:
    """The sink that foreign code makes; if it fails, one that says why, so that the run and its other sinks go on."""
    with _interrupts() as interrupted:
        try:
            return wrap(make(), identity)
        except BaseException as error:  # SystemExit too: it is the backend's affair, unlike a person's Ctrl-C
            if interrupted():
                raise
            return Unopened(error)


def wrap(thing: Any, identity: Identity) -> Sink:
    """An object as a sink; fails for one that has none of the shapes."""
    shape = _shape(thing)
    if shape is Sink:
        sink: Sink = thing
        return sink
    if shape is not None:
        return shape(thing, identity)  # type: ignore[no-any-return]
    if callable(thing) and not isinstance(thing, type):
        return Function(thing)
    raise BadSetting(
        f"{thing!r:.200} is no sink: a sink is a name (sinks='console,csv'), an object with write(batch) and close(), "
        "with log_scalar(event, value) and close(), with log(metrics, step, commit), log_config(config) and finish(), "
        "or a function of a batch; or a class or a function without arguments that makes one"
    )


def native(sink: Sink) -> Any:
    """The object that was given, without what was put around it."""
    return sink.native if isinstance(sink, (Calls, Function)) else sink


class Function:
    """A function as a sink: called with every batch that is not empty."""

    def __init__(self, function: Callable[[Sequence[AnyRecord]], Any]) -> None:
        self.native = function

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if batch:
            self.native(batch)

    def close(self) -> None:
        pass


class Unopened:
    """In the place of a sink that could not be made: it says so, and is not tried again."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def write(self, batch: Sequence[AnyRecord]) -> None:  # noqa: ARG002
        raise Lost(f"it could not be opened: {words(self.error)}") from self.error

    def close(self) -> None:
        self.write([])


class Calls:
    """Records as calls of methods. Each is made once: when one fails, the next try goes on with it."""

    def __init__(self, native: Any, identity: Identity) -> None:
        self.native = native
        self._dir = identity.dir
        self._made: dict[int, int] = {}  # how many calls have been made for each record of the batch in work, by seq
        self._step: int | float | None = None  # the newest
        self._closed = False

    def calls(self, record: Known) -> Iterator[Call]:
        """What is to be called for a record."""
        raise NotImplementedError

    def idle(self) -> None:
        """Nothing new has come for a moment."""

    def end(self) -> None:
        self.native.close()

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if not batch:
            self.idle()
        elif batch[0].seq not in self._made:  # not the last one again, nor a half of it
            self._made = {record.seq: 0 for record in batch}
        for record in batch:
            if isinstance(record, Record):
                self._give(record)

    def close(self) -> None:
        """Ends it once; a backend that failed while it ended is not ended again."""
        if self._closed:
            raise Lost("it did not close")
        self._closed = True
        try:
            self.end()
        except BaseException as error:
            raise Lost(f"it did not close: {words(error)}") from error

    def _give(self, record: Known) -> None:
        if isinstance(record, Step) and _is_finite(record.step):
            self._step = record.step
        for call in islice(self.calls(record), self._made[record.seq], None):
            try:
                call()
            except NotImplementedError:
                pass  # it does not take this kind of thing
            self._made[record.seq] += 1

    def _at(self, record: Known) -> int | float | None:
        """The step of a record; where it has none, the newest."""
        step = getattr(record, "step", None)  # of spans there are many
        return step if isinstance(step, (int, float)) and _is_finite(step) else self._step

    def _path(self, record: File) -> str:
        return str(self._dir / record.path)


class Scalars(Calls):
    """One call a number: `log_scalar(name, value, step=step)`."""

    def calls(self, record: Known) -> Iterator[Call]:
        step = self._at(record)
        at = {} if step is None else {"step": step}
        for name, value in _numbers(record).items():
            yield partial(self.native.log_scalar, name, value, **at)


class Tracker(Calls):
    """One call a row, and one for a config, a table, a picture or another file."""

    def calls(self, record: Known) -> Iterator[Call]:
        backend = self.native
        if isinstance(record, Event) and record.name == "config":
            yield partial(backend.log_config, record.data)
        elif isinstance(record, Table) and hasattr(backend, "log_table"):
            columns = list(dict.fromkeys(column for row in record.rows for column in row))
            yield partial(
                backend.log_table, record.name, columns, [[row.get(one) for one in columns] for row in record.rows]
            )
        elif isinstance(record, File) and record.media.startswith("image/"):
            if hasattr(backend, "log_image"):
                yield partial(backend.log_image, record.name, self._path(record), caption=record.caption or None)
        elif isinstance(record, File) and hasattr(backend, "log_artifacts"):
            yield partial(backend.log_artifacts, {record.name: self._path(record)})
        elif row := _numbers(record):
            step = getattr(record, "step", None)
            yield partial(backend.log, row, step=step if step is None or _is_finite(step) else None, commit=True)

    def end(self) -> None:
        self.native.finish()


class Writer(Calls):
    """A metric writer of CLU: scalars, texts, histograms, pictures and, once, the config."""

    _configured = False

    def calls(self, record: Known) -> Iterator[Call]:
        writer, step = self.native, self._at(record) or 0
        if isinstance(record, Event) and record.name == "config":
            if record.data:
                yield lambda: self._configure(record.data)
        elif isinstance(record, Text):
            yield partial(writer.write_texts, step, {record.name: record.text})
        elif isinstance(record, Histogram):
            yield partial(
                writer.write_histograms, step, {record.name: _values(record)}, {record.name: len(record.counts)}
            )
        elif isinstance(record, File) and record.media.startswith("image/"):
            yield lambda: self._picture(record, step)
        elif row := _numbers(record):
            yield partial(writer.write_scalars, step, row)

    def idle(self) -> None:
        if callable(flush := getattr(self.native, "flush", None)):
            flush()

    def _configure(self, config: Mapping[str, Plain]) -> None:
        if not self._configured:  # a writer takes it once
            self.native.write_hparams(_flat(config))
            self._configured = True

    def _picture(self, record: File, step: int | float) -> None:
        try:
            import numpy
            from PIL import Image
        except ImportError as error:
            notes.once(
                f"picture {id(self)}",
                f"pictures are left out for {type(self.native).__name__}: it wants pixels, and {error.name!r} is "
                "not installed",
            )
            return
        with Image.open(self._path(record)) as image:
            self.native.write_images(step, {record.name: numpy.asarray(image.convert("RGB"))})


def _shape(thing: Any) -> Any:
    """What an object is by its methods; None for one that is nothing of it, and for a class."""
    if isinstance(thing, type):
        return None
    if isinstance(thing, TrackerBackend):
        return Tracker
    for shape, methods in (
        (Sink, ("write", "close")),
        (Tracker, ("log", "log_config", "finish")),
        (Scalars, ("log_scalar", "close")),
        (Writer, ("write_scalars", "close")),
    ):
        if all(callable(getattr(thing, method, None)) for method in methods):
            return shape
    return None


def _numbers(record: Known) -> dict[str, Number]:
    """The numbers of a record; an integer of more than 64 bits as a float, or an infinity."""
    return {name: value if _is_short(value) else double(value) for name, value in outward(record).items()}


def _is_short(value: Number) -> bool:
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 63


def _is_finite(step: int | float) -> bool:
    return step - step == 0


def _flat(config: Mapping[str, Plain], prefix: str = "") -> dict[str, Any]:
    """A config with dots, and values as writers of hyperparameters take them."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value if isinstance(value, (bool, int, float, str)) else str(value)
    return flat


def _values(record: Histogram) -> Any:
    """Values that have about this histogram: the middles of its bins, as often as they were counted."""
    import numpy  # CLU has it

    edges = numpy.asarray([float(edge) for edge in record.edges])
    counts = numpy.asarray(record.counts, dtype=float)
    scale = min(1.0, MOST / max(1.0, counts.sum()))
    return numpy.repeat((edges[:-1] + edges[1:]) / 2, numpy.ceil(counts * scale).astype(int))


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether a person has pressed Ctrl-C meanwhile: a KeyboardInterrupt may as well be a backend's own."""
    before = signal.getsignal(signal.SIGINT)
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        if callable(before):
            before(number, frame)

    ours = callable(before) and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: came
    finally:
        if ours and signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)
