"""The queries of the page, answered from a run as plain data."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.values.convert import double
from chiplog.metrics.catalog import readable_unit
from chiplog.store import layout
from chiplog.store.contents.contents import Contents
from chiplog.store.contents.table_samples import Sample
from chiplog.store.journal.cursors import cursors
from chiplog.store.reader import Stored
from chiplog.store.runs import state
from chiplog.store.runs.summary_cache import Entry
from chiplog.store.spans.spans import Spans
from chiplog.views.strict_json import encode
from chiplog.views.trace.lanes import Lanes
from chiplog.views.web.responses.listing import row

NAMES = 100_000  # series listed for a page
MEASURED = 5_000  # of them, whose unit is looked up
HISTOGRAMS = 200  # listed for a page
PAGE = 50  # samples
LONGEST = 20_000  # characters of one text
RANK_STEPS = 500  # columns of a step × rank picture
TRACED = 400  # steps whose time is shown
BARS = 20_000  # spans of one step
LANES = 200  # timelines of one step
DEEPEST = 100  # rows of a timeline


def about(stored: Stored, entry: Entry, contents: Contents) -> dict[str, Any]:
    """Everything about a run except its series."""
    attempts = state.attempts(stored.path)
    with contents.lock:
        contents.refresh()
        running = entry.state == "running"
        damage = contents.damage + ([] if running else contents.torn())
        facts: dict[str, Any] = {
            **row(entry),
            "created": stored.created / 1e6,
            "values": entry.values,
            "config": contents.config,
            "summary": contents.summary,
            "histograms": [one._asdict() for one in list(contents.histograms.values())[:HISTOGRAMS]],
            "environment": contents.environment,
            "attempts": [_attempt(one, contents) for one in attempts[:500]],
            "attempt_count": len(attempts),
            "ranks": sorted({segment.rank for segment in layout.segments(stored.path)}),
            "alerts": [_alert(one) for one in contents.alerts],
            "alert_count": contents.alert_count,
            "tables": [{"name": name, "count": count} for name, count in contents.sample_counts.items()],
            "matrices": [
                {"name": name, "steps": [frame.step for frame in frames], "shape": list(frames[-1].shape)}
                for name, frames in contents.matrices.items()
            ],
            "files": [_file(one) for one in list(contents.files.values())[:5000]],
            "console": len(contents.console),
            "spans": contents.has_spans,
            "damage": [str(one) for one in damage[:200]],
            "damage_count": len(damage),
        }
    facts["sinks"] = [{"name": one.name, "lag": one.lag, "trouble": one.trouble} for one in cursors(stored.path)]
    names = stored.names()
    facts["names"], facts["name_count"] = names[:NAMES], len(names)
    facts["units"] = units(names[:MEASURED])
    return facts


def units(names: Iterable[str]) -> dict[str, tuple[str, float]]:
    """The units of those series that have one, and what to divide their values by."""
    return {name: unit for name in names if (unit := readable_unit(name))[0]}


def samples(contents: Contents, table: str, *, offset: int, find: str, column: str = "") -> dict[str, object]:
    """A page of a table, newest first; `find` is a plain text, case-insensitive."""
    wanted = find.casefold()
    with contents.lock:
        contents.refresh()
        kept = samples_of(contents, table)[::-1]
        count = contents.sample_counts.get(table, 0)
        columns = list(contents.sample_columns.get(table, ()))
        if wanted:
            kept = contents.select(kept, lambda one: _matches(one, wanted, column))
        page = contents.load(kept[offset : offset + PAGE])
    return {
        "columns": columns,
        "found": len(kept),
        "kept": min(count, len(kept)) if not wanted else None,
        "count": count,
        "offset": offset,
        "rows": [
            {"step": one.step, "time": one.time / 1e6, "cells": {str(k): _text(v) for k, v in one.cells.items()}}
            for one in page
        ],
    }


def matrix(contents: Contents, name: str, at: int) -> dict[str, object] | None:
    """One matrix of a name, by its index in time."""
    with contents.lock:
        contents.refresh()
        frames = contents.matrices.get(name)
        if not frames:
            return None
        frame = frames[at if 0 <= at < len(frames) else -1]
        steps = [one.step for one in frames]
    return {"step": frame.step, "steps": steps, "values": [row.tolist() for row in frame.rows]}


def samples_of(contents: Contents, name: str) -> list[Sample]:
    """The rows of a table and the texts of a name, by time."""
    both = [*contents.tables.get(name, ()), *contents.texts.get(name, ())]
    return sorted(both, key=lambda one: one.time) if name in contents.texts else both


def ranks(stored: Stored, name: str) -> dict[str, object]:
    """A series as step × rank, reduced to what a screen can show: the mean of the steps that share a column."""
    matrix = stored.series(name, missing_ok=True).by_rank()
    values, steps = matrix.values, matrix.steps.astype(np.float64)
    count = len(steps)
    finite = np.isfinite(values)
    numbers = np.where(finite, values, 0.0)
    with np.errstate(all="ignore"):
        means = numbers.sum(axis=0) / finite.sum(axis=0)
        if count > RANK_STEPS:
            starts = np.linspace(0, count, RANK_STEPS + 1).astype(np.int64)[:-1]
            values = np.add.reduceat(numbers, starts, axis=0) / np.add.reduceat(finite.astype(np.int64), starts, axis=0)
            steps = steps[starts]
    return {
        "ranks": matrix.ranks.tolist(),
        "steps": steps.tolist(),
        "count": count,
        "means": means.tolist(),
        "values": values.T.tolist(),
    }


def trace(spans: Spans) -> dict[str, object]:
    """Where the time went: by name over the whole run, and by step for the newest steps."""
    newest = spans.steps[-TRACED:]
    steps: dict[float, dict[str, float]] = {double(step): {} for step in newest}
    for one in spans.at(first=newest[0]).table() if newest else ():
        if one.step is not None:
            own = steps.setdefault(double(one.step), {})
            own[one.name] = own.get(one.name, 0.0) + one.own
    return {
        "count": len(spans),
        "names": sorted((_named(*item) for item in spans.by_name().items()), key=lambda one: -one["own"])[:200],
        "steps": [{"step": step, "own": own} for step, own in steps.items()],
    }


def timeline(spans: Spans, step: float, rank: int) -> dict[str, object]:
    """One step of a rank in its last attempt: lanes by start, and spans below their parents."""
    chosen = spans.at(step=step).of(rank=rank)
    chosen = chosen.of(attempt=max(chosen.attempts, default=0))
    left = max(0, len(chosen) - BARS)
    chosen = chosen.longest(BARS)
    begin, end = chosen.reach
    timelines: dict[str, int] = {}
    kinds: list[str] = []
    rows: list[Lanes] = []
    drawn = []
    for span in sorted(chosen, key=lambda one: (one.start, -one.duration, one.id)):
        if len(rows) == LANES and span.thread not in timelines:
            left += 1
            continue
        lane = timelines.setdefault(span.thread, len(timelines))
        if lane == len(rows):
            kinds.append(span.kind)
            rows.append(Lanes())
        if (row := rows[lane].place(span.start, span.end)) >= DEEPEST:
            left += 1
            continue
        drawn.append(
            {
                "lane": lane,
                "row": row,
                "name": span.name,
                "start": (span.start - begin) / 1e9,
                "seconds": span.seconds,
                "failed": span.failed,
                "tags": {**span.tags, **({"error": span.error} if span.error else {})},
            }
        )
    return {
        "step": step,
        "rank": rank,
        "seconds": (end - begin) / 1e9,
        "left": left,
        "lanes": [
            {"name": name, "kind": kind, "rows": min(DEEPEST, len(own))}
            for name, kind, own in zip(timelines, kinds, rows, strict=True)
        ],
        "spans": drawn,
    }


def goodput(stored: Stored) -> dict[str, object]:
    """Where the time of all attempts went, and that of a typical recent step."""
    spans = stored.spans()
    ledger = stored.goodput(spans)
    parts = stored.step_parts(spans)
    return {
        "share": ledger.goodput,
        "wall": ledger.wall,
        "seconds": {kind: spent for kind, spent in ledger.seconds.items() if spent > 0},
        "step": [part._asdict() for part in parts] if len(parts) > 1 else [],
    }


def open_file(run: Path, file: records.File) -> tuple[int, int] | None:
    """A file that a run lists, as (descriptor, size); None unless it is a regular file of one name inside the run."""
    try:
        with reading.open_file(run, file.path, single=True) as opened:
            return os.dup(opened.fileno()), os.fstat(opened.fileno()).st_size
    except (OSError, ValueError):
        return None


def file_key(path: str) -> str:
    """The key of a file for the page, which is never its path."""
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _named(name: str, spans: Spans) -> dict[str, Any]:
    total = spans.total()
    return {
        "name": name,
        "count": len(spans),
        "total": total,
        "own": spans.own(),
        "mean": total / len(spans),
        "p99": sorted(spans.seconds)[len(spans) * 99 // 100],
    }


def _attempt(one: state.AttemptState, contents: Contents) -> dict[str, object]:
    end = time.time_ns() if one.state == "running" else one.last.time if one.last else None
    return {
        "attempt": one.attempt,
        "rank": one.rank,
        "state": one.state,
        "launch": one.launch,
        "start": one.start.time / 1e6 if one.start else None,
        "end": end / 1e6 if end else None,
        "host": one.start.host if one.start else "",
        "pid": one.start.pid if one.start else None,
        "durability": one.start.durability if one.start else "",
        "reason": one.finish.reason if one.finish else "",
        "missing": one.finish.missing if one.finish else 0,
        "first_step": contents.stream(one.rank, one.attempt).first,
        "workers": len(one.workers),
    }


def _alert(one: records.Alert) -> dict[str, object]:
    return {
        "title": one.title,
        "level": one.level,
        "text": one.text,
        "rule": one.rule,
        "step": one.step,
        "time": one.time / 1e6,
        "evidence": one.evidence,
    }


def _file(one: records.File) -> dict[str, object]:
    return {
        "key": file_key(one.path),
        "name": one.name,
        "path": one.path,
        "media": one.media,
        "size": one.size,
        "caption": one.caption,
        "step": one.step,
    }


def _matches(one: Sample, wanted: str, column: str) -> bool:
    cells = [one.cells[column]] if column in one.cells else one.cells.values()
    return any(wanted in _text(cell).casefold() for cell in cells)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value if len(value) <= LONGEST else value[: LONGEST - 1] + "…"
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None or isinstance(value, (int, bool)):
        return str(value)[:LONGEST]
    try:
        return encode(value).decode()[:LONGEST]
    except (TypeError, ValueError, RecursionError):
        return "…"
