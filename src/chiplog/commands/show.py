"""`chiplog show`: everything about a run on one page."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from chiplog.commands.ls import ran
from chiplog.commands.screen import STATES, Screen
from chiplog.commands.survey import Survey, two_writers
from chiplog.core import records
from chiplog.core.errors import MissingPackage
from chiplog.core.notes import clean
from chiplog.store import index, layout
from chiplog.store.cursors import Cursor, Health
from chiplog.store.reader import Stored
from chiplog.views import goodput, units
from chiplog.views.table import Cell, cut, paint, pairs, table, wrap

if TYPE_CHECKING:
    from chiplog.metrics.goodput import Ledger
    from chiplog.store.series import Series
    from chiplog.store.spans import Spans

MOST = 30  # rows of a section, unless all are asked for
SPARK = 24  # columns


def run(args: Namespace) -> int:
    stored = Stored(index.find(args.run, args.root))
    if args.ranks:
        from chiplog.commands.ranks import show_ranks

        print(show_ranks(stored, args.of, args.screen, every=args.all))
        return 0
    survey = Survey(stored.path)
    now = time.time_ns()
    if args.json:
        facts = records.fields(records.Event(0, 0, "show", _facts(stored, survey, now)))["data"]
        print(msgspec.json.format(msgspec.json.encode(facts), indent=2).decode())
        return 0
    most = 1 << 30 if args.all else MOST
    print("\n\n".join(part for part in _sections(stored, survey, args.screen, now, most) if part))
    return 0


def _sections(stored: Stored, survey: Survey, screen: Screen, now: int, most: int) -> Iterator[str]:
    yield _head(stored, survey, screen, now)
    yield _warnings(survey, screen, now)
    yield _titled("config", _config(survey, screen, most), screen)
    yield _titled("attempts", _attempts(survey, screen, now), screen)
    yield _titled("goodput", _goodput(stored, screen), screen)
    yield _titled("series", _series_table(stored, screen, most), screen)
    yield _titled("evals", _evals(survey, screen), screen)
    yield _titled("alerts", _alerts(survey, screen), screen)
    yield _titled("sinks", _sinks(survey, screen), screen)
    yield _titled("files", _files(stored, survey, screen, most), screen)


def _titled(title: str, body: str, screen: Screen) -> str:
    return f"{paint(title, '1', screen.colour)}\n{body}" if body else ""


# -- sections ----------------------------------------------------------------------------------------------------------


def _head(stored: Stored, survey: Survey, screen: Screen, now: int) -> str:
    name = f"  {clean(stored.name)}" if stored.name != stored.id else ""
    state = survey.state
    title = cut(f"{clean(stored.project)}/{clean(stored.id)}{name}", screen.width - len(state) - 2)
    facts, git = survey.environment, survey.environment.get("git") or {}
    seconds = sum(ran(attempt, now) for attempt in survey.attempts if attempt.rank == survey.attempts[0].rank)
    started = f"{units.date(stored.created)} ({units.ago(stored.created, now)})" if stored.created else ""
    rows = [
        ("started", started),
        ("ran", units.duration(seconds) + _reason(survey)),
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


def _warnings(survey: Survey, screen: Screen, now: int) -> str:
    """What is not as it should be, named exactly."""
    found = [
        f"two writers: attempts {one.attempt} and {other.attempt} were written at the same time by different launches; "
        "all their points are shown together"
        for one, other in two_writers(survey.attempts, now)
    ]
    found += [f"damage: {damage}" for damage in (*survey.damage, *survey.torn)]
    for key, ranges in survey.missing.items():
        total = sum(last - first + 1 for first, last in ranges)
        found.append(f"missing: {key}: {units.count(total)} records were not kept: seq {ranges_text(ranges)}")
    found += [
        f"missing: attempt {one.attempt} says that {units.count(one.finish.missing)} records could not be kept"
        for one in survey.attempts
        if one.finish is not None and one.finish.missing
    ]
    lines = [line for text in found for line in wrap(f"! {clean(text)}", screen.width)]
    return "\n".join(paint(line, "33", screen.colour) for line in lines)


def _goodput(stored: Stored, screen: Screen) -> str:
    spans = stored.spans()
    ledger = _ledger(stored, spans)
    if ledger is None:
        return ""
    text = goodput.text(ledger, width=screen.width, colour=screen.colour)
    parts = stored.step_parts(spans)
    return f"{text}\n{goodput.fall(parts, width=screen.width)}" if len(parts) > 1 else text


def _ledger(stored: Stored, spans: Spans | None = None) -> Ledger | None:
    """Where the time went; None for a run without steps, or without numpy."""
    try:
        ledger = stored.goodput(spans)
    except MissingPackage:
        return None
    return ledger if ledger.seconds["step"] else None


def _config(survey: Survey, screen: Screen, most: int) -> str:
    flat = list(_flatten("", survey.config))
    text = pairs(flat[:most], width=screen.width, indent=2)
    return text + _more(len(flat), most)


def _attempts(survey: Survey, screen: Screen, now: int) -> str:
    several = len({attempt.rank for attempt in survey.attempts}) > 1
    rows: list[list[str | Cell]] = []
    for one in survey.attempts:
        stream = survey.stream(one)
        steps = "" if stream.first is None else f"{units.count(stream.first)} to {units.count(stream.last or 0)}"
        rows.append(
            [
                str(one.attempt),
                str(one.rank) if several else "",
                Cell(one.state, STATES.get(one.state, "")),
                units.date(one.start.time) if one.start else "?",
                units.duration(ran(one, now)),
                steps,
                units.count(stream.records),
                f"{one.start.host} {one.start.pid}" if one.start else "",
            ]
        )
    head = ["attempt", "rank", "state", "started", "ran", "steps", "records", "host, pid"]
    right = ("attempt", "rank", "ran", "steps", "records")
    return table(head, rows, width=screen.width, right=right, colour=screen.colour, indent=2) if rows else ""


def _series_table(stored: Stored, screen: Screen, most: int) -> str:
    try:
        from chiplog.views.terminal import sparkline

        names = sorted(stored.names(), key=lambda name: (not name.endswith("loss"), name))
    except (MissingPackage, ImportError):
        return "  the series need numpy and pyarrow: pip install 'chiplog[read]'"
    room = SPARK if screen.width >= 100 else SPARK // 2
    rows = []
    for name in names[:most]:
        series = stored.series(name)
        if not len(series):  # a newer launch hides it
            continue
        low, high, bad = _range(series)
        spark = sparkline(series.values, room, ascii=screen.ascii)
        rows.append(
            [name, units.number(series.exact[-1]), low, high, units.count(len(series)), str(bad) if bad else "", spark]
        )
    head = ["name", "last", "min", "max", "points", "nan", ""]
    right = ("last", "min", "max", "points", "nan")
    return (
        table(head, rows, width=screen.width, right=right, colour=screen.colour, indent=2) + _more(len(names), most)
        if rows
        else ""
    )


def _evals(survey: Survey, screen: Screen) -> str:
    newest = survey.evals[-5:]
    names = list(dict.fromkeys(name for record in newest for name in record.metrics))[:8]
    rows = [
        [units.count(record.step), *(units.number(record.metrics.get(name, "")) for name in names)] for record in newest
    ]
    head = ["step", *map(clean, names)]
    text = table(head, rows, width=screen.width, right=head, colour=screen.colour, indent=2) if rows else ""
    return text + (f"\n  the last of {units.count(len(survey.evals))}" if len(survey.evals) > len(newest) else "")


def _alerts(survey: Survey, screen: Screen) -> str:
    newest = survey.alerts[-10:]
    rows: list[list[str | Cell]] = [
        [
            Cell(record.level, {"warn": "33", "error": "31"}.get(record.level, "")),
            "" if record.step is None else units.count(record.step),
            record.title,
            record.text,
        ]
        for record in newest
    ]
    head = ["level", "step", "title", "text"]
    text = table(head, rows, width=screen.width, right=("step",), colour=screen.colour, indent=2)
    more = f"\n  the last of {units.count(len(survey.alerts))}" if len(survey.alerts) > len(newest) else ""
    return text + more if rows else ""


def _sinks(survey: Survey, screen: Screen) -> str:
    return pairs([(one.name, _delivery(one)) for one in survey.cursors], width=screen.width, indent=2)


def _delivery(cursor: Cursor) -> str:
    """How far a sink has come; why not further, as its relay said last; and what it would not take."""
    if cursor.trouble:
        return cursor.trouble
    health = cursor.health or Health()
    words = [f"{units.size(cursor.lag)} behind" if cursor.lag else "up to date"]
    if cursor.lag and health.errors:
        words.append(f"{health.state} after {units.count(health.errors)} errors ({health.last_error})")
    if health.rejected:
        words.append(f"{units.count(health.rejected)} rejected")
    return ", ".join(words)


def _files(stored: Stored, survey: Survey, screen: Screen, most: int) -> str:
    logged = {record.path: record for record in survey.files}
    found = sorted(path for path in (stored.path / layout.FILES).rglob("*") if path.is_file())
    rows = []
    for path in found[:most]:
        record = logged.get(str(path.relative_to(stored.path)))
        step = "" if record is None or record.step is None else units.count(record.step)
        rows.append(
            [str(path.relative_to(stored.path)), units.size(path.stat().st_size), step, record.name if record else ""]
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
    return f"\n  and {units.count(count - most)} more: --all shows them" if count > most else ""


def _reason(survey: Survey) -> str:
    finish = survey.attempts[-1].finish if survey.attempts else None
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
    return ", ".join(f"{name} {units.size(amount)}" for name, amount in sizes.items() if amount)


def _flatten(prefix: str, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from _flatten(f"{name}/", value)
        else:
            yield name, value if isinstance(value, str) and value else msgspec.json.encode(value).decode()


def _range(series: Series) -> tuple[str, str, int]:
    """The smallest and the largest value that is a number, and how many are none."""
    nan = series.values != series.values
    known = series.values[~nan]
    if not len(known):
        return "", "", len(nan)
    return units.number(float(known.min())), units.number(float(known.max())), int(nan.sum())


# -- as data -----------------------------------------------------------------------------------------------------------


def _facts(stored: Stored, survey: Survey, now: int) -> dict[str, Any]:
    return {
        "project": stored.project,
        "id": stored.id,
        "name": stored.name,
        "state": survey.state,
        "created": stored.created,
        "tags": stored.tags,
        "path": str(stored.path.absolute()),
        "config": survey.config,
        "environment": survey.environment,
        "attempts": [_attempt_facts(survey, one, now) for one in survey.attempts],
        "two_writers": [[one.attempt, other.attempt] for one, other in two_writers(survey.attempts, now)],
        "series": _series_facts(stored),
        "evals": [{"step": record.step, **record.metrics} for record in survey.evals],
        "goodput": None if (ledger := _ledger(stored)) is None else {"share": ledger.goodput, **ledger._asdict()},
        "alerts": [records.fields(record) for record in survey.alerts],
        "files": [records.fields(record) for record in survey.files],
        "sinks": {one.name: _sink_facts(one) for one in survey.cursors},
        "damage": [damage._asdict() for damage in (*survey.damage, *survey.torn)],
        "missing": survey.missing,
    }


def _sink_facts(cursor: Cursor) -> dict[str, Any]:
    health = msgspec.structs.asdict(cursor.health) if cursor.health is not None else {}
    return {**health, "lag_bytes": cursor.lag, "trouble": cursor.trouble}


def _attempt_facts(survey: Survey, attempt: Any, now: int) -> dict[str, Any]:
    stream = survey.stream(attempt)
    return {
        "attempt": attempt.attempt,
        "rank": attempt.rank,
        "launch": attempt.launch,
        "state": attempt.state,
        "started": attempt.start.time if attempt.start else None,
        "seconds": ran(attempt, now),
        "first_step": stream.first,
        "last_step": stream.last,
        "records": stream.records,
    }


def _series_facts(stored: Stored) -> dict[str, Any] | None:
    """By name; None where the packages to read them are missing."""
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
