"""`chiplog trace`: where the time of a run went, and its trace as a file for Perfetto."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from chiplog.core.errors import ChiplogError
from chiplog.store import index
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
    spans = _chosen(stored, args)
    if args.against:
        other = _chosen(Stored(index.find(args.against, args.root)), args)
        print(trace.against(spans, other, width=args.screen.width, colour=args.screen.colour))
        if not args.summary:
            return 0
        print()
    _summary(spans, args)
    return 0


def _chosen(stored: Stored, args: Namespace) -> Spans:
    spans = stored.spans()
    return spans if args.rank is None else spans.of(rank=args.rank)


def _summary(spans: Spans, args: Namespace) -> None:
    screen = args.screen
    print(trace.where(spans, width=screen.width, colour=screen.colour))
    step = args.step if args.step is not None else trace.typical_step(spans)
    of_step = Spans(spans.at(step)) if step is not None else spans
    if not of_step:
        if args.step is not None:
            raise BadTrace(f"no spans of step {args.step:g}; `chiplog trace` without --step takes a typical one")
        return
    said = f"step {step:g}" if args.step is not None else f"a typical step, {step:g}" if step is not None else "all"
    print(f"\n{said}:\n{flame.draw(of_step, width=screen.width, colour=screen.colour, ascii=screen.ascii)}")
    print(f"\ncritical path:\n{trace.path(of_step, width=screen.width, colour=screen.colour)}")


def _write(stored: Stored, path: Path, args: Namespace) -> None:
    imported = [Path(one) for one in args.add]
    if path.suffix == ".svg":
        spans = _chosen(stored, args)
        step = args.step if args.step is not None else trace.typical_step(spans)
        chosen = spans if step is None else spans.at(step)
        said = f"{stored.project}/{stored.id}" + ("" if step is None else f", step {step:g}")
        path.write_text(flame.svg(chosen, title=said), encoding="utf-8")
        print(f"{path}: {len(chosen):,} spans")
        return
    if path.name.endswith((".json", ".json.gz")):
        from chiplog.views import chrome

        if imported:
            raise BadTrace("--add is for Perfetto traces; give the output another name than .json")
        print(f"{path}: {size(chrome.write(stored, path, rank=args.rank))}; open it in ui.perfetto.dev")
        return
    from chiplog.views import imports, perfetto

    more = imports.packets(imported, stored)
    print(f"{path}: {size(perfetto.write(stored, path, rank=args.rank, more=more))}; open it in ui.perfetto.dev")
