"""The console: one line per step for the person who is watching."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TextIO

from chiplog.core import display, messages, progress_bars
from chiplog.core.display import LEVELS, cut, paint, time_left
from chiplog.core.identity import Identity
from chiplog.core.records import Alert, AnyRecord, Attempt, Eval, Event, Finish, Plain, Step
from chiplog.core.values.text import Aside, words
from chiplog.metrics.catalog import is_loss, is_statistic
from chiplog.sinks.console import layout as layouts
from chiplog.sinks.console.layout import Cell, ConsoleLine, Layout, LayoutColumn
from chiplog.sinks.console.progress import Progress
from chiplog.sinks.console.statistics_wait import PATIENCE, StatisticsWait, WaitingRow
from chiplog.sinks.shared.rows import Metrics, Row, Rows

RATE = 20.0  # step lines per second
WIDTH = 120  # without a terminal
LONGEST = 500  # characters of an alert
PULSE = 2_000_000_000  # ns without metrics after which a step has a line for its time alone
BAR = 30  # characters

_DATASET = layouts.DEFAULT._replace(quiet=frozenset(), before_rest=" ")
SECOND = 1_000_000_000


def open_sink(identity: Identity, environ: Mapping[str, str]) -> Console:
    return Console(sys.stdout, environ=environ, config=identity.config, place=str(identity.dir))


class Console:
    """Writes a live run to a text stream: steps, evals, alerts, and a progress bar on a terminal.

    At most `rate` step lines per second by the run's own clock (None: all of them); the next line counts those left
    out. Colour and the bar need a terminal; `NO_COLOR` in `environ` switches colour off. A stream that fails does not
    affect the run.
    """

    def __init__(
        self,
        stream: TextIO | None,
        *,
        environ: Mapping[str, str],
        width: int | None = None,
        layout: Layout = layouts.DEFAULT,
        rate: float | None = RATE,
        config: Mapping[str, Plain] | None = None,
        place: str = "",
    ) -> None:
        self._stream = stream
        self._terminal = display.is_terminal(stream, environ)
        self._colour = display.has_colour(stream, environ)
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._environ = {"COLUMNS": environ.get("COLUMNS", ""), "LINES": "1"}  # only the width is needed
        self._fixed_width = width
        self._place = place
        self._status = Progress(layout, config or {})
        self._rows = Rows(joined=not layout.only)
        self._wait = StatisticsWait()
        self._layout, self._timing = layout, layout.timing
        self._step_line = ConsoleLine(layout.steps, layout)
        self._eval_line = ConsoleLine(layout.evals, layout)
        self._dataset_line = ConsoleLine((LayoutColumn("-- dataset ", before=""),), _DATASET)
        self._rate = LineRate(rate)
        self._hidden = 0
        self._logged = -PULSE  # when the newest row with metrics was written
        self._latest: tuple[Row, dict[str, Cell]] | None = None  # not shown
        self._started, self._now = 0, 0
        self._end = ""
        self._bar = ""
        self._closed = False
        self._turn = threading.Lock()

    @property
    def chiplog_idle(self) -> float | None:
        """Seconds without a record after which an empty batch shows what waits; None for the usual."""
        return PATIENCE if self._wait.active else None

    def write(self, batch: Sequence[AnyRecord]) -> None:
        with self._turn:
            self._write(batch)

    def catch_up(self) -> None:
        """Show the newest step now, from any thread; at the end of a cell in a notebook."""
        if not self._closed:
            self.write(())

    def close(self) -> None:
        with self._turn:
            self._close()

    def _write(self, batch: Sequence[AnyRecord]) -> None:
        lines: list[str] = []
        width = self._width()
        for record in batch:
            if isinstance(record, Step):
                if record.across:
                    self._join(record, lines, width)
                else:
                    for row in self._rows.feed(record):
                        self._steps(self._wait.add(row), lines, width)
            else:
                self._other(record, lines, width)
        if batch:
            self._now = batch[-1].time
            self._started = self._started or batch[0].time
            self._steps(self._wait.ready(), lines, width)
        else:
            self._catch_up(lines, width)
        self._print(lines, self._progress(width))

    def remember(self, records: Sequence[AnyRecord]) -> None:
        """Note the losses of older records that are not shown, so that the gaps of evals are those of the live run."""
        for record in records:
            if isinstance(record, Step) and not record.across:
                self._status.remember(Row(record.step, record.time, record.metrics))

    def leave(self) -> None:
        """Print no last line, because another rank keeps the run."""
        self._place = ""

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        lines: list[str] = []
        self._catch_up(lines, self._width())
        if (self._status.steps or self._place) and not self._layout.only:
            lines.append(self._last_line())
        self._print(lines, "")

    def _other(self, record: AnyRecord, lines: list[str], width: int) -> None:
        if isinstance(record, Eval):
            if record.across:
                return
            self._catch_up(lines, width)
            metrics = {name.removeprefix("eval/"): value for name, value in record.metrics.items()}
            facts = self._status.eval(metrics, record.step)
            before, behind = self._layout.around_evals if self._colour else ("", "")
            lines.append(before + self._eval_line.put(metrics, facts, width=width, colour=self._colour) + behind)
        elif isinstance(record, Alert):
            if self._layout.alerts:
                self._catch_up(lines, width)
                lines.append(_alert_line(record, self._colour))
        elif isinstance(record, Event):
            if record.name == "plan":
                self._drain(lines, width)  # rows before it are shares of the plan before it
                self._status.plan(record.data, record.time)
            elif record.name == "ranks" and not self._layout.only:
                self._wait.expect(record.data.get("statistics"))
            elif record.name == "phase":
                self._status.enter(record.data)
            elif record.name == "config":
                self._status.configure(record.data)
            elif record.name in self._layout.blocks:
                self._catch_up(lines, width)
                lines += self._block(record)
            elif record.name == "dataset" and not self._layout.only:
                data = {name: value for name, value in record.data.items() if isinstance(value, (int, float, str))}
                lines.append(self._dataset_line.put(data, {}, width=width))
        elif isinstance(record, Attempt):
            self._drain(lines, width)
            self._status.restart()
        elif isinstance(record, Finish):
            self._end = f"{record.state}: {record.reason}" if record.reason else record.state

    def _join(self, record: Step, lines: list[str], width: int) -> None:
        """Statistics across ranks join the line of their step, unless it is too late."""
        if not self._wait.join(record.step, record.metrics) and self._wait.active and self._rows.holds(record.step):
            for row in self._rows.drain():  # all ranks have logged the step, so nothing more is to come
                self._steps(self._wait.add(row), lines, width)

    def _steps(self, ready: Sequence[WaitingRow], lines: list[str], width: int) -> None:
        for one in ready:
            self._step(one.row, lines, width, one.statistics)

    def _step(self, row: Row, lines: list[str], width: int, statistics: Mapping[str, Plain] | None = None) -> None:
        if self._wait.inline:
            statistics, row = row.metrics, row._replace(metrics=_without_statistics(row.metrics))
        elif statistics:
            row = row._replace(metrics={**row.metrics, **_means_of_others(statistics, row.metrics)})
        more = self._status.newest.get("@step") == row.step
        facts = self._status.step(row, statistics)
        if more and self._timing.issuperset(row.metrics):
            return  # the timing of a step that was already shown or counted
        if self._layout.only and not (self._layout.steps and any(name in row.metrics for name in self._layout.loss)):
            return
        if not self._passed_over(row) and self._rate.allows(row.time):
            self._show(row, facts, lines, width)
        else:
            self._hidden += 1
            self._latest = row, facts

    def _passed_over(self, row: Row) -> bool:
        """Whether a row has nothing but the timing of its step, and one with metrics was there a moment ago.

        In a fast loop that logs every n-th step, those steps have the lines.
        """
        if not self._timing.issuperset(row.metrics):
            self._logged = row.time
        return self._rate.limited and row.time != self._logged and 0 <= row.time - self._logged < PULSE

    def _show(self, row: Row, facts: dict[str, Cell], lines: list[str], width: int) -> None:
        if self._hidden:
            facts["@hidden"] = self._hidden
            self._hidden = 0
        self._latest = None
        lines.append(self._step_line.put(row.metrics, facts, width=width, colour=self._colour))

    def _drain(self, lines: list[str], width: int) -> None:
        for row in self._rows.drain():
            self._steps(self._wait.add(row), lines, width)
        self._steps(self._wait.drain(), lines, width)

    def _catch_up(self, lines: list[str], width: int) -> None:
        """Show the newest step, even if it was left out before."""
        self._drain(lines, width)
        if self._latest is not None:
            self._hidden -= 1
            self._show(*self._latest, lines, width)

    def _block(self, record: Event) -> list[str]:
        """The lines of an event; none, and a message, if its data has another shape."""
        try:
            return [messages.clean(line) for line in self._layout.blocks[record.name](record.data, record.step)]
        except Exception as error:
            messages.once(f"block {record.name}", f"the console cannot show an event {record.name!r}: {words(error)}")
            return []

    def _last_line(self) -> str:
        steps, took = self._status.steps, (self._now - self._started) / 1e9
        words = [f"== {steps:,} step{'s' * (steps != 1)} in {time_left(took)}", cut(messages.clean(self._end), LONGEST)]
        return " | ".join(word for word in (*words, messages.clean(self._place)) if word)

    def _progress(self, width: int) -> str:
        """The progress bar, on a terminal and if the total is known."""
        if not self._terminal or self._closed or self._layout.only or not self._status.total or not self._status.steps:
            return ""
        if self._stream is not None and progress_bars.active(self._stream):
            return ""  # one bar is enough
        facts = self._status.newest
        share = facts.get("@share")
        if share is None or isinstance(share, str):
            return self._bar
        full, empty = ("━", "─") if "utf" in self._encoding.lower() else ("#", "-")
        done = int(BAR * share / 100)
        bar = f"{full * done}{empty * (BAR - done)} {share:5.1f}%"
        if "@eta" in facts:
            bar += f" eta {time_left(facts['@eta'])}"
        return cut(bar, width - 1)

    def _print(self, lines: list[str], bar: str) -> None:
        """Write everything at once, the bar last; it is erased before other lines."""
        if self._stream is None or not (lines or bar != self._bar):
            return
        wipe = f"\r{' ' * len(self._bar)}\r" if self._bar else ""
        text = wipe + "".join(line + "\n" for line in lines) + bar
        try:
            text = Aside(text.encode(self._encoding, "backslashreplace").decode(self._encoding))
            _enter_cell(self._stream)
            progress_bars.write(self._stream, text)
        except Exception as error:  # the stream, and tqdm or rich, may be any object
            messages.once("console", f"the console cannot be written ({error}); the run continues")
        self._bar = bar

    def _width(self) -> int:
        if self._fixed_width is not None:
            return self._fixed_width
        terminal = self._stream if self._terminal else None
        return display.terminal_size(terminal, self._environ, (WIDTH, 1))[0]


def _alert_line(alert: Alert, colour: bool) -> str:
    words = alert.title if not alert.text else f"{alert.title} - {alert.text}"
    step = "" if alert.step is None else f"step {display.compact(alert.step)}"
    where = f" ({step})" if step and step not in words else ""
    level = messages.clean(alert.level)
    head = f"!! {level:<5}"
    style = LEVELS.get(level, "") if colour else ""
    return f"{paint(head, style)} {cut(messages.clean(words), LONGEST)}{where}"


def _without_statistics(metrics: Metrics) -> Metrics:
    """The metrics of a row without the statistics of any of them across ranks."""
    return {
        name: value
        for name, value in metrics.items()
        if not is_statistic(name) or (name.rpartition("/")[0] not in metrics and not name.startswith("ranks/"))
    }


def _means_of_others(statistics: Metrics, metrics: Metrics) -> Metrics:
    """The means of losses that only other ranks have logged, under their names."""
    means = ((name.removesuffix("/mean"), value) for name, value in statistics.items() if name.endswith("/mean"))
    return {name: value for name, value in means if name not in metrics and is_loss(name)}


def _enter_cell(stream: TextIO) -> None:
    """In a notebook, write to the cell that runs now, not to the one that started this thread."""
    header, newest = getattr(stream, "_parent_header", None), getattr(stream, "_parent_header_global", None)
    if isinstance(header, ContextVar) and newest:
        header.set(newest)


class LineRate:
    """Allows `rate` lines per second on average, and those of one second at once; without a rate, all of them."""

    def __init__(self, rate: float | None) -> None:
        self.limited = bool(rate)
        self._pause = int(SECOND / rate) if rate else 0  # ns between lines, on average
        self._due = 0

    def allows(self, time: int) -> bool:
        """Whether a line at this time, in nanoseconds, is within the rate; if so, it counts."""
        ahead = self._due - time
        if ahead > max(SECOND, self._pause):  # the clock went back
            ahead = 0
        if ahead > max(SECOND - self._pause, 0):
            return False
        self._due = time + max(ahead, 0) + self._pause
        return True
