"""Rows of tables without a schema: which column is the step, which one the time, and what the others become."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from chiplog.core import records
from chiplog.core.records import Number, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.protocol import LATEST, Item, clean_name

# In this order: a file of a trainer may have several of them.
STEPS = (
    "step", "_step", "global_step", "Step", "time/total_timesteps", "total_timesteps", "training_iteration",
    "iteration", "iter", "update", "num_updates", "train_step", "trainer/global_step", "batch", "round",
    "epoch", "Epoch",
)  # fmt: skip
TIMES = ("_timestamp", "timestamp", "ts", "wall_time", "time", "created_at", "datetime", "Wall time")
WRAPPERS = ("data", "metrics", "logs", "log")  # mappings in a row that hold its metrics
IGNORED = ("config", "hist_stats")  # of Ray, in every row
DEEPEST = 8


def step_column(names: Iterable[str]) -> str | None:
    """The column with the step; None if there is none."""
    available = set(names)
    return next((name for name in STEPS if name in available), None)


def time_column(names: Iterable[str]) -> str | None:
    available = set(names)
    return next((name for name in TIMES if name in available), None)


def flat(row: Mapping[str, Plain], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Plain]]:
    """The values of a row by name; nested mappings add their keys, except those that only wrap the metrics."""
    for key, value in row.items():
        if isinstance(value, Mapping):
            if depth < DEEPEST and key not in IGNORED:
                wraps = not prefix and key in WRAPPERS
                yield from flat(value, "" if wraps else f"{prefix}{key}/", depth + 1)
        else:
            yield f"{prefix}{key}", value


def items(row: Mapping[str, Plain], fallback: int, counted: int) -> Iterator[Item]:
    """A row as records; `fallback` is its time and `counted` its step if it has none of its own."""
    values = dict(flat(row))
    step_name, time_name = step_column(values), time_column(values)
    step = values.get(step_name) if step_name else None
    time = moment(values.get(time_name)) if time_name else 0
    step = step if isinstance(step, (int, float)) and not isinstance(step, bool) and step == step else counted
    metrics: dict[str, int | float | bool | str] = {}
    texts: dict[str, str] = {}
    for name, value in values.items():
        if name == step_name or (name == time_name and time):
            continue
        if isinstance(value, (int, float)):
            metrics[clean_name(name)] = value
        elif isinstance(value, str):
            if value in records.NONFINITE:
                metrics[clean_name(name)] = records.NONFINITE[value]
            elif value:
                texts[clean_name(name)] = value
    if metrics:
        yield records.Step(0, time or fallback, _whole(step), metrics)
    for name, text in texts.items():
        yield records.TextRecord(0, time or fallback, name, cut(text), _whole(step))


def moment(value: Plain) -> int:
    """A time as nanoseconds: seconds or milliseconds since the epoch, or a text; 0 if it is not one."""
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            return 0
        seconds = parsed.timestamp() if parsed.tzinfo else parsed.replace(tzinfo=UTC).timestamp()
        return max(0, round(seconds * 1e9))
    if isinstance(value, (int, float)) and value == value:
        for low, high, factor in ((1e8, 1e11, 10**9), (1e11, 1e14, 10**6), (1e17, 4e18, 1)):
            if low <= value < high:
                return min(round(value * factor), LATEST - 1)
    return 0


def _whole(step: Number) -> Number:
    """A step as an integer where it is one: tables often write all numbers as decimals."""
    return int(step) if isinstance(step, float) and step.is_integer() and abs(step) < 2**53 else step
