"""Statistics across ranks: mean, max, min and deviation of each metric, in doubles, over the ranks that have it.

For the finite values v of the ranks: `mean` = Σv / n, `std` = sqrt(Σ(v − mean)² / n) (of the population, in two passes,
so that values that are large and close together lose no digits), `count` = n.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from math import sqrt
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from chiplog.core.records import Row
from chiplog.metrics.catalog import STATISTICS, is_counter, is_setting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW = 1024  # values up to which statistics are computed without numpy
ALWAYS = STATISTICS


class Extras(msgspec.Struct, frozen=True):
    """Statistics besides mean, max, min and std."""

    count: bool = False  # x/count: over how many ranks
    where: bool = False  # x/max_rank and x/min_rank: the rank with the extreme
    quantiles: tuple[int, ...] = ()  # percent: x/p50, ...; the nearest rank's value
    nan: bool = False  # values that are not finite count too, so that a NaN makes the statistics NaN


class Values(NamedTuple):
    """The names and values of one row, as doubles in native bytes."""

    names: tuple[str, ...]
    doubles: bytes


class Across(NamedTuple):
    """The statistics of a step, and for each name the ranks whose value is not finite."""

    row: Row
    bad: dict[str, list[int]]


def is_reduced(name: str) -> bool:
    """Whether a mean across ranks makes sense: not for counters and hyperparameters."""
    return not (is_counter(name) or is_setting(name))


NOTHING = Extras()
USUAL = (NOTHING, Extras(nan=True))


def across(ranks: dict[int, list[Values]], extras: Extras = NOTHING, *, world: int = 0) -> Across:
    """The statistics of the ranks' rows of one step; values are matched by name, in any order.

    A name that some ranks do not have gets its `count`; one with a value that is not finite is also in `bad`. If a rank
    logs a name several times, the last value counts. A statistic whose own name is logged is left out, because that
    name has a value already.
    """
    if len(ranks) >= world and extras in USUAL and (row := _quick(ranks)) is not None:
        return Across(row, {})
    import numpy as np

    who, names, matrix, absent = _matrix(ranks)
    if not names:
        return Across({}, {})
    finite = np.isfinite(matrix)
    whole = bool(finite.all())
    counted = finite
    if extras.nan:
        counted = np.ones(matrix.shape, np.bool_) if absent is None else ~absent
    count = counted.sum(axis=0)
    with np.errstate(all="ignore"):
        columns = _columns(matrix, counted, count, whole, extras, np.array(who))
        row = dict(zip(_keys(names, extras), np.stack(columns, axis=1).ravel().tolist(), strict=True))
    for name in _whole_numbers(names, extras):
        if row[name] == row[name]:
            row[name] = int(row[name])
    for name in _taken(names, extras):
        row.pop(name, None)
    if whole and len(who) >= world:
        return Across(row, {})
    bad = ~finite if absent is None else ~finite & ~absent
    logged = set(names)
    for at in np.flatnonzero(count < max(world, len(who))).tolist():
        if f"{names[at]}/count" not in logged:
            row[f"{names[at]}/count"] = int(count[at])
    return Across(row, {names[at]: [who[r] for r in np.flatnonzero(bad[:, at])] for at in np.flatnonzero(bad.any(0))})


def _quick(ranks: dict[int, list[Values]]) -> Row | None:
    """The usual case: a few ranks have each logged the same names once, and all is finite; None otherwise.

    Without numpy, which takes much longer when the training between two steps has evicted its code from the caches.
    """
    rows = list(ranks.values())
    if not rows or not rows[0]:
        return None
    names = rows[0][0].names
    if len(rows) * len(names) > FEW or not all(len(one) == 1 and one[0].names == names for one in rows):
        return None
    count = len(rows)
    statistics: list[float] = []
    for values in zip(*(array("d", one[0].doubles) for one in rows), strict=True):
        mean = sum(values) / count
        if mean - mean != 0:  # not finite
            return None
        apart = [value - mean for value in values]
        statistics += (mean, max(values), min(values), sqrt(sum(map(mul, apart, apart)) / count))
    row: Row = dict(zip(_keys(names, NOTHING), statistics, strict=True))
    for name in _taken(names, NOTHING):
        row.pop(name, None)
    return row


def _matrix(
    ranks: dict[int, list[Values]],
) -> tuple[list[int], tuple[str, ...], NDArray[np.float64], NDArray[np.bool_] | None]:
    """(ranks, names, values by rank and name, a mask of absent values)."""
    import numpy as np

    who = sorted(ranks)
    rows = [ranks[rank] for rank in who]
    first = rows[0][0].names if rows and rows[0] else ()
    if all(len(one) == 1 and one[0].names == first for one in rows):  # the usual case
        joined = b"".join(one[0].doubles for one in rows)
        return who, first, np.frombuffer(joined, np.float64).reshape(len(who), len(first)), None
    names = tuple(dict.fromkeys(name for one in rows for values in one for name in values.names))
    indices = {name: at for at, name in enumerate(names)}
    matrix = np.full((len(who), len(names)), np.nan)
    absent = np.ones(matrix.shape, np.bool_)
    for at, one in enumerate(rows):
        for values in one:
            columns = [indices[name] for name in values.names]
            matrix[at, columns] = np.frombuffer(values.doubles, np.float64)
            absent[at, columns] = False
    return who, names, matrix, absent


def _columns(
    matrix: NDArray[np.float64],
    finite: NDArray[np.bool_],
    count: NDArray[np.int64],
    whole: bool,
    extras: Extras,
    who: NDArray[np.int64],
) -> list[NDArray[np.float64]]:
    import numpy as np

    kept = matrix if whole else np.where(finite, matrix, 0.0)
    mean = kept.sum(axis=0) / count
    apart = kept - mean
    low, high = (matrix, matrix) if whole else (np.where(finite, matrix, np.inf), np.where(finite, matrix, -np.inf))
    none = count == 0
    columns = [
        mean,
        np.where(none, np.nan, high.max(axis=0)),
        np.where(none, np.nan, low.min(axis=0)),
        np.sqrt((apart * apart).sum(axis=0, where=finite) / count),
    ]
    if extras.quantiles:
        ordered = np.sort(low, axis=0)  # values that are not finite come last
        for percent in extras.quantiles:
            nearest = np.maximum(np.ceil(percent / 100 * count).astype(np.int64) - 1, 0)
            columns.append(np.where(none, np.nan, np.take_along_axis(ordered, nearest[None], axis=0)[0]))
    if extras.where:
        columns += [
            np.where(none, np.nan, who[high.argmax(axis=0)].astype(np.float64)),
            np.where(none, np.nan, who[low.argmin(axis=0)].astype(np.float64)),
        ]
    if extras.count:
        columns.append(count.astype(np.float64))
    return columns


@lru_cache(maxsize=256)
def _keys(names: tuple[str, ...], extras: Extras) -> tuple[str, ...]:
    kinds = [*ALWAYS, *(f"p{percent}" for percent in extras.quantiles), *_whole_kinds(extras)]
    return tuple(f"{name}/{kind}" for name in names for kind in kinds)


@lru_cache(maxsize=256)
def _taken(names: tuple[str, ...], extras: Extras) -> tuple[str, ...]:
    return tuple({*_keys(names, extras)}.intersection(names))


@lru_cache(maxsize=256)
def _whole_numbers(names: tuple[str, ...], extras: Extras) -> tuple[str, ...]:
    return tuple(f"{name}/{kind}" for name in names for kind in _whole_kinds(extras))


def _whole_kinds(extras: Extras) -> Sequence[str]:
    return (("max_rank", "min_rank") if extras.where else ()) + (("count",) if extras.count else ())
