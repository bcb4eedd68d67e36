"""Writing parts."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core import records
from chiplog.store.layout import Segment
from chiplog.store.parts import writer
from chiplog.store.parts.format import KINDS, PartInfo, file_of
from chiplog.store.parts.part import load
from chiplog.store.points import columns
from chiplog.store.spans.columns import SpanColumns as SpanColumns
from tests.store.parts.compacting import compact_all


def test_names_small_and_large_are_found_in_their_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names share a row group until they have enough points for one of their own."""
    monkeypatch.setattr(writer, "OWN_GROUP", 64)
    monkeypatch.setattr(writer, "GROUP", 100)
    monkeypatch.setattr(writer, "SHARED", 40)
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        for step in range(250):
            run.log({"big": step, **({f"small/{step}": step} if step < 90 else {})}, step=step)
    compact_all(run.dir)
    stored = chiplog.read(run.dir)
    assert stored.series("big").values.tolist() == list(range(250))
    for step in range(90):
        assert stored.series(f"small/{step}").values.tolist() == [step]
    assert len(stored.series("none such", missing_ok=True)) == 0


def test_exact_is_written_only_where_a_double_is_not_enough() -> None:
    """Ordinary integers and floats need no text."""
    assert [columns.exact_text(value) for value in (1, 0.1, 2**53, 2**53 + 1, True)] == [
        None,
        None,
        None,
        str(2**53 + 1),
        "true",
    ]


def test_a_part_is_written_of_columns(tmp_path: Path) -> None:
    """Without a journal: series, records and spans; what is there already stays."""
    segment, points = Segment(0, 1, 0), columns.Columns()
    row = records.Step(1, 20, 3, {"loss": 0.5})
    points.feed(row)
    finish = records.Finish(2, 30, "finished")
    for covers in (100, 200):
        about = PartInfo(segment.stem, covers, 2, 20, 30, 2)
        writer.write(tmp_path / "parts", segment, about, points=points, rows=[finish], spans=SpanColumns())
    part = load(tmp_path, segment)
    assert part is not None and part.about.covers == 100 and list(part.about.names) == ["loss"]
    assert part.column("loss").values.tolist() == [0.5] and part.rows() == [finish] and not part.has_spans
    assert sorted(file_of(tmp_path / "parts", segment, kind) for kind in KINDS) == sorted(
        (tmp_path / "parts").iterdir()
    )
