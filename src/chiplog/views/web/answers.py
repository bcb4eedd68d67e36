"""What the page asks, answered from a run as plain data."""

from __future__ import annotations

import os
import stat
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from chiplog.core import records
from chiplog.metrics import timing
from chiplog.store import layout, state
from chiplog.store.catalog import Entry
from chiplog.store.cursors import cursors
from chiplog.store.reader import Stored
from chiplog.store.spans import Spans
from chiplog.views.folio import Folio, Sample
from chiplog.views.web.plain import encode, row

NAMES = 100_000  # series that are named to a page
PAGE = 50  # samples
LONGEST = 20_000  # characters of one text
RANK_STEPS = 500  # columns of a step × rank picture
TRACED = 400  # steps whose time is shown
BARS = 20_000  # spans of one step


def about(stored: Stored, entry: Entry, folio: Folio) -> dict[str, Any]:
    """Everything about a run but its numbers."""
    attempts = state.attempts(stored.path)
    with folio.lock:
        folio.refresh()
        running = entry.state == "running"
        damage = folio.all_damage + ([] if running else folio.torn())
        facts: dict[str, Any] = {
            **row(entry),
            "created": stored.created / 1e6,
            "values": entry.values,
            "config": folio.config,
            "environment": folio.environment,
            "attempts": [_attempt(one, folio) for one in attempts[:500]],
            "attempt_count": len(attempts),
            "ranks": sorted({segment.rank for segment in layout.segments(stored.path)}),
            "alerts": [_alert(one) for one in folio.alerts],
            "alert_count": folio.alert_count,
            "tables": [{"name": name, "count": count} for name, count in folio.sample_counts.items()],
            "matrices": [
                {"name": name, "steps": [frame.step for frame in frames], "shape": list(frames[-1].values.shape)}
                for name, frames in folio.matrices.items()
            ],
            "files": [_file(one) for one in list(folio.files.values())[:5000]],
            "console": len(folio.console),
            "spans": folio.has_spans,
            "damage": [str(one) for one in damage[:200]],
            "damage_count": len(damage),
        }
    facts["sinks"] = [{"name": one.name, "lag": one.lag, "trouble": one.trouble} for one in cursors(stored.path)]
    names = stored.names()
    facts["names"], facts["name_count"] = names[:NAMES], len(names)
    return facts


def samples(folio: Folio, table: str, *, offset: int, find: str, column: str = "") -> dict[str, Any]:
    """A page of a table, newest first; `find` is looked for as it is, in any case."""
    with folio.lock:
        folio.refresh()
        kept: list[Sample] = list(folio.samples.get(table, ()))
        count = folio.sample_counts.get(table, 0)
    kept.reverse()
    wanted = find.casefold()
    if wanted:
        kept = [one for one in kept if _matches(one, wanted, column)]
    names: dict[str, None] = {}
    for one in kept[:2000]:
        names.update(dict.fromkeys(one.cells))
    return {
        "columns": list(names)[:100],
        "found": len(kept),
        "kept": min(count, len(kept)) if not wanted else None,
        "count": count,
        "offset": offset,
        "rows": [
            {"step": one.step, "time": one.time / 1e6, "cells": {str(k): _text(v) for k, v in one.cells.items()}}
            for one in kept[offset : offset + PAGE]
        ],
    }


def matrix(folio: Folio, name: str, at: int) -> dict[str, Any] | None:
    """One matrix of a name, by its place in time."""
    with folio.lock:
        folio.refresh()
        frames = folio.matrices.get(name)
        if not frames:
            return None
        frame = frames[at if 0 <= at < len(frames) else -1]
        steps = [one.step for one in frames]
    return {"step": frame.step, "steps": steps, "values": frame.values.astype(float).tolist()}


def ranks(stored: Stored, name: str) -> dict[str, Any]:
    """A series as step × rank, thinned to what a screen shows: the mean of the steps that share a column."""
    found = stored.series(name).by_rank()
    values, steps = found.values, found.steps.astype(np.float64)
    count = len(steps)
    known = np.isfinite(values)
    finite = np.where(known, values, 0.0)
    with np.errstate(all="ignore"):
        means = finite.sum(axis=0) / known.sum(axis=0)
        if count > RANK_STEPS:
            starts = np.linspace(0, count, RANK_STEPS + 1).astype(np.int64)[:-1]
            values = np.add.reduceat(finite, starts, axis=0) / np.add.reduceat(known.astype(np.int64), starts, axis=0)
            steps = steps[starts]
    return {
        "ranks": found.ranks.tolist(),
        "steps": steps.tolist(),
        "count": count,
        "means": means.tolist(),
        "values": values.T.tolist(),
    }


def trace(spans: Spans) -> dict[str, Any]:
    """Where the time went: by name over the whole run, and by step for the newest steps."""
    owned = timing.own_times(spans)
    names: dict[str, list[int]] = {}
    owns: dict[str, int] = {}
    steps: dict[float, dict[str, int]] = {}
    for span in spans:
        own = owned[span.key]
        names.setdefault(span.name, []).append(span.duration)
        owns[span.name] = owns.get(span.name, 0) + own
        if span.step is not None:
            of_step = steps.setdefault(float(span.step), {})
            of_step[span.name] = of_step.get(span.name, 0) + own
    newest = sorted(steps)[-TRACED:]
    return {
        "count": len(spans),
        "names": [
            {
                "name": name,
                "count": len(taken),
                "total": sum(taken) / 1e9,
                "own": owns[name] / 1e9,
                "mean": sum(taken) / len(taken) / 1e9,
                "p99": sorted(taken)[len(taken) * 99 // 100] / 1e9,
            }
            for name, taken in sorted(names.items(), key=lambda item: -owns[item[0]])[:200]
        ],
        "steps": [{"step": step, "own": {k: v / 1e9 for k, v in steps[step].items()}} for step in newest],
    }


def timeline(spans: Spans, step: float, rank: int) -> dict[str, Any]:
    """One step of a rank, of its last attempt: lanes by when they begin, and spans below those they lie in."""
    found = spans.at(step=step).of(rank=rank)
    found = found.of(attempt=max((span.attempt for span in found), default=0))
    left = len(found) - BARS
    if left > 0:
        least = sorted((span.duration for span in found), reverse=True)[BARS - 1]
        found = found.where(lambda span: span.duration >= least)[:BARS]
    begin = min((span.start for span in found), default=0)
    lanes: dict[str, int] = {}
    kinds: list[str] = []
    ends: list[list[int]] = []  # of the last span in each row of each lane
    drawn = []
    for span in sorted(found, key=lambda one: (one.start, -one.duration, one.id)):
        lane = lanes.setdefault(span.thread, len(lanes))
        if lane == len(ends):
            kinds.append(span.kind)
            ends.append([])
        rows = ends[lane]
        row = next((at for at, end in enumerate(rows) if end <= span.start), len(rows))
        rows[row : row + 1] = [span.end]
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
        "seconds": max((span.end - begin for span in found), default=0) / 1e9,
        "left": max(0, left),
        "lanes": [
            {"name": name, "kind": kind, "rows": len(rows)} for name, kind, rows in zip(lanes, kinds, ends, strict=True)
        ],
        "spans": drawn,
    }


def goodput(stored: Stored) -> dict[str, Any]:
    """Where the time of all attempts went, and that of a usual step of late."""
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
    """A file that a run says it keeps, opened without following any link out of it: (descriptor, size).

    None unless it is a plain file with one name inside the run.
    """
    parts = file.path.split("/")
    if not parts or any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        return None
    folder = -1
    try:
        folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        found = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except (OSError, ValueError):
        return None
    finally:
        if folder >= 0:
            os.close(folder)
    what = os.fstat(found)
    if not stat.S_ISREG(what.st_mode) or what.st_nlink != 1:
        os.close(found)
        return None
    return found, what.st_size


def file_key(path: str) -> str:
    """How the page names a file: never by its path."""
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _attempt(one: state.AttemptState, folio: Folio) -> dict[str, Any]:
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
        "first_step": folio.first_steps.get(one.attempt),
    }


def _alert(one: records.Alert) -> dict[str, Any]:
    return {
        "title": one.title,
        "level": one.level,
        "text": one.text,
        "rule": one.rule,
        "step": one.step,
        "time": one.time / 1e6,
        "evidence": one.evidence,
    }


def _file(one: records.File) -> dict[str, Any]:
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


def _text(value: Any) -> str:
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
