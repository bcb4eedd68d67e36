"""Samples, in memory and in the store."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from chiplog.core import records
from chiplog.store import layout
from chiplog.store.contents.contents import LIVE, Bounds, Contents
from chiplog.store.contents.table_samples import Sample, SamplePlace, Samples
from chiplog.store.layout import Segment
from chiplog.store.parts import compaction
from tests.views.web import stores

FEW = Bounds(rows=1000, sample_bytes=20_000)


def _run(root: Path) -> Path:
    """A table and texts, a few hundred bytes each."""
    run = stores.make_run(root, "p", "one")
    journal = stores.Journal(run)
    for step in range(200):
        journal.add(records.TextRecord, 1.0, name="said", text=f"text {step} " + "x" * 300, step=step)
        rows = [{"prompt": f"prompt {step} {n}", "reply": "y" * 300} for n in range(2)]
        journal.add(records.Table, 1.0, name="rollouts", rows=rows, step=step)
    journal.finish()
    return run


@pytest.mark.parametrize("compacted", [False, True])
def test_samples_beyond_the_memory_are_read_from_the_store(tmp_path: Path, compacted: bool) -> None:
    """Every one of them has its own cells, whether its segment is compacted or not."""
    run = _run(tmp_path)
    if compacted:
        compaction.compact(run, layout.segments(run)[0])
    contents = Contents(run, bounds=FEW).refresh()
    texts, rows = list(contents.texts["said"]), list(contents.tables["rollouts"])
    assert 0 < sum(one.is_loaded for one in texts) < 100 and 0 < sum(one.is_loaded for one in rows) < 100
    assert [one.cells["text"] for one in contents.load(texts)] == [f"text {n} " + "x" * 300 for n in range(200)]
    prompts = [one.cells["prompt"] for one in contents.load(rows)]
    assert prompts == [f"prompt {step} {n}" for step in range(200) for n in range(2)]
    assert contents.sample_columns["rollouts"] == {"prompt": None, "reply": None}


def test_a_search_sees_what_is_not_in_memory(tmp_path: Path) -> None:
    """And does not bring it there."""
    run = _run(tmp_path)
    compaction.compact(run, layout.segments(run)[0])
    contents = Contents(run, bounds=FEW).refresh()
    chosen = contents.select(list(contents.texts["said"]), lambda one: "text 1" in str(one.cells["text"]))
    assert [one.step for one in chosen] == [1, *range(10, 20), *range(100, 200)]
    assert not chosen[0].is_loaded and chosen[-1].is_loaded


def test_a_part_that_breaks_off_is_replaced_by_the_journal(tmp_path: Path) -> None:
    """No sample is shown twice, and none is missing."""
    run = _run(tmp_path)
    compaction.compact(run, layout.segments(run)[0])
    part = next((run / layout.PARTS).glob("*.rows.parquet"))
    data = bytearray(part.read_bytes())
    data[len(data) // 3] ^= 0xFF
    part.write_bytes(data)
    contents = Contents(run, bounds=FEW).refresh()
    assert contents.sample_counts == {"said": 200, "rollouts": 400}
    assert len(contents.load(list(contents.texts["said"]))) == 200


def test_memory_is_shared_by_all_names() -> None:
    """The largest gives way; the number of rows is limited for each."""
    samples = Samples(rows=50, size=10_000)
    for number in range(100):
        for name, length in (("short", 10), ("long", 1000)):
            at = SamplePlace(Segment(0, 1, 0), number, 0)
            samples.add(name, Sample(number, number, {"text": "x" * length}, at))
    loaded = {name: sum(one.is_loaded for one in kept) for name, kept in samples.by_name.items()}
    assert {len(kept) for kept in samples.by_name.values()} == {50}
    assert 1 <= loaded["long"] <= 8 and loaded["short"] > loaded["long"]


def test_a_look_at_many_samples_takes_little_memory(tmp_path: Path) -> None:
    """32 MB of texts are read, and a few stay."""
    run = stores.make_run(tmp_path, "p", "one")
    journal = stores.Journal(run)
    for step in range(1600):
        journal.add(records.TextRecord, name="said", text=f"{step} " + "x" * 20_000, step=step)
    journal.finish()
    compaction.compact(run, layout.segments(run)[0])
    del journal
    tracemalloc.start()
    try:
        contents = Contents(run, bounds=LIVE).refresh()
        kept = list(contents.texts["said"])
        assert len(contents.select(kept, lambda one: str(one.cells["text"]).startswith("1 "))) == 1
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
