"""Backends of your own: called from here, or as a sink of rank 0, once per update with everything that was in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from chiplog.core.identity import Identity
from chiplog.core.records import Event, File, Known, Table
from chiplog.sinks.adapters import backends as wrappers
from chiplog.sinks.adapters.backend_calls import Call
from chiplog.sinks.shared.update_rows import Updates

logger = logging.getLogger("chiplog.ezpz")


def call_each(
    backends: Sequence[Any],
    method: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    warned: set[tuple[int, str]],
    name: Any,
) -> None:
    """Call a method of every backend that has it; one that raises is warned of once, and keeps nobody else from it."""
    for backend in backends:
        if not callable(call := getattr(backend, method, None)):
            continue
        try:
            call(*args, **kwargs)
        except Exception as error:
            if (id(backend), method) not in warned:
                warned.add((id(backend), method))
                logger.warning("backend %s.%s() failed: %s: %s", name(backend), method, type(error).__name__, error)


def by_update(backend: Any) -> Callable[..., ByUpdate]:
    """A factory of the sink; `outdir` is the `files` of a run, below its directory."""

    def make(outdir: str = "") -> ByUpdate:
        return ByUpdate(backend, Path(outdir).parent)

    return make


class ByUpdate(wrappers.TrackerAdapter):
    """Vectors, texts and values that came later are in the row they were logged with; late statistics are in none."""

    def __init__(self, backend: Any, run: Path) -> None:
        super().__init__(backend, Identity("", "", run, "", ""))
        self._updates = Updates()

    def calls_for(self, record: Known) -> Iterator[Call]:
        for step, _, metrics in self._updates.feed(record):
            finite = step is not None and step - step == 0
            yield Call(partial(self.native.log, dict(metrics), step=step if finite else None, commit=True))
        if isinstance(record, (Table, File)) or (isinstance(record, Event) and record.name == "config"):
            yield from super().calls_for(record)
