"""Draw series in the terminal."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.commands.shared.arguments import whole_number
from chiplog.commands.shared.open_run import open_run
from chiplog.commands.shared.series_names import match
from chiplog.core import messages
from chiplog.core.errors import RunNotFound, UnknownSeries
from chiplog.core.suggestions import did_you_mean, some
from chiplog.metrics.catalog import is_loss
from chiplog.store.reader import Stored
from chiplog.store.runs import find
from chiplog.views.run_labels import labels

if TYPE_CHECKING:
    from chiplog.views.charts.text_plot import Curve

EXAMPLE = "chiplog plot latest 'train/*' --log"
MOST = 12  # curves
LONGEST = 10_000  # characters of a title, where nothing must fit


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", default="latest", metavar="RUN[,RUN...]", help="one or several runs (default: latest)"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a series or a pattern (default: the losses)")
    parser.add_argument("--log", action="store_true", help="use a logarithmic scale")
    parser.add_argument("--smooth", type=_weight, metavar="W", help="smoothing weight between 0 and 1, such as 0.9")
    parser.add_argument("--x", default="step", metavar="X", help="step, tokens, time or another series (default: step)")
    parser.add_argument(
        "--marker",
        default="braille",
        choices=("braille", "fhd", "hd"),
        help="marker style, finest first (default: braille)",
    )
    parser.add_argument("--width", type=whole_number, metavar="N", help="columns (default: the terminal's)")
    parser.add_argument("--height", type=whole_number, metavar="N", help="rows inside the frame (default: up to 20)")


def run(args: Namespace) -> int:
    from chiplog.views.charts import text_panels, text_plot  # need numpy, which the help does without

    runs, patterns = _chosen(args)
    drawn = [
        one
        for stored, label in zip(runs, labels(runs), strict=True)
        for one in _curves(stored, label, patterns, args.x)
    ]
    if len(runs) == 1:  # its name is in the title
        drawn = [(name, (name, *curve[1:])) for name, curve in drawn]
    if len(drawn) > MOST:
        messages.say(f"{len(drawn)} series match; the first {MOST} are drawn")
    drawn = drawn[:MOST]
    groups = text_panels.panels([curve for _, curve in drawn], [name for name, _ in drawn], log=args.log)
    screen = args.screen

    def draw(curves: Sequence[Curve], height: int) -> str:
        return text_plot.line_plot(
            curves,
            width=args.width or screen.width,
            height=height,
            log=args.log,
            title=_title(runs, curves),
            text_width=LONGEST if screen.room is None else None,
            colour=screen.colour,
            ascii=screen.ascii,
            smooth=args.smooth,
            marker=args.marker,
            x_label={"time": "seconds"}.get(args.x, args.x),
        )

    print(text_panels.stacked(groups, args.height or max(5, min(20, screen.height - 8)), draw))
    return 0


def _chosen(args: Namespace) -> tuple[list[Stored], list[str]]:
    """The runs, and the names to draw; a first word that names no run but a series is one of the names."""
    words = [word.strip() for word in args.run.split(",") if word.strip()]
    try:
        return [open_run(path, args) for path in find.select(words, args.root)], args.names
    except RunNotFound as unknown:
        try:
            latest = open_run(find.find(find.LATEST, args.root), args)
        except RunNotFound:
            raise unknown from None
        names = latest.names()
        try:
            match([args.run], names)
        except UnknownSeries:
            hint = did_you_mean(args.run, [*names, *(name.rpartition("/")[2] for name in names)], 1)
            raise RunNotFound(
                f"{unknown}; if you meant a series of the newest run, {hint.strip()}" if hint else str(unknown)
            ) from None
        words = [args.run, *args.names]
        if words[-1] not in names and len(words) > 1 and _is_run(words[-1], args.root):
            order = " ".join([words[-1], *words[:-1]])
            raise RunNotFound(f"the run comes first: chiplog plot {order}") from None
        return [latest], words


def _is_run(text: str, root: Path) -> bool:
    try:
        return bool(find.select([text], root))
    except RunNotFound:
        return False


def _curves(stored: Stored, label: str, patterns: Sequence[str], x: str) -> list[tuple[str, Curve]]:
    """The curves of a run, each with the name of its series."""
    from chiplog.views.x_axis import over

    names = stored.names()
    wanted = match(patterns, names) if patterns else _losses(stored, names)
    series = [stored.series(name) for name in wanted]
    return [(one.name, (f"{label}: {one.name}", over(stored, one, x), one.values)) for one in series]


def _losses(stored: Stored, names: Sequence[str]) -> list[str]:
    losses = list(filter(is_loss, names))
    if not losses:
        raise UnknownSeries(
            f"run {stored.id} has no loss series; pass the name of a series; available: {some(names) or 'none'}"
        )
    return losses


def _title(runs: Sequence[Stored], curves: Sequence[Curve]) -> str:
    if len(runs) > 1:  # the legend has their names
        projects = ", ".join(dict.fromkeys(stored.project for stored in runs))
        return f"{projects}: {len(runs)} runs"
    which = f"{runs[0].project}/{runs[0].id}"
    return f"{which}  {curves[0][0]}" if len(curves) == 1 else which


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 up to, but not including, 1")
    return weight
