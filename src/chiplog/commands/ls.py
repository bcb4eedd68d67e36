"""List the runs, newest last."""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from chiplog.commands.shared.arguments import whole_number, words
from chiplog.commands.shared.cache_dir import cache_dir
from chiplog.core import display
from chiplog.core.display import STATES
from chiplog.core.errors import RunNotFound
from chiplog.metrics.catalog import pick_loss
from chiplog.store.runs import find, manifest
from chiplog.store.runs.catalog import Catalog
from chiplog.store.runs.run_values import Keys, RunValues
from chiplog.store.runs.where import FIELDS, Value, Where
from chiplog.views.strict_json import pretty
from chiplog.views.table import Cell, table

EXAMPLE = "chiplog ls tiny-lm --where 'lr>0.001 and state=finished' --sort eval/loss"
COLUMNS = ("project", "id", "name", "state", "started", "ran", "step", "loss")
TEXTS = ("project", "id", "name", "state", "started", "tag")  # on the left; numbers are on the right


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "projects", nargs="*", metavar="PROJECT", help="only the runs of this project, or a pattern of runs"
    )
    parser.add_argument("-n", "--last", dest="last", type=whole_number, metavar="N", help="only the newest N")
    parser.add_argument(
        "--where", default="", metavar="QUERY", help="only runs like 'lr>0.001 and state=finished or tag=x'"
    )
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help="only runs with this tag; repeatable")
    parser.add_argument("--sort", metavar="KEY", help="by a setting, metric or column, smallest first; see --reverse")
    parser.add_argument("--reverse", action="store_true", help="turn the order around")
    parser.add_argument(
        "--columns", type=words, metavar="KEYS", help="settings, metrics and columns to show, such as lr,eval/loss"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with config and metrics")


def run(args: Namespace) -> int:
    if args.dir is not None and not args.root.is_dir():
        raise RunNotFound(f"no directory {str(args.root)!r}; use the one given to chiplog.init(dir=...)")
    everything = _everything(args)
    keys, query = Keys(everything), Where(args.where)
    named = [*query.keys, *([args.sort] if args.sort else []), *(args.columns or [])]
    keys.check(named)
    runs = [one for one in everything if query(lambda key, one=one: keys.value(one, key))]  # type: ignore[misc]
    runs = [one for one in runs if all(tag in one.entry.tags for tag in args.tag)]
    if args.last is not None:
        runs = runs[max(0, len(runs) - args.last) :]
    if args.sort:
        runs = _sorted(runs, keys, args.sort)
    if args.reverse:
        runs.reverse()
    if args.json:
        print(pretty([_data(one) for one in runs]))
    elif runs:
        added = [key for key in dict.fromkeys(named) if key not in COLUMNS]
        columns = ["id", "name", *args.columns] if args.columns else [*COLUMNS, *added]
        print(_table(runs, keys, list(dict.fromkeys(columns)), args))
    elif everything:
        print(f"none of {len(everything):,} runs matches; `chiplog ls` lists them all")
    else:
        print(f"no runs under {args.root}; `chiplog demo` makes one, --dir names another directory")
    return 0


def _everything(args: Namespace) -> list[RunValues]:
    """The runs of the named projects, or all, oldest first."""
    catalog = Catalog(args.root, cache_dir(args.environ))
    catalog.refresh()
    catalog.save()
    runs = [RunValues(args.root / entry.place, entry) for entry in catalog.entries()]
    if args.projects:
        chosen = {path.resolve() for text in args.projects for path in _of_project(text, args.root)}
        runs = [one for one in runs if one.path.resolve() in chosen]
    return sorted(runs, key=lambda one: (one.entry.started, one.entry.id))


def _of_project(text: str, root: Path) -> list[Path]:
    try:
        return find.paths(root, text)
    except RunNotFound as unknown:
        try:
            return find.select([text], root)
        except RunNotFound:
            raise unknown from None


def _sorted(runs: Sequence[RunValues], keys: Keys, key: str) -> list[RunValues]:
    """By a value: numbers, then texts; runs that do not have it are last."""

    def rank(run: RunValues) -> tuple[int, float, str]:
        value = keys.value(run, key)
        if value is None:
            return 2, 0.0, ""
        if isinstance(value, (int, float)) and not math.isnan(value):
            return 0, float(value), ""
        return 1, 0.0, str(value)

    return sorted(runs, key=rank)


def _data(run: RunValues) -> dict[str, object]:
    entry = run.entry
    return {
        "project": entry.project,
        "id": entry.id,
        "name": entry.name,
        "state": entry.state,
        "started": entry.started,
        "seconds": entry.seconds,
        "step": entry.step,
        "loss": pick_loss(entry.values),
        "tags": entry.tags,
        "config": manifest.load(run.path).config,
        "metrics": run.metrics,
        "path": str(run.path),
    }


def _table(runs: Sequence[RunValues], keys: Keys, columns: Sequence[str], args: Namespace) -> str:
    now = time.time_ns()
    rows = [[_cell(one, key, keys, now) for key in columns] for one in runs]
    shown = [[keys.value(one, key) for one in runs] for key in columns]
    right = [
        key
        for key, values in zip(columns, shown, strict=True)
        if key not in TEXTS and not any(isinstance(value, str) for value in values)
    ]
    return table(columns, rows, width=args.screen.room, right=right, whole=("id",), colour=args.screen.colour)


def _cell(run: RunValues, key: str, keys: Keys, now: int) -> str | Cell:
    entry, value = run.entry, keys.value(run, key)
    if key in FIELDS:
        shown: dict[str, str | Cell] = {
            "name": entry.name if entry.name != entry.id else "",
            "state": Cell(entry.state, STATES.get(entry.state, "")),
            "started": display.ago(entry.started, now) if entry.started else "",
            "ran": display.duration(entry.seconds),
            "age": display.duration(max(0, now - entry.started) / 1e9),
            "step": "" if entry.step is None else display.count(entry.step),
            "tag": ", ".join(entry.tags),
        }
        if key in shown:
            return shown[key]
    return _text(value)


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return display.number(value) if isinstance(value, (int, float)) else str(value)
