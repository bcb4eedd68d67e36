"""`chiplog trace`: where the time of a run went, and its trace as a file for Perfetto."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from chiplog.core.errors import ChiplogError
from chiplog.store import index, layout
from chiplog.store.reader import Stored
from chiplog.store.spans import Spans
from chiplog.views import flame, trace
from chiplog.views.units import size


class BadTrace(ChiplogError, ValueError):
    """A trace that cannot be written or read so."""


def run(args: Namespace) -> int:
    stored = Stored(index.find(args.run, args.root))
    if args.output:
        _write(stored, Path(args.output), args)
        if not args.summary and not args.against:
            return 0
    spans = _chosen(stored, args.rank)
    if args.against:
        other = _chosen(Stored(index.find(args.against, args.root)), args.rank)
        print(trace.against(spans, other, width=args.screen.width, colour=args.screen.colour))
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
    """The step that is asked for, or a typical one, and its spans; all of them where they have no steps."""
    shown = trace.typical_step(spans) if step is None else step
    found = spans if shown is None else spans.at(shown)
    if step is not None and not found:
        raise BadTrace(f"no spans of step {step:g}; `chiplog trace` without --step takes a typical one")
    return shown, found


def _summary(spans: Spans, args: Namespace) -> None:
    screen = args.screen
    step, of_step = _of_step(spans, args.step)
    print(trace.where(spans, width=screen.width, colour=screen.colour))
    if not of_step:
        return
    of_step = Spans(of_step)  # as if nothing lay around them
    said = f"step {step:g}" if args.step is not None else f"a typical step, {step:g}" if step is not None else "all"
    print(f"\n{said}:\n{flame.draw(of_step, width=screen.width, colour=screen.colour, ascii=screen.ascii)}")
    print(f"\ncritical path:\n{trace.path(of_step, width=screen.width, colour=screen.colour)}")


def _write(stored: Stored, path: Path, args: Namespace) -> None:
    if not path.absolute().parent.is_dir():
        raise BadTrace(f"{path.parent} is no directory to write {path.name} to")
    _has_rank(stored, args.rank)
    imported = [Path(one) for one in args.add]
    if path.suffix == ".svg":
        step, chosen = _of_step(_chosen(stored, args.rank), args.step)
        said = f"{stored.project}/{stored.id}" + ("" if step is None else f", step {step:g}")
        path.write_text(flame.svg(chosen, title=said), encoding="utf-8")
        print(f"{path}: {len(chosen):,} spans")
        return
    if args.step is not None and not args.summary:
        raise BadTrace(f"--step {args.step:g} is for tables and pictures (.svg); {path.name} would hold all steps")
    if path.name.endswith((".json", ".json.gz")):
        from chiplog.views import chrome

        if imported:
            raise BadTrace("--add is for Perfetto traces; give the output another name than .json")
        print(f"{path}: {size(chrome.write(stored, path, rank=args.rank))}; open it in ui.perfetto.dev")
        return
    from chiplog.views import imports, perfetto

    more = imports.packets(imported, stored)
    print(f"{path}: {size(perfetto.write(stored, path, rank=args.rank, more=more))}; open it in ui.perfetto.dev")
