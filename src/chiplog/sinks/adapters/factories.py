"""Factories: classes and functions that make a backend.

A factory is called on the thread that calls the backend from then on, since many clients are bound to the thread that
made them: a connection of sqlite3, the active run of MLflow.
"""

from __future__ import annotations

import functools
import inspect
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from chiplog.core import messages
from chiplog.core.errors import SinkLost
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord
from chiplog.core.values.text import words
from chiplog.sinks.adapters.backends import Wrapper, shape_of, wrap

PATIENCE = 10.0  # s that a run waits for a factory before it begins


class FactoryThread:
    """A thread that calls a factory at once, and then does the work that it is given."""

    def __init__(self, factory: Callable[[], Any], name: str = "") -> None:
        self.factory = name or factory_name(factory)
        self._shared = _Shared()
        self._thread = threading.Thread(
            target=_live, args=(factory, self._shared), name=f"chiplog-{self.factory}", daemon=True
        )
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether the factory has returned or raised; it is waited for so long, `PATIENCE` unless given."""
        return self._shared.made.wait(PATIENCE if timeout is None else timeout)

    def product(self) -> Any:
        """What the factory has made; raises what it raised."""
        if self._shared.error is not None:
            raise self._shared.error
        return self._shared.product

    def start(self, work: Callable[[], None]) -> None:
        """Have the thread do this when the factory has returned."""
        self._shared.work = work
        self._shared.go.set()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def __del__(self) -> None:
        self._shared.go.set()  # nobody has work for it any more


class _Shared:
    """What a thread and its owner both see; the thread must not keep its owner alive."""

    def __init__(self) -> None:
        self.made, self.go = threading.Event(), threading.Event()
        self.product: Any = None
        self.error: BaseException | None = None
        self.work: Callable[[], None] | None = None


def _live(factory: Callable[[], Any], shared: _Shared) -> None:
    try:
        shared.product = factory()
    except BaseException as error:  # SystemExit too: it is the backend's affair
        shared.error = error
    shared.made.set()
    shared.go.wait()
    if shared.work is not None:
        shared.work()


class MadeSink:
    """The sink that a factory makes on its thread; `opened` is true when it is there."""

    def __init__(self, thread: FactoryThread, identity: Identity) -> None:
        self.thread, self._identity = thread, identity
        self._sink: Sink | None = None
        self._lock = threading.Lock()
        if not thread.wait():
            messages.say(
                f"the backend factory {thread.factory} has not returned within {PATIENCE:g} s; the run begins, and the "
                "backend gets everything when it is there"
            )

    @property
    def opened(self) -> bool:
        return self.thread.wait(0)

    @property
    def sink(self) -> Sink:
        """The sink itself; where the factory raised, one that says so."""
        with self._lock:
            if self._sink is None:
                self._sink = self._wrapped()
            return self._sink

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self.sink.write(batch)

    def close(self) -> None:
        self.sink.close()

    def _wrapped(self) -> Sink:
        try:
            product = self.thread.product()
        except BaseException as error:
            return Unopened(error, f"its factory {self.thread.factory} raised ")
        try:
            return wrap(product, self._identity)
        except Exception as error:
            return Unopened(error)


class Unopened:
    """In the place of a sink that could not be made: it says so, and is not tried again."""

    def __init__(self, error: BaseException, what: str = "it could not be opened: ") -> None:
        self.error, self._what = error, what

    def write(self, batch: Sequence[AnyRecord]) -> None:  # noqa: ARG002
        raise SinkLost(f"{self._what}{words(self.error)}") from self.error

    def close(self) -> None:
        self.write([])


def is_factory(thing: Any) -> bool:
    """Whether a thing makes a backend, rather than being one: a class, or what is called without arguments.

    A function that must be given something, or takes any number of things, is a function of a batch.
    """
    if isinstance(thing, type):
        return True
    if shape_of(thing) is not None or not callable(thing):
        return False
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):  # some that are written in C do not say
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in kinds and one.default is one.empty]
    return not needed and not any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)


def factory_name(factory: Any) -> str:
    """What a person calls a factory by; a lambda is known by its line."""
    if isinstance(factory, functools.partial):
        return factory_name(factory.func)
    name = str(getattr(factory, "__qualname__", type(factory).__qualname__)).rpartition("<locals>.")[2]
    code = getattr(factory, "__code__", None)
    if name == "<lambda>" and code is not None:
        return f"lambda ({Path(code.co_filename).name}:{code.co_firstlineno})"
    return name


def make(factory: Callable[..., Any], identity: Identity, options: Mapping[str, Any] | None = None) -> Sink:
    """The sink that a factory makes, once, on a thread of its own. The factory is given the options, and what it has
    parameters for of the run it is for: `project_name`, `config`, `outdir`, `rank`."""
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
    arguments = {key: fact for key, fact in facts.items() if takes_all or key in named} | given
    return MadeSink(FactoryThread(lambda: factory(**arguments), factory_name(factory)), identity)


def opened(make: Callable[[], Any], identity: Identity) -> Sink:
    """The sink that foreign code makes here; if it fails, one that says why, so that the run and its other sinks
    go on."""
    with _interrupts() as interrupted:
        try:
            thing = make()
            return thing if isinstance(thing, MadeSink) else wrap(thing, identity)
        except BaseException as error:  # SystemExit too: it is the backend's affair, unlike a person's Ctrl-C
            if interrupted():
                raise
            return Unopened(error)


def native(sink: Sink) -> Any:
    """The object that was given or made, without what was put around it; one that is being made is waited for."""
    if isinstance(sink, MadeSink) and sink.thread.wait():
        return native(sink.sink)
    return sink.native if isinstance(sink, Wrapper) else sink


class Natives(Mapping[str, Any]):
    """The objects behind sinks, by name."""

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks = sinks

    def __getitem__(self, name: str) -> Any:
        return native(self._sinks[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._sinks)

    def __len__(self) -> int:
        return len(self._sinks)

    def __contains__(self, name: object) -> bool:
        return name in self._sinks


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
