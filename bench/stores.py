"""What reading costs: a run of 1 M steps × 20 metrics, compacted and not; and the csv sink as it grows."""

from __future__ import annotations

import os
import random
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import chiplog
from bench.processes import cost_of, verb
from bench.rows import Figure, median, row
from chiplog.core import records
from chiplog.core.identity import Identity

STEPS, METRICS = int(os.environ.get("BENCH_STEPS", "1000000")), 20
NAMES = [f"train/metric_{number:02d}" for number in range(METRICS)]
INFORMATION = 3.31  # bytes in a float32 of a normal distribution: 26.5 bits, which no encoding goes below


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def log_run(folder: str, steps: int) -> Path:
    """A run of 20 metrics that is not compacted."""
    noise = random.Random(0)
    pool = [_float32(noise.gauss(0, 1)) for _ in range(99_991)]
    run = chiplog.init("bench", sinks="none", dir=folder, alerts=False, compact=False)
    for step in range(steps):
        at = step * METRICS % (len(pool) - METRICS)
        run.log(dict(zip(NAMES, pool[at : at + METRICS], strict=True)), step=step)
    run.finish()
    return Path(run.dir)


@row
def store() -> Iterator[Figure]:
    """1 M steps × 20 metrics (values that came from float32): compact, one full series, 1,000 buckets of it."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = log_run(folder, STEPS)
        yield Figure("logging it", time.perf_counter() - began, "s")
        journal = sum(path.stat().st_size for path in (run / "journal").iterdir())
        taken = verb("compact", "--quiet", str(run))
        yield Figure("compacting it, another process, one core", taken.processor, "s CPU")
        yield Figure("  journal per second", journal / taken.processor / 1e6, "MB/s", 60, at_least=True)
        yield Figure("  its memory at most", taken.memory, "MiB", 244)  # 256 MB
        size = sum(path.stat().st_size for path in (run / "parts").iterdir())
        yield Figure("parts", size / STEPS / METRICS, "B/point", 3.2)
        yield Figure("  times the information in the values", size / STEPS / METRICS / INFORMATION, "x")
        whole, down, few = [], [], []
        for name in NAMES[:7]:
            stored = chiplog.read(run)
            began = time.perf_counter()
            series = stored.series(name)
            assert len(series.values) == STEPS
            whole.append((time.perf_counter() - began) * 1e3)
            began = time.perf_counter()
            buckets = series.buckets(1000)
            assert int(buckets.counts.sum()) == STEPS
            down.append((time.perf_counter() - began) * 1e3)
            stored = chiplog.read(run)
            began = time.perf_counter()
            assert int(stored.buckets(name, 1000).counts.sum()) == STEPS
            few.append((time.perf_counter() - began) * 1e3)
        yield Figure("one full series, run opened from scratch", median(whole), "ms", 30)
        yield Figure("1,000 buckets of it, more", median(down), "ms", 2)
        yield Figure("1,000 buckets without its points, run opened from scratch", median(few), "ms", 32)


@row
def killed() -> Iterator[Figure]:
    """`chiplog show` of 500,000 steps × 20 metrics without a part, next to reading, checking and decoding its lines."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        run = log_run(folder, STEPS // 2)
        _age(run)
        environ = {"XDG_CACHE_HOME": cache}
        floor = cost_of("-m", "bench.floor", str(run))
        cold, again = verb("show", str(run), environ=environ), verb("show", str(run), environ=environ)
        yield Figure("read, split, check and decode, the floor", floor.processor, "s CPU")
        yield Figure("show, cold", cold.processor, "s CPU")
        yield Figure("  times the floor", cold.processor / floor.processor, "x", 2)
        yield Figure("show, again", again.processor, "s CPU", 0.5)
        yield Figure("  of it imports", cost_of("-c", "import chiplog.cli, numpy, pyarrow.parquet").processor, "s CPU")


@row
def readers() -> Iterator[Figure]:
    """The memory of readers on a run of 1.3 M steps × 20 metrics (about 1 GiB of journal) without a part."""
    with tempfile.TemporaryDirectory() as folder:
        run = log_run(folder, STEPS * 13 // 10)
        _age(run)
        name, out = NAMES[0], f"{folder}/out"
        for words in (
            ("show", str(run)),
            ("plot", str(run), name),
            ("watch", run.name, "--once", "--dir", folder),
            ("report", str(run), "-o", out),
            ("export", str(run), "--to", "parquet", "-o", f"{out}.parquet"),
        ):
            with tempfile.TemporaryDirectory() as cache:
                taken = verb(*words, environ={"XDG_CACHE_HOME": cache})
            yield Figure(words[0], taken.memory, "MiB", 300)
            yield Figure("  its processor time", taken.processor, "s CPU")


def _age(run: Path) -> None:
    """Let a run look as if it was killed a while ago; readers leave a journal alone that may be written."""
    for path in (run / "journal").glob("*.jsonl"):
        os.utime(path, (time.time() - 3600,) * 2)


@row
def csv() -> Iterator[Figure]:
    """The csv sink over 10,000 steps: cost per step, first and last 1,000."""
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
