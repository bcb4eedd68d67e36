"""The first version's trace file, for those who write it themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from math import inf

from chiplog.core.clock import RunClock
from chiplog.frontends.tunix.perf import trace_files
from chiplog.frontends.tunix.perf.span import Span, SpanGroup
from chiplog.store.spans.span import Span as Recorded

DEFAULT_TRACE_DIR = DEFAULT_EXPORT_DIR = trace_files.DIRECTORY


class PerfettoTraceWriter(trace_files.TraceWriter):
    """A trace for ui.perfetto.dev, `perfetto_trace_<unix time>.pb`; a directory that cannot be used is reported."""

    def __init__(self, export_dir: str | None = None) -> None:
        super().__init__(export_dir or None, "perfetto_trace")
        self._numbers = count(1)
        self._zero = RunClock().offset  # wall-clock time at which `time.perf_counter` was 0

    def log_trace(
        self,
        global_step_groups: Sequence[SpanGroup],
        rollout_spans: Iterable[Span],
        refer_inference_spans: Iterable[Span],
        actor_train_groups: Iterable[Span],
    ) -> None:
        """Append a step: the threads' groups, and what each role's devices did. It is in the file when this returns."""
        found: list[Recorded] = []
        for at, group in enumerate(global_step_groups):
            found += self._all(group, "Main" if at == 0 else f"Main -- thread {at}", "", 0)
        for lane, spans in (
            ("Rollout", rollout_spans),
            ("Reference", refer_inference_spans),
            ("Actor", actor_train_groups),
        ):
            for span in spans:
                found += self._all(span, lane, "device", 0)
        self.write(found)
        self.flush()

    def _all(self, span: Span, lane: str, kind: str, parent: int) -> Iterator[Recorded]:
        """A span that has ended, and those in it."""
        number = next(self._numbers)
        if span.end != inf:
            start, stop = (round(second * 1e9) + self._zero for second in (span.begin, span.end))
            yield Recorded(
                number,
                parent,
                span.name,
                lane,
                start,
                stop - start,
                failed=bool(span.error),
                kind=kind,
                error=span.error,
            )
        for inner in span.inner if isinstance(span, SpanGroup) else ():
            yield from self._all(inner, lane, kind, number)
