"""Reads a run's own journal while it is being written: its summary and its spans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from chiplog.core.engine.background_tasks import BackgroundTasks
from chiplog.core.engine.events import Changes
from chiplog.core.engine.recorder import Recorder
from chiplog.core.records import Plain
from chiplog.core.tracing.tracer import Tracer
from chiplog.core.values import convert
from chiplog.core.values.observed_dict import Summary


class RunReader(Protocol):
    """What a run needs of the reader, which belongs to the store."""

    @property
    def summary(self) -> Mapping[str, Plain]: ...

    def spans(self) -> Any: ...


class LiveReader:
    """The summary and the spans of one run; empty without a reader."""

    def __init__(
        self,
        recorder: Recorder,
        tracer: Tracer,
        tasks: BackgroundTasks,
        changes: Changes,
        read: Callable[[], RunReader] | None,
    ) -> None:
        self._recorder, self._tracer, self._tasks, self._read = recorder, tracer, tasks, read
        self._changes = changes
        self._by_hand: dict[str, Plain] = {}

    def summary(self) -> Summary:
        return Summary(self._by_hand, self._read_summary, self._set_summary)

    def spans(self) -> Any:
        if self._read is None:
            return []
        self._tracer.poll()
        self._tasks.write_spans()
        if self._recorder.journal is not None:
            self._recorder.journal.flush()
        return self._read().spans()

    def _read_summary(self) -> Mapping[str, Plain]:
        if self._read is None or self._recorder.journal is None:
            return {}
        self._recorder.journal.flush()
        return self._read().summary

    def _set_summary(self, changed: Mapping[str, object]) -> None:
        self._by_hand.update(convert.plain(changed))
        self._changes.write("summary", changed)

    def repeat_summary(self) -> None:
        """Record the values set by hand once more, at the end, where lists of runs look for them."""
        if self._by_hand:
            self._changes.write("summary", self._by_hand)
