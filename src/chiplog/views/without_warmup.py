"""A run without its first values, for plots and statistics after the warm-up."""

from __future__ import annotations

from chiplog.store.contents.contents import Bounds, Contents
from chiplog.store.points.series import Series
from chiplog.store.reader import Stored


class Warm(Stored):
    """A stored run whose series discard the first values: a fraction as a float, a count as an int."""

    def __init__(self, stored: Stored, warmup: int | float) -> None:
        super().__init__(stored.path)
        self._whole = stored
        self.warmup = warmup

    def series(
        self, name: str, *, rank: int | None = None, attempt: int | None = None, missing_ok: bool = False
    ) -> Series:
        whole = self._whole.series(name, rank=rank, attempt=attempt, missing_ok=missing_ok)
        return whole.without(dropped(self.warmup, len(whole)))

    def contents(self, *kinds: str, bounds: Bounds | None = None) -> Contents:
        return self._whole.contents(*kinds, bounds=bounds)


def after(stored: Stored, warmup: int | float) -> Stored:
    """The run without its warm-up; itself where there is none."""
    return Warm(stored, warmup) if dropped(warmup, 1 << 62) else stored


def dropped(warmup: int | float, count: int) -> int:
    """How many of `count` values a warm-up discards."""
    if isinstance(warmup, bool) or warmup is None or not warmup > 0:
        return 0
    return min(count, warmup if isinstance(warmup, int) else int(min(warmup, 1.0) * count))


def in_words(warmup: int | float) -> str:
    """What is discarded, for the caption of a table; empty if nothing is."""
    if not dropped(warmup, 1 << 62):
        return ""
    return (
        f"without the first {warmup:,} values" if isinstance(warmup, int) else f"without the first {warmup:.3g} of all"
    )
