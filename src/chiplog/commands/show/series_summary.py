"""A series in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from chiplog.store.reader import Stored

if TYPE_CHECKING:
    from chiplog.store.points.series import Series


class SeriesSummary(NamedTuple):
    """The last value of a series, its range, and how many of its points are not a number."""

    series: Series
    last: int | float
    min: float | None
    max: float | None
    points: int
    nan: int


def summaries(stored: Stored, names: Iterable[str]) -> Iterator[SeriesSummary]:
    """The series that have points; a newer launch may hide all of one."""
    for name in names:
        series = stored.series(name, missing_ok=True)
        if not len(series):
            continue
        numbers = series.values[series.values == series.values]
        low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (None, None)
        yield SeriesSummary(series, series.exact[-1], low, high, len(series), len(series) - len(numbers))
