"""The sinks by name: ours, those of other packages, and objects as they are.

A local sink is cheap and runs on a thread of the training process. A service talks to somebody else through a package
of theirs, so it runs in the relay process (`relay.py`), and is not even imported beside the training.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from chiplog.core.errors import BadSetting, MissingPackage, UnknownSink
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord


class Service(NamedTuple):
    """What can be known of a service without importing it."""

    package: str  # the module its own one needs
    options: tuple[str, ...]  # the keywords of its `open_sink`


# Each is a module here with a function `open_sink(identity, environ, **options)`.
LOCAL = ("console", "csv", "jsonl", "json", "memory")
SERVICES: dict[str, Service] = {
    "mlflow": Service("mlflow", ("experiment", "uri", "prefix", "artifacts", "system")),
}
BUILT_IN = (*LOCAL, *SERVICES)
NONE = "none"
GROUP, SERVICE_GROUP = "chiplog.sinks", "chiplog.services"  # entry points of other packages

Opener = Callable[..., Sink]


def names() -> list[str]:
    """All names that can be asked for."""
    return [*BUILT_IN, *_foreign(GROUP), *_foreign(SERVICE_GROUP), NONE]


def is_service(name: str) -> bool:
    """Whether a sink belongs into the relay; fails for a name nobody answers to, and for a package that is missing."""
    if name in LOCAL:
        return False
    if name in SERVICES:
        package = SERVICES[name].package
        if find_spec(package) is None:
            raise MissingPackage(f"the {name!r} sink needs the {package!r} package: pip install 'chiplog[{name}]'")
        return True
    if name in _foreign(SERVICE_GROUP):
        return True
    if name in _foreign(GROUP):
        return False
    raise UnknownSink(f"no sink named {name!r}; there are: {', '.join(names())}")


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Fails for an option that a service of ours does not have, without importing it."""
    if name in SERVICES:
        _check(name, options, SERVICES[name].options)


def open_named(name: str, options: Mapping[str, Any], identity: Identity, environ: Mapping[str, str]) -> Sink:
    """Open a sink by its name."""
    opener = _opener(name)
    if options:
        _check(name, options, list(inspect.signature(opener).parameters)[2:])
    return opener(identity, environ, **options)


def open_objects(things: Iterable[tuple[str | None, Any]]) -> dict[str, Sink]:
    """Objects as sinks, under the name given with them, their own, or that of their class."""
    opened: dict[str, Sink] = {}
    for given, thing in things:
        name = given or getattr(thing, "name", None) or getattr(thing, "__name__", type(thing).__name__)
        name = str(name).lower()
        while name in opened:
            name += "-2"
        opened[name] = _object(thing)
    return opened


def _check(name: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    for option in options:
        if option not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise BadSetting(f"the {name!r} sink has no option {option!r}; {has}")


def _opener(name: str) -> Opener:
    if name in BUILT_IN:
        try:
            opener: Opener = import_module(f"chiplog.sinks.{name}").open_sink
        except ImportError as error:
            raise MissingPackage(
                f"the {name!r} sink needs the {error.name!r} package: pip install 'chiplog[{name}]'"
            ) from error
        return opener
    for group in (GROUP, SERVICE_GROUP):
        if (entry := _foreign(group).get(name)) is not None:
            factory: Opener = entry.load()
            return factory
    raise UnknownSink(f"no sink named {name!r}; there are: {', '.join(names())}")


def _foreign(group: str) -> dict[str, Any]:
    """The entry points of other packages."""
    from importlib.metadata import entry_points  # 20 ms, and needed only for names that are not ours

    return {entry.name: entry for entry in entry_points(group=group)}


def _object(thing: Any) -> Sink:
    """A sink as it is, from a class or factory without arguments, or around a function of a batch."""
    if isinstance(thing, type):
        thing = thing()
    if isinstance(thing, Sink):
        return thing
    if callable(thing):
        return _Function(thing)
    raise BadSetting(
        f"{thing!r} is no sink: a sink is a name, an object with write(batch) and close(), or a function of a batch"
    )


class _Function:
    """A function as a sink: called with every batch that is not empty."""

    def __init__(self, function: Callable[[Sequence[AnyRecord]], Any]) -> None:
        self._function = function

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if batch:
            self._function(batch)

    def close(self) -> None:
        pass
