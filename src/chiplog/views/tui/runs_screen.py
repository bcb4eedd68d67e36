"""The list of runs on the screen of `chiplog watch`."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import isnan
from typing import NamedTuple

from chiplog.core import display
from chiplog.core.display import STATES, columns, cut, paint
from chiplog.core.errors import BadQuery
from chiplog.core.messages import clean
from chiplog.metrics.catalog import pick_loss
from chiplog.store.runs.run_values import RunValues, matching
from chiplog.store.runs.summary_cache import Entry, SummaryCache
from chiplog.views.table import Cell, table
from chiplog.views.tui.navigation import rows_moved
from chiplog.views.tui.panels import Style

KEYS = "↑↓ choose  enter open  / search  s sort  ? keys  q quit"
DISPENSABLE = ("started", "ran", "project")  # columns, on a narrow screen: the first goes first
HEAD = ("", "state", "name", "project", "started", "ran", "step", "loss")


class Order(NamedTuple):
    """A way to sort the runs."""

    title: str
    key: Callable[[Entry], tuple[float, str]]


ORDERS = (
    Order("newest first", lambda entry: (-entry.started, entry.id)),
    Order("by name", lambda entry: (0, entry.name)),
    Order("by loss", lambda entry: (_or_else(pick_loss(entry.values), float("inf")), entry.id)),
    Order("by step", lambda entry: (-_or_else(entry.step, 0.0), entry.id)),
)


class RunsScreen:
    """The runs under a directory: searched, sorted and scrolled."""

    def __init__(self, summaries: SummaryCache, style: Style) -> None:
        self._summaries, self._style = summaries, style
        self._search = ""
        self._matched: set[str] = set()
        self._trouble = ""  # why the search is not understood
        self._chosen, self._top, self._order = 0, 0, 0

    @property
    def search(self) -> str:
        return self._search

    @search.setter
    def search(self, text: str) -> None:
        self._search, self._chosen = text, 0

    @property
    def chosen(self) -> str | None:
        """The key of the run at the cursor."""
        entries = self._entries()
        return entries[self._chosen].key if entries else None

    @property
    def keys(self) -> str:
        """The keys, for the last line of the screen."""
        return KEYS

    def press(self, key: str, page: int) -> None:
        if moved := rows_moved(key, page):
            self._chosen = max(0, min(self._chosen + moved, len(self._entries()) - 1))
        elif key == "s":
            self._order = (self._order + 1) % len(ORDERS)
        elif key == "esc":
            self._search = ""

    def render(self, width: int, height: int) -> list[str]:
        entries, total = self._entries(), len(self._summaries.entries())
        room = max(1, height - 2)
        self._chosen = max(0, min(self._chosen, len(entries) - 1))
        self._top = max(min(self._top, self._chosen), self._chosen - room + 1)
        shown = f"{len(entries)} of {total}" if len(entries) != total else str(total)
        searched = f", search: {clean(self._search)}" if self._search else ""
        title = f"chiplog  {shown} run{'s' if total != 1 else ''}, {ORDERS[self._order].title}{searched}"
        title += f": {self._trouble}" if self._trouble else ""
        title += f", under {clean(str(self._summaries.root))}"
        if not entries:
            return [title, "", "no run matches" if total else "no runs here yet; `chiplog demo` makes one"]
        now = time.time_ns()
        rows = [
            [">" if at == self._chosen else "", *_row(entry, now)]
            for at, entry in enumerate(entries[self._top : self._top + room], start=self._top)
        ]
        kept = list(range(len(HEAD)))
        for left_out in (None, *map(HEAD.index, DISPENSABLE)):
            kept = [at for at in kept if at != left_out]
            head, cells = [HEAD[at] for at in kept], [[row[at] for at in kept] for row in rows]
            if columns(table(head, cells).partition("\n")[0]) <= width:
                break
        lines = table(head, cells, width=width, right=("ran", "step", "loss"), colour=self._style.colour).split("\n")
        return [paint(cut(title, width), "1", self._style.colour), *lines]

    def _entries(self) -> list[Entry]:
        """The runs that match; while a search is being typed and is not yet one, those that matched before."""
        runs = [RunValues(self._summaries.root / one.place, one, shallow=True) for one in self._summaries.entries()]
        try:
            entries, self._trouble = [run.entry for run in matching(runs, self._search)], ""
            self._matched = {entry.key for entry in entries}
        except BadQuery as error:
            entries, self._trouble = [run.entry for run in runs if run.entry.key in self._matched], str(error)
        return sorted(entries, key=ORDERS[self._order].key)


def _row(entry: Entry, now: int) -> list[str | Cell]:
    loss = pick_loss(entry.values)
    return [
        Cell(entry.state, STATES.get(entry.state, "")),
        f"{entry.name} {entry.reason}" if entry.reason else entry.name,
        entry.project,
        display.ago(entry.started, now) if entry.started else "",
        "" if entry.reason else display.duration(entry.seconds),
        "" if entry.step is None else display.count(entry.step),
        "" if loss is None else display.number(loss),
    ]


def _or_else(value: float | None, default: float) -> float:
    return default if value is None or isnan(value) else float(value)
