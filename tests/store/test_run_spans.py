"""Loading the spans of a run."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.store import layout, run_spans
from chiplog.store.parts.compaction import compact


def test_spans_are_the_same_from_parts_and_tails(tmp_path: Path) -> None:
    """By their start."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        for name in ("load", "train"):
            with run.span(name):
                pass
    tails = [(one.name, one.start, one.duration) for one in run_spans.load(run.dir)]
    assert [name for name, _, _ in tails] == ["load", "train"]
    for segment in layout.segments(run.dir):
        compact(run.dir, segment)
    assert [(one.name, one.start, one.duration) for one in run_spans.load(run.dir)] == tails
