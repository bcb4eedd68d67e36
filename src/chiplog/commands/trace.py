"""`chiplog trace`: where the time of a run went, and its trace as a file for Perfetto."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.core.display import size
from chiplog.core.errors import ChiplogError
from chiplog.store import layout
from chiplog.store.reader import Stored
from chiplog.store.runs import find
from chiplog.views.trace import flame, summary

if TYPE_CHECKING:
    from chiplog.store.spans.spans import Spans


class BadTrace(ChiplogError, ValueError):
    """A trace cannot be read, or cannot be written as requested."""


def run(args: Namespace) -> int:
    stored = Stored(find.find(args.run, args.root))
    if args.output:
        _write(stored, Path(args.output), args)
        if not args.summary and not args.against:
            return 0
    spans = _chosen(stored, args.rank)
    if args.against:
        other = _chosen(Stored(find.find(args.against, args.root)), args.rank)
        print(summary.against(spans, other, width=args.screen.width, colour=args.screen.colour))
        if not args.summary:
            return 0
        print()
    _summary(spans, args)
    return 0


def _chosen(stored: Stored, rank: int | None) -> Spans:
    _has_rank(stored, rank)
    spans = stored.spans()
    return spans if rank is None else spans.of(rank=rank)


def _has_rank(stored: Stored, rank: int | None) -> None:
    there = sorted({segment.rank for segment in layout.segments(stored.path)})
    if rank is not None and rank not in there:
        raise BadTrace(f"{stored.id} has no rank {rank}; there are: {', '.join(map(str, there)) or 'none yet'}")


def _of_step(spans: Spans, step: float | None) -> tuple[float | None, Spans]:
    """The requested step or a typical one, and its spans; all spans if they have no steps."""
    shown = summary.typical_step(spans) if step is None else step
    found = spans if shown is None else spans.at(shown)
    if step is not None and not found:
        raise BadTrace(f"step {step:g} has no spans; without --step, `chiplog trace` shows a typical step")
    return shown, found


def _summary(spans: Spans, args: Namespace) -> None:
    screen = args.screen
    step, of_step = _of_step(spans, args.step)
    print(summary.where(spans, width=screen.width, colour=screen.colour))
    if not of_step:
        return
    of_step = of_step.alone()
    said = f"step {step:g}" if args.step is not None else f"a typical step, {step:g}" if step is not None else "all"
    print(f"\n{said}:\n{flame.draw(of_step, width=screen.width, colour=screen.colour, ascii=screen.ascii)}")
    print(f"\ncritical path:\n{summary.path(of_step, width=screen.width, colour=screen.colour)}")


def _write(stored: Stored, path: Path, args: Namespace) -> None:
    if not path.absolute().parent.is_dir():
        raise BadTrace(f"cannot write {path.name}: {path.parent} is not a directory")
    _has_rank(stored, args.rank)
    imported = [Path(one) for one in args.add]
    if path.suffix == ".svg":
        step, chosen = _of_step(_chosen(stored, args.rank), args.step)
        said = f"{stored.project}/{stored.id}" + ("" if step is None else f", step {step:g}")
        path.write_text(flame.svg(chosen, title=said), encoding="utf-8")
        print(f"{path}: {len(chosen):,} spans")
        return
    if args.step is not None and not args.summary:
        raise BadTrace(
            f"--step {args.step:g} applies to tables and .svg only; leave it out: {path.name} holds all steps"
        )
    if path.name.endswith((".json", ".json.gz")):
        from chiplog.views.trace import chrome

        if imported:
            raise BadTrace("--add works with Perfetto traces only: use an output name ending in .pftrace")
        print(f"{path}: {size(chrome.write(stored, path, rank=args.rank))}; open it in ui.perfetto.dev")
        return
    from chiplog.views.trace import perfetto, profilers

    more = profilers.packets(imported, stored)
    print(f"{path}: {size(perfetto.write(stored, path, rank=args.rank, more=more))}; open it in ui.perfetto.dev")
