"""From the values of a step to one number: any reducer, called exactly once, with all values in one flat array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from chiplog.core.records import Number
from chiplog.core.values import convert
from chiplog.metrics.weighted_means import WeightedMetric, global_weighted_mean

Reducer: TypeAlias = Callable[[Any], Any]
MetricsT: TypeAlias = Mapping[str, tuple[Any, Reducer | None]]  # (value, reducer over the calls of a step) by name


class Texts(list[str]):
    """What values turn out to be that are no numbers: the strings among them, in order."""


def reduce(found: Sequence[Any], reducer: Reducer | None = None) -> Number | Texts | None:
    """The values of several calls as one number, or as texts; None where there are none.

    Lists of any depth and length are taken apart first, so ragged ones count by their elements. Without a reducer it
    is the mean; of weighted values the weighted one. Raises for a reducer that raises or gives no number.
    """
    if any(isinstance(value, WeightedMetric) for value in found):
        return _number((reducer or global_weighted_mean)(found), reducer)
    flat = [one for value in found for one in _leaves(value)]
    texts = [one for one in flat if isinstance(one, str)]
    if texts:
        if len(texts) < len(flat):
            raise TypeError(f"{len(texts)} of its {len(flat)} values are texts, such as {texts[0][:40]!r}")
        return Texts(texts)
    if not flat:
        return None
    if reducer is None:
        mean: float = sum(flat) / len(flat)
        return mean
    import numpy  # whoever reduces with it has it

    return _number(reducer(numpy.asarray(flat)), reducer)


def as_texts(found: Sequence[Any]) -> Texts | None:
    """The values of several calls as texts, numbers too; None where there are none."""
    return Texts(str(one) for value in found for one in _leaves(value)) or None


def _number(result: Any, reducer: Reducer | None) -> Number:
    number = convert.number(result)
    if number is None:
        name = getattr(reducer, "__name__", repr(reducer))
        raise TypeError(f"its reducer {name} gave no number, but {convert.text(result)}")
    return number


def _leaves(value: Any) -> Iterator[Any]:
    if value is None:
        return
    if isinstance(value, (str, bytes)):
        yield value.decode(errors="replace") if isinstance(value, bytes) else value
    elif (number := convert.number(value)) is not None:
        yield number
    elif hasattr(value, "tolist"):
        yield from _leaves(value.tolist())
    elif isinstance(value, Mapping):
        yield from _leaves(list(value.values()))
    else:
        try:
            elements = iter(value)
        except TypeError:
            raise TypeError(f"{convert.text(value)} is neither a number nor a text nor a list of those") from None
        for element in elements:
            yield from _leaves(element)
