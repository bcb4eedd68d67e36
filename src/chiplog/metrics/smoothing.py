"""Smoothing: an exponential moving average beside each loss, as `smoothed/…`."""

from __future__ import annotations

from fnmatch import fnmatchcase

from chiplog.core.records import Row


class Smoothing:
    """A stage. `weight` is the share of the past (0: none, 0.99: much); a value that is not finite changes nothing.

    The average is unbiased from the first value on: the weights of what has been seen add up to one.
    """

    def __init__(self, weight: float, names: tuple[str, ...] = ("loss", "*/loss")) -> None:
        if not 0 <= weight < 1:
            raise ValueError(f"the weight of the past is at least 0 and below 1, not {weight}")
        self.weight = weight
        self._patterns = names
        self._averages: dict[str, tuple[float, float]] = {}  # weighted sum, sum of weights
        self._smoothed: dict[str, str | None] = {}

    def __call__(self, row: Row, step: int | float) -> Row:  # noqa: ARG002
        added: Row = {}
        for name, value in row.items():
            target = self._smoothed.get(name, "")
            if target == "":
                wanted = any(fnmatchcase(str(name), pattern) for pattern in self._patterns)
                target = self._smoothed[name] = f"smoothed/{name}" if wanted else None
            if target is not None and value - value == 0:
                total, weights = self._averages.get(name, (0.0, 0.0))
                total, weights = self.weight * total + value, self.weight * weights + 1.0
                self._averages[name] = total, weights
                added[target] = total / weights
        return {**row, **added} if added else row
