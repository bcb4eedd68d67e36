"""Steps of a training loop, timed: `for batch in run.steps(loader)` and `with run.step()`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from chiplog.core.run import Run

T = TypeVar("T")


class OneStep:
    """One step: what is logged inside joins it; its time is logged at its end."""

    def __init__(self, run: Run, tokens: int | None, waited: float | None = None, number: int | None = None) -> None:
        self._run, self._tokens, self._waited, self._number = run, tokens, waited, number

    def __enter__(self) -> int:
        self.number = self._run.next_step if self._number is None else self._number
        self._run.begin_step(self.number)
        self._began = perf_counter()
        return self.number

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if kind is None:
            self.end()

    def end(self) -> None:
        took = perf_counter() - self._began + (self._waited or 0.0)
        row: dict[str, float] = {"train/step_time_sec": took}
        if self._waited is not None:
            row["train/data_time_sec"] = self._waited
        if self._tokens is not None:
            row["train/tokens"] = self._tokens
            row["train/tokens_per_sec"] = self._tokens / took if took > 0 else 0.0
        self._run.log(row, step=self.number)


def walk(run: Run, items: Iterable[T], *, tokens: int | None, total: int | None, start: int) -> Iterator[T]:
    """Yield the items, each inside a step of its own."""
    if total is None and isinstance(items, Sized):
        try:
            total = len(items)
        except Exception:  # a DataLoader over an IterableDataset has __len__, and raises
            total = None
    if total is not None:
        run.event("plan", steps=start + total)
    source = iter(items)
    number = start
    while True:
        asked = perf_counter()
        with run.span("data"):
            try:
                item = next(source)
            except StopIteration:
                return
        step = OneStep(run, tokens, perf_counter() - asked, number)
        step.__enter__()
        yield item
        step.end()
        number += 1
