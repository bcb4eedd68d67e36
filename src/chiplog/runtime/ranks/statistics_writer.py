"""What becomes of the steps that all ranks have said: rows, alerts, and the gaps between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from chiplog.core import messages
from chiplog.core.protocols import Finding
from chiplog.core.records import Eval, Event, Record, Row
from chiplog.core.values.line_pieces import pieces
from chiplog.core.values.media import Media
from chiplog.metrics.ranks.moe_routers import pool
from chiplog.metrics.ranks.statistics import Values, across
from chiplog.metrics.ranks.step_gather import GatheredStep, Topic
from chiplog.metrics.ranks.stragglers import Stragglers
from chiplog.runtime.ranks.reduce_options import ReduceOptions

REMEMBERED = 10_000  # steps whose statistics have been given to a caller


class Book(Protocol):
    """What the statistics need of a run."""

    def add_statistics(self, row: Row, step: int | float) -> None: ...

    def found(self, finding: Finding, rule: str, step: int | float) -> None: ...

    def event(self, name: str, /, step: int | float | None = None, **data: Any) -> None: ...

    def write(self, kind: type[Record], /, **fields: Any) -> Record | None: ...

    def on_record(self, call: Callable[[Record], object]) -> None: ...

    def on_media(self, call: Callable[[str, Media, int | float], object]) -> None: ...


class StatisticsWriter:
    """Writes into a run; what people are told, the main rank alone tells them."""

    def __init__(self, plan: ReduceOptions, facts: Mapping[int, Mapping[str, Any]], *, main: bool) -> None:
        self._plan, self._main = plan, main
        self._skew = Stragglers(facts)
        self._bad: set[str] = set()
        self._given: dict[Any, dict[int, int]] = {}  # by line or step, and rank: the rows that a caller's are of
        self._absent: set[int] = set()  # the ranks that did not come in time
        self._missed: tuple[int | float, float] = (0, 0.0)  # the step and the time since when
        self.heard: set[str] = set()  # the names that other ranks have logged
        self.book: Book | None = None
        self.logs = not main  # whether the main rank has logged something itself
        self.gap: _Gap | None = None
        self.writer = 0  # the thread that is writing statistics just now

    def write(self, topic: Topic, gathered: GatheredStep, world: int) -> None:
        """Write what all ranks have said of a step as a second record of it."""
        self.writer = threading.get_ident()
        try:
            if topic is Topic.TRAIN:
                self._write_step(gathered, world)
            elif len(gathered.rows) < 2:
                pass  # one rank alone has evaluated, as many scripts do: it has said it itself
            elif topic is Topic.EVAL:
                self._write_eval(gathered, world)
            else:
                self._write_routers(gathered)
        finally:
            self.writer = 0

    def _write_step(self, gathered: GatheredStep, world: int) -> None:
        """The statistics of a step, and who held the others up."""
        if not self.logs and len(gathered.rows) < 2:
            return  # the one rank that logs keeps the run, with what it has logged
        row = self.statistics(Topic.TRAIN, gathered, world)
        self._given.pop(gathered.line, None)
        skew, finding = self._skew(gathered) if self._main else ({}, None)
        assert self.book is not None
        if row or skew:
            self.book.add_statistics({**row, **skew}, gathered.step)
        if finding is not None:
            self.book.found(finding, self._skew.name, gathered.step)

    def _write_eval(self, gathered: GatheredStep, world: int) -> None:
        assert self.book is not None
        for piece in pieces(self.statistics(Topic.EVAL, gathered, world)):
            self.book.write(Eval, step=gathered.step, metrics=piece, across=True)

    def _write_routers(self, gathered: GatheredStep) -> None:
        """The load of the whole model, as if one process had counted it."""
        assert self.book is not None
        routers: dict[str, list[tuple[int, Values]]] = {}
        for rank, rows in gathered.rows.items():
            for one in rows:
                routers.setdefault(one.values.names[0], []).append((rank, one.values))
        for name, said in routers.items():
            if len({rank for rank, _ in said}) < 2:
                continue
            try:
                router = pool([values for _, values in said])
            except ValueError as error:
                messages.once(f"routers {name}", f"{name!r} cannot be added up over the ranks: {error}")
                continue
            for kind, fields in router.records(f"{name}/all"):
                if kind is Event:
                    self.book.event(fields["name"], gathered.step, **fields["data"])
                else:
                    self.book.write(kind, step=gathered.step, **fields)

    def statistics(self, topic: Topic, gathered: GatheredStep, world: int) -> Row:
        """The statistics of a step, but for those that a caller has had already, of the same rows."""
        rows = {rank: [said.values for said in rows] for rank, rows in gathered.rows.items()}
        given = self._given.get(gathered.line) if topic is Topic.TRAIN else None
        if given:
            rows = _with_news(rows, given)
        if not rows:
            return {}
        if self._plan.sync and topic is Topic.TRAIN:
            self._given[gathered.line] = {rank: len(said) for rank, said in gathered.rows.items()}
            if len(self._given) > REMEMBERED:
                self._given.pop(next(iter(self._given)))
        if len(gathered.rows) < 2 and (gathered.alone or gathered.late):
            return self._counts(rows, gathered)
        found = across(rows, self._plan.extras, world=world)
        if self._main and (found.bad or self._bad):
            self._tell_bad(found.bad, gathered, "eval/" if topic is Topic.EVAL else "")
        return found.row

    def _counts(self, rows: Mapping[int, list[Values]], gathered: GatheredStep) -> Row:
        """Of a row that one rank alone has logged: that it is one, where others log these names too."""
        if not gathered.late:
            return {}
        names = [name for said in rows.values() for one in said for name in one.names if name in self.heard]
        return {f"{name}/count": 1 for name in names}

    def miss(self, absent: set[int], step: int | float) -> None:
        """Say which ranks did not come in time, and when they are back."""
        if absent == self._absent or not self._main or self.book is None:
            return
        new, before = absent - self._absent, self._absent
        self._absent = set(absent)
        if new:
            if not before:
                self._missed = step, time.monotonic()
            reason = f"{_ranks(new)} did not log within {self._plan.deadline:g} s"
            self.book.event("gap", across="ranks", reason=reason, step=step)
            messages.once(
                f"late {id(self)}",
                f"{reason}: from step {step} on, rows have no statistics over all ranks; training goes on, and they "
                "come back when all ranks do",
            )
        elif not absent:
            first, since = self._missed
            self.book.event("gap", across="ranks", step=first, until=step, seconds=time.monotonic() - since)

    def mark(self, reason: str, step: int | float, *, quiet: bool = False) -> None:
        """The statistics stop at a step; a `quiet` gap is said only if it lasts."""
        if self.gap is not None:
            return
        self.gap = _Gap(step, time.monotonic(), reason, told=False)
        if self._main and self.book is not None:
            self.book.event("gap", across="ranks", reason=reason, step=step)
        if not quiet:
            self._tell()

    def remind(self, seconds: float) -> None:
        """Say that the statistics have stopped, where that was to be said only if it lasts so long."""
        if self.gap is not None and not self.gap.told and time.monotonic() - self.gap.since > seconds:
            self._tell()

    def _tell(self) -> None:
        assert self.gap is not None
        self.gap = self.gap._replace(told=True)
        if self._main and self.book is not None:
            messages.say(
                f"statistics across ranks stop at step {self.gap.step}: {self.gap.reason}; training and journals go "
                "on, and they come back when all ranks do"
            )

    def back(self, step: int | float) -> None:
        """The statistics go on, if they had stopped."""
        gap, self.gap = self.gap, None
        if gap is not None and self._main and self.book is not None:
            seconds = time.monotonic() - gap.since
            if gap.told:
                messages.say(f"statistics across ranks are back after {seconds:.0f} s")
            self.book.event("gap", across="ranks", step=gap.step, until=step, seconds=seconds)

    def account(self, rows: int, step: int | float, why: str) -> None:
        """Rows at the end have come to nothing."""
        messages.say(f"{rows:,} rows have no statistics across ranks: {why}")
        if self.book is not None:
            self.book.event("gap", across="ranks", reason=why, rows=rows, step=step)

    def _tell_bad(self, found: Mapping[str, list[int]], gathered: GatheredStep, prefix: str) -> None:
        """Name the ranks whose values are not finite; once, until they are again."""
        assert self.book is not None
        bad = {prefix + name: ranks for name, ranks in found.items()}
        seen = {prefix + name for rows in gathered.rows.values() for said in rows for name in said.values.names}
        self._bad -= seen - bad.keys()
        for name in [name for name in bad if name not in self._bad]:
            self._bad.add(name)
            ranks, step = bad[name], gathered.step
            which = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
            text = f"at step {step}" + ("" if self._plan.extras.nan else "; the statistics are of the other ranks")
            evidence = {"name": name, "step": step, "ranks": ranks}
            finding = Finding(f"{name} is not finite on rank {which}", "error", text, evidence)
            self.book.found(finding, "rank-non-finite", step)


def _with_news(rows: dict[int, list[Values]], given: Mapping[int, int]) -> dict[int, list[Values]]:
    """What ranks have said under names that one of them has said since."""
    news = {name for rank, said in rows.items() for one in said[given.get(rank, 0) :] for name in one.names}
    kept = {rank: [one for one in said if not news.isdisjoint(one.names)] for rank, said in rows.items()}
    return {rank: said for rank, said in kept.items() if said}


def _ranks(ranks: set[int]) -> str:
    shown = ", ".join(map(str, sorted(ranks)[:8])) + (", …" if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


class _Gap(NamedTuple):
    step: int | float
    since: float
    reason: str
    told: bool
