"""The routes: every request of the page, and its handler."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from chiplog.store.reader import Stored
from chiplog.store.runs.catalog import Catalog, Entry, stamp_of
from chiplog.version import VERSION
from chiplog.views.web import asset_bundle, listing
from chiplog.views.web.auth import refusal
from chiplog.views.web.http import PIECE, Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chiplog.store.contents.contents import Contents
    from chiplog.store.spans.spans import Spans
    from chiplog.views.charts.browser_series import SeriesCache
    from chiplog.views.web.live import Feed

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")  # shown inline; everything else is downloaded
OPEN_RUNS = 40
SERIES = 200  # per response
COLUMNS = 4000  # to choose from

Route = Callable[[Request], Awaitable[Response]]


class UnknownRun(Exception):
    """The requested object does not exist."""


class Site:
    """Answers authorized requests from the runs of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="chiplog-ui")
        self._readers = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="chiplog-ui-read")  # Arrow reads in C
        self._runs: OrderedDict[str, tuple[Stored, Contents]] = OrderedDict()
        self._lock = threading.Lock()
        self._shelf: SeriesCache | None = None
        self._feed: Feed | None = None
        self._traced: tuple[tuple[str, str], Spans] | None = None
        self._routes: dict[str, Callable[[Request], Any]] = {
            "/api/runs": self._list,
            "/api/columns": self._columns,
            "/api/run": self._about,
            "/api/series": self._series,
            "/api/samples": self._samples,
            "/api/matrix": self._matrix,
            "/api/ranks": self._ranks,
            "/api/trace": self._trace,
            "/api/timeline": self._timeline,
            "/api/goodput": self._goodput,
            "/api/perfetto": self._perfetto,
            "/api/console": self._console,
        }

    async def __call__(self, request: Request) -> Response:
        asset = asset_bundle.files().get(request.path)
        if asset is not None:
            return asset.answer(request)
        if request.path == "/api/live":
            return await self._live(request)
        if request.path == "/api/file":
            return await self._file(request)
        route = self._routes.get(request.path)
        if route is None:
            return refusal(404, "not found")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, route, request)
        except UnknownRun as error:
            return refusal(404, str(error))
        except _Mistaken as error:
            return refusal(400, str(error))

    @property
    def feed(self) -> Feed:
        if self._feed is None:
            from chiplog.views.web.live import Feed

            self._feed = Feed()
        return self._feed

    def warm(self) -> None:
        """Import what the first request will need."""
        import chiplog.store.run_columns
        import chiplog.views.web.live
        import chiplog.views.web.queries  # noqa: F401
        from chiplog.views.charts.browser_series import use_plain_memory

        use_plain_memory()

    # -- the list --------------------------------------------------------------------------------------------------

    def _list(self, request: Request) -> Response:
        since, columns = _whole(request, "since"), _words(request, "columns")
        if not self.catalog.version:
            self.catalog.refresh()
        version = self.catalog.version
        return _json(
            {
                "version": version,
                "root": str(self.catalog.root),
                "chiplog": VERSION,
                "runs": [listing.row(entry, columns) for entry in self.catalog.entries(since)],
                "gone": self.catalog.gone(since) if since else [],
            }
        )

    def _columns(self, _: Request) -> Response:
        config: dict[str, int] = {}
        values: dict[str, int] = {}
        for entry in self.catalog.entries():
            for place, found in ((config, entry.config), (values, entry.values)):
                for name in found:
                    place[name] = place.get(name, 0) + 1
        return _json({"config": _common(config), "values": _common(values)})

    # -- a run -----------------------------------------------------------------------------------------------------

    def _about(self, request: Request) -> Response:
        from chiplog.views.web import queries

        entry, stored, contents = self._run(request.query.get("run", ""))
        if request.query.get("brief"):
            facts = {**listing.row(entry), "created": stored.created / 1e6, "names": stored.names()[: queries.NAMES]}
            return _json(facts)
        return _json(queries.about(stored, self.catalog.reload(entry.key) or entry, contents))

    def _series(self, request: Request) -> Response:
        """`q` is a JSON list of charts, each a list of [run, name] or [run, name, rank]; they share buckets."""
        from chiplog.views.charts import browser_series

        if self._shelf is None:
            self._shelf = browser_series.SeriesCache()
        try:
            wanted = msgspec.json.decode(request.query.get("q", "[]"), type=list[list[_Wanted]])
        except (msgspec.DecodeError, RecursionError) as error:
            raise _Mistaken("q must be a list of charts, each a list of [run, series]") from error
        if sum(map(len, wanted)) > SERIES:
            raise _Mistaken(f"at most {SERIES} series at once")
        axis = browser_series.XValues(
            request.query.get("x", "step"),
            request.query.get("log") == "1",
            _number(request, "low"),
            _number(request, "high"),
        )
        n = min(browser_series.MOST_POINTS, max(10, _whole(request, "n") or browser_series.POINTS))
        shelf = self._shelf

        def line(one: _Wanted) -> tuple[dict[str, Any], browser_series.DrawnLine]:
            entry, stored, _ = self._run(one.run)
            live = entry.state == "running"
            found = shelf.line(stored, stamp_of(stored.path), one.name, axis, live=live, rank=one.rank)
            return {"run": one.run, "name": one.name, "rank": one.rank}, found

        found = list(self._readers.map(line, [one for chart in wanted for one in chart]))
        groups = [[found.pop(0) for _ in chart] for chart in wanted]
        return Response(
            200, browser_series.pack(groups, axis, n), (("content-type", "application/octet-stream"), *_PRIVATE)
        )

    def _samples(self, request: Request) -> Response:
        from chiplog.views.web import queries

        _, _, contents = self._run(request.query.get("run", ""))
        query = request.query
        found = queries.samples(
            contents, query.get("table", ""), offset=_whole(request, "offset"), find=query.get("find", "")[:1000],
            column=query.get("column", ""),
        )  # fmt: skip
        return _json(found)

    def _matrix(self, request: Request) -> Response:
        from chiplog.views.web import queries

        _, _, contents = self._run(request.query.get("run", ""))
        found = queries.matrix(contents, request.query.get("name", ""), _whole(request, "at", -1))
        if found is None:
            raise UnknownRun("the run has no such matrix")
        return _json(found)

    def _ranks(self, request: Request) -> Response:
        from chiplog.views.web import queries

        _, stored, _ = self._run(request.query.get("run", ""))
        return _json(queries.ranks(stored, request.query.get("name", "")))

    def _trace(self, request: Request) -> Response:
        from chiplog.views.web import queries

        return _json(queries.trace(self._spans(request)))

    def _timeline(self, request: Request) -> Response:
        from chiplog.views.web import queries

        found = queries.timeline(self._spans(request), _number(request, "step") or 0.0, _whole(request, "rank"))
        return _json(found)

    def _goodput(self, request: Request) -> Response:
        from chiplog.views.web import queries

        _, stored, _ = self._run(request.query.get("run", ""))
        return _json(queries.goodput(stored))

    def _perfetto(self, request: Request) -> Response:
        from chiplog.views.trace import perfetto

        entry, stored, _ = self._run(request.query.get("run", ""))
        headers = (
            ("content-type", "application/octet-stream"),
            ("content-disposition", f'attachment; filename="{entry.key}.pftrace"'),
        )
        return Response(200, b"".join(perfetto.packets(stored)), (*headers, *_PRIVATE))

    def _console(self, request: Request) -> Response:
        from chiplog.views.web import console

        _, _, contents = self._run(request.query.get("run", ""))
        return _json(console.since(contents, _whole(request, "since")))

    async def _file(self, request: Request) -> Response:
        from chiplog.views.web import queries

        loop = asyncio.get_running_loop()
        try:
            _, _, contents = await loop.run_in_executor(self._pool, self._run, request.query.get("run", ""))
            with contents.lock:
                contents.refresh()
                files = {queries.file_key(path): file for path, file in contents.files.items()}
            file = files.get(request.query.get("file", ""))
            found = queries.open_file(contents.path, file) if file is not None else None
        except UnknownRun as error:
            return refusal(404, str(error))
        if file is None or found is None:
            return refusal(404, "the run has no such file, or it has changed")
        shown = file.media in PICTURES
        headers = (
            ("content-type", file.media if shown else "application/octet-stream"),
            ("content-disposition", "inline" if shown else f'attachment; filename="{_safe(file.path)}"'),
            ("content-security-policy", "default-src 'none'; sandbox"),
            *_PRIVATE,
        )
        return Response(200, _pieces(*found), headers)

    # -- live ------------------------------------------------------------------------------------------------------

    async def _live(self, request: Request) -> Response:
        keys = [key for key in request.query.get("runs", "").split(",") if key][:64]
        found = {key: path for key in keys if (path := self.catalog.path(key)) is not None}
        events = self.feed.listen(found, lambda: {"version": self.catalog.version})
        return Response(200, events, (("content-type", "text/event-stream"), *_PRIVATE))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _spans(self, request: Request) -> Spans:
        """All spans of a run: read once for the table and the steps, until the run grows."""
        _, stored, _ = self._run(request.query.get("run", ""))
        mark = str(stored.path), stamp_of(stored.path)
        known = self._traced
        if known is None or known[0] != mark:
            known = self._traced = mark, stored.spans()
        return known[1]

    def _run(self, key: str) -> tuple[Entry, Stored, Contents]:
        from chiplog.store.contents.contents import LIVE, Contents

        entry, path = self.catalog.get(key), self.catalog.path(key)
        if entry is None or path is None:
            raise UnknownRun("no such run; it may have been moved")
        with self._lock:
            if key not in self._runs:
                self._runs[key] = Stored(path), Contents(path, bounds=LIVE)
                if len(self._runs) > OPEN_RUNS:
                    self._runs.popitem(last=False)
            self._runs.move_to_end(key)
            return entry, *self._runs[key]


_PRIVATE = (("cache-control", "no-store"),)


class _Wanted(msgspec.Struct, array_like=True):
    run: str
    name: str
    rank: int = -1


class _Mistaken(Exception):
    """The request is malformed."""


def _json(data: Any) -> Response:
    return Response(200, listing.encode(data), (("content-type", "application/json"), *_PRIVATE))


def _whole(request: Request, name: str, default: int = 0) -> int:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else default


def _number(request: Request, name: str) -> float | None:
    try:
        value = float(request.query[name])
    except (KeyError, ValueError):
        return None
    return value if value - value == 0 else None


def _words(request: Request, name: str) -> list[str]:
    try:
        return msgspec.json.decode(request.query.get(name, "[]"), type=list[str])[:100]
    except (msgspec.DecodeError, RecursionError):
        return []


def _common(names: dict[str, int]) -> list[str]:
    return sorted(sorted(names, key=lambda name: (-names[name], name))[:COLUMNS])


def _safe(path: str) -> str:
    name = path.rpartition("/")[2]
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in name)[:100]


async def _pieces(descriptor: int, size: int) -> AsyncIterator[bytes]:
    """The bytes of a file, up to its size when it was opened."""
    try:
        while size > 0 and (data := await asyncio.to_thread(partial(os.read, descriptor, min(size, PIECE)))):
            size -= len(data)
            yield data
    finally:
        os.close(descriptor)
