"""The routes: every request of the page, and its handler."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from chiplog.core.errors import BadQuery
from chiplog.store.runs.run_values import RunValues, matching
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.version import VERSION
from chiplog.views.web import asset_bundle
from chiplog.views.web.http import PRIVATE, Request, Response, json_response
from chiplog.views.web.live import Feed
from chiplog.views.web.responses import listing
from chiplog.views.web.workers import Workers

if TYPE_CHECKING:
    from chiplog.views.web.run_routes import RunRoutes

COLUMNS = 4000  # to choose from
THREADS = 8  # that answer requests about runs
SHARE = 2  # of them for one run, however many pages wait for it


class Site:
    """Answers authorized requests from the runs under a directory.

    The list of runs needs neither numpy nor pyarrow; what needs them is loaded while the page shows the list.
    """

    def __init__(self, summaries: SummaryCache) -> None:
        self.summaries = summaries
        self.workers = Workers(4)  # for what is quick: the list, new rows, pieces of files
        self.readers = Workers(THREADS, SHARE)
        self.feed = Feed(self.workers)
        self._lock = threading.Lock()
        self._run_routes: RunRoutes | None = None
        self.lists = {"/api/runs": self._list, "/api/search": self._search, "/api/columns": self._columns}

    async def __call__(self, request: Request) -> Response:
        asset = asset_bundle.files().get(request.path)
        if asset is not None:
            return asset.answer(request)
        if request.path == "/api/live":
            return self._live(request)
        if request.path in self.lists:
            return await self.workers.run("list", self.lists[request.path], request)
        return await self.readers.run(_run_of(request), lambda: self.load()(request))

    def join(self, patience: float) -> bool:
        """Wait for the reads that are under way; false if some take longer."""
        return self.workers.join(patience / 2) and self.readers.join(patience / 2)

    def load(self) -> RunRoutes:
        """What answers requests about runs; the first call imports numpy and pyarrow."""
        with self._lock:
            if self._run_routes is None:
                from chiplog.views.web.run_routes import RunRoutes

                self._run_routes = RunRoutes(self.summaries, self.workers)
            return self._run_routes

    def _list(self, request: Request) -> Response:
        since, columns = request.whole("since"), _names(request.query.get("columns", "[]"))
        if not self.summaries.version:
            self.summaries.refresh()
        return json_response(
            {
                "version": self.summaries.version,
                "root": str(self.summaries.root),
                "chiplog": VERSION,
                "runs": [listing.row(entry, columns) for entry in self.summaries.entries(since)],
                "gone": self.summaries.gone(since) if since else [],
            }
        )

    def _search(self, request: Request) -> Response:
        """The keys of the runs that match, or why the query is not understood."""
        runs = [RunValues(self.summaries.root / entry.place, entry, shallow=True) for entry in self.summaries.entries()]
        try:
            return json_response({"keys": [run.entry.key for run in matching(runs, request.query.get("q", "")[:2000])]})
        except BadQuery as error:
            return json_response({"error": str(error)})

    def _columns(self, _: Request) -> Response:
        config: Counter[str] = Counter()
        values: Counter[str] = Counter()
        for entry in self.summaries.entries():
            config.update(entry.config.keys())
            values.update(entry.values.keys())
        return json_response({"config": _common(config), "values": _common(values)})

    def _live(self, request: Request) -> Response:
        keys = [key for key in request.query.get("runs", "").split(",") if key][:64]
        paths = {key: path for key in keys if (path := self.summaries.path(key)) is not None}
        events = self.feed.listen(paths, lambda: {"version": self.summaries.version})
        return Response(200, events, (("content-type", "text/event-stream"), PRIVATE))


def _run_of(request: Request) -> str:
    """The run that a request is about, or the first of several."""
    return request.query.get("run") or request.query.get("q", "")[:40]


def _names(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])[:100]
    except (msgspec.DecodeError, RecursionError):
        return []


def _common(names: Counter[str]) -> list[str]:
    return sorted(sorted(names, key=lambda name: (-names[name], name))[:COLUMNS])
