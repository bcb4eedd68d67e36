"""What reading costs: a run of 1 M steps × 20 metrics, compacted; and the csv sink as it grows."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import chiplog
from bench.rows import Figure, median, row
from chiplog.core import records
from chiplog.core.identity import Identity

STEPS, METRICS = int(os.environ.get("BENCH_STEPS", "1000000")), 20


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


@row
def store() -> Iterator[Figure]:
    """1 M steps × 20 metrics (values that came from float32): compact, one full series, 1,000 buckets of it."""
    noise = random.Random(0)
    pool = [_float32(noise.gauss(0, 1)) for _ in range(99_991)]
    names = [f"train/metric_{number:02d}" for number in range(METRICS)]
    with tempfile.TemporaryDirectory() as folder:
        run = chiplog.init("bench", sinks="none", dir=folder, alerts=False, compact=False)
        began = time.perf_counter()
        for step in range(STEPS):
            at = step * METRICS % (len(pool) - METRICS)
            run.log(dict(zip(names, pool[at : at + METRICS], strict=True)), step=step)
        run.finish()
        yield Figure("logging it", time.perf_counter() - began, "s")
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "chiplog", "compact", "--quiet", str(run.dir)], check=True)
        yield Figure("compacting it, another process", time.perf_counter() - began, "s")
        size = sum(path.stat().st_size for path in (run.dir / "parts").iterdir())
        yield Figure("parts", size / STEPS / METRICS, "B/point", 5.0)
        whole, down = [], []
        for name in names[:7]:
            stored = chiplog.read(run.dir)
            began = time.perf_counter()
            series = stored.series(name)
            assert len(series.values) == STEPS
            whole.append((time.perf_counter() - began) * 1e3)
            began = time.perf_counter()
            buckets = series.buckets(1000)
            assert int(buckets.counts.sum()) == STEPS
            down.append((time.perf_counter() - began) * 1e3)
        yield Figure("one full series, run opened anew", median(whole), "ms", 150)
        yield Figure("1,000 buckets of it, more", median(down), "ms", 50)


@row
def csv() -> Iterator[Figure]:
    """The csv sink over 10,000 steps: cost a step, first and last 1,000."""
    from chiplog.sinks.csv.sink import open_sink

    with tempfile.TemporaryDirectory() as folder:
        sink = open_sink(Identity("bench", "csv", Path(folder), "csv", "launch"), {})
        taken = []
        for step in range(10_000):
            record = records.Step(step, time.time_ns(), step, {f"train/metric_{n}": n * 0.123 for n in range(20)})
            began = time.perf_counter()
            sink.write([record])
            taken.append((time.perf_counter() - began) * 1e6)
        sink.close()
    first, last = median(taken[:1000]), median(taken[-1000:])
    yield Figure("a row of 20, first 1,000", first, "µs")
    yield Figure("a row of 20, last 1,000", last, "µs")
    yield Figure("  last against first", last / first, "x", 1.5)
