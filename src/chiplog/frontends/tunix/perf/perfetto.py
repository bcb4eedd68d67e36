"""The trace file of the first version, for programs that write it themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from math import inf

from chiplog.core.clock import RunClock
from chiplog.frontends.tunix.perf import trace_files
from chiplog.frontends.tunix.perf.span import Span, SpanGroup
from chiplog.store.spans.span import StoredSpan

DEFAULT_TRACE_DIR = DEFAULT_EXPORT_DIR = trace_files.DIRECTORY


class PerfettoTraceWriter(trace_files.TraceFiles):
    """A trace for ui.perfetto.dev, `perfetto_trace_<unix time>.pb`; an unusable directory is reported."""

    def __init__(self, export_dir: str | None = None) -> None:
        super().__init__(export_dir or None, "perfetto_trace")
        self._numbers = count(1)
        self._zero = RunClock().offset  # the wall-clock time at which `time.perf_counter` was 0

    def log_trace(
        self,
        global_step_groups: Sequence[SpanGroup],
        rollout_spans: Iterable[Span],
        refer_inference_spans: Iterable[Span],
        actor_train_groups: Iterable[Span],
    ) -> None:
        """Append a step: the groups of threads, and the work of each role's devices. Returns when the file has it."""
        spans: list[StoredSpan] = []
        for at, group in enumerate(global_step_groups):
            spans += self._recorded(group, "Main" if at == 0 else f"Main -- thread {at}", "", 0)
        roles = {"Rollout": rollout_spans, "Reference": refer_inference_spans, "Actor": actor_train_groups}
        for lane, role_spans in roles.items():
            for span in role_spans:
                spans += self._recorded(span, lane, "device", 0)
        self.write(spans)
        self.flush()

    def _recorded(self, span: Span, lane: str, kind: str, parent: int) -> Iterator[StoredSpan]:
        """Yield a span, if it has ended, and those inside it."""
        number = next(self._numbers)
        if span.end != inf:
            yield trace_files.recorded(span, number, parent, lane, kind, self._zero)
        for inner in span.inner if isinstance(span, SpanGroup) else ():
            yield from self._recorded(inner, lane, kind, number)
