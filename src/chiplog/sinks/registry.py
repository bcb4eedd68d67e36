"""The sinks by name: ours, those of other packages (entry point group `chiplog.sinks`), and objects as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from chiplog.core.errors import BadSetting, MissingPackage, UnknownSink
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord

BUILT_IN = ("console", "csv", "jsonl", "json", "memory")  # each a module here, with a function `open_sink`
NONE = "none"
GROUP = "chiplog.sinks"


def names() -> list[str]:
    """All names that can be asked for."""
    return [*BUILT_IN, *_foreign(), NONE]


def open_sinks(wanted: Iterable[Any], identity: Identity, environ: Mapping[str, str]) -> dict[str, Sink]:
    """Open what was asked for, by name; fails at once for a name nobody answers to."""
    opened: dict[str, Sink] = {}
    for one in wanted:
        if one == NONE:
            continue
        name = (
            one if isinstance(one, str) else getattr(one, "name", None) or getattr(one, "__name__", type(one).__name__)
        )
        name = str(name).lower()
        while name in opened and not isinstance(one, str):
            name += "-2"
        opened[name] = _named(one)(identity, environ) if isinstance(one, str) else _object(one)
    return opened


def _named(name: str) -> Callable[[Identity, Mapping[str, str]], Sink]:
    if name in BUILT_IN:
        try:
            opener: Callable[[Identity, Mapping[str, str]], Sink] = import_module(f"chiplog.sinks.{name}").open_sink
        except ImportError as error:
            raise MissingPackage(
                f"the {name!r} sink needs the {error.name!r} package: pip install 'chiplog[{name}]'"
            ) from None
        return opener
    if (entry := _foreign().get(name)) is not None:
        factory: Callable[[Identity, Mapping[str, str]], Sink] = entry.load()
        return factory
    raise UnknownSink(f"no sink named {name!r}; there are: {', '.join(names())}")


def _foreign() -> dict[str, Any]:
    """The entry points of other packages."""
    from importlib.metadata import entry_points  # 20 ms, and needed only for names that are not ours

    return {entry.name: entry for entry in entry_points(group=GROUP)}


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
