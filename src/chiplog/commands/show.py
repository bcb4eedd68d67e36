"""`chiplog show`: everything about a run on one page."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from chiplog.commands.run_overview import Overview
from chiplog.core import display, records
from chiplog.core.display import LEVELS, STATES, Screen, cut, paint, wrap
from chiplog.core.errors import MissingPackage
from chiplog.core.messages import clean
from chiplog.core.values.flatten import flatten
from chiplog.metrics.catalog import is_loss
from chiplog.store import layout
from chiplog.store.journal.cursors import Health, SinkStatus
from chiplog.store.reader import Stored
from chiplog.store.runs import find, state
from chiplog.views.report import goodput
from chiplog.views.table import Cell, pairs, table

if TYPE_CHECKING:
    from chiplog.metrics.goodput import Ledger
    from chiplog.store.points.series import Series
    from chiplog.store.spans.spans import Spans

MOST = 30  # rows per section without --all
SPARK = 24  # columns


def run(args: Namespace) -> int:
    stored = Stored(find.find(args.run, args.root))
    if args.ranks:
        from chiplog.commands.show_ranks import show_ranks

        print(show_ranks(stored, args.of, args.screen, every=args.all))
        return 0
    overview = Overview(stored.path)
    now = time.time_ns()
    if args.json:
        facts = records.fields(records.Event(0, 0, "show", _facts(stored, overview, now)))["data"]
        print(msgspec.json.format(msgspec.json.encode(facts), indent=2).decode())
        return 0
    most = 1 << 30 if args.all else MOST
    print("\n\n".join(part for part in _sections(stored, overview, args.screen, now, most) if part))
    return 0


def _sections(stored: Stored, overview: Overview, screen: Screen, now: int, most: int) -> Iterator[str]:
    yield _head(stored, overview, screen, now)
    yield _warnings(overview, screen, now)
    yield _titled("config", _config(overview, screen, most), screen)
    yield _titled("attempts", _attempts(overview, screen, now), screen)
    yield _titled("goodput", _goodput(stored, screen), screen)
    yield _titled("series", _series_table(stored, screen, most), screen)
    yield _titled("evals", _evals(overview, screen), screen)
    yield _titled("alerts", _alerts(overview, screen), screen)
    yield _titled("sinks", _sinks(overview, screen), screen)
    yield _titled("files", _files(stored, overview, screen, most), screen)


def _titled(title: str, body: str, screen: Screen) -> str:
    return f"{paint(title, '1', screen.colour)}\n{body}" if body else ""


# -- sections ----------------------------------------------------------------------------------------------------------


def _head(stored: Stored, overview: Overview, screen: Screen, now: int) -> str:
    name = f"  {clean(stored.name)}" if stored.name != stored.id else ""
    state = overview.state
    title = cut(f"{clean(stored.project)}/{clean(stored.id)}{name}", screen.width - len(state) - 2)
    facts, git = overview.contents.environment, overview.contents.environment.get("git") or {}
    seconds = sum(attempt.seconds(now) for attempt in overview.attempts if attempt.rank == overview.attempts[0].rank)
    started = f"{display.date(stored.created)} ({display.ago(stored.created, now)})" if stored.created else ""
    rows = [
        ("started", started),
        ("ran", display.duration(seconds) + _reason(overview)),
        ("command", _command(facts.get("command"))),
        ("in", str(facts.get("cwd", ""))),
        ("host", _host(facts)),
        ("packages", ", ".join(f"{key} {value}" for key, value in (facts.get("packages") or {}).items())),
        ("git", _git(git)),
        ("tags", ", ".join(stored.tags)),
        ("where", str(stored.path.absolute())),
        ("size", _sizes(stored.path)),
    ]
    return f"{paint(title, '1', screen.colour)}  {paint(state, STATES.get(state, ''), screen.colour)}\n" + pairs(
        rows, width=screen.width, indent=2
    )


def _warnings(overview: Overview, screen: Screen, now: int) -> str:
    """Damage, gaps and other problems, each with its exact place."""
    found = [
        f"two writers: attempts {one.attempt} and {other.attempt} were written at the same time by different launches; "
        "all their points are shown together"
        for one, other in state.two_writers(overview.attempts, now)
    ]
    found += [f"damage: {damage}" for damage in (*overview.contents.damage, *overview.torn)]
    for key, ranges in overview.contents.missing.items():
        total = sum(last - first + 1 for first, last in ranges)
        found.append(f"missing: {key}: {display.count(total)} records are lost: seq {ranges_text(ranges)}")
    found += [
        f"missing: attempt {one.attempt} reported {display.count(one.finish.missing)} lost records"
        for one in overview.attempts
        if one.finish is not None and one.finish.missing
    ]
    lines = [line for text in found for line in wrap(f"! {clean(text)}", screen.width)]
    return "\n".join(paint(line, "33", screen.colour) for line in lines)


def _goodput(stored: Stored, screen: Screen) -> str:
    try:
        spans = stored.spans()
    except MissingPackage:
        return ""
    ledger = _ledger(stored, spans)
    if ledger is None:
        return ""
    text = goodput.text(ledger, width=screen.width, colour=screen.colour)
    parts = stored.step_parts(spans)
    return f"{text}\n{goodput.fall(parts, width=screen.width)}" if len(parts) > 1 else text


def _ledger(stored: Stored, spans: Spans | None = None) -> Ledger | None:
    """Where the time went; None without steps or without numpy."""
    try:
        ledger = stored.goodput(spans)
    except MissingPackage:
        return None
    return ledger if ledger.seconds["step"] else None


def _config(overview: Overview, screen: Screen, most: int) -> str:
    flat = [(name, _said(value)) for name, value in flatten(overview.contents.config)]
    text = pairs(flat[:most], width=screen.width, indent=2)
    return text + _more(len(flat), most)


def _attempts(overview: Overview, screen: Screen, now: int) -> str:
    several = len({attempt.rank for attempt in overview.attempts}) > 1
    rows: list[list[str | Cell]] = []
    for one in overview.attempts:
        stream = overview.contents.stream(one.rank, one.attempt)
        steps = "" if stream.first is None else f"{display.count(stream.first)} to {display.count(stream.last or 0)}"
        rows.append(
            [
                str(one.attempt),
                str(one.rank) if several else "",
                Cell(one.state, STATES.get(one.state, "")),
                display.date(one.start.time) if one.start else "?",
                display.duration(one.seconds(now)),
                steps,
                display.count(stream.records),
                f"{one.start.host} {one.start.pid}" if one.start else "",
            ]
        )
    head = ["attempt", "rank", "state", "started", "ran", "steps", "records", "host, pid"]
    right = ("attempt", "rank", "ran", "steps", "records")
    return table(head, rows, width=screen.width, right=right, colour=screen.colour, indent=2) if rows else ""


def _series_table(stored: Stored, screen: Screen, most: int) -> str:
    try:
        from chiplog.views.charts.text_plot import sparkline

        names = sorted(stored.names(), key=lambda name: (not is_loss(name), name))
    except (MissingPackage, ImportError):
        return "  showing series needs numpy and pyarrow: pip install 'chiplog[read]'"
    room = SPARK if screen.width >= 100 else SPARK // 2
    rows = []
    for name in names[:most]:
        series = stored.series(name)
        if not len(series):  # a newer launch hides it
            continue
        low, high, bad = _range(series)
        spark = sparkline(series.values, room, ascii=screen.ascii)
        rows.append(
            [
                name,
                display.number(series.exact[-1]),
                low,
                high,
                display.count(len(series)),
                str(bad) if bad else "",
                spark,
            ]
        )
    head = ["name", "last", "min", "max", "points", "nan", ""]
    right = ("last", "min", "max", "points", "nan")
    return (
        table(head, rows, width=screen.width, right=right, colour=screen.colour, indent=2) + _more(len(names), most)
        if rows
        else ""
    )


def _evals(overview: Overview, screen: Screen) -> str:
    newest = overview.contents.evals[-5:]
    names = list(dict.fromkeys(name for record in newest for name in record.metrics))[:8]
    rows = [
        [display.count(record.step), *(display.number(record.metrics.get(name, "")) for name in names)]
        for record in newest
    ]
    head = ["step", *map(clean, names)]
    text = table(head, rows, width=screen.width, right=head, colour=screen.colour, indent=2) if rows else ""
    return text + (
        f"\n  the last of {display.count(len(overview.contents.evals))}"
        if len(overview.contents.evals) > len(newest)
        else ""
    )


def _alerts(overview: Overview, screen: Screen) -> str:
    newest = list(overview.contents.alerts)[-10:]
    rows: list[list[str | Cell]] = [
        [
            Cell(record.level, LEVELS.get(record.level, "")),
            "" if record.step is None else display.count(record.step),
            record.title,
            record.text,
        ]
        for record in newest
    ]
    head = ["level", "step", "title", "text"]
    text = table(head, rows, width=screen.width, right=("step",), colour=screen.colour, indent=2)
    more = (
        f"\n  the last of {display.count(len(overview.contents.alerts))}"
        if len(overview.contents.alerts) > len(newest)
        else ""
    )
    return text + more if rows else ""


def _sinks(overview: Overview, screen: Screen) -> str:
    return pairs(
        [(one.name, _delivery(one)) for one in (*overview.cursors, *overview.backends)], width=screen.width, indent=2
    )


def _delivery(cursor: SinkStatus) -> str:
    """A sink's progress, the last error its relay reported, and what it rejected."""
    if cursor.trouble:
        return cursor.trouble
    health = cursor.health or Health()
    words = [f"{display.size(cursor.lag)} behind" if cursor.lag else "up to date"] if not health.skipped else []
    if cursor.lag and health.errors:
        words.append(f"{health.state} after {display.count(health.errors)} errors ({health.last_error})")
    if health.rejected:
        words.append(f"{display.count(health.rejected)} rejected")
    if health.skipped:
        calls = "call" if health.skipped == 1 else "calls"
        words.append(f"{display.count(health.skipped)} {calls} skipped ({health.last_error})")
    if cursor.url:
        words.append(cursor.url)
    return ", ".join(words)


def _files(stored: Stored, overview: Overview, screen: Screen, most: int) -> str:
    logged = overview.contents.files
    found = sorted(path for path in (stored.path / layout.FILES).rglob("*") if path.is_file())
    rows = []
    for path in found[:most]:
        record = logged.get(str(path.relative_to(stored.path)))
        step = "" if record is None or record.step is None else display.count(record.step)
        rows.append(
            [str(path.relative_to(stored.path)), display.size(path.stat().st_size), step, record.name if record else ""]
        )
    head = ["file", "size", "step", "name"]
    text = table(head, rows, width=screen.width, right=("size", "step"), colour=screen.colour, indent=2) if rows else ""
    return text + _more(len(found), most)


# -- words -------------------------------------------------------------------------------------------------------------


def ranges_text(ranges: Sequence[tuple[int, int]], most: int = 10) -> str:
    """Ranges as text: 3, 17-20 and 4 more."""
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges[:most])
    return shown + (f" and {len(ranges) - most} more ranges" if len(ranges) > most else "")


def _more(count: int, most: int) -> str:
    return f"\n  and {display.count(count - most)} more: --all shows them" if count > most else ""


def _reason(overview: Overview) -> str:
    finish = overview.attempts[-1].finish if overview.attempts else None
    return f", {finish.state}: {finish.reason}" if finish is not None and finish.reason else ""


def _command(command: object) -> str:
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command or "")


def _host(facts: Mapping[str, Any]) -> str:
    cpus = f"{facts['cpus']} CPUs" if facts.get("cpus") else ""
    python = f"Python {facts['python']}" if facts.get("python") else ""
    return ", ".join(str(part) for part in (facts.get("host"), cpus, facts.get("platform"), python) if part)


def _git(git: Mapping[str, Any]) -> str:
    if not git.get("commit"):
        return ""
    changed = " with changes" if git.get("dirty") else ""
    words = (git.get("branch"), str(git["commit"])[:12] + changed, git.get("remote"))
    return ", ".join(str(word) for word in words if word)


def _sizes(path: Path) -> str:
    sizes = {
        name: sum(file.stat().st_size for file in (path / name).rglob("*") if file.is_file())
        for name in (layout.JOURNAL, layout.PARTS, layout.FILES)
    }
    return ", ".join(f"{name} {display.size(amount)}" for name, amount in sizes.items() if amount)


def _said(value: Any) -> str:
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()


def _range(series: Series) -> tuple[str, str, int]:
    """The smallest and the largest number, and the count of values that are not numbers."""
    nan = series.values != series.values
    known = series.values[~nan]
    if not len(known):
        return "", "", len(nan)
    return display.number(float(known.min())), display.number(float(known.max())), int(nan.sum())


# -- as data -----------------------------------------------------------------------------------------------------------


def _facts(stored: Stored, overview: Overview, now: int) -> dict[str, Any]:
    return {
        "project": stored.project,
        "id": stored.id,
        "name": stored.name,
        "state": overview.state,
        "created": stored.created,
        "tags": stored.tags,
        "path": str(stored.path.absolute()),
        "config": overview.contents.config,
        "environment": overview.contents.environment,
        "attempts": [_attempt_facts(overview, one, now) for one in overview.attempts],
        "two_writers": [[one.attempt, other.attempt] for one, other in state.two_writers(overview.attempts, now)],
        "series": _series_facts(stored),
        "evals": [{"step": record.step, **record.metrics} for record in overview.contents.evals],
        "goodput": None if (ledger := _ledger(stored)) is None else {"share": ledger.goodput, **ledger._asdict()},
        "alerts": [records.fields(record) for record in overview.contents.alerts],
        "files": [records.fields(record) for record in overview.contents.files.values()],
        "sinks": {one.name: _sink_facts(one) for one in (*overview.cursors, *overview.backends)},
        "damage": [damage._asdict() for damage in (*overview.contents.damage, *overview.torn)],
        "missing": overview.contents.missing,
    }


def _sink_facts(cursor: SinkStatus) -> dict[str, Any]:
    health = msgspec.structs.asdict(cursor.health) if cursor.health is not None else {}
    return {**health, "lag_bytes": cursor.lag, "trouble": cursor.trouble, **({"url": cursor.url} if cursor.url else {})}


def _attempt_facts(overview: Overview, attempt: Any, now: int) -> dict[str, Any]:
    stream = overview.contents.stream(attempt.rank, attempt.attempt)
    return {
        "attempt": attempt.attempt,
        "rank": attempt.rank,
        "launch": attempt.launch,
        "state": attempt.state,
        "started": attempt.start.time if attempt.start else None,
        "seconds": attempt.seconds(now),
        "first_step": stream.first,
        "last_step": stream.last,
        "records": stream.records,
    }


def _series_facts(stored: Stored) -> dict[str, Any] | None:
    """The series by name; None if the packages to read them are missing."""
    try:
        names = stored.names()
    except MissingPackage:
        return None
    found: dict[str, Any] = {}
    for name in names:
        series = stored.series(name)
        if not len(series):
            continue
        known = series.values[series.values == series.values]
        found[name] = {
            "last": series.exact[-1],
            "min": float(known.min()) if len(known) else None,
            "max": float(known.max()) if len(known) else None,
            "points": len(series),
            "nan": len(series) - len(known),
        }
    return found
