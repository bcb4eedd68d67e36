"""The routes: every request of the page, and its handler."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from chiplog.store.runs.catalog import Catalog
from chiplog.version import VERSION
from chiplog.views.web import asset_bundle, listing
from chiplog.views.web.http import PRIVATE, Request, Response, json_response
from chiplog.views.web.live import Feed

if TYPE_CHECKING:
    from chiplog.views.web.run_routes import RunRoutes

COLUMNS = 4000  # to choose from


class Site:
    """Answers authorized requests from the runs of a catalog.

    The list of runs needs neither numpy nor pyarrow; what needs them is loaded while the page shows the list.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.feed = Feed()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="chiplog-ui")
        self._lock = threading.Lock()
        self._run_routes: RunRoutes | None = None

    async def __call__(self, request: Request) -> Response:
        asset = asset_bundle.files().get(request.path)
        if asset is not None:
            return asset.answer(request)
        if request.path == "/api/live":
            return self._live(request)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._route, request)

    def load(self) -> RunRoutes:
        """What answers requests about runs; the first call imports numpy and pyarrow."""
        with self._lock:
            if self._run_routes is None:
                from chiplog.views.web.run_routes import RunRoutes

                self._run_routes = RunRoutes(self.catalog)
            return self._run_routes

    def _route(self, request: Request) -> Response:
        if request.path == "/api/runs":
            return self._list(request)
        return self._columns() if request.path == "/api/columns" else self.load()(request)

    def _list(self, request: Request) -> Response:
        since, columns = request.whole("since"), _names(request.query.get("columns", "[]"))
        if not self.catalog.version:
            self.catalog.refresh()
        return json_response(
            {
                "version": self.catalog.version,
                "root": str(self.catalog.root),
                "chiplog": VERSION,
                "runs": [listing.row(entry, columns) for entry in self.catalog.entries(since)],
                "gone": self.catalog.gone(since) if since else [],
            }
        )

    def _columns(self) -> Response:
        config: Counter[str] = Counter()
        values: Counter[str] = Counter()
        for entry in self.catalog.entries():
            config.update(entry.config.keys())
            values.update(entry.values.keys())
        return json_response({"config": _common(config), "values": _common(values)})

    def _live(self, request: Request) -> Response:
        keys = [key for key in request.query.get("runs", "").split(",") if key][:64]
        paths = {key: path for key in keys if (path := self.catalog.path(key)) is not None}
        events = self.feed.listen(paths, lambda: {"version": self.catalog.version})
        return Response(200, events, (("content-type", "text/event-stream"), PRIVATE))


def _names(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])[:100]
    except (msgspec.DecodeError, RecursionError):
        return []


def _common(names: Counter[str]) -> list[str]:
    return sorted(sorted(names, key=lambda name: (-names[name], name))[:COLUMNS])
