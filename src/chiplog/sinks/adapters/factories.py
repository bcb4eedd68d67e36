"""Factories: classes and functions that make a backend.

A factory is called on the same thread as its backend, since many clients are bound to the thread that created them: a
connection of sqlite3, the active run of MLflow.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from chiplog.core import messages
from chiplog.core.errors import SinkLost
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord, Plain
from chiplog.core.values.text import words
from chiplog.sinks.adapters.backends import Wrapper, shape_of, wrap

PATIENCE = 10.0  # s that `init` waits for a factory


class FactoryThread:
    """A thread that calls a factory at once, and then does other work."""

    def __init__(self, factory: Callable[[], object], name: str = "") -> None:
        self.factory = name or factory_name(factory)
        self._shared = _Shared()
        self._thread = threading.Thread(
            target=_run, args=(factory, self._shared), name=f"chiplog-{self.factory}", daemon=True
        )
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the factory, `PATIENCE` seconds by default; whether it has returned or raised."""
        return self._shared.made.wait(PATIENCE if timeout is None else timeout)

    def product(self) -> Any:
        """The result of the factory; raises what it raised."""
        if self._shared.error is not None:
            raise self._shared.error
        return self._shared.product

    def start(self, work: Callable[[], None]) -> None:
        """Do this on the thread, once the factory has returned."""
        self._shared.work = work
        self._shared.go.set()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def __del__(self) -> None:
        self._shared.go.set()  # let the thread end


class _Shared:
    """State shared by a thread and its owner, which the thread must not keep alive."""

    def __init__(self) -> None:
        self.made, self.go = threading.Event(), threading.Event()
        self.product: object = None
        self.error: BaseException | None = None
        self.work: Callable[[], None] | None = None


def _run(factory: Callable[[], object], shared: _Shared) -> None:
    try:
        shared.product = factory()
    except BaseException as error:  # even SystemExit, which must not end the thread
        shared.error = error
    shared.made.set()
    shared.go.wait()
    if shared.work is not None:
        shared.work()


class MadeSink:
    """The sink that a factory makes on its thread; `opened` is true once it exists."""

    def __init__(self, thread: FactoryThread, identity: Identity) -> None:
        self.thread, self._identity = thread, identity
        self._sink: Sink | None = None
        self._lock = threading.Lock()
        if not thread.wait():
            messages.say(
                f"the backend factory {thread.factory} has not returned within {PATIENCE:g} s; the run starts, and the "
                "backend gets everything once it exists"
            )

    @property
    def opened(self) -> bool:
        return self.thread.wait(0)

    @property
    def sink(self) -> Sink:
        """The sink itself; if the factory raised, one that reports it."""
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
    """Replaces a sink that could not be made: reports the reason, and is not retried."""

    def __init__(self, error: BaseException, what: str = "it could not be opened: ") -> None:
        self.error, self._what = error, what

    def write(self, batch: Sequence[AnyRecord]) -> None:  # noqa: ARG002
        raise SinkLost(f"{self._what}{words(self.error)}") from self.error

    def close(self) -> None:
        self.write([])


def is_factory(thing: object) -> TypeGuard[Callable[..., object]]:
    """Whether an object makes a backend, rather than being one: a class, or a callable without required arguments.

    A function with a required argument, or with `*args`, is a function of a batch.
    """
    if isinstance(thing, type):
        return True
    if shape_of(thing) is not None or not callable(thing):
        return False
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):  # some functions in C have none
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in kinds and one.default is one.empty]
    return not needed and not any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)


def factory_name(factory: object) -> str:
    """The name of a factory; a lambda is identified by its line."""
    if isinstance(factory, functools.partial):
        return factory_name(factory.func)
    name = str(getattr(factory, "__qualname__", type(factory).__qualname__)).rpartition("<locals>.")[2]
    code = getattr(factory, "__code__", None)
    if name == "<lambda>" and code is not None:
        return f"lambda ({Path(code.co_filename).name}:{code.co_firstlineno})"
    return name


def make(factory: Callable[..., object], identity: Identity, options: Mapping[str, Plain] | None = None) -> Sink:
    """The sink that a factory makes, once, on a thread of its own. The factory gets the options, and those of
    `project_name`, `config`, `outdir` and `rank` for which it has parameters."""
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
    arguments = {key: fact for key, fact in facts.items() if takes_all or key in named} | dict(options or {})
    return MadeSink(FactoryThread(lambda: factory(**arguments), factory_name(factory)), identity)


def opened(make: Callable[[], object], identity: Identity) -> Sink:
    """The sink that foreign code makes on this thread; if it fails, one that reports why."""
    try:
        thing = make()
        return thing if isinstance(thing, MadeSink) else wrap(thing, identity)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # even SystemExit, which must not end the training
        return Unopened(error)


def native(sink: Sink) -> Any:
    """The object inside a wrapper; one that is being made is waited for."""
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
