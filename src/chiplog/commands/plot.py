"""Draw series in the terminal."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence

from chiplog.commands.shared.arguments import whole_number
from chiplog.commands.shared.series_names import UnknownSeries, match, some
from chiplog.core import messages
from chiplog.metrics.catalog import is_loss
from chiplog.store.reader import Stored
from chiplog.store.runs import find
from chiplog.views.charts.text_plot import Curve, line_plot
from chiplog.views.x_axis import over

EXAMPLE = "chiplog plot latest 'train/*' --log"
MOST = 12  # curves


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
        help="characters that draw the lines, finest first (default: braille)",
    )
    parser.add_argument("--width", type=whole_number, metavar="N", help="columns (default: the terminal's)")
    parser.add_argument("--height", type=whole_number, metavar="N", help="rows inside the frame (default: up to 20)")


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


def _curves(stored: Stored, patterns: Sequence[str], *, several: bool, x: str) -> list[Curve]:
    names = stored.names()
    wanted = match(patterns, names) if patterns else _losses(stored, names)
    label = f"{stored.name}: " if several else ""
    series = [stored.series(name) for name in wanted]
    return [(f"{label}{one.name}", over(stored, one, x), one.values) for one in series]


def _losses(stored: Stored, names: Sequence[str]) -> list[str]:
    losses = list(filter(is_loss, names))
    if not losses:
        raise UnknownSeries(f"run {stored.id} has no loss; name a series: {some(names) or 'it has none'}")
    return losses


def _title(runs: Sequence[Stored], curves: Sequence[Curve]) -> str:
    which = ", ".join(f"{stored.project}/{stored.id}" for stored in runs)
    return f"{which}  {curves[0][0]}" if len(curves) == 1 and len(runs) == 1 else which


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 up to, but not including, 1")
    return weight
