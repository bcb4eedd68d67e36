"""The screen of `chiplog watch`: the list of runs, or a run; the help, and what is being typed."""

from __future__ import annotations

import time

from chiplog.core.display import cut, fit, paint
from chiplog.core.messages import clean
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.charts.bucketed_series import use_plain_memory
from chiplog.views.tui.navigation import TABS
from chiplog.views.tui.panels import Style
from chiplog.views.tui.run_screen import RunScreen
from chiplog.views.tui.runs_screen import RunsScreen

HELP = """\
In the list
  ↑ ↓  PgUp PgDn  Home End   choose a run
  enter                      open it
  /                          search as in `chiplog ls --where`: lr>0.001 -state=failed, or words
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

    def __init__(self, summaries: SummaryCache, style: Style, run: str | None = None, tab: str = TABS[0]) -> None:
        use_plain_memory()
        self._summaries, self._style = summaries, style
        self._list = RunsScreen(summaries, style)
        self._run = RunScreen(summaries, style, tab)
        self.done = False
        self._typing: str | None = None
        self._before = ""  # the search before it is changed
        self._help = False
        self._page = 10  # rows
        self._refreshed = 0.0
        if run is not None:
            self._run.open(run)

    def refresh(self) -> bool:
        """Check whether something on the screen has changed."""
        changed = False
        in_list = self._run.key is None
        if time.monotonic() - self._refreshed > (1.0 if in_list else 5.0):
            changed = self._summaries.refresh() | self._summaries.complete(0.05) or in_list
            self._refreshed = time.monotonic()
        return self._run.refresh() or changed

    def press(self, key: str) -> None:
        if self._typing is not None:
            self._type(key, self._typing)
        elif key in ("q", "ctrl-c"):
            self.done = True
        elif key == "?" or self._help:
            self._help = not self._help
        elif key == "/":
            self._typing = self._before = self._shown.search
        elif self._run.key is None and key in ("enter", "right"):
            if self._list.chosen is not None:
                self._run.open(self._list.chosen)
        else:
            self._shown.press(key, self._page)

    def render(self, width: int, height: int) -> list[str]:
        """Exactly so many lines, none wider than the screen."""
        width, height = max(20, width), max(6, height)
        self._page = max(1, height - 4)
        lines = HELP.split("\n") if self._help else self._shown.render(width, height - 1)
        lines = [fit(line, width) for line in (lines + [""] * height)[: height - 1]]
        typing = self._typing is not None
        foot = f"/{clean(self._typing or '')}▏ enter: keep, esc: as before" if typing else self._shown.keys
        return [*lines, paint(fit(cut(foot, width), width), "2", self._style.colour)]

    @property
    def _shown(self) -> RunsScreen | RunScreen:
        return self._list if self._run.key is None else self._run

    def _type(self, key: str, text: str) -> None:
        """Search with every key; the first one replaces the search before it."""
        fresh = text == self._before
        if key == "enter":
            self._typing = None
        elif key in ("esc", "ctrl-c"):
            self._shown.search, self._typing = self._before, None
        elif key == "backspace":
            self._shown.search = self._typing = "" if fresh else text[:-1]
        elif len(key) == 1 and key.isprintable():
            self._shown.search = self._typing = key if fresh else text + key
