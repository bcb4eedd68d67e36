"""A logged histogram in a few numbers, which are as exact as its bins."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite
from typing import NamedTuple

from chiplog.core.records import HistogramRecord, Number
from chiplog.store.journal.lines import number


class Distribution(NamedTuple):
    """A histogram, the total of its counts, their mean, and the range of the bins that have any."""

    name: str
    step: Number | None
    logged: int  # how often, up to this one
    edges: list[float]
    counts: list[Number]
    total: Number
    mean: float | None
    min: float | None
    max: float | None


def distribution(record: HistogramRecord, logged: int = 1) -> Distribution | None:
    """The numbers of a histogram; None if its counts and edges do not fit together or are not finite."""
    try:
        edges = [number(edge) for edge in record.edges]
        total = sum(record.counts)
    except TypeError:
        return None
    counts = record.counts
    if len(edges) != len(counts) + 1 or not all(map(isfinite, (*edges, total))):
        return None
    filled = [at for at, count in enumerate(counts) if count > 0]
    centres = [low / 2 + high / 2 for low, high in pairwise(edges)]
    mean = sum(count / total * centre for count, centre in zip(counts, centres, strict=True)) if filled else None
    low, high = (edges[filled[0]], edges[filled[-1] + 1]) if filled else (None, None)
    return Distribution(record.name, record.step, logged, edges, counts, total, mean, low, high)
