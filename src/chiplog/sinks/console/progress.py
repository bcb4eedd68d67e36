"""The progress of a run: facts about the newest row, computed from all rows so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf, isfinite

from chiplog.core.records import Number, Plain
from chiplog.core.values.convert import double
from chiplog.metrics.catalog import TOKENS_PER_SEC
from chiplog.sinks.console.layout import Cell, Cells, Layout
from chiplog.sinks.shared.rows import Row

TOTALS = ("total_steps", "max_steps", "num_steps", "steps", "max_iters")  # names in configs
PAST = 100  # gradient norms in the mean
SPIKE = 5.0  # times that mean
LOSSES = 1000  # newest losses that an eval may be compared with
PACE = 64  # rows over which the speed is measured


class Progress:
    """Trend, spikes, speed, share, time left and gap, computed row by row."""

    def __init__(self, layout: Layout, config: Mapping[str, Plain]) -> None:
        self.total: int | float | None = None
        self.steps = 0
        self.newest: Cells = {}  # facts of the newest row
        self._layout = layout
        self._planned = False
        self._from_zero = False
        self._highest: int | float | None = None
        self._first: int | float | None = None  # the step of the newest row, if there was none before it
        self._last: tuple[int | float | None, int] | None = None
        self._losses: deque[float] = deque(maxlen=layout.recent)
        self._norms: deque[float] = deque(maxlen=PAST)
        self._marks: deque[tuple[int | float, int]] = deque(maxlen=PACE)
        self._trained = (0.0, 0)  # sum and count of the losses since the last eval
        self._by_step: deque[tuple[Number | None, float]] = deque(maxlen=LOSSES)  # finite losses, the newest last
        self._budget: tuple[float, int] | None = None  # tokens to train on, and since when
        self._spent = 0.0
        self._phase = ""
        self._over_own = 1.0  # the tokens per second of all ranks, as a multiple of this rank's
        self.configure(config)

    def configure(self, config: Mapping[str, Plain]) -> None:
        """Set the number of steps from a config, unless it was planned."""
        if not self._planned:
            totals = (config[name] for name in TOTALS if _is_total(config.get(name)))
            self.total = next(totals, self.total)

    def plan(self, data: Mapping[str, Plain], time: int = 0) -> None:
        """Set how many steps or tokens there will be."""
        if _is_total(data.get("steps")):
            self.total, self._planned = data["steps"], True
        if _is_total(data.get("tokens")):
            self._budget, self._spent = (data["tokens"], time), 0.0

    def enter(self, data: Mapping[str, Plain]) -> None:
        """Start another phase of training; an empty name ends it."""
        self._phase = str(data.get("phase") or "")

    def restart(self) -> None:
        """Start another attempt: the time between attempts does not count."""
        self._marks.clear()
        self._last = self._highest = None
        self._over_own = 1.0

    def step(self, row: Row, statistics: Mapping[str, Plain] | None = None) -> dict[str, Cell]:
        """The facts about a new row of training, with its statistics across ranks if they are there."""
        step, metrics, layout = row.step, row.metrics, self._layout
        facts: dict[str, Cell] = {}
        if step is not None:
            facts["@step"] = step
        self._count(step)
        took = self._took(row, facts)
        if step is not None and self.total:
            self._progress(step, took, facts)
        if (loss := _pick(metrics, layout.loss)) is not None:
            facts["@trend"] = self._trend(step, loss)
        if (norm := _pick(metrics, layout.norm)) is not None:
            facts["@spike"] = self._spike(norm)
        if (epoch := _pick(metrics, layout.epoch)) is not None and isfinite(epoch):
            facts["@share"] = 100 * (epoch % 1.0)
        if self._budget is not None:
            self._count_tokens(row, facts)
        if self._phase:
            facts["@phase"] = self._phase
        self._add_statistics(metrics, statistics or {}, facts)
        self.newest = facts
        return facts

    def remember(self, row: Row) -> None:
        """Note the loss of a row that is not shown, so that a later eval is compared with it."""
        loss = _pick(row.metrics, self._layout.loss)
        if loss is not None and isfinite(loss):
            self._by_step.append((row.step, loss))

    def eval(self, metrics: Cells, step: Number | None = None) -> dict[str, Cell]:
        """The facts about an eval: how far its loss is from the training loss of its step, or the newest before it."""
        trained = self._trained_loss(step)
        self._trained = (0.0, 0)
        loss = _pick(metrics, ("loss",))
        if loss is None or trained is None:
            return {"@gap": self._layout.no_gap} if self._layout.no_gap else {}
        return {"@gap": loss - trained}

    def _trained_loss(self, step: Number | None) -> float | None:
        """The training loss that an eval of this step is compared with."""
        if self._layout.mean_gap:
            total, count = self._trained
            return total / count if count else None
        losses = reversed(self._by_step)
        return next((loss for at, loss in losses if step is None or at is None or at <= step), None)

    def _count(self, step: int | float | None) -> None:
        """Count the steps up to this one, including those without a row; a row of an older step does not count."""
        highest = self._highest
        if step is None or highest is None or not step <= highest:  # NaN too
            if isinstance(step, int) and isinstance(highest, int):
                self.steps += step - highest
                if self._first == highest and 1 < highest <= step - highest:
                    self.steps += highest - 1  # the first row of a loop that logs every n-th step is its n-th
            else:
                self.steps += 1
            self._first = step if highest is None and self.steps == 1 else None
            self._highest = step
        self._from_zero = self._from_zero or step == 0

    def _took(self, row: Row, facts: dict[str, Cell]) -> float | None:
        """Seconds per step, as logged or by the clock; also adds tokens per second."""
        step, time, metrics = row
        last = self._last
        if last is None or last[0] != step:  # from the first row of a step to the first of the next
            self._last = (step, time)
        took = _pick(metrics, self._layout.step_time)
        ahead = 0.0
        if step is not None and last is not None and last[0] is not None and time > last[1]:
            ahead = double(step) - double(last[0])
        if took is None and ahead > 0:
            took = facts["@step_time_sec"] = (time - last[1]) / 1e9 / ahead  # type: ignore[index]
            if ahead != 1:  # unclear: the tokens of one step, or of all since the last row
                return took
        tokens = _pick(metrics, self._layout.tokens)
        if tokens is not None and took is not None and took > 0:
            facts["@tokens_per_sec"] = double(tokens) / took
        return took

    def _add_statistics(self, metrics: Cells, statistics: Mapping[str, Plain], facts: dict[str, Cell]) -> None:
        """A step takes as long as on its slowest rank; the rate is that of all ranks, estimated if it is too late."""
        slower = uneven = 1.0  # the time of the slowest rank, as a multiple of this rank's and of the fastest one's
        for name in self._layout.step_time:
            if name in metrics and (longest := statistics.get(f"{name}/max")) is not None:
                facts[name] = longest
                slower = longest / own if (own := _pick(metrics, (name,))) else 1.0
                uneven = longest / shortest if (shortest := _pick(statistics, (f"{name}/min",))) else 1.0
        for name in TOKENS_PER_SEC:
            if own := _pick(metrics, (name,)):
                if (total := statistics.get(f"{name}/sum")) is not None:
                    self._over_own = (_pick({name: total}, (name,)) or own) / own
                together = own * self._over_own
                if total is not None and uneven > 1.0:  # in the first step, say: each rank's rate is over its own time
                    together = max(together / uneven, _slowest_together(name, statistics))
                if together != own:
                    facts[name] = together
        if (rate := _pick(facts, ("@tokens_per_sec",))) and (own := _pick(metrics, self._layout.tokens)):
            total = _pick(statistics, tuple(f"{name}/sum" for name in self._layout.tokens))
            self._over_own = self._over_own if total is None else total / own
            facts["@tokens_per_sec"] = rate * self._over_own / slower
        for name in self._layout.loss:
            if name in metrics and statistics.get(f"{name}/std"):  # otherwise all ranks have the same
                facts["@loss_mean"] = statistics[f"{name}/mean"]
                break

    def _progress(self, step: int | float, took: float | None, facts: dict[str, Cell]) -> None:
        assert self.total is not None and self._last is not None
        step = double(step)
        done = min(max(step + self._from_zero, 0), self.total)
        facts["@share"] = 100 * done / self.total
        marks = self._marks
        if marks and step < marks[-1][0]:
            marks.clear()
        if not marks or step != marks[-1][0]:
            marks.append((step, self._last[1]))
        (first, start), (newest, now) = marks[0], marks[-1]
        if newest > first and now > start:
            took = (now - start) / 1e9 / (newest - first)
        if took is not None and done < self.total:
            facts["@eta"] = took * (self.total - done)

    def _count_tokens(self, row: Row, facts: dict[str, Cell]) -> None:
        """The time left, from the tokens left at the speed since the plan was made."""
        assert self._budget is not None
        total, since = self._budget
        tokens = _pick(row.metrics, self._layout.tokens)
        if tokens is not None and isfinite(tokens):
            self._spent += tokens
        if self._spent > 0 and row.time > since:
            facts["@eta"] = max(0.0, total - self._spent) * (row.time - since) / 1e9 / self._spent

    def _trend(self, step: Number | None, loss: float) -> int:
        """Whether a loss is below (-1) or above (1) the mean of the recent ones."""
        if not isfinite(loss):
            return 0
        total, count = self._trained
        self._trained = (total + loss, count + 1)
        self._by_step.append((step, loss))
        losses = self._losses
        mean = sum(losses) / len(losses) if losses else loss
        losses.append(loss)
        return (loss > mean) - (loss < mean)

    def _spike(self, norm: float) -> int:
        """Whether a norm is far above the mean of the finite ones before it, or not finite."""
        norms = self._norms
        warm = len(norms) >= self._layout.warm_up
        mean = sum(norms) / len(norms) if norms and warm else inf
        if not isfinite(norm):
            return int(self._layout.warm_up <= 1 or norm > mean * SPIKE)
        norms.append(norm)
        return int(0 < mean * SPIKE < norm)


def _slowest_together(name: str, statistics: Mapping[str, Plain]) -> float:
    """The sum over all ranks if each were as slow as the slowest: right if all have the same tokens."""
    lowest, mean, total = (_pick(statistics, (f"{name}/{stat}",)) for stat in ("min", "mean", "sum"))
    return lowest * total / mean if lowest and mean and total else 0.0


def _pick(metrics: Cells, names: tuple[str, ...]) -> float | None:
    """The first of these metrics that is a number."""
    for name in names:
        value = metrics.get(name)
        if value is not None and not isinstance(value, (str, bool)):
            try:
                return float(value)
            except OverflowError:
                return inf
    return None


def _is_total(value: Plain) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e300
