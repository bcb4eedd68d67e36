"""Reduces the values of a step to one number; a reducer is called exactly once, with all values in one flat array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from chiplog.core.records import Number
from chiplog.core.values import convert
from chiplog.metrics.step_values.weighted_means import WeightedMetric, global_weighted_mean

Reducer: TypeAlias = Callable[[Any], object]  # of a flat array; the result should be a number
MetricsT: TypeAlias = Mapping[str, tuple[Any, Reducer | None]]  # (value, reducer over the calls of a step) by name


class Texts(list[str]):
    """Values that are strings rather than numbers, in order."""


def reduce(values: Sequence[Any], reducer: Reducer | None = None) -> Number | Texts | None:
    """The values of several calls as one number, or as texts; None if there are none.

    Lists of any depth and length are flattened first, so ragged ones count by their elements. The default is the mean,
    weighted for weighted values. Raises if the reducer raises or does not return a number.
    """
    if any(isinstance(value, WeightedMetric) for value in values):
        return _number((reducer or global_weighted_mean)(values), reducer)
    flat = list(_flatten(values))
    texts = [one for one in flat if isinstance(one, str)]
    if texts:
        if len(texts) < len(flat):
            raise TypeError(f"{len(texts)} of its {len(flat)} values are texts, such as {texts[0][:40]!r}")
        return Texts(texts)
    numbers = [one for one in flat if not isinstance(one, str)]
    if not numbers:
        return None
    if reducer is None:
        return sum(numbers) / len(numbers)
    import numpy  # a reducer is usually numpy's own

    return _number(reducer(numpy.asarray(numbers)), reducer)


def as_texts(values: Sequence[object]) -> Texts | None:
    """The values of several calls as texts, including numbers; None if there are none."""
    return Texts(map(str, _flatten(values))) or None


def _number(result: object, reducer: Reducer | None) -> Number:
    number = convert.number(result)
    if number is None:
        name = getattr(reducer, "__name__", repr(reducer))
        raise TypeError(f"its reducer {name} did not return a number, but {convert.text(result)}")
    return number


def _flatten(values: Iterable[Any]) -> Iterator[Number | str]:
    for value in values:
        if value is None:
            continue
        if isinstance(value, (str, bytes)):
            yield value.decode(errors="replace") if isinstance(value, bytes) else value
        elif (number := convert.number(value)) is not None:
            yield number
        elif isinstance(value, Mapping):
            yield from _flatten(value.values())
        else:
            elements = value.tolist() if hasattr(value, "tolist") else value
            if not isinstance(elements, Iterable):
                raise TypeError(f"{convert.text(value)} is neither a number nor a text nor a list of these")
            yield from _flatten(elements)
