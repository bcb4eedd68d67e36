"""Parts: a compacted run says the same as its journal."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np

import chiplog
from chiplog.store import layout
from chiplog.store.parts import compaction
from tests.store.parts.compacting import compact_all

VALUES = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 2**70, -(2**63), 2**53 + 1, True, False, 0.1, 7]


def test_every_value_is_the_same_from_parquet_as_from_the_journal(tmp_path: Path) -> None:
    """NaN, infinities, -0.0, subnormals, long integers and booleans round-trip exactly."""
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        for number, value in enumerate(VALUES):
            run.log({"x": value}, step=number)
    live = chiplog.read(run.dir).series("x").exact
    assert compact_all(run.dir) == 1
    packed = chiplog.read(run.dir).series("x").exact
    assert repr(live) == repr(packed)
    for got, value in zip(packed, VALUES, strict=True):
        assert got == value or (got != got and value != value)
        assert math.copysign(1, got) == math.copysign(1, value) or value != value
        assert isinstance(got, bool) == isinstance(value, bool)


def test_steps_of_any_kind_survive(tmp_path: Path) -> None:
    """Repeated, going back, negative and fractional steps are kept, in the order they came."""
    steps = [3, 3, 1, -5, 0.5, 10]
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        for number, step in enumerate(steps):
            run.log({"x": number}, step=step)
    compact_all(run.dir)
    series = chiplog.read(run.dir).series("x")
    assert series.steps.tolist() == steps and series.values.tolist() == list(range(6))


def test_a_part_and_the_tail_beyond_it_are_one(tmp_path: Path) -> None:
    """A segment may be compacted at any time; what comes later is read from the journal."""
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    for step in range(100):
        run.log({"x": step, "y": -step}, step=step)
    compact_all(run.dir)
    for step in range(100, 150):
        run.log({"x": step}, step=step)
    stored = chiplog.read(run.dir)
    assert stored.series("x").values.tolist() == list(range(150))
    assert len(stored.series("y")) == 100
    assert len(np.unique(stored.series("x").times)) == 150
    run.finish()
    assert stored.series("x").times.dtype == "datetime64[ns]"
    assert stored.missing == {} and stored.damage == []
    assert stored.summary["x"] == 149 and stored.summary["y"] == -99


def test_records_events_and_spans_are_the_same_when_compacted(tmp_path: Path) -> None:
    """Kinds, spans and tables do not depend on where they are read from."""
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        run.event("gpu", id=0, power=350)
        run.table("t", [{"a": 1, "b": "x"}])
        run.eval({"loss": 1.5}, step=3)
        with run.span("outer", tags={"k": 1}), run.span("inner"):
            pass

    def look() -> list[object]:
        stored = chiplog.read(run.dir)
        kinds = [list(stored.records(kind)) for kind in ("event", "table", "eval", "attempt", "finish", "step")]
        return [*kinds, stored.spans(), stored.summary, stored.config, sorted(stored.names())]

    before = look()
    compact_all(run.dir)
    assert look() == before


def test_a_damaged_part_is_passed_over_for_the_journal(tmp_path: Path) -> None:
    """Parts are derived; the journal is the truth."""
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        run.log({"x": 1})
    compact_all(run.dir)
    next((run.dir / "parts").glob("*.points.parquet")).write_bytes(b"PAR1 nonsense")
    assert chiplog.read(run.dir).series("x").values.tolist() == [1]


def test_the_first_look_of_a_process_is_at_the_part(tmp_path: Path) -> None:
    """A whole part is not taken for a broken one: what it says does not need its segment."""
    run = chiplog.init("test", sinks="none", dir=tmp_path, compact=False)
    for step in range(100):
        run.log({"loss": step / 7}, step=step)
    run.finish()
    [segment] = layout.segments(run.dir)
    assert compaction.compact(run.dir, segment)
    journal = run.dir / "journal" / segment.filename
    journal.write_bytes(b"\0" * journal.stat().st_size)
    code = "import chiplog, sys; print(len(chiplog.read(sys.argv[1]).series('loss').values))"
    done = subprocess.run([sys.executable, "-c", code, str(run.dir)], capture_output=True, text=True, check=True)
    assert done.stdout == "100\n"
