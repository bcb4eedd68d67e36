"""Writes what ranks have gathered into a run: rows of statistics, pooled routers, and alerts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

from chiplog.core import messages
from chiplog.core.engine.components import Components
from chiplog.core.protocols import Finding
from chiplog.core.records import Eval, Event, Record, Row
from chiplog.core.values.row_pieces import pieces
from chiplog.metrics.catalog import SUMMED, TOKENS
from chiplog.metrics.ranks.moe_routers import pool
from chiplog.metrics.ranks.statistics import Values, across
from chiplog.metrics.ranks.step_gather import GatheredStep, Topic
from chiplog.metrics.ranks.stragglers import Facts, Stragglers
from chiplog.runtime.ranks.reduce_options import ReduceOptions
from chiplog.runtime.ranks.statistics_gaps import GapEvents, rank_list

REMEMBERED = 10_000  # steps whose statistics a caller already has


class StatisticsRun(GapEvents, Protocol):
    """What statistics need of a run."""

    engine: Components

    def write(self, kind: type[Record], /, **fields: object) -> Record | None: ...

    def on_record(self, call: Callable[[Record], object]) -> None: ...

    def keep(self, task: Callable[[], float]) -> None: ...


class StatisticsWriter:
    """Writes the statistics of this rank; only the `main` rank raises alerts."""

    def __init__(self, options: ReduceOptions, facts: Mapping[int, Facts], *, main: bool) -> None:
        self._options, self._main = options, main
        self._stragglers = Stragglers(facts)
        self._not_finite: set[str] = set()
        self._returned: dict[Hashable, dict[int, int]] = {}  # by key: how many rows of each rank a caller has
        self._thread = 0  # the one that is writing now
        self.remote_names: set[str] = set()  # that other ranks have logged
        self.run: StatisticsRun | None = None
        self.main_logs = not main  # whether the main rank has logged anything itself

    @property
    def is_writing(self) -> bool:
        """Whether this thread is writing statistics now, so that a row it writes is not one to reduce."""
        return bool(self._thread) and self._thread == threading.get_ident()

    def write(self, topic: Topic, gathered: GatheredStep, world: int) -> None:
        """Write the statistics of a step as its second record."""
        self._thread = threading.get_ident()
        try:
            if topic is Topic.TRAIN:
                self._write_step(gathered, world)
            elif len(gathered.rows) < 2:
                pass  # only one rank has evaluated, as in many scripts, and it has recorded that itself
            elif topic is Topic.EVAL:
                self._write_eval(gathered, world)
            else:
                self._write_routers(gathered)
        finally:
            self._thread = 0

    def statistics(self, topic: Topic, gathered: GatheredStep, world: int) -> Row:
        """The statistics of a step, except those of the same rows that a caller already has."""
        rows = {rank: [row.values for row in rows] for rank, rows in gathered.rows.items()}
        returned = self._returned.get(gathered.key) if topic is Topic.TRAIN else None
        if returned:
            rows = _with_new_names(rows, returned)
        if not rows:
            return {}
        if self._options.sync and topic is Topic.TRAIN:
            self._returned[gathered.key] = {rank: len(ranked) for rank, ranked in gathered.rows.items()}
            if len(self._returned) > REMEMBERED:
                self._returned.pop(next(iter(self._returned)))
        if len(gathered.rows) < 2 and (gathered.alone or gathered.late):
            return self._counts(rows, gathered)
        result = across(rows, self._options.extras, world=world)
        if self._main and (result.bad or self._not_finite):
            self._alert_not_finite(result.bad, gathered, "eval/" if topic is Topic.EVAL else "")
        self._add_sums(result.row, len(gathered.rows), world)
        return result.row

    def _add_sums(self, row: Row, count: int, world: int) -> None:
        """The rates and tokens of all ranks together, unless each rank measures those of all devices already."""
        devices = None if self.run is None else self.run.engine.count.metered_devices
        if devices is not None and devices >= world:
            return
        for name in TOKENS if devices is None else (*SUMMED, *TOKENS):
            if (mean := row.get(f"{name}/mean")) is not None:
                row[f"{name}/sum"] = mean * row.get(f"{name}/count", count)

    def _write_step(self, gathered: GatheredStep, world: int) -> None:
        """The statistics of a step, and the rank that delayed the others."""
        if not self.main_logs and len(gathered.rows) < 2:
            return  # the only rank that logs keeps the run, with its own rows
        row = self.statistics(Topic.TRAIN, gathered, world)
        self._returned.pop(gathered.key, None)
        skew, finding = self._stragglers(gathered) if self._main else ({}, None)
        assert self.run is not None
        if row or skew:
            self.run.engine.add_statistics({**row, **skew}, gathered.step)
        if finding is not None:
            self.run.engine.alert(finding, self._stragglers.name, gathered.step)

    def _write_eval(self, gathered: GatheredStep, world: int) -> None:
        assert self.run is not None
        for piece in pieces(self.statistics(Topic.EVAL, gathered, world)):
            self.run.write(Eval, step=gathered.step, metrics=piece, across=True)

    def _write_routers(self, gathered: GatheredStep) -> None:
        """The load of the whole model, as if one process had counted it."""
        assert self.run is not None
        routers: dict[str, dict[int, list[Values]]] = {}
        for rank, rows in gathered.rows.items():
            for row in rows:
                routers.setdefault(row.values.names[0], {}).setdefault(rank, []).append(row.values)
        for name, by_rank in routers.items():
            if len(by_rank) < 2:
                continue
            try:
                router = pool([values for rows in by_rank.values() for values in rows])
            except ValueError as error:
                messages.once(f"routers {name}", f"{name!r} cannot be added up over the ranks: {error}")
                continue
            for kind, fields in router.records(f"{name}/all"):
                if kind is Event:
                    self.run.event(fields["name"], gathered.step, **fields["data"])
                else:
                    self.run.write(kind, step=gathered.step, **fields)

    def _counts(self, rows: Mapping[int, list[Values]], gathered: GatheredStep) -> Row:
        """The counts of a row that only one rank has logged: 1 for names that other ranks log too."""
        if not gathered.late:
            return {}
        names = [name for ranked in rows.values() for one in ranked for name in one.names if name in self.remote_names]
        return {f"{name}/count": 1 for name in names}

    def _alert_not_finite(self, ranks_by_name: Mapping[str, list[int]], gathered: GatheredStep, prefix: str) -> None:
        """Name the ranks whose values are not finite; once, until they are finite again."""
        assert self.run is not None
        bad = {prefix + name: ranks for name, ranks in ranks_by_name.items()}
        present = {prefix + name for rows in gathered.rows.values() for row in rows for name in row.values.names}
        self._not_finite -= present - bad.keys()
        for name in [name for name in bad if name not in self._not_finite]:
            self._not_finite.add(name)
            ranks, step = bad[name], gathered.step
            text = f"at step {step}" + ("" if self._options.extras.nan else "; the statistics are of the other ranks")
            evidence = {"name": name, "step": step, "ranks": ranks}
            finding = Finding(f"{name} is not finite on rank {rank_list(ranks)}", "error", text, evidence)
            self.run.engine.alert(finding, "rank-non-finite", step)


def _with_new_names(rows: dict[int, list[Values]], returned: Mapping[int, int]) -> dict[int, list[Values]]:
    """The rows with a name that a rank has logged since the statistics were returned."""
    new = {name for rank, ranked in rows.items() for one in ranked[returned.get(rank, 0) :] for name in one.names}
    kept = {rank: [one for one in ranked if not new.isdisjoint(one.names)] for rank, ranked in rows.items()}
    return {rank: ranked for rank, ranked in kept.items() if ranked}
