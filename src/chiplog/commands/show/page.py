"""The page of a run in the terminal, section by section."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

import msgspec

from chiplog.commands.shared.seq_ranges import seq_ranges
from chiplog.core import display
from chiplog.core.display import LEVELS, STATES, Screen, cut, paint, wrap
from chiplog.core.errors import MissingPackage
from chiplog.core.files import reading
from chiplog.core.messages import clean
from chiplog.core.values.flatten import flatten
from chiplog.metrics.catalog import is_system, readable_unit
from chiplog.store import layout
from chiplog.store.contents.contents import Bounds
from chiplog.store.contents.table_samples import Sample
from chiplog.store.journal.cursors import Health, SinkStatus, backends, cursors
from chiplog.store.reader import Stored
from chiplog.store.runs.problems import problems
from chiplog.store.runs.state import MOST_PAIRS, AttemptState, live_streams, two_writers
from chiplog.views.alert_groups import alert_groups
from chiplog.views.charts.text_bars import bar_line
from chiplog.views.metric_families import by_importance, families
from chiplog.views.report import goodput
from chiplog.views.table import Cell, pairs, table

MOST = 30  # rows per section
SPARK = 24  # columns
KINDS = ("eval", "alert", "histogram", "table", "text", "matrix", "file", "event")  # of records that are shown


def page(stored: Stored, screen: Screen, *, every: bool = False) -> str:
    """Everything about a run; with `every`, however long the sections get."""
    return Page(stored, screen, sys.maxsize if every else MOST).text()


class Page:
    """A run as it is now, and the screen to show it on."""

    def __init__(self, stored: Stored, screen: Screen, most: int) -> None:
        self._stored, self._screen, self._most = stored, screen, most
        self._now = time.time_ns()
        self._contents = stored.contents(*KINDS, bounds=Bounds(events=0, rows=1, frames=1))
        self._attempts = stored.attempts

    def text(self) -> str:
        """The head, the warnings, and every section that has something to show."""
        sections = {
            "config": self._config(),
            "summary": self._summary(),
            "attempts": self._attempts_table(),
            "goodput": self._goodput(),
            "series": self._series(system=False),
            "system": self._series(system=True),
            "histograms": self._histograms(),
            "matrices": self._matrices(),
            "tables": self._tables(),
            "texts": self._texts(),
            "evals": self._evals(),
            "alerts": self._alerts(),
            "sinks": self._sinks(),
            "files": self._files(),
        }
        titled = [f"{self._paint(title, '1')}\n{body}" for title, body in sections.items() if body]
        return "\n\n".join(part for part in (self._head(), self._warnings(), *titled) if part)

    # -- sections --------------------------------------------------------------------------------------------------

    def _head(self) -> str:
        stored, state, facts = self._stored, self._stored.state, self._contents.environment
        name = f"  {clean(stored.name)}" if stored.name != stored.id else ""
        title = f"{clean(stored.project)}/{clean(stored.id)}{name}"
        if self._screen.room is not None:
            title = cut(title, self._screen.room - len(state) - 2)
        ran: dict[int, float] = {}  # by rank: rank 0 may have left the run to another one
        for attempt in self._attempts:
            ran[attempt.rank] = ran.get(attempt.rank, 0.0) + attempt.seconds(self._now)
        seconds = max(ran.values(), default=0.0)
        started = f"{display.date(stored.created)} ({display.ago(stored.created, self._now)})" if stored.created else ""
        rows = [
            ("started", started),
            ("ran", display.duration(seconds) + _reason(self._attempts)),
            ("command", _command(facts.get("command"))),
            ("in", str(facts.get("cwd", ""))),
            ("host", _host(facts)),
            ("notebook", str(facts.get("notebook", ""))),
            ("packages", _packages(facts.get("packages") or {}, stored.path)),
            ("git", _git(facts.get("git") or {}, stored.path)),
            ("tags", ", ".join(stored.tags)),
            ("where", str(stored.path.absolute())),
            ("size", _sizes(stored.path)),
        ]
        return f"{self._paint(title, '1')}  {self._paint(state, STATES.get(state, ''))}\n{_pairs(self._screen, rows)}"

    def _warnings(self) -> str:
        """Damage, gaps and other problems, each with its exact place."""
        lines = [
            line for text in self._problems() for line in wrap(clean(f"! {display.brief(text)}"), self._screen.room)
        ]
        return "\n".join(self._paint(line, "33") for line in lines)

    def _problems(self) -> Iterator[str]:
        for problem in problems(self._stored.path):
            yield f"cannot be read: {problem}"
        pairs = two_writers(self._attempts, self._now)
        for one, other in pairs:
            launches = f"attempts {one.attempt} and {other.attempt} were written at the same time by different launches"
            yield f"two writers: {launches}; all their points are shown together"
        if len(pairs) == MOST_PAIRS:
            yield f"two writers: only the first {len(pairs)} pairs of launches are listed"
        for damage in (*self._contents.damage, *self._contents.torn(live_streams(self._attempts))):
            yield f"damage: {damage}"
        for key, ranges in self._contents.missing.items():
            yield f"missing: {key}: {seq_ranges(ranges, 'are lost')}"
        for one in (each for attempt in self._attempts for each in (attempt, *attempt.workers)):
            if one.finish is not None and one.finish.missing:
                yield f"missing: attempt {one.attempt} reported {display.count(one.finish.missing)} lost records"

    def _config(self) -> str:
        settings = [(name, _setting(value)) for name, value in flatten(self._contents.config)]
        return _pairs(self._screen, settings[: self._most]) + self._more(len(settings))

    def _summary(self) -> str:
        """The values that the run has set; the last values of series are in their table."""
        values = [(name, _value(value)) for name, value in flatten(self._contents.summary)]
        return _pairs(self._screen, values[: self._most]) + self._more(len(values))

    def _attempts_table(self) -> str:
        several = len({attempt.rank for attempt in self._attempts}) > 1
        rows: list[list[str | Cell]] = []
        for one in self._attempts:
            streams = [self._contents.stream(each.rank, each.attempt) for each in (one, *one.workers)]
            steps = [stream.step_range for stream in streams if stream.step_range is not None]
            shown = (min(low for low, _ in steps), max(high for _, high in steps)) if steps else ()
            rows.append(
                [
                    str(one.attempt),
                    str(one.rank) if several else "",
                    Cell(one.state, STATES.get(one.state, "")),
                    display.date(one.start.time) if one.start else "?",
                    display.duration(one.seconds(self._now)),
                    " to ".join(map(display.count, shown)),
                    display.count(sum(stream.records for stream in streams)),
                    display.count(len(one.workers)) if one.workers else "",
                    f"{one.start.host} {one.start.pid}" if one.start else "",
                ]
            )
        head = ["attempt", "rank", "state", "started", "ran", "steps", "records", "workers", "host, pid"]
        return _table(self._screen, head, rows, right=("attempt", "rank", "ran", "steps", "records", "workers"))

    def _goodput(self) -> str:
        try:
            spans = self._stored.spans()
            ledger = self._stored.goodput(spans)
        except MissingPackage:
            return ""
        if not ledger.seconds["step"]:
            return ""
        text = goodput.text(ledger, width=self._screen.width, colour=self._screen.colour)
        parts = self._stored.step_parts(spans)
        return f"{text}\n{goodput.fall(parts, width=self._screen.width)}" if len(parts) > 1 else text

    def _series(self, *, system: bool) -> str:
        """The series of the training, or of the machine, in which power is in watts."""
        try:
            from chiplog.views.charts.text_plot import sparkline

            shown = [one for one in families(self._stored.names()) if is_system(one.name) == system]
        except (MissingPackage, ImportError):
            return "" if system else "  showing series needs numpy and pyarrow: pip install 'chiplog[read]'"
        there = set(self._stored.names())
        # A metric that only other ranks have logged is shown by its mean.
        statistics = {
            one.name if one.name in there else one.statistics.get("mean", one.name): one.statistics for one in shown
        }
        if self._most == sys.maxsize:
            statistics |= {name: {} for one in shown for name in one.statistics.values()}
        names = by_importance(statistics)
        room = SPARK if self._screen.width >= 100 else SPARK // 2
        rows = []
        for one in filter(None, map(self._stored.overview, names[: self._most])):
            unit, scale = readable_unit(one.name)
            last, low, high = (
                "" if value is None else display.number(value if scale == 1.0 else value / scale)
                for value in (one.last, *(one.range or (None, None)))
            )
            across = self._across(statistics[one.name], scale)
            spark = sparkline(one.extremes, room, ascii=self._screen.ascii)
            rows.append(
                [one.name, last, unit, low, high, display.count(one.points), str(one.nans or ""), across, spark]
            )
        head = ["name", "last", "unit", "min", "max", "points", "nan", "mean of ranks", ""]
        text = _table(self._screen, head, rows, right=("last", "min", "max", "points", "nan", "mean of ranks"))
        return text and text + self._more(len(names))

    def _across(self, statistics: Mapping[str, str], scale: float) -> str:
        """The last mean across ranks, or the sum of what they do together."""
        kind = next((kind for kind in ("sum", "mean") if kind in statistics), None)
        if kind is None or (one := self._stored.overview(statistics[kind])) is None:
            return ""
        return f"{'sum ' * (kind == 'sum')}{display.number(float(one.last) / scale)}"

    def _histograms(self) -> str:
        """The newest histogram of each name."""
        room = SPARK if self._screen.width >= 100 else SPARK // 2
        histograms = [one for _, one in sorted(self._contents.histograms.items())]
        rows = [
            [
                one.name,
                "" if one.step is None else display.count(one.step),
                display.count(one.total),
                "" if one.mean is None else display.number(one.mean),
                "" if one.min is None else display.number(one.min),
                "" if one.max is None else display.number(one.max),
                bar_line(one.counts, room, ascii=self._screen.ascii),
            ]
            for one in histograms[: self._most]
        ]
        head = ["name", "step", "count", "mean", "min", "max", ""]
        return _table(self._screen, head, rows, right=head[1:-1]) + self._more(len(histograms))

    def _matrices(self) -> str:
        """The newest matrix of each name."""
        rows = []
        for name, frames in sorted(self._contents.matrices.items()):
            height, width = frames[-1].shape
            step = frames[-1].step
            rows.append([name, f"{height:,} × {width:,}", "" if step is None else display.count(step)])
        head = ["name", "rows × columns", "last step"]
        return _table(self._screen, head, rows[: self._most], right=head[1:]) + self._more(len(rows))

    def _tables(self) -> str:
        rows = [
            [
                name,
                display.count(self._contents.sample_counts[name]),
                _step(newest[-1]),
                ", ".join(self._contents.sample_columns[name]),
            ]
            for name, newest in sorted(self._contents.tables.items())
        ]
        head = ["name", "rows", "last step", "columns"]
        return _table(self._screen, head, rows[: self._most], right=head[1:3]) + self._more(len(rows))

    def _texts(self) -> str:
        """The newest text of each name."""
        rows = [
            [
                name,
                display.count(self._contents.sample_counts[name]),
                _step(newest[-1]),
                _value(newest[-1].cells.get("text")),
            ]
            for name, newest in sorted(self._contents.texts.items())
        ]
        head = ["name", "count", "last step", "newest"]
        return _table(self._screen, head, rows[: self._most], right=head[1:3]) + self._more(len(rows))

    def _evals(self) -> str:
        newest = self._contents.evals[-5:]
        names = list(dict.fromkeys(name for record in newest for name in record.metrics))[:8]
        rows = [
            [display.count(record.step), *(display.number(record.metrics.get(name, "")) for name in names)]
            for record in newest
        ]
        head = ["step", *map(clean, names)]
        return _table(self._screen, head, rows, right=head) + _last_of(len(newest), len(self._contents.evals))

    def _alerts(self) -> str:
        groups = alert_groups(self._contents.alerts)
        rows: list[list[str | Cell]] = [
            [Cell(one.newest.level, LEVELS.get(one.newest.level, "")), one.steps, one.title, one.newest.text]
            for one in groups[: self._most]
        ]
        text = _table(self._screen, ["level", "step", "title", "text"], rows, right=("step",))
        return text + self._more(len(groups))

    def _sinks(self) -> str:
        sinks = (*cursors(self._stored.path), *backends(self._stored.path))
        return _pairs(self._screen, [(one.name, _delivery(one)) for one in sinks[: self._most]]) + self._more(
            len(sinks)
        )

    def _files(self) -> str:
        run = self._stored.path
        files = sorted(reading.walk(run, layout.FILES), key=lambda file: Path(file[0]))
        rows = []
        for name, about in files[: self._most]:
            record = self._contents.files.get(name)
            step = "" if record is None or record.step is None else display.count(record.step)
            rows.append([name, display.size(about.st_size), step, record.name if record else ""])
        text = _table(self._screen, ["file", "size", "step", "name"], rows, right=("size", "step"))
        return text + self._more(len(files))

    # -- shapes ----------------------------------------------------------------------------------------------------

    def _paint(self, text: str, style: str) -> str:
        return paint(text, style, self._screen.colour)

    def _more(self, count: int) -> str:
        return f"\n  and {display.count(count - self._most)} more: --all shows them" if count > self._most else ""


def _pairs(screen: Screen, rows: Sequence[tuple[str, str]]) -> str:
    return pairs(rows, width=screen.room, indent=2)


def _table(screen: Screen, head: Sequence[str], rows: Sequence[Sequence[str | Cell]], *, right: Collection[str]) -> str:
    width, colour = screen.room, screen.colour
    return table(head, rows, width=width, right=right, colour=colour, indent=2) if rows else ""


def _last_of(shown: int, count: int) -> str:
    return f"\n  the last of {display.count(count)}" if count > shown else ""


def _reason(attempts: Sequence[AttemptState]) -> str:
    finish = attempts[-1].finish if attempts else None
    return f", {finish.state}: {finish.reason}" if finish is not None and finish.reason else ""


def _command(command: object) -> str:
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command or "")


def _host(facts: Mapping[str, object]) -> str:
    cpus = f"{facts['cpus']} CPUs" if facts.get("cpus") else ""
    python = f"Python {facts['python']}" if facts.get("python") else ""
    return ", ".join(str(part) for part in (facts.get("host"), cpus, facts.get("platform"), python) if part)


def _packages(loaded: Mapping[str, object], run: Path) -> str:
    """The versions of what was loaded, and the file with those of all distributions."""
    words = [f"{name} {version}" for name, version in loaded.items()]
    return ", ".join([*words, *(f"all in {file}" for file in _newest(run, "packages*.txt"))])


def _newest(run: Path, pattern: str) -> list[str]:
    """The file about the environment that the newest attempt wrote, relative to the run."""
    files = [file for file in reading.walk(run, f"{layout.FILES}/environment") if PurePath(file[0]).match(pattern)]
    return [name for name, _ in sorted(files, key=lambda file: file[1].st_mtime_ns)[-1:]]


def _git(git: Mapping[str, object], run: Path) -> str:
    if not git.get("commit"):
        return ""
    changed = (
        " ".join([" with changes", *(f"in {file}" for file in _newest(run, "git*.diff"))]) if git.get("dirty") else ""
    )
    words = (git.get("branch"), str(git["commit"])[:12] + changed, git.get("remote"))
    return ", ".join(str(word) for word in words if word)


def _sizes(path: Path) -> str:
    sizes = {
        name: sum(about.st_size for _, about in reading.walk(path, name))
        for name in (layout.JOURNAL, layout.PARTS, layout.FILES)
    }
    return ", ".join(f"{name} {display.size(amount)}" for name, amount in sizes.items() if amount)


def _step(sample: Sample) -> str:
    return "" if sample.step is None else display.count(sample.step)


def _setting(value: object) -> str:
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()


def _value(value: object) -> str:
    return display.number(value) if isinstance(value, float) else _setting(value)


def _delivery(sink: SinkStatus) -> str:
    """A sink's progress, the last error its relay reported, and what it rejected."""
    if sink.trouble:
        return sink.trouble
    health = sink.health or Health()
    words = [f"{display.size(sink.lag)} behind" if sink.lag else "up to date"] if not health.skipped else []
    if sink.lag and health.errors:
        words.append(f"{health.state} after {display.count(health.errors)} errors ({health.last_error})")
    if health.rejected:
        words.append(f"{display.count(health.rejected)} rejected")
    if health.skipped:
        calls = "call" if health.skipped == 1 else "calls"
        words.append(f"{display.count(health.skipped)} {calls} skipped ({health.last_error})")
    if sink.url:
        words.append(sink.url)
    return ", ".join(words)
