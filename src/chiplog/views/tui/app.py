"""The screen of `chiplog watch`: its state, its content, and what the keys do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from chiplog.core import display
from chiplog.core.display import STATES, columns, cut, fit, paint
from chiplog.core.messages import clean
from chiplog.metrics.catalog import is_loss, pick_loss
from chiplog.store.reader import Stored
from chiplog.store.runs.catalog import Catalog, Entry, stamp_of
from chiplog.views.table import Cell

if TYPE_CHECKING:
    from chiplog.store.contents.contents import Contents
    from chiplog.views.charts.browser_series import SeriesCache
    from chiplog.views.tui.panels import Style

TABS = ("charts", "system", "ranks", "alerts", "samples", "console", "overview")
AXES = ("step", "relative", "tokens", "epoch")
SMOOTH = (0.0, 0.6, 0.9, 0.99)
SYSTEM = re.compile(r"(gpu|cpu|system|memory|disk|net|host|node)/")
LIST_KEYS = "↑↓ choose  enter open  / search  s sort  ? keys  q quit"
RUN_KEYS = "1-7 panels  ↑↓ scroll  enter one chart  l log  s smooth  x axis  / search  esc  ?  q"
HELP = """\
In the list
  ↑ ↓  PgUp PgDn  Home End   choose a run
  enter                      open it
  /                          search: words in project, name, id, state, tags
  s                          sort by start, name, loss, step

In a run
  1 … 7, tab                 charts, system, ranks, alerts, samples, console, overview
  ↑ ↓  PgUp PgDn             scroll
  ← →, enter                 choose a chart, and show it alone
  l                          logarithmic scale
  s                          smoothing: off, 0.6, 0.9, 0.99, with the raw line behind
  x                          x axis: step, relative time, tokens, epoch
  + -                        more or fewer charts side by side
  /                          search series by a regular expression; samples by text
  esc                        back

q quits. Nothing here touches a training process."""


class App:
    """The state of the screen; `render` draws it, `press` handles a key, `refresh` reads the disk."""

    def __init__(self, catalog: Catalog, style: Style, run: str | None = None) -> None:
        from chiplog.views.charts.browser_series import SeriesCache

        self._catalog, self._style = catalog, style
        self._shelf: SeriesCache = SeriesCache(256 << 20)
        self._contents: Contents | None = None
        self._stored: Stored | None = None
        self._stamp = ""
        self.key: str | None = None
        self.done = False
        self.tab = "charts"
        self.log, self.smooth, self.axis = False, 0.0, "step"
        self._find = {"list": "", "charts": "", "samples": ""}
        self._typing: str | None = None
        self._help = False
        self._at, self._top, self._sort = 0, 0, 0  # in the list
        self._scroll, self._chart, self._alone, self._more = 0, 0, False, 0  # in a run
        self._page = 10
        self._listed = 0.0
        if run is not None:
            self._open(run)

    def refresh(self) -> bool:
        """Check whether something on the screen has changed."""
        changed = False
        if time.monotonic() - self._listed > (1.0 if self.key is None else 5.0):
            changed = self._catalog.refresh() or self.key is None
            self._listed = time.monotonic()
        if self.key is not None and self._stored is not None:
            stamp = stamp_of(self._stored.path)
            changed = changed or stamp != self._stamp
            if stamp != self._stamp:
                self._catalog.reload(self.key)
            self._stamp = stamp
        return changed

    def press(self, key: str) -> None:
        if self._typing is not None:
            self._type(key)
        elif key in ("q", "ctrl-c"):
            self.done = True
        elif key == "?" or self._help:
            self._help = not self._help
        elif key == "/":
            self._typing = self._find[self._where]
        elif self.key is None:
            self._press_list(key)
        else:
            self._press_run(key)

    def render(self, width: int, height: int) -> list[str]:
        """Exactly so many lines, none wider than the screen."""
        width, height = max(20, width), max(6, height)
        self._page = max(1, height - 4)
        if self._help:
            lines = HELP.split("\n")
        elif self.key is None:
            lines = self._list(width, height - 1)
        else:
            lines = self._run(width, height - 1)
        lines = [fit(line, width) for line in (lines + [""] * height)[: height - 1]]
        foot = f"/{clean(self._typing)}▏ enter: search, esc: leave" if self._typing is not None else self._keys()
        return [*lines, self._paint(fit(cut(foot, width), width), "2")]

    # -- the list --------------------------------------------------------------------------------------------------

    def _found(self) -> list[Entry]:
        words = self._find["list"].casefold().split()
        found = [
            entry
            for entry in self._catalog.entries()
            if all(
                any(word in text.casefold() for text in (entry.project, entry.name, entry.id, entry.state, *entry.tags))
                for word in words
            )
        ]
        orders: tuple[Callable[[Entry], tuple[float, str]], ...] = (
            lambda entry: (-entry.started, entry.id),
            lambda entry: (0, entry.name),
            lambda entry: (_order(pick_loss(entry.values)), entry.id),
            lambda entry: (-_order(entry.step, 0.0), entry.id),
        )
        return sorted(found, key=orders[self._sort])

    def _list(self, width: int, height: int) -> list[str]:
        from chiplog.views.tui.panels import runs

        found = self._found()
        total = len(self._catalog.entries())
        room = max(1, height - 2)
        self._at = max(0, min(self._at, len(found) - 1))
        self._top = max(min(self._top, self._at), self._at - room + 1)
        now = time.time_ns()
        rows = [
            [">" if at == self._at else "", *_row(entry, now)]
            for at, entry in enumerate(found[self._top : self._top + room], start=self._top)
        ]
        sort = ("newest first", "by name", "by loss", "by step")[self._sort]
        searched = f", search: {clean(self._find['list'])}" if self._find["list"] else ""
        shown = f"{len(found)} of {total}" if len(found) != total else str(total)
        shown += " run" if total == 1 else " runs"
        title = f"chiplog  {shown}, {sort}{searched}, under {clean(str(self._catalog.root))}"
        if not rows:
            return [title, "", "no run matches" if total else "no runs here yet; `chiplog demo` makes one"]
        head = ("", "state", "name", "project", "started", "ran", "step", "loss")
        lines = runs(rows, head, width=width, style=self._style)
        return [self._paint(cut(title, width), "1"), *lines]

    def _press_list(self, key: str) -> None:
        if moved := self._moved(key):
            self._at = max(0, min(self._at + moved, len(self._found()) - 1))
        elif key == "s":
            self._sort = (self._sort + 1) % 4
        elif key in ("enter", "right"):
            found = self._found()
            if found:
                self._open(found[self._at].key)
        elif key == "esc":
            self._find["list"] = ""

    # -- a run -----------------------------------------------------------------------------------------------------

    def _open(self, key: str) -> None:
        from chiplog.store.contents.contents import LIVE, Contents

        path = self._catalog.path(key)
        if path is None:
            return
        self.key, self._stored, self._contents = key, Stored(path), Contents(path, bounds=LIVE)
        self._stamp = stamp_of(path)
        self._scroll, self._chart, self._alone = 0, 0, False

    def _press_run(self, key: str) -> None:
        if key in ("esc", "backspace"):
            if self._alone:
                self._alone = False
            else:
                self.key = self._stored = self._contents = None
        elif key.isdecimal() and 0 < int(key) <= len(TABS):
            self._turn(TABS[int(key) - 1])
        elif key in ("tab", "backtab"):
            self._turn(TABS[(TABS.index(self.tab) + (1 if key == "tab" else -1)) % len(TABS)])
        elif key == "l":
            self.log = not self.log
        elif key == "s":
            self.smooth = SMOOTH[(SMOOTH.index(self.smooth) + 1) % len(SMOOTH)]
        elif key == "x":
            self.axis = AXES[(AXES.index(self.axis) + 1) % len(AXES)]
        elif key in ("+", "-"):
            self._more = max(-3, min(3, self._more + (1 if key == "+" else -1)))
        elif key in ("left", "right"):
            self._chart = max(0, self._chart + (1 if key == "right" else -1))
        elif key == "enter":
            self._alone = not self._alone
        else:
            self._scroll = max(0, self._scroll + self._moved(key))

    def _turn(self, tab: str) -> None:
        self.tab, self._scroll, self._chart, self._alone = tab, 0, 0, False

    def _run(self, width: int, height: int) -> list[str]:
        entry = self._catalog.get(self.key or "")
        if entry is None or self._stored is None or self._contents is None:
            return ["this run is gone"]
        state = self._paint(entry.state, STATES.get(entry.state, ""))
        step = f"step {display.count(entry.step)}" if entry.step is not None else "no steps yet"
        alerts = f"  {self._contents.alert_count} alerts" if self._contents.alert_count else ""
        rest = f"{step}  {display.duration(entry.seconds)}{alerts}"
        room = max(8, width - len(entry.state) - columns(rest) - 4)
        name = cut(clean(f"{entry.project}/{entry.name}"), room)
        tabs = "  ".join(self._tab(at, tab) for at, tab in enumerate(TABS, start=1))
        return [f"{self._paint(name, '1')}  {state}  {rest}", tabs, *self._body(entry, width, height - 2)]

    def _tab(self, at: int, tab: str) -> str:
        if tab != self.tab:
            return f"{at} {tab}"
        return self._paint(f"{at} {tab}", "7") if self._style.colour else f"[{tab}]"

    def _body(self, entry: Entry, width: int, height: int) -> list[str]:
        from chiplog.views.tui import panels

        assert self._contents is not None and self._stored is not None
        if self.tab in ("charts", "system"):
            return self._charts(width, height)
        if self.tab == "ranks":
            return self._ranks(width, height)
        with self._contents.lock:
            self._contents.refresh()
            if self.tab == "alerts":
                lines = panels.alerts(self._contents, width=width, style=self._style)
            elif self.tab == "samples":
                lines = panels.samples(self._contents, width=width, style=self._style, find=self._find["samples"])
            elif self.tab == "console":
                lines = panels.console(self._contents, width=width)
                if not self._scroll:
                    return lines[-height:]  # the end, until the user scrolls
                self._scroll = min(self._scroll, max(0, len(lines) - height))
                return lines[max(0, len(lines) - height - self._scroll) :][:height]
            else:
                values = [(name, value) for name, value in entry.values.items()]
                lines = panels.overview(self._contents, values, width=width, style=self._style)
        self._scroll = min(self._scroll, max(0, len(lines) - height))
        return lines[self._scroll : self._scroll + height]

    def _names(self) -> list[str]:
        assert self._stored is not None
        names = [name for name in self._stored.names() if bool(SYSTEM.match(name)) == (self.tab == "system")]
        if self._find["charts"]:
            try:
                test = re.compile(self._find["charts"], re.IGNORECASE)
            except re.error:
                return []
            names = [name for name in names if test.search(name)]
        return sorted(names, key=lambda name: (_weight(name), name))

    def _charts(self, width: int, height: int) -> list[str]:
        names = self._names()
        if not names:
            return ["", "no series matches" if self._find["charts"] else "nothing has been logged here yet"]
        self._chart = min(self._chart, len(names) - 1)
        if self._alone:
            return self._chart_of(names[self._chart], width, height, f"{self._chart + 1} of {len(names)}")
        across = max(1, min(4, width // 40 + self._more))
        down = max(1, min(-(-len(names) // across), height // 10))
        tall, wide = height // down, width // across
        rows = -(-len(names) // across)
        self._scroll = min(self._scroll, max(0, rows - down))
        at = self._chart // across  # the chosen one stays in sight
        if self._chart and not self._scroll <= at < self._scroll + down:
            self._scroll = at if at < self._scroll else at - down + 1
        lines: list[str] = []
        for row in range(self._scroll, min(rows, self._scroll + down)):
            cells = [
                self._chart_of(name, wide - 1, tall, "")
                for name in names[row * across : (row + 1) * across]
            ]  # fmt: skip
            lines += [" ".join(parts) for parts in zip(*cells, strict=True)]
        return lines[:height]

    def _chart_of(self, name: str, width: int, height: int, words: str) -> list[str]:
        from chiplog.views.charts.browser_series import XValues
        from chiplog.views.tui.panels import chart

        assert self._stored is not None
        line = self._shelf.line(self._stored, self._stamp, name, XValues(self.axis))
        last = display.number(float(line.y[-1])) if len(line.y) else ""
        title = f"{name}  {last}  {words}".rstrip()
        return chart(
            title, [(name, line)], width=width, height=height, style=self._style, log=self.log, smooth=self.smooth,
            x_label={"relative": "seconds"}.get(self.axis, self.axis),
        )  # fmt: skip

    def _ranks(self, width: int, height: int) -> list[str]:
        from chiplog.views.charts.heatmap import level_map
        from chiplog.views.tui.panels import slowest

        assert self._stored is not None
        names = [name for name in self._stored.names() if not SYSTEM.match(name)]
        names.sort(key=lambda name: ("step_time" not in name, _weight(name), name))
        if not names:
            return ["nothing has been logged yet"]
        self._chart = min(self._chart, len(names) - 1)
        name = names[self._chart]
        found = self._stored.series(name).by_rank()
        if len(found.ranks) < 2:
            return ["", "only one rank keeps a journal; use init(ranks='all') to compare ranks"]
        known = found.values
        means = [
            float(column[column == column].mean()) if (column == column).any() else float("nan") for column in known.T
        ]
        head = f"{clean(name)} by rank over {len(found.steps):,} steps (← → another series)"
        ranks = found.ranks.tolist()
        picture = level_map(known.T, ranks, width=width, height=height - 3, colour=self._style.colour)
        return [self._paint(cut(head, width), "1"), slowest(ranks, means), *picture]

    def _moved(self, key: str) -> int:
        """How many rows a key moves down."""
        far = 1 << 30
        rows = {"up": -1, "k": -1, "down": 1, "j": 1, "home": -far, "end": far}
        return rows.get(key, {"pgup": -self._page, "pgdn": self._page}.get(key, 0))

    # -- words -----------------------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return "list" if self.key is None else "samples" if self.tab == "samples" else "charts"

    def _keys(self) -> str:
        if self.key is None:
            return LIST_KEYS
        chosen = [
            "log" if self.log else "",
            f"smooth {self.smooth:g}" if self.smooth else "",
            f"x {self.axis}" if self.axis != "step" else "",
            f"/{clean(self._find[self._where])}" if self._find[self._where] else "",
        ]
        return "  ".join([*(f"[{one}]" for one in chosen if one), RUN_KEYS])

    def _type(self, key: str) -> None:
        text = self._typing or ""
        if key == "enter":
            self._find[self._where], self._typing = text, None
            self._scroll = self._chart = self._at = 0
        elif key in ("esc", "ctrl-c"):
            self._typing = None
        elif key == "backspace":
            self._typing = text[:-1]
        elif len(key) == 1 and key.isprintable():
            self._typing = text + key

    def _paint(self, text: str, style: str) -> str:
        return paint(text, style, self._style.colour)


def _row(entry: Entry, now: int) -> list[str | Cell]:
    loss = pick_loss(entry.values)
    return [
        Cell(entry.state, STATES.get(entry.state, "")),
        entry.name,
        entry.project,
        display.ago(entry.started, now) if entry.started else "",
        display.duration(entry.seconds),
        "" if entry.step is None else display.count(entry.step),
        "" if loss is None else display.number(loss),
    ]


def _weight(name: str) -> int:
    """The most important first: training, evaluation, and the loss in each."""
    group = 0 if name.startswith("train/") else 2 if name.startswith(("eval/", "val/", "test/")) else 4
    return group if group == 4 or is_loss(name) else group + 1


def _order(value: float | None, absent: float = float("inf")) -> float:
    return absent if value is None else float(value)
