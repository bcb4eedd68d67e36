"""Show the runs in the terminal, live."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from chiplog.core.errors import BadSetting
from chiplog.core.paths import cache_dir
from chiplog.store.runs import find
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.tui.navigation import TABS
from chiplog.views.tui.terminal import watch

if TYPE_CHECKING:
    from chiplog.views.tui.app import App

CUT = "…"
WIDEST = 600  # columns of a frame in a pipe, which is as wide as its longest text
EXAMPLE = "chiplog watch latest"


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run to show (default: the list of runs)")
    parser.add_argument("--panel", default="charts", choices=TABS, help="panel to start with (default: charts)")
    parser.add_argument("--once", action="store_true", help="print one frame and exit")


def run(args: Namespace) -> int:
    from chiplog.views.tui import app, panels  # need numpy, which the help does without

    screen = args.screen
    summaries = SummaryCache(args.root, cache_dir(args.environ), args.more_roots)
    summaries.refresh()
    style = panels.Style(screen.colour, screen.ascii)
    shown = app.App(summaries, style, _key(args, summaries), args.panel)
    if args.once:
        frame = _frame(shown, screen.width, screen.height)
        for width in range(screen.width + 20, WIDEST, 40) if screen.room is None else ():
            if CUT not in frame:
                break
            frame = _frame(shown, width, screen.height)
        print(frame)
        return 0
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadSetting("`chiplog watch` needs a terminal; --once prints one frame and exits")
    watch(shown)
    summaries.save()
    return 0


def _frame(shown: App, width: int, height: int) -> str:
    return "\n".join(line.rstrip() for line in shown.render(width, height)[:-1]).rstrip()


def _key(args: Namespace, summaries: SummaryCache) -> str | None:
    """The requested run; None for the list of runs."""
    if args.run is None:
        return None
    path = find.find(args.run, args.root).resolve()
    key = next((one.key for one in summaries.entries() if (args.root / one.place).resolve() == path), None)
    if key is None:
        raise BadSetting(f"{path} is not under {args.root}; name the directory of the runs with --dir")
    return key
