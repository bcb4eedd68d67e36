"""Smoothing: an exponential moving average of each loss, as `smoothed/…`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import nan

from chiplog.core.records import Plain, Row
from chiplog.metrics.catalog import is_loss

SMOOTHED_FROM = 20  # points of a curve; fewer are drawn as they are


class Averages:
    """An exponential moving average per name. `weight` is the share of the past (0: none, 0.99: much).

    If `unbiased`, the weights sum to one from the first value on; otherwise the first value also stands for everything
    before it. A value that is not finite is ignored, and counted in `nonfinite`.
    """

    def __init__(self, weight: float, *, unbiased: bool = True) -> None:
        if not 0 <= weight < 1:
            raise ValueError(f"the smoothing weight must be at least 0 and below 1, not {weight}")
        self.weight = weight
        self.nonfinite = 0
        self._unbiased = unbiased
        self._sums: dict[str, tuple[float, float]] = {}  # weighted sum, sum of weights

    def add(self, name: str, value: float) -> float | None:
        """The average including this value; None if no value was finite yet."""
        if value - value != 0:
            self.nonfinite += 1
            return self.get(name)
        before = self._sums.get(name)
        if before is None:
            total, weights = value, 1.0
            if not self._unbiased:
                total, weights = value / (1 - self.weight), 1 / (1 - self.weight)
        else:
            total, weights = self.weight * before[0] + value, self.weight * before[1] + 1.0
        self._sums[name] = total, weights
        return total / weights

    def get(self, name: str) -> float | None:
        """The average so far, if any."""
        total, weights = self._sums.get(name, (0.0, 0.0))
        return total / weights if weights else None

    def state(self) -> dict[str, Plain]:
        """The state to save in a checkpoint."""
        return {"nonfinite": self.nonfinite, "sums": {name: list(sums) for name, sums in self._sums.items()}}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self.nonfinite = int(state.get("nonfinite", 0))
        self._sums = {name: (float(total), float(weights)) for name, (total, weights) in state.get("sums", {}).items()}


def exponential_mean(values: Iterable[float], weight: float) -> list[float]:
    """The unbiased averages of a whole curve, one per value; NaN where a value is not finite."""
    averages: list[float] = []
    total = share = 0.0  # normalised, so that no sum overflows
    for value in values:
        if value - value == 0:
            total = weight * total + (1 - weight) * value
            share = weight * share + (1 - weight)
            averages.append(total / share)
        else:
            averages.append(nan)
    return averages


class Smoothing:
    """A stage that adds the average of each loss to the row."""

    def __init__(self, weight: float, wanted: Callable[[str], bool] = is_loss) -> None:
        self._averages = Averages(weight)
        self._wanted = wanted
        self._smoothed: dict[str, str | None] = {}

    def __call__(self, row: Row, step: int | float) -> Row:  # noqa: ARG002
        added: Row = {}
        for name, value in row.items():
            target = self._smoothed.get(name, "")
            if target == "":
                target = self._smoothed[name] = f"smoothed/{name}" if self._wanted(str(name)) else None
            if target is not None and value - value == 0:
                added[target] = self._averages.add(name, value)  # type: ignore[assignment]
        return {**row, **added} if added else row

    def state(self) -> dict[str, Plain]:
        """The state to save in a checkpoint."""
        return self._averages.state()

    def restore(self, state: Mapping[str, Plain]) -> None:
        self._averages.restore(state)
