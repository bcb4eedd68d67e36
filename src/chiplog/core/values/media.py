"""Logged values that are more than a number: text, histograms, matrices and images."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from chiplog.core import messages, records
from chiplog.core.values import pictures
from chiplog.core.values.redact import redact_text
from chiplog.core.values.text import cut, words


class Media:
    """A value in a row that is not a number; becomes a record of its own kind.

    It is made in the training loop, so a constructor never raises: `log` reports its `problem`.
    """

    __slots__ = ()
    kind: type[records.Record]
    problem: str = ""  # why it cannot be kept

    def fields(self) -> dict[str, records.Plain]:
        """The fields of that record, except its name and step."""
        raise NotImplementedError

    def records(self, name: str) -> Iterable[tuple[type[records.Record], dict[str, records.Plain]]]:
        """The records it becomes, each as its kind and its fields except the step."""
        return [(self.kind, {"name": name, **self.fields()})]


class Text(Media):
    """Text, such as a sample of the model: `run.log({"sample": Text(output)})`."""

    __slots__ = ("text",)
    kind = records.TextRecord

    def __init__(self, text: str) -> None:
        self.text = text

    def fields(self) -> dict[str, records.Plain]:
        return {"text": redact_text(cut(str(self.text)))}


class Histogram(Media):
    """A distribution, binned immediately: from values, or from `counts` and `edges` (one more edge than counts).

    The minimum, maximum and mean of values are kept as well, because bins have them only approximately.
    """

    __slots__ = ("counts", "edges", "problem", "statistics")
    kind = records.HistogramRecord

    def __init__(
        self,
        values: Any = None,
        bins: int = 64,
        *,
        counts: Sequence[float] | None = None,
        edges: Sequence[float] | None = None,
    ) -> None:
        self.counts: list[float] = []
        self.edges: list[float] = []
        self.statistics: dict[str, float] = {}  # of the finite values
        self.problem = ""
        try:
            if counts is not None and edges is not None:
                self.counts, self.edges = _paired(counts, edges)
            elif bins < 1:
                raise ValueError(f"a histogram has at least one bin, not {bins}")
            else:
                binned = _fast_bin(values, bins) or _bin(_flat(values), bins)
                self.counts, self.edges, self.statistics = binned
        except Exception as error:
            self.problem = words(error)

    def fields(self) -> dict[str, records.Plain]:
        return {"edges": self.edges, "counts": self.counts, **self.statistics}


class Matrix(Media):
    """Numbers in rows and columns: `run.log({"moe/load": Matrix(counts)})`, rows first."""

    __slots__ = ("problem", "values")
    kind = records.MatrixRecord

    def __init__(self, values: Any) -> None:
        self.values: list[list[float]] = []
        self.problem = ""
        try:
            self.values = _rows(values)
        except Exception as error:
            self.problem = words(error)

    def fields(self) -> dict[str, records.Plain]:
        return {"values": self.values}


class Image(Media):
    """An image: a path, encoded bytes, a Pillow image, a figure of matplotlib or Plotly, pixels, or a list of those.

    Pixels are floats in 0..1 or 0..255, or 8-bit integers, with the channels last or first; a batch becomes a grid.
    """

    __slots__ = ("caption", "pictures", "problem")
    kind = records.File

    def __init__(self, data: Any, caption: str | None = "", **other: object) -> None:
        self.caption, self.problem = "", ""
        self.pictures: list[pictures.EncodedPicture] = []
        if other:
            messages.once(
                f"image {sorted(other)}", f"chiplog.Image takes data and a caption; {_listing(other)} ignored"
            )
        try:
            self.caption = str(caption or "")
            self.pictures = pictures.encode(data)
        except Exception as error:
            self.problem = words(error)


def _listing(names: Iterable[str]) -> str:
    listed = [f"{name}=" for name in names]
    return f"{', '.join(listed)} {'is' if len(listed) == 1 else 'are'}"


def _rows(values: Any) -> list[list[float]]:
    rows = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(rows, Iterable) and not isinstance(rows, (str, bytes)):
        rows = [_listed(row) for row in rows]
        if all(isinstance(row, list) for row in rows):
            return rows
    raise ValueError(f"a matrix has two dimensions, rows of numbers; this is {values!r:.60}")


def _listed(row: Any) -> Any:
    return list(row) if isinstance(row, Iterable) else row


def _paired(counts: Sequence[float], edges: Sequence[float]) -> tuple[list[float], list[float]]:
    if len(edges) != len(counts) + 1:
        raise ValueError(f"a histogram of {len(counts)} counts has {len(counts) + 1} edges, not {len(edges)}")
    return list(counts), [float(edge) for edge in edges]


def _flat(values: Any) -> list[float]:
    """The numbers of an array or of nested lists, in order."""
    if hasattr(values, "reshape"):
        flat: list[float] = values.reshape(-1).tolist()
        return flat
    out: list[float] = []
    for value in values:
        if isinstance(value, (list, tuple)) or hasattr(value, "reshape"):
            out.extend(_flat(value) if not hasattr(value, "ndim") or value.ndim else [float(value)])
        else:
            out.append(float(value))
    return out


_Binned: TypeAlias = tuple[list[float], list[float], dict[str, float]]  # counts, edges and statistics


def _fast_bin(values: Any, bins: int) -> _Binned | None:
    """The same in numpy, for a numpy array; None for anything else."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(values, numpy.ndarray):
        return None
    finite = values[numpy.isfinite(values)].astype("float64")
    if not finite.size or finite.max() - finite.min() < 1e-300 * bins:
        return None
    counts, edges = numpy.histogram(finite, bins)
    with numpy.errstate(over="ignore"):
        mean = float(finite.mean())
    if not math.isfinite(mean):
        mean = float((finite / finite.size).sum())
    return counts.tolist(), edges.tolist(), _statistics(float(finite.min()), float(finite.max()), mean)


def _bin(values: list[float], bins: int) -> _Binned:
    finite = [value for value in values if value - value == 0]
    low, high = (float(min(finite)), float(max(finite))) if finite else (0.0, 1.0)
    statistics = _statistics(low, high, _mean(finite)) if finite else {}
    if high - low < 1e-300 * bins:  # all equal, or too close together to divide
        low, high = low - 0.5, high + 0.5
    if high - low == float("inf"):
        raise ValueError(f"values from {low:g} to {high:g} are too far apart for a histogram")
    counts = [0] * bins
    scale = bins / (high - low)
    for value in finite:
        counts[min(bins - 1, int((value - low) * scale))] += 1
    return list(counts), [low + (high - low) * i / bins for i in range(bins + 1)], statistics


def _mean(values: list[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # the sum is beyond all doubles, the mean is not
        return math.fsum(value / len(values) for value in values)


def _statistics(low: float, high: float, mean: float) -> dict[str, float]:
    return {"min": low, "max": high, "mean": min(max(mean, low), high)}  # rounding may leave the range
