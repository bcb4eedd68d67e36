"""Large runs for views, written straight as parts from a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chiplog.core import records
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.layout import Segment
from chiplog.store.parts import writer
from chiplog.store.parts.format import About
from chiplog.store.points.columns import Column, Ints
from chiplog.store.runs import manifest
from chiplog.store.spans.columns import SpanColumns as SpanColumns

BEGAN = 1_760_000_000_000_000_000


class _Columns:
    """Series that were never logged, in the shape in which compaction takes them."""

    def __init__(self, steps: int, names: list[str], seed: int) -> None:
        self._steps, self._names, self._seed = steps, names, seed

    def names(self) -> list[str]:
        return self._names

    def column(self, name: str) -> Column:
        chance = np.random.default_rng([self._seed, self._names.index(name)])
        at = np.arange(self._steps, dtype=np.int64)
        noise = chance.standard_normal(self._steps, np.float32)
        values = (5 / np.sqrt(1 + at / 1000) + 0.1 * noise).astype(np.float32).astype(np.float64)
        values[chance.integers(0, self._steps, 3)] += 10  # spikes, which no view may hide
        return Column(at, at + 1, values, {})

    def clock(self) -> tuple[Ints, Ints]:
        seqs = np.arange(self._steps + 2, dtype=np.int64)
        return seqs, BEGAN + seqs * 10_000_000


def large_run(root: Path, id: str, *, steps: int, metrics: int, seed: int = 1) -> Path:
    """A finished, compacted run."""
    run = root / "bench" / id
    names = [f"group-{number % 10}/metric-{number:03d}" for number in range(metrics - 1)] + ["train/loss"]
    (run / layout.JOURNAL).mkdir(parents=True)
    manifest.save(run, manifest.Manifest(project="bench", id=id, name=id, created=BEGAN, config={"seed": seed}))
    segment = Segment(0, 1, 0)
    start = records.Attempt(0, BEGAN, 1, "a", 0, 1, "elsewhere", 1, 0, "process", "0.1.0")
    last = BEGAN + (steps + 1) * 10_000_000
    row = records.Step(steps, last, steps - 1, dict.fromkeys(names[-20:], 1.0))
    finish = records.Finish(steps + 1, last, "finished")
    text = b"".join(lines.line_of(one) for one in (start, row, finish))
    (run / layout.JOURNAL / segment.filename).write_bytes(text)
    columns = _Columns(steps, sorted(names), seed)
    about = About(segment.stem, len(text), steps + 2, BEGAN, last, steps + 1, 0, 1, steps - 1, 0)
    writer.write(run, segment, about, points=columns, rows=[start, finish], spans=SpanColumns())
    return run


def small_runs(root: Path, count: int) -> None:
    """Many short runs, as a sweep leaves them."""
    for number in range(count):
        run = root / "sweep" / f"run-{number:04d}"
        (run / layout.JOURNAL).mkdir(parents=True)
        config = {"lr": number * 1e-5, "model": {"dim": 64 * (number % 8), "layers": 12}}
        manifest.save(
            run, manifest.Manifest(project="sweep", id=run.name, name=run.name, created=BEGAN + number, config=config)
        )
        text = [lines.line_of(records.Attempt(0, BEGAN, 1, "a", 0, 1, "elsewhere", 1, 0, "process", "0.1.0"))]
        for step in range(50):
            text.append(
                lines.line_of(
                    records.Step(step + 1, BEGAN + step, step, {"train/loss": 1 / (step + 1), "train/lr": 1e-4})
                )
            )
        text.append(lines.line_of(records.Finish(51, BEGAN + 51, "finished")))
        (run / layout.JOURNAL / Segment(0, 1, 0).filename).write_bytes(b"".join(text))
