"""A run as columns: its points, as series and as tables, and what is computed from them. Needs numpy and pyarrow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.metrics.goodput import Ledger, ledger
from chiplog.metrics.waterfall import Share
from chiplog.store import goodput_input, step_breakdown
from chiplog.store.points import data_frames
from chiplog.store.points.columns import Floats, Steps
from chiplog.store.points.run_points import RunPoints
from chiplog.store.points.series import Series
from chiplog.store.runs.state import AttemptState
from chiplog.store.spans.spans import Spans

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import xarray


class RunColumns:
    """The columns of one run. Every query first reads what is new, one thread at a time."""

    def __init__(self, run: Path) -> None:
        self._points = RunPoints(run)

    def names(self) -> list[str]:
        with self._refreshed() as points:
            return points.names()

    def series(self, name: str, rank: int | None, attempt: int | None) -> Series:
        with self._points.lock:  # it refreshes the ranks it needs
            return self._points.series(name, rank, attempt)

    def places(self, name: str) -> tuple[Steps, Floats]:
        with self._points.lock:
            return self._points.places(name)

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
