"""A run on the screen of `chiplog watch`: its panels, and what the keys do to them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from chiplog.core import display
from chiplog.core.display import STATES, columns, cut, paint
from chiplog.core.messages import clean
from chiplog.metrics.catalog import is_system
from chiplog.store.contents.contents import LIVE, Contents
from chiplog.store.reader import Stored
from chiplog.store.runs.summary_cache import Entry, SummaryCache, stamp_of
from chiplog.views.charts.bucketed_series import SeriesCache, XValues
from chiplog.views.charts.heatmap import level_map
from chiplog.views.metric_families import by_importance
from chiplog.views.tui import panels
from chiplog.views.tui.navigation import TABS, rows_moved
from chiplog.views.tui.panels import Style

AXES = ("step", "relative", "tokens", "epoch")
SMOOTH = (0.0, 0.6, 0.9, 0.99)
MEMORY = 256 << 20  # bytes of series that are kept
_GPU = re.compile(r"^(gpu|node)/[^/]+/")  # charts of several are drawn over each other
KEYS = "1-7 panels  ↑↓ scroll  enter one chart  l log  s smooth  x axis  / search  esc  ?  q"


class RunScreen:
    """One run in panels; scale, smoothing and axis stay chosen from run to run."""

    def __init__(self, summaries: SummaryCache, style: Style, tab: str = TABS[0]) -> None:
        self._summaries, self._style = summaries, style
        self._series = SeriesCache(MEMORY)
        self._run: tuple[Stored, Contents] | None = None
        self._stamp = ""
        self.key: str | None = None
        self._tab = tab
        self._log, self._smooth, self._axis = False, 0.0, "step"
        self._searches = {"charts": "", "samples": ""}
        self._scroll, self._chart, self._alone, self._extra_columns = 0, 0, False, 0
        self._rows = 1  # of charts on the screen
        self._range = ""  # which of the charts they are

    def open(self, key: str) -> None:
        path = self._summaries.path(key)
        if path is None:
            return
        stored = Stored(path, cache=self._summaries.cache)
        self.key, self._run = key, (stored, Contents(path, bounds=LIVE, segments=stored.segments))
        self._stamp = stamp_of(path)
        self._show(self._tab)

    def refresh(self) -> bool:
        """Check whether the run has grown."""
        if self.key is None or self._run is None:
            return False
        before, self._stamp = self._stamp, stamp_of(self._run[0].path)
        if self._stamp != before:
            self._summaries.reload(self.key)
        return self._stamp != before

    @property
    def search(self) -> str:
        return self._searches["samples" if self._tab == "samples" else "charts"]

    @search.setter
    def search(self, text: str) -> None:
        self._searches["samples" if self._tab == "samples" else "charts"] = text
        self._scroll = self._chart = 0

    @property
    def keys(self) -> str:
        """What was chosen, and the keys, for the last line of the screen."""
        chosen = [
            "log" if self._log else "",
            f"smooth {self._smooth:g}" if self._smooth else "",
            f"x {self._axis}" if self._axis != "step" else "",
            f"/{clean(self.search)}" if self.search else "",
        ]
        return "  ".join([*(f"[{one}]" for one in chosen if one), KEYS])

    def press(self, key: str, page: int) -> None:
        if key in ("esc", "backspace"):
            if self._alone:
                self._alone = False
            else:
                self.key = self._run = None
        elif key.isdecimal() and 0 < int(key) <= len(TABS):
            self._show(TABS[int(key) - 1])
        elif key in ("tab", "backtab"):
            self._show(TABS[(TABS.index(self._tab) + (1 if key == "tab" else -1)) % len(TABS)])
        elif key == "l":
            self._log = not self._log
        elif key == "s":
            self._smooth = SMOOTH[(SMOOTH.index(self._smooth) + 1) % len(SMOOTH)]
        elif key == "x":
            self._axis = AXES[(AXES.index(self._axis) + 1) % len(AXES)]
        elif key in ("+", "-"):
            self._extra_columns = max(-3, min(3, self._extra_columns + (1 if key == "+" else -1)))
        elif key in ("left", "right"):
            self._chart = max(0, self._chart + (1 if key == "right" else -1))
        elif key == "enter":
            self._alone = not self._alone
        else:
            charts = self._tab in ("charts", "system")
            self._scroll = max(0, self._scroll + rows_moved(key, self._rows if charts else page))

    def render(self, width: int, height: int) -> list[str]:
        entry = self._summaries.get(self.key or "")
        if entry is None or self._run is None:
            return ["this run is gone"]
        stored, contents = self._run
        with contents.lock:
            contents.refresh()
        state = self._paint(entry.state, STATES.get(entry.state, ""))
        step = f"step {display.count(entry.step)}" if entry.step is not None else "no steps yet"
        alerts = f"  {display.counted(contents.alert_count, 'alert')}" if contents.alert_count else ""
        self._range = ""
        if self._tab in ("charts", "system"):
            body = self._charts(stored, width, height - 2)
        elif self._tab == "ranks":
            body = self._ranks(stored, width, height - 2)
        else:
            body = self._lines(contents, entry, width, height - 2)
        shown = f"  {self._range}" if self._range else ""
        rest = f"{step}  {display.duration(entry.seconds)}{alerts}{shown}"
        room = max(8, width - len(entry.state) - columns(rest) - 4)
        name = cut(clean(f"{entry.project}/{entry.name}"), room)
        tabs = "  ".join(self._tab_title(at, tab) for at, tab in enumerate(TABS, start=1))
        return [f"{self._paint(name, '1')}  {state}  {rest}", tabs, *body]

    # -- panels ----------------------------------------------------------------------------------------------------

    def _lines(self, contents: Contents, entry: Entry, width: int, height: int) -> list[str]:
        """A panel of text; the console shows its end until the user scrolls."""
        with contents.lock:
            if self._tab == "alerts":
                lines = panels.alerts(contents, width=width, style=self._style)
            elif self._tab == "samples":
                lines = panels.samples(contents, width=width, style=self._style, find=self.search)
            elif self._tab == "console":
                lines = panels.console(contents, width=width)
            else:
                values = [(name, entry.values[name]) for name in by_importance(entry.values)]
                lines = panels.overview(contents, values, width=width, style=self._style)
        rest = max(0, len(lines) - height)
        self._scroll = min(self._scroll, rest)
        top = rest - self._scroll if self._tab == "console" else self._scroll
        return lines[top : top + height]

    def _charts(self, stored: Stored, width: int, height: int) -> list[str]:
        try:
            charts = list(self._titles(stored).items())
        except re.error as error:
            return ["", f"/{clean(self.search)} is not a regular expression: {error}"]
        if not charts:
            return ["", "no series matches" if self.search else "nothing has been logged here yet"]
        self._chart = min(self._chart, len(charts) - 1)
        if self._alone:
            self._range = f"chart {self._chart + 1} of {len(charts)}"
            return self._chart_of(stored, *charts[self._chart], width, height)
        across = max(1, min(4, width // 40 + self._extra_columns))
        rows = -(-len(charts) // across)
        down = max(1, min(rows, height // 10))
        self._scroll = min(self._scroll, max(0, rows - down))
        row = self._chart // across  # the chosen chart stays in sight
        if self._chart and not self._scroll <= row < self._scroll + down:
            self._scroll = row if row < self._scroll else row - down + 1
        self._rows = down
        first, last = self._scroll * across, min(len(charts), (self._scroll + down) * across)
        self._range = f"{first + 1}-{last}/{len(charts)}" if last - first < len(charts) else ""
        cells = [
            self._chart_of(stored, *chart, width // across - 1, height // down, chosen=at == self._chart)
            for at, chart in enumerate(charts[first:last], start=first)
        ]
        lines: list[str] = []
        for at in range(0, len(cells), across):
            lines += [" ".join(parts) for parts in zip(*cells[at : at + across], strict=True)]
        return lines[:height]

    def _chart_of(
        self, stored: Stored, title: str, names: Sequence[str], width: int, height: int, *, chosen: bool = False
    ) -> list[str]:
        lines = [(name, self._series.line(stored, self._stamp, name, XValues(self._axis))) for name in names]
        last = [display.number(float(line.y[-1])) for _, line in lines if len(line.y)]
        mark = (">" if self._style.ascii else "▸") if chosen else ""
        return panels.chart(
            f"{mark} {clean(title)}  {last[0] if len(lines) == 1 and last else ''}".strip(),
            lines,
            width=width,
            height=height,
            style=self._style,
            log=self._log,
            smooth=self._smooth,
            x_label={"relative": "seconds"}.get(self._axis, self._axis),
        )

    def _ranks(self, stored: Stored, width: int, height: int) -> list[str]:
        names = by_importance(name for name in stored.names() if not is_system(name))
        names.sort(key=lambda name: "step_time" not in name)
        if not names:
            return ["nothing has been logged yet"]
        self._chart = min(self._chart, len(names) - 1)
        name = names[self._chart]
        matrix = stored.series(name, missing_ok=True).by_rank()
        if len(matrix.ranks) < 2:
            return ["", "only one rank keeps a journal; use init(ranks='all') to compare ranks"]
        values, ranks = matrix.values.T, matrix.ranks.tolist()
        means = [float(row[~np.isnan(row)].mean()) if not np.isnan(row).all() else float("nan") for row in values]
        head = f"{clean(name)} by rank over {len(matrix.steps):,} steps (← → another series)"
        picture = level_map(values, ranks, width=width, height=height - 3, colour=self._style.colour)
        return [self._paint(cut(head, width), "1"), panels.highest(ranks, means), *picture]

    def _titles(self, stored: Stored) -> dict[str, list[str]]:
        """The charts of the tab that match the search, the most important first: their titles and series."""
        pattern = re.compile(self.search, re.IGNORECASE)
        titles: dict[str, list[str]] = {}
        for name in by_importance(stored.names()):
            if is_system(name) == (self._tab == "system") and pattern.search(name):
                titles.setdefault(_GPU.sub(r"\1/*/", name), []).append(name)
        return {title if len(names) > 1 else names[0]: names for title, names in titles.items()}

    def _show(self, tab: str) -> None:
        self._tab, self._scroll, self._chart, self._alone = tab, 0, 0, False

    def _tab_title(self, number: int, tab: str) -> str:
        if tab != self._tab:
            return f"{number} {tab}"
        return self._paint(f"{number} {tab}", "7") if self._style.colour else f"[{tab}]"

    def _paint(self, text: str, style: str) -> str:
        return paint(text, style, self._style.colour)
