"""`chiplog plot`: curves in the terminal."""

from __future__ import annotations

import difflib
from argparse import Namespace
from collections.abc import Sequence
from fnmatch import fnmatchcase

from chiplog.core import messages
from chiplog.core.errors import ChiplogError
from chiplog.metrics.catalog import is_loss
from chiplog.store.reader import Stored
from chiplog.store.runs import find
from chiplog.views.charts.text_plot import Curve, line_plot
from chiplog.views.x_axis import over

MOST = 12  # curves


class UnknownSeries(ChiplogError, KeyError):
    """No series has this name."""

    __str__ = Exception.__str__


def run(args: Namespace) -> int:
    runs = [Stored(find.find(which.strip(), args.root)) for which in args.run.split(",") if which.strip()]
    curves = [curve for stored in runs for curve in _curves(stored, args.names, several=len(runs) > 1, x=args.x)]
    if len(curves) > MOST:
        messages.say(f"{len(curves)} series match; the first {MOST} are drawn")
    screen = args.screen
    print(
        line_plot(
            curves[:MOST],
            width=args.width or screen.width,
            height=args.height or max(5, min(20, screen.height - 8)),
            log=args.log,
            title=_title(runs, curves),
            colour=screen.colour,
            ascii=screen.ascii,
            smooth=args.smooth,
            marker=args.marker,
            x_label={"time": "seconds"}.get(args.x, args.x),
        )
    )
    return 0


def match(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The matching names, each once; a pattern without a match is an error that lists similar names."""
    found: dict[str, None] = {}
    for pattern in patterns:
        matching = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise UnknownSeries(_unknown(pattern, names))
        found.update(dict.fromkeys(matching))
    return list(found)


def _curves(stored: Stored, patterns: Sequence[str], *, several: bool, x: str) -> list[Curve]:
    names = stored.names()
    wanted = match(patterns, names) if patterns else _losses(stored, names)
    label = f"{stored.name}: " if several else ""
    series = [stored.series(name) for name in wanted]
    return [(f"{label}{one.name}", over(stored, one, x), one.values) for one in series]


def _losses(stored: Stored, names: Sequence[str]) -> list[str]:
    losses = list(filter(is_loss, names))
    if not losses:
        raise UnknownSeries(f"run {stored.id} has no loss; name a series: {_some(names) or 'it has none'}")
    return losses


def _unknown(pattern: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(pattern, names, 3) or [name for name in names if pattern.lower() in name.lower()]
    hint = f"did you mean {' or '.join(map(repr, near[:3]))}? " if near else ""
    return f"no series {pattern!r}; {hint}there are: {_some(names) or 'none'}"


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _title(runs: Sequence[Stored], curves: Sequence[Curve]) -> str:
    which = ", ".join(f"{stored.project}/{stored.id}" for stored in runs)
    return f"{which}  {curves[0][0]}" if len(curves) == 1 and len(runs) == 1 else which
