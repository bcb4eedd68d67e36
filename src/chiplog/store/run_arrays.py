"""A run as columns: its points, its spans, and what is computed from them. Needs numpy and pyarrow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from chiplog.core.records import Number
from chiplog.metrics.goodput import Ledger, ledger
from chiplog.metrics.waterfall import Share
from chiplog.store import goodput_input, step_breakdown
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.points import data_frames
from chiplog.store.points.columns import Floats, Steps
from chiplog.store.points.overview import Overview
from chiplog.store.points.run_points import RunPoints
from chiplog.store.points.series import Buckets, Series, bucket, bucket_blocks
from chiplog.store.runs.state import AttemptState
from chiplog.store.spans.columns import SpanColumns
from chiplog.store.spans.spans import Spans

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import xarray


class RunArrays:
    """The columns of one run. Every query first reads what is new, one thread at a time."""

    def __init__(self, segments: RunSegments) -> None:
        self._segments, self._points = segments, RunPoints(segments)

    def names(self) -> list[str]:
        with self._refreshed() as points:
            return points.names()

    def series(self, name: str, rank: int | None, attempt: int | None) -> Series:
        with self._points.lock:  # it refreshes the ranks it needs
            return self._points.series(name, rank, attempt)

    def places(self, name: str) -> tuple[Steps, Floats]:
        with self._points.lock:
            return self._points.places(name)

    def replaced_from(self, attempt: int, rank: int) -> Number | None:
        with self._points.lock:
            self._points.refresh({rank})
            return self._points.limit(rank, attempt)

    def overview(self, name: str) -> Overview | None:
        with self._points.lock:
            return self._points.overview(name)

    def buckets(self, name: str, n: int) -> Buckets:
        """In blocks if there are enough for `n` buckets, otherwise in points."""
        with self._points.lock:
            overview = self._points.overview(name)
            if overview is None:
                return bucket(*self._points.places(name), n)
            blocks = overview.blocks
            if overview.points == len(blocks.low) or len(blocks.low) >= n:
                return bucket_blocks(blocks, n)
            return bucket(*self._points.places(name), n)

    def spans(self) -> Spans:
        """All finished spans, by their start."""
        columns = SpanColumns()
        with self._segments.lock:
            for one in self._segments():
                one.refresh()
                in_part = [batch for batches in one.ask(lambda part: part.spans()) for batch in batches]
                assert one.tail.collected is not None, "spans were asked for"
                for batch in chain(in_part, one.tail.collected.spans):
                    columns.append(batch, one.segment.rank, one.segment.attempt)
        return Spans(columns)

    def drawn(self, name: str) -> tuple[Steps, Floats, int]:
        with self._points.lock:
            return *self._points.places(name), self._points.last_time(name)

    def goodput(self, attempts: Sequence[AttemptState], spans: Spans) -> Ledger:
        """Where the time of these attempts went."""
        with self._refreshed() as points:
            return ledger(goodput_input.attempt_times(points, attempts, spans, time.time_ns()))

    def step_parts(self, spans: Spans) -> list[Share]:
        """A typical recent step as a waterfall."""
        with self._refreshed() as points:
            return step_breakdown.typical_step(points, spans)

    def to_arrow(self) -> pyarrow.Table:
        with self._refreshed() as points:
            return data_frames.to_arrow(points)

    def tables(self) -> Iterator[pyarrow.Table]:
        with self._refreshed() as points:
            yield from data_frames.tables(points)

    def to_pandas(self) -> pandas.DataFrame:
        with self._refreshed() as points:
            return data_frames.to_pandas(points)

    def to_polars(self) -> polars.DataFrame:
        with self._refreshed() as points:
            return data_frames.to_polars(points)

    def to_xarray(self) -> xarray.Dataset:
        with self._refreshed() as points:
            return data_frames.to_xarray(points)

    @contextmanager
    def _refreshed(self) -> Iterator[RunPoints]:
        with self._points.lock:
            self._points.refresh()
            yield self._points
