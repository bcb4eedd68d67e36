"""List the runs, newest last."""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from chiplog.commands.shared.arguments import whole_number, words
from chiplog.core import display
from chiplog.core.display import STATES
from chiplog.core.errors import RunNotFound
from chiplog.core.messages import clean
from chiplog.core.paths import cache_dir
from chiplog.core.suggestions import did_you_mean
from chiplog.metrics.catalog import pick_loss
from chiplog.store import manifest
from chiplog.store.runs import find
from chiplog.store.runs.query import SEARCHED, Query, Value
from chiplog.store.runs.run_values import Keys, RunValues
from chiplog.store.runs.summary_cache import Entry, SummaryCache
from chiplog.views.strict_json import pretty
from chiplog.views.table import Cell, table

EXAMPLE = "chiplog ls tiny-lm --where 'lr>0.001 and state=finished' --sort eval/loss"
# A new field is an entry in `FIELDS` of store/runs/query.py, and in `RunValues.field` of store/runs/run_values.py.
COLUMNS = ("project", "id", "name", "state", "started", "ran", "step", "loss")
SHOWN = ("name", "state", "started", "ran", "age", "step", "tag")  # fields that are shown in words
TEXTS = ("project", "id", "name", "state", "started", "tag", "tags")  # on the left; numbers are on the right


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "projects", nargs="*", metavar="PROJECT", help="only the runs of this project, or a pattern of runs"
    )
    parser.add_argument("-n", "--last", dest="last", type=whole_number, metavar="N", help="only the newest N")
    parser.add_argument(
        "--where",
        default="",
        metavar="QUERY",
        help="only runs that match, such as 'lr>0.001 and state=finished or tag=x'",
    )
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help="only runs with this tag; repeatable")
    parser.add_argument(
        "--sort",
        metavar="KEY",
        help="sort by a setting, metric or column, smallest first; -KEY or --reverse: largest first",
    )
    parser.add_argument("--reverse", action="store_true", help="reverse the order")
    parser.add_argument(
        "--columns", type=words, metavar="KEYS", help="settings, metrics and columns to show, such as lr,eval/loss"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with config and metrics")


def run(args: Namespace) -> int:
    if args.dir is not None and not args.root.is_dir():
        raise RunNotFound(f"no directory {str(args.root)!r}; use the one given to chiplog.init(dir=...)")
    everything = _everything(args)
    keys, query = Keys(everything), Query(args.where)
    if args.sort and args.sort.startswith("-"):  # as in W&B
        args.sort, args.reverse = args.sort[1:], not args.reverse
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
        for one in runs:
            if one.entry.trouble:
                print(clean(f"! {one.entry.place} cannot be read: {one.entry.trouble}"))
    elif everything:
        print(
            f"none of {display.counted(len(everything), 'run')} match{'es' * (len(everything) == 1)}; "
            f"{_hint(everything, query, args.tag)}`chiplog ls` lists them all"
        )
    else:
        where = ", ".join(args.projects) or args.root
        print(f"no runs under {where}; `chiplog demo` makes one, --dir chooses another directory")
    return 0


def _hint(runs: Sequence[RunValues], query: Query, tags: Sequence[str]) -> str:
    """What a value of a query may have meant, if no run has it."""
    for key, wanted in (*query.wanted, *(("tag", tag) for tag in tags)):
        if key in SEARCHED:
            fields = [run.field(key) for run in runs]
            values = {str(one) for value in fields for one in (value if isinstance(value, list) else (value,))}
            if key == "state":
                values.update(STATES)
            if wanted not in values and (hint := did_you_mean(wanted, sorted(values), 1)):
                return f"{key}={wanted}: {hint}"
    return ""


def _everything(args: Namespace) -> list[RunValues]:
    """The runs of the named projects, or all, oldest first."""
    elsewhere = [path for text in args.projects if (path := find.directory_of_runs(text, args.root)) is not None]
    summaries = SummaryCache(args.root, cache_dir(args.environ), [*args.more_roots, *elsewhere])
    summaries.refresh()
    summaries.save()
    runs = [RunValues(args.root / entry.place, entry) for entry in summaries.entries()]
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
    entry, metrics = run.entry, run.metrics  # reading them may find that the run is damaged
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
        "metrics": metrics,
        "path": str(run.path),
        **({"reason": entry.reason} if entry.reason else {}),
        **({"trouble": entry.trouble} if entry.trouble else {}),
    }


def _table(runs: Sequence[RunValues], keys: Keys, columns: Sequence[str], args: Namespace) -> str:
    now = time.time_ns()
    cells = [_column(runs, key, keys, now) for key in columns]
    right = [key for key in columns if key not in TEXTS and (key in SHOWN or not _has_text(runs, key, keys))]
    rows = list(zip(*cells, strict=True))
    return table(columns, rows, width=args.screen.room, right=right, whole=("id",), colour=args.screen.colour)


def _has_text(runs: Sequence[RunValues], key: str, keys: Keys) -> bool:
    return any(isinstance(keys.value(one, key), str) for one in runs)


def _column(runs: Sequence[RunValues], key: str, keys: Keys, now: int) -> Sequence[str | Cell]:
    """The cells of a column, one per run: there may be thousands."""
    entries = [one.entry for one in runs]
    if key == "name":
        return [one.name if one.name != one.id else "" for one in entries]
    if key == "state":
        return [Cell(_state(one), STATES.get(one.state, "")) for one in entries]
    if key == "started":
        return [display.ago(one.started, now) if one.started else "" for one in entries]
    if key == "ran":
        return ["" if one.reason else display.duration(one.seconds) for one in entries]
    if key == "age":
        return [display.duration(max(0, now - one.started) / 1e9) for one in entries]
    if key == "step":
        return ["" if one.step is None else display.count(one.step) for one in entries]
    if key == "tag":
        return [", ".join(one.tags) for one in entries]
    return [_text(keys.value(one, key)) for one in runs]


def _state(entry: Entry) -> str:
    return f"not readable: {entry.reason}" if entry.reason else entry.state


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(value)
    return display.number(value) if isinstance(value, (int, float)) else str(value)
