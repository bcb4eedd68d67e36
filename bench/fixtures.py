"""Large runs for views, written straight as parts from a seed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from chiplog.core import records
from chiplog.store import layout, manifest
from chiplog.store.journal import lines
from chiplog.store.layout import Segment
from chiplog.store.parts import writer
from chiplog.store.parts.format import PartInfo
from chiplog.store.points.columns import Column, Ints
from chiplog.store.runs import liveness
from chiplog.store.spans.columns import SpanColumns

BEGAN = 1_760_000_000_000_000_000
MOST_POINTS = 1 << 24  # of a segment


class _Columns:
    """Series that were never logged, in the shape in which compaction takes them."""

    def __init__(self, steps: int, names: list[str], seed: int, *, first: int, ends: bool) -> None:
        self._steps, self._names, self._seed = steps, names, seed
        self._first = first  # step of the segment
        self._ends = ends  # with the record that ends the run

    def names(self) -> list[str]:
        return self._names

    def column(self, name: str) -> Column:
        chance = np.random.default_rng([self._seed, self._first, self._names.index(name)])
        at = np.arange(self._steps, dtype=np.int64) + self._first
        noise = chance.standard_normal(self._steps, np.float32)
        values = (5 / np.sqrt(1 + at / 1000) + 0.1 * noise).astype(np.float32).astype(np.float64)
        values[chance.integers(0, self._steps, 3)] += 10  # spikes, which no view may hide
        return Column(at, at + 1, values, {})

    def clock(self) -> tuple[Ints, Ints]:
        first = self._first + 1 if self._first else 0  # the very first record starts the attempt
        seqs = np.arange(first, self._first + self._steps + 1 + self._ends, dtype=np.int64)
        return seqs, BEGAN + seqs * 10_000_000


def large_run(root: Path, id: str, *, steps: int, metrics: int, seed: int = 1) -> Path:
    """A finished, compacted run."""
    run = _new(root, id, seed)
    start = records.Attempt(0, BEGAN, 1, "a", 0, 1, "elsewhere", 1, 0, "process", "0.1.0")
    finish = records.Finish(steps + 1, BEGAN + (steps + 1) * 10_000_000, "finished")
    size = max(1, min(steps, MOST_POINTS // metrics))
    for number, first in enumerate(range(0, steps, size)):
        is_last = first + size >= steps
        _segment(
            run, number, _names(metrics), first, min(size, steps - first), seed, start, finish if is_last else None
        )
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


def living_run(root: Path, id: str, *, segments: int, steps: int, metrics: int, tail: int) -> Path:
    """A run that this process seems to be writing: closed segments, which are compacted, and an open one."""
    run, names = _new(root, id, 1), _names(metrics)
    pid = os.getpid()
    start = records.Attempt(
        0, BEGAN, 1, "a", 0, 1, liveness.hostname(), pid, 0, "process", "0.1.0",
        born=liveness.born(pid), boot=liveness.boot_id(), pid_namespace=liveness.pid_namespace(),
    )  # fmt: skip
    for number in range(segments):
        _segment(run, number, names, number * steps, steps, 1, start)
    with (run / layout.JOURNAL / Segment(0, 1, segments).filename).open("wb") as file:
        for step in range(segments * steps, segments * steps + tail):
            row = dict.fromkeys(names, 5 / (1 + step / 1000) ** 0.5)
            file.write(lines.line_of(records.Step(step + 1, BEGAN + (step + 1) * 10_000_000, step, row)))
    return run


def _new(root: Path, id: str, seed: int) -> Path:
    run = root / "bench" / id
    (run / layout.JOURNAL).mkdir(parents=True)
    manifest.save(run, manifest.Manifest(project="bench", id=id, name=id, created=BEGAN, config={"seed": seed}))
    return run


def _names(metrics: int) -> list[str]:
    return sorted([f"group-{number % 10}/metric-{number:03d}" for number in range(metrics - 1)] + ["train/loss"])


def _segment(
    run: Path,
    number: int,
    names: list[str],
    first: int,
    steps: int,
    seed: int,
    start: records.Attempt,
    finish: records.Finish | None = None,
) -> None:
    """A closed segment and its part. Of the journal only a few lines are there: nobody reads what a part covers."""
    segment = Segment(0, 1, number)
    columns = _Columns(steps, names, seed, first=first, ends=finish is not None)
    seqs, times = columns.clock()
    rows: list[records.Record] = [*([start] if not number else []), *([finish] if finish is not None else [])]
    last = records.Step(
        first + steps, BEGAN + (first + steps) * 10_000_000, first + steps - 1, dict.fromkeys(names, 1.0)
    )
    text = b"".join(lines.line_of(one) for one in sorted([*rows, last], key=lambda one: one.seq))
    (run / layout.JOURNAL / segment.filename).write_bytes(text)
    about = PartInfo(
        segment.stem, len(text), len(seqs), int(times[0]), int(times[-1]), int(seqs[-1]),
        first, first + 1, first + steps - 1, first,
    )  # fmt: skip
    writer.write(run / layout.PARTS, segment, about, points=columns, rows=rows, spans=SpanColumns())
