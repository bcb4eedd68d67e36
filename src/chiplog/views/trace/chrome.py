"""A stored run as a trace in Chrome's JSON format, for tools that cannot read Perfetto's, which holds more."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from itertools import count
from pathlib import Path

import msgspec

from chiplog.core import records
from chiplog.core.files.writing import replacing
from chiplog.core.records import Alert, Eval, Event, Plain, Step
from chiplog.store.contents.segment import segments
from chiplog.store.perfetto.trace import COUNTERS, matcher
from chiplog.store.reader import Stored
from chiplog.store.spans.span import StoredSpan
from chiplog.views.trace.lanes import Lanes


def write(stored: Stored, path: Path, *, rank: int | None = None) -> int:
    """Write the trace, compressed for `.gz`; returns its size in bytes. Times count from `baseTimeNanoseconds`."""
    listed = list(events(stored, rank=rank))
    base = min((event["ts"] for event in listed if "ts" in event), default=0)
    for event in listed:
        if "ts" in event:  # a double holds microseconds since 1970 only to a quarter
            event["ts"] = (event["ts"] - base) / 1e3
    data = msgspec.json.encode({"displayTimeUnit": "ms", "baseTimeNanoseconds": base, "traceEvents": listed})
    data = gzip.compress(data) if path.suffix == ".gz" else data
    with replacing(path) as temporary:
        temporary.write_bytes(data)
    return len(data)


def events(stored: Stored, *, rank: int | None = None) -> Iterator[dict[str, Plain]]:
    """Chrome's events, except that `ts` is in wall-clock nanoseconds.

    An attempt of a rank is a process, and its timelines are threads.
    """
    spans = stored.spans() if rank is None else stored.spans().of(rank=rank)
    by_key = {span.key: span for span in spans}
    flows = count(1)  # across processes: an id identifies one arrow in the whole trace
    pids: dict[tuple[int, int], int] = {}
    rows = _rows(spans)
    named: set[int] = set()
    for span in spans:
        pid = pids.setdefault((span.rank, span.attempt), len(pids) + 1)
        tid = rows[span.key]
        if tid not in named:
            named.add(tid)
            yield _metadata("thread_name", pid, tid, span.thread)
        yield _complete(span, pid, tid)
        outer = by_key.get(span.parent_key)
        if span.kind == "device" and outer is not None:
            flow = {"cat": "device", "name": "launch", "id": next(flows)}
            yield {"ph": "s", "ts": outer.start, "pid": pid, "tid": rows[outer.key], **flow}
            yield {"ph": "f", "bp": "e", "ts": span.start, "pid": pid, "tid": tid, **flow}
    is_counter = matcher(COUNTERS)
    for one in segments(stored.path):
        if rank not in (None, one.segment.rank):
            continue
        pid = pids.setdefault((one.segment.rank, one.segment.attempt), len(pids) + 1)
        for record in one.records():
            when = {"pid": pid, "ts": record.time}
            if isinstance(record, (Step, Eval, Event)):
                for name, value in records.points(record):
                    if is_counter(name) and value - value == 0:
                        yield {"ph": "C", "name": name, "args": {name: value}, **when}
            if isinstance(record, (Alert, Eval)):
                title = f"alert: {record.title}" if isinstance(record, Alert) else "eval"
                yield {"ph": "i", "s": "p", "name": title, "tid": 0, "args": records.fields(record), **when}
    for (rank_, attempt), pid in pids.items():
        yield _metadata("process_name", pid, 0, f"rank {rank_}" + (f", attempt {attempt}" if attempt > 1 else ""))


def _rows(spans: Iterable[StoredSpan]) -> dict[Hashable, int]:
    """The row number of each span. Spans of a row are nested or apart: of others, Perfetto would show only
    the first."""
    lanes: dict[Hashable, Lanes] = defaultdict(lambda: Lanes(nested=True))
    numbers: dict[tuple[Hashable, int], int] = {}  # by timeline and lane
    rows: dict[Hashable, int] = {}
    for span in sorted(spans, key=lambda span: (span.start, -span.duration)):
        lane = lanes[span.timeline].place(span.start, span.end)
        rows[span.key] = numbers.setdefault((span.timeline, lane), len(numbers) + 1)
    return rows


def _complete(span: StoredSpan, pid: int, tid: int) -> dict[str, Plain]:
    args = {**({} if span.step is None else {"step": span.step}), **span.tags}
    if span.failed:
        args["error"] = span.error or "failed"
    return {
        "ph": "X", "name": span.name, "cat": span.kind or "host", "pid": pid, "tid": tid, "ts": span.start,
        "dur": span.duration / 1e3, "args": args,
    }  # fmt: skip


def _metadata(what: str, pid: int, tid: int, name: str) -> dict[str, Plain]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
