"""Throughput: turns the time of each step, and what is known about it, into a row (docs/throughput.md)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from math import exp, inf

from chiplog.core.records import Number, Plain, Row
from chiplog.metrics.flops import Flops, mfu

AT_ONCE = 64  # rows that are summed together
RECENT = 64  # steps whose speed determines the ETA


class Meter:
    """Measures steps. `tokens` and `samples` are the totals of all `devices`; a row has only what is known.

    With `log_every` above 1, only the first step and every step that is divisible by it make a row, which then has for
    each value `name` (this step), `name/mean`, `name/min`, `name/max` over the steps since the last row,
    `name/nonfinite` if some were not finite, and the number of steps. A step with a value that is not finite makes a
    row at once.
    """

    def __init__(
        self,
        *,
        log_every: int = 1,
        total_steps: int | None = None,
        total_tokens: int | None = None,
        steps_per_epoch: int | None = None,
        tokens_per_epoch: int | None = None,
        flops_per_token: float | Flops | None = None,
        flops_per_step: float | None = None,
        peak_tflops: float | None = None,
        devices: int = 1,
        memory: Callable[[], Mapping[str, Number]] | None = None,
    ) -> None:
        if log_every < 1:
            raise ValueError(f"log_every = {log_every!r}: at least 1, which is every step")
        self.log_every = log_every
        self.total_steps, self.total_tokens = total_steps, total_tokens
        self._total_given = total_steps is not None
        self.steps_per_epoch, self.tokens_per_epoch = steps_per_epoch, tokens_per_epoch
        self.flops_per_token = flops_per_token.model if isinstance(flops_per_token, Flops) else flops_per_token
        self.flops_per_step = flops_per_step
        self._hardware = flops_per_token.hardware if isinstance(flops_per_token, Flops) else None
        self.peak_tflops, self.devices = peak_tflops, devices
        self._memory = memory
        self.steps = self.tokens = self.samples = 0  # done so far
        self._pace: deque[tuple[float, int]] = deque(maxlen=RECENT)  # seconds and tokens of a step
        self._between = Between()
        self._first = True

    def plan(self, *, total: int | None, done: int) -> None:
        """Set how many steps there will be, and how many are done; steps that are repeated come on top."""
        self.steps = max(self.steps, done)
        if total is not None and not self._total_given:
            self.total_steps = self.steps + total - done

    def measure(
        self,
        step: Number,
        metrics: Row,
        took: float | None,
        waited: float | None = None,
        tokens: int | None = None,
        samples: int | None = None,
    ) -> Row | None:
        """The row of a step that took so many seconds; None for a step between two rows."""
        self.steps += 1
        if tokens is not None:
            self.tokens += tokens
        if samples is not None:
            self.samples += samples
        row = metrics | ({} if took is None or took <= 0 else self._speed(took, waited, tokens, samples))
        if self.log_every > 1:
            finite = self._between.add(row)
            if finite and not self._first and step % self.log_every != 0:
                return None
            row = row | self._between.take()
        self._first = False
        return row | self._facts(metrics, took, tokens) | self._device()

    def rest(self) -> Row | None:
        """The row of the steps since the last row, if any; for the end of the run."""
        if not self._between.count:
            return None
        return self._between.latest | self._between.take() | self._facts(self._between.latest, None, None)

    def state(self) -> dict[str, Plain]:
        """The state to save in a checkpoint."""
        return {"steps": self.steps, "tokens": self.tokens, "samples": self.samples}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self.steps, self.tokens, self.samples = (int(state.get(name, 0)) for name in ("steps", "tokens", "samples"))

    def _speed(self, took: float, waited: float | None, tokens: int | None, samples: int | None) -> Row:
        """The values that have a useful mean, minimum and maximum."""
        self._pace.append((took, tokens or 0))
        row: Row = {"train/step_time_sec": took}
        if waited is not None:
            row["train/data_time_sec"] = waited
            row["train/data_wait"] = waited / took
        if samples is not None:
            row["train/samples_per_sec"] = samples / took
        if tokens is not None:
            row["train/tokens_per_sec"] = speed = tokens / took
            if self.flops_per_token is not None and self.flops_per_step is None:
                self._use(row, self.flops_per_token, speed)
        if self.flops_per_step is not None:
            self._use(row, self.flops_per_step, 1 / took)
        return row

    def _use(self, row: Row, flops: float, speed: float) -> None:
        if (share := mfu(flops, speed, self.peak_tflops, self.devices)) is not None:
            row["train/mfu"] = share
            if self._hardware is not None and self._hardware != flops:
                row["train/hfu"] = share * self._hardware / flops

    def _facts(self, metrics: Row, took: float | None, tokens: int | None) -> Row:
        """The values of this step alone: where the run is, and how long it will take."""
        row: Row = {}
        if tokens is not None:
            row["train/tokens"] = tokens
        if took:
            row["train/steps_per_sec"] = 1 / took
        if (loss := metrics.get("train/loss", metrics.get("loss"))) is not None:
            row["train/perplexity"] = perplexity(loss)
        if self.tokens_per_epoch:
            row["train/epoch"] = self.tokens / self.tokens_per_epoch
        elif self.steps_per_epoch:
            row["train/epoch"] = self.steps / self.steps_per_epoch
        seconds = sum(took for took, _ in self._pace)
        left = None
        if self.total_tokens is not None:
            left = time_left(self.total_tokens - self.tokens, sum(tokens for _, tokens in self._pace), seconds)
        elif self.total_steps is not None:
            left = time_left(self.total_steps - self.steps, len(self._pace), seconds)
        if left is not None:
            row["train/eta_sec"] = left
        return row

    def _device(self) -> Row:
        return {} if self._memory is None else {f"memory/{name}": value for name, value in self._memory().items()}


class Between:
    """Mean, minimum and maximum of the values of several steps; values that are not finite are counted separately."""

    def __init__(self) -> None:
        self.count = 0
        self.latest: Row = {}
        self._rows: list[Row] = []  # not summed yet: many at once are cheaper
        self._seen: dict[str, tuple[int, Number, Number, Number, int]] = {}  # how many, sum, least, most, not finite

    def add(self, row: Row) -> bool:
        """Add the row of one step; False if a value in it is not finite."""
        self.count += 1
        self.latest = row
        rows = self._rows
        rows.append(row)
        if len(rows) >= AT_ONCE:
            self._sum_up()
        return _all_finite(row.values())

    def take(self) -> Row:
        """The statistics since the last call, `name/mean` and so on; empty if there was only one step."""
        row: Row = {}
        if self.count > 1:
            row["train/interval_steps"] = self.count
            self._sum_up()
            for name, (count, total, least, most, bad) in self._seen.items():
                if count:
                    row[f"{name}/mean"], row[f"{name}/min"], row[f"{name}/max"] = total / count, least, most
                if bad:
                    row[f"{name}/nonfinite"] = bad
        self.count, self._rows, self._seen = 0, [], {}
        return row

    def _sum_up(self) -> None:
        for name in dict.fromkeys(chain.from_iterable(self._rows)):
            values = [row[name] for row in self._rows if name in row]
            finite = values if _all_finite(values) else [value for value in values if value - value == 0]
            count, total, least, most, bad = self._seen.get(name, (0, 0, inf, -inf, 0))
            if finite:
                total, least, most = total + sum(finite), min(least, *finite), max(most, *finite)
            self._seen[name] = count + len(finite), total, least, most, bad + len(values) - len(finite)
        self._rows = []


def rate(amount: float, seconds: float) -> float:
    """The amount per second; 0 if no time has passed."""
    return amount / seconds if seconds > 0 else 0.0


def time_left(left: float, done: float, seconds: float) -> float | None:
    """The seconds that the rest will take, if `done` took `seconds`; None if nothing is done yet."""
    return max(left, 0) * seconds / done if done > 0 else None


def perplexity(loss: float) -> float:
    """exp(loss), with the loss in nats per token; infinite if no double is large enough."""
    return exp(loss) if loss < 709 else loss if loss != loss else inf


def _all_finite(values: Collection[Number]) -> bool:
    """Whether all values are finite; checks their sum first, and each value only if that is not finite."""
    try:
        total = sum(values)
        if total - total == 0:
            return True
    except OverflowError:  # an integer that is larger than any float
        pass
    return all(value - value == 0 for value in values)
