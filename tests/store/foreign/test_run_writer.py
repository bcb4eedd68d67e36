"""The journal that a conversion writes: line by line what a training process would write."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from chiplog.core import records
from chiplog.store.foreign.protocol import Points
from chiplog.store.foreign.run_writer import RunWriter, Written
from chiplog.store.journal import lines


def test_columns_are_the_lines_of_their_records(tmp_path: Path) -> None:
    """Odd names, fractions of steps, and numbers that JSON lacks."""
    names = ["loss", 'a "name"\n', "über/ß"]
    values = [1.5, -0.0, 1e300, math.nan, math.inf, -math.inf, 1e-7, 12345678.0]
    steps = [0.0, 0.5, 1e16, 3.0, math.nan, 5.0, -6.25, 7.0]
    which, times = np.arange(8) % 3, np.arange(8) + 1_700_000_000_000_000_000
    writer = RunWriter(tmp_path, Written("test"))
    writer.start(int(times[0]))
    before = writer.written.seq
    writer.append_points(Points(names, which, np.array(steps), times, np.array(values)))
    writer.close()
    (journal,) = (tmp_path / "journal").iterdir()
    rows = [
        records.Step(before + at, int(times[at]), steps[at], {names[at % 3]: values[at]}) for at in range(len(values))
    ]
    assert journal.read_bytes().splitlines(keepends=True)[1:] == [lines.line_of(row) for row in rows]
