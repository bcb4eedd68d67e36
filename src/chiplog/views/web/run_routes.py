"""The requests about a run, and their handlers."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from chiplog.store.contents.contents import LIVE, Contents
from chiplog.store.points import run_points  # noqa: F401  `Stored` imports it with its first query
from chiplog.store.points.series import Series
from chiplog.store.reader import Stored
from chiplog.store.runs.summary_cache import Entry, SummaryCache, stamp_of
from chiplog.store.spans.spans import Spans
from chiplog.views.charts.bucketed_series import (
    MOST_POINTS,
    POINTS,
    DrawnLine,
    SeriesCache,
    XValues,
    pack,
    use_plain_memory,
)
from chiplog.views.trace import perfetto
from chiplog.views.web import console, queries
from chiplog.views.web.auth import refusal
from chiplog.views.web.http import PRIVATE, Request, Response, json_response
from chiplog.views.web.responses import listing
from chiplog.views.web.responses.computed_body import ComputedBody
from chiplog.views.web.responses.file_body import FileBody
from chiplog.views.web.responses.points_csv import points_csv
from chiplog.views.web.workers import Workers

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")  # shown inline; everything else is downloaded
OPEN_RUNS = 100
CORES = os.cpu_count() or 1
SERIES = 200  # per response
BINARY = ("content-type", "application/octet-stream")


class RunRoutes:
    """Answers requests about single runs, and keeps the runs that were requested last open."""

    def __init__(self, summaries: SummaryCache, workers: Workers) -> None:
        use_plain_memory()
        self._summaries = summaries
        self._workers = workers
        self._series_workers = Workers(4 * CORES, CORES)  # Arrow reads in C
        self._runs: OrderedDict[str, tuple[Stored, Contents]] = OrderedDict()
        self._lock = threading.Lock()
        self._series_cache = SeriesCache()
        self._last_spans: tuple[tuple[str, str], Spans] | None = None
        self.routes = {
            "/api/run": self._about,
            "/api/series": self._series,
            "/api/points": self._points,
            "/api/samples": self._samples,
            "/api/matrix": self._matrix,
            "/api/ranks": self._ranks,
            "/api/trace": self._trace,
            "/api/timeline": self._timeline,
            "/api/goodput": self._goodput,
            "/api/perfetto": self._perfetto,
            "/api/console": self._console,
            "/api/file": self._file,
        }

    def __call__(self, request: Request) -> Response:
        route = self.routes.get(request.path)
        if route is None:
            return refusal(404, "not found")
        try:
            return route(request)
        except _Refused as error:
            return refusal(*error.args)

    def _about(self, request: Request) -> Response:
        entry, stored, contents = self._run(request)
        if request.query.get("brief"):
            names = stored.names()[: queries.NAMES]
            facts = {"created": stored.created / 1e6, "names": names, "units": queries.units(names[: queries.MEASURED])}
            return json_response({**listing.row(entry), **facts})
        return json_response(queries.about(stored, self._summaries.reload(entry.key) or entry, contents))

    def _series(self, request: Request) -> Response:
        """The charts of `q`, whose lines share buckets."""
        charts = _charts(request)
        axis = XValues(
            request.query.get("x", "step"),
            request.query.get("log") == "1",
            request.number("low"),
            request.number("high"),
            min(0.99, max(0.0, request.number("smooth") or 0.0)),
        )
        n = min(MOST_POINTS, max(10, request.whole("n") or POINTS))

        def line(key: _SeriesKey) -> tuple[dict[str, object], DrawnLine]:
            entry, stored, _ = self._open(key.run)
            live, stamp = entry.state == "running", stamp_of(stored.path)
            drawn = self._series_cache.line(stored, stamp, key.name, axis, live=live, rank=key.rank)
            return msgspec.structs.asdict(key), drawn

        keys = [key for chart in charts for key in chart]
        lines = iter(self._series_workers.map(line, keys, group=lambda key: key.run))
        groups = [[next(lines) for _ in chart] for chart in charts]
        return Response(200, pack(groups, axis, n), (BINARY, PRIVATE))

    def _points(self, request: Request) -> Response:
        """All points of the charts of `q`, as CSV."""

        def lines() -> Iterator[tuple[str, int, Series]]:
            for key in keys:
                entry, stored, _ = self._open(key.run)
                series = stored.series(key.name, rank=None if key.rank < 0 else key.rank, missing_ok=True)
                yield entry.name or entry.id, key.rank, series

        keys = [key for chart in _charts(request) for key in chart]
        for key in keys:
            self._open(key.run)  # one that is not there is an error, not half a file
        headers = ("content-type", "text/csv; charset=utf-8"), ("content-disposition", "attachment"), PRIVATE
        group = keys[0].run if keys else ""
        return Response(200, ComputedBody(points_csv(lines()), self._workers, group), headers)

    def _samples(self, request: Request) -> Response:
        _, _, contents = self._run(request)
        table, find, column = (request.query.get(name, "") for name in ("table", "find", "column"))
        offset = request.whole("offset")
        return json_response(queries.samples(contents, table, offset=offset, find=find[:1000], column=column))

    def _matrix(self, request: Request) -> Response:
        _, _, contents = self._run(request)
        matrix = queries.matrix(contents, request.query.get("name", ""), request.whole("at", -1))
        if matrix is None:
            raise _Refused(404, "the run has no such matrix")
        return json_response(matrix)

    def _ranks(self, request: Request) -> Response:
        _, stored, _ = self._run(request)
        return json_response(queries.ranks(stored, request.query.get("name", "")))

    def _trace(self, request: Request) -> Response:
        return json_response(queries.trace(self._spans(request)))

    def _timeline(self, request: Request) -> Response:
        step, rank = request.number("step") or 0.0, request.whole("rank")
        return json_response(queries.timeline(self._spans(request), step, rank))

    def _goodput(self, request: Request) -> Response:
        _, stored, _ = self._run(request)
        return json_response(queries.goodput(stored))

    def _perfetto(self, request: Request) -> Response:
        entry, stored, _ = self._run(request)
        download = "content-disposition", f'attachment; filename="{entry.key}.pftrace"'
        return Response(
            200, ComputedBody(perfetto.packets(stored), self._workers, entry.key), (BINARY, download, PRIVATE)
        )

    def _console(self, request: Request) -> Response:
        _, _, contents = self._run(request)
        return json_response(console.since(contents, request.whole("since")))

    def _file(self, request: Request) -> Response:
        _, _, contents = self._run(request)
        with contents.lock:
            contents.refresh()
            files = {queries.file_key(path): file for path, file in contents.files.items()}
        file = files.get(request.query.get("file", ""))
        opened = queries.open_file(contents.path, file) if file is not None else None
        if file is None or opened is None:
            raise _Refused(404, "the run has no such file, or it has changed")
        inline = file.media in PICTURES
        headers = (
            ("content-type", file.media) if inline else BINARY,
            ("content-disposition", "inline" if inline else f'attachment; filename="{_safe(file.path)}"'),
            ("content-security-policy", "default-src 'none'; sandbox"),
            PRIVATE,
        )
        return Response(200, FileBody(*opened, self._workers), headers)

    # -- the runs --------------------------------------------------------------------------------------------------

    def _spans(self, request: Request) -> Spans:
        """All spans of a run: read once for the table and the steps, until the run grows."""
        _, stored, _ = self._run(request)
        key = str(stored.path), stamp_of(stored.path)
        last = self._last_spans
        if last is None or last[0] != key:
            last = self._last_spans = key, stored.spans()
        return last[1]

    def _run(self, request: Request) -> tuple[Entry, Stored, Contents]:
        return self._open(request.query.get("run", ""))

    def _open(self, key: str) -> tuple[Entry, Stored, Contents]:
        entry, path = self._summaries.get(key), self._summaries.path(key)
        if entry is not None and entry.reason:
            raise _Refused(403, f"this run is not readable: {entry.reason}")
        if entry is None or path is None:
            raise _Refused(404, "no such run; it may have been moved")
        with self._lock:
            if key not in self._runs:
                stored = Stored(path, cache=self._summaries.cache)
                self._runs[key] = stored, Contents(path, bounds=LIVE, segments=stored.segments)
                if len(self._runs) > OPEN_RUNS:
                    self._runs.popitem(last=False)
            self._runs.move_to_end(key)
            return entry, *self._runs[key]


class _SeriesKey(msgspec.Struct, array_like=True):
    run: str
    name: str
    rank: int = -1


def _charts(request: Request) -> list[list[_SeriesKey]]:
    """`q`: a JSON list of charts, each a list of [run, name] or [run, name, rank]."""
    try:
        charts = msgspec.json.decode(request.query.get("q", "[]"), type=list[list[_SeriesKey]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _Refused(400, "q must be a list of charts, each a list of [run, series]") from error
    if sum(map(len, charts)) > SERIES:
        raise _Refused(400, f"at most {SERIES} series at once")
    return charts


class _Refused(Exception):
    """The request is malformed, or asks for what does not exist."""


def _safe(path: str) -> str:
    name = path.rpartition("/")[2]
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in name)[:100]
