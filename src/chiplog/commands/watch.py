"""`chiplog watch`: the runs of a directory in the terminal, live."""

from __future__ import annotations

import sys
from argparse import Namespace

from chiplog.commands.ui import cache_dir
from chiplog.core.errors import BadSetting
from chiplog.store.runs import find
from chiplog.store.runs.catalog import Catalog
from chiplog.views.charts.browser_series import use_plain_memory
from chiplog.views.tui.app import App
from chiplog.views.tui.panels import Style


def run(args: Namespace) -> int:
    screen = args.screen
    use_plain_memory()
    catalog = Catalog(args.root, cache_dir(args.environ))
    catalog.refresh()
    board = App(catalog, Style(screen.colour, screen.ascii), _key(args, catalog))
    board.tab = args.panel
    if args.once:
        print("\n".join(line.rstrip() for line in board.render(screen.width, screen.height)[:-1]).rstrip())
        return 0
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadSetting("`chiplog watch` needs a terminal; --once prints one frame and exits")
    from chiplog.views.tui.terminal import watch

    watch(board)
    catalog.save()
    return 0


def _key(args: Namespace, catalog: Catalog) -> str | None:
    """The requested run; None for the list of runs."""
    if args.run is None:
        return None
    wanted = find.find(args.run, args.root).resolve()
    found = next((one.key for one in catalog.entries() if (args.root / one.place).resolve() == wanted), None)
    if found is None:
        raise BadSetting(f"{wanted} is not under {args.root}; name the directory of the runs with --dir")
    return found
