"""Show where the time went.

Prints tables, or writes a trace for Perfetto, Chrome or the browser.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.commands.shared.arguments import add_run, whole_number
from chiplog.commands.shared.open_run import open_run
from chiplog.core.display import size
from chiplog.core.errors import ChiplogError
from chiplog.core.files.writing import replacing
from chiplog.core.values.convert import double
from chiplog.store import layout
from chiplog.store.reader import Stored
from chiplog.store.runs import find
from chiplog.views.trace import chrome, flame, perfetto, profilers, summary

if TYPE_CHECKING:
    from chiplog.store.spans.spans import Spans

EXAMPLE = "chiplog trace latest -o trace.pftrace"


class BadTrace(ChiplogError, ValueError):
    """A trace cannot be read, or cannot be written as requested."""


def arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("-o", dest="output", metavar="FILE", help="write a trace: .pftrace, .json (Chrome) or .svg")
    parser.add_argument(
        "--summary", action="store_true", help="show the tables too (the default without -o and --against)"
    )
    parser.add_argument("--against", metavar="RUN", help="compare with another run, largest changes first")
    parser.add_argument("--step", type=float, metavar="N", help="the step to show (default: a typical one)")
    parser.add_argument("--rank", type=whole_number, metavar="R", help="only this rank")
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="FILE",
        help="merge a torch.profiler or jax.profiler trace into the .pftrace; repeatable",
    )


def run(args: Namespace) -> int:
    stored = open_run(find.find(args.run, args.root), args)
    if args.output:
        _write(stored, Path(args.output), args)
        if not args.summary and not args.against:
            return 0
    spans = _spans(stored, args.rank)
    if args.against:
        other = _spans(open_run(find.find(args.against, args.root), args), args.rank)
        print(summary.against(spans, other, width=args.screen.room, colour=args.screen.colour))
        if not args.summary:
            return 0
        print()
    _summary(spans, args)
    return 0


def _spans(stored: Stored, rank: int | None) -> Spans:
    _has_rank(stored, rank)
    spans = stored.spans()
    return spans if rank is None else spans.of(rank=rank)


def _has_rank(stored: Stored, rank: int | None) -> None:
    ranks = sorted({segment.rank for segment in layout.segments(stored.path)})
    if rank is not None and rank not in ranks:
        raise BadTrace(f"{stored.id} has no rank {rank}; available: {', '.join(map(str, ranks)) or 'none yet'}")


def _of_step(spans: Spans, step: float | None) -> tuple[float | None, Spans]:
    """The requested step or a typical one, and its spans; all spans if they have no steps."""
    shown = summary.typical_step(spans) if step is None else step
    at_step = spans if shown is None else spans.at(shown)
    if step is not None and not at_step:
        raise BadTrace(f"step {step:g} has no spans; without --step, `chiplog trace` shows a typical step")
    return shown, at_step


def _summary(spans: Spans, args: Namespace) -> None:
    screen = args.screen
    step, of_step = _of_step(spans, args.step)
    print(summary.where(spans, width=screen.room, colour=screen.colour))
    if not of_step:
        return
    of_step = of_step.alone()
    shown = "all" if step is None else f"{double(step):g}"
    title = shown if step is None else f"step {shown}" if args.step is not None else f"a typical step, {shown}"
    picture = flame.draw(
        of_step, width=screen.width, colour=screen.colour, ascii=screen.ascii, whole=screen.room is None
    )
    print(f"\n{title}:\n{picture}")
    print(f"\ncritical path:\n{summary.path(of_step, width=screen.room, colour=screen.colour)}")


def _write(stored: Stored, path: Path, args: Namespace) -> None:
    if not path.absolute().parent.is_dir():
        raise BadTrace(f"cannot write {path.name}: {path.parent} is not a directory")
    _has_rank(stored, args.rank)
    imported = [Path(one) for one in args.add]
    if path.suffix == ".svg":
        step, chosen = _of_step(_spans(stored, args.rank), args.step)
        title = f"{stored.project}/{stored.id}" + ("" if step is None else f", step {double(step):g}")
        with replacing(path) as temporary:
            temporary.write_text(flame.svg(chosen, title=title), encoding="utf-8")
        print(f"{path}: {len(chosen):,} spans")
        return
    if args.step is not None and not args.summary:
        raise BadTrace(
            f"--step {args.step:g} applies to tables and .svg only; leave it out: {path.name} holds all steps"
        )
    if path.name.endswith((".json", ".json.gz")):
        if imported:
            raise BadTrace("--add works with Perfetto traces only: use an output name ending in .pftrace")
        print(f"{path}: {size(chrome.write(stored, path, rank=args.rank))}; open it in ui.perfetto.dev")
        return
    more = profilers.packets(imported, stored)
    print(f"{path}: {size(perfetto.write(stored, path, rank=args.rank, more=more))}; open it in ui.perfetto.dev")
