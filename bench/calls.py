"""What one call of `log` costs, compared with a bare encode and `write(2)` in the same process."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import chiplog
from bench.beside import beside
from bench.rows import Figure, interleaved, median, ratio, row
from bench.workers import metrics_of


class _Floor:
    """The least that a durable log can do: encode the same fields, and one write."""

    def __init__(self, folder: str, metrics: dict[str, float]) -> None:
        self._fd = os.open(Path(folder) / "floor.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._encode = msgspec.json.Encoder().encode
        self._metrics = metrics

    def __call__(self) -> None:
        record = {"log": "step", "seq": 812, "time": time.time_ns(), "step": 100, "metrics": self._metrics}
        os.write(self._fd, self._encode(record) + b"\n")


def _compared(count: int, rounds: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    metrics = metrics_of(count)
    with tempfile.TemporaryDirectory() as folder:
        floor = _Floor(folder, metrics)
        bare = chiplog.init(
            "bench", sinks="none", dir=folder, id="bare", alerts=False, durability="process", compact=False
        )
        chiplog.core.run.current = None
        default = chiplog.init("bench", sinks="jsonl", dir=folder, id="default", durability="process", compact=False)
        taken = interleaved(
            {
                "floor": floor,
                "bare": lambda: bare.log(metrics, step=100),
                "default": lambda: default.log(metrics, step=100),
            },
            calls_each=2000,
            rounds=rounds,
        )
        bare.finish()
        default.finish()
    return taken, {name: median(values) for name, values in taken.items()}


@row
def log() -> Iterator[Figure]:
    """`run.log` of 10 scalars on the caller's thread, default durability."""
    taken, middle = _compared(10, 41)
    yield Figure("encode + write(2), the floor", middle["floor"], "µs")
    yield Figure("log, no stages, rules or sinks", middle["bare"], "µs")
    yield Figure("  times the floor", ratio(taken, "bare", "floor"), "x", 1.7)
    yield Figure("log with the default rules and a sink", middle["default"], "µs")
    yield Figure("  times the floor", ratio(taken, "default", "floor"), "x", 2.2)
    yield from beside({"wandb": 40, "tensorboard": 100, "trackio": 5}, rounds=15, seconds=0.1)


@row
def log100() -> Iterator[Figure]:
    """The same, 100 scalars."""
    taken, middle = _compared(100, 21)
    yield Figure("encode + write(2), the floor", middle["floor"], "µs")
    yield Figure("log, no stages, rules or sinks", middle["bare"], "µs")
    yield Figure("  times the floor", ratio(taken, "bare", "floor"), "x", 2.5)


@row
def paced() -> Iterator[Figure]:
    """The same 10 scalars, one call every 2 ms, as training does: cold caches."""
    yield from beside({"wandb": 12, "tensorboard": 4, "trackio": 2}, rounds=15, seconds=0.15, pause=0.002)


@row
def relaxed() -> Iterator[Figure]:
    """`durability="relaxed"`, 10 scalars."""
    metrics = metrics_of(10)
    with tempfile.TemporaryDirectory() as folder:
        run = chiplog.init("bench", sinks="none", dir=folder, durability="relaxed", alerts=False, compact=False)
        taken: dict[str, list[float]] = {"log": [], "copy": []}
        for _ in range(81):  # loops written out: a call in between would be measured too
            began = time.perf_counter()
            for _ in range(1000):
                metrics.copy()
            taken["copy"].append((time.perf_counter() - began) * 1e3)
            began = time.perf_counter()
            for _ in range(1000):
                run.log(metrics, step=100)
            taken["log"].append((time.perf_counter() - began) * 1e3)
            run.flush()
        dropped = run.finish().lost
    yield Figure("a dict copy", median(taken["copy"]), "µs")
    yield Figure("log", median(taken["log"]), "µs", 1 + 3 * median(taken["copy"]))
    yield Figure("dropped", dropped, "records", 0)


@row
def sustained() -> Iterator[Figure]:
    """Values per second in a tight loop, finish included, and peak memory."""
    code = (
        "import chiplog, resource, tempfile, time\n"
        "metrics = {f'train/metric_{n}': 0.1234567 * n for n in range(10)}\n"
        "folder = tempfile.mkdtemp()\n"
        "run = chiplog.init('bench', sinks='none', dir=folder, compact=False)\n"
        "run.log(metrics)\n"
        "base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "began = time.perf_counter()\n"
        "for step in range(200_000):\n"
        "    run.log(metrics, step=step)\n"
        "done = run.finish()\n"
        "took = time.perf_counter() - began\n"
        "assert done, done\n"
        "print(2_000_000 / took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout.split() for _ in range(3)
    ]
    yield Figure("values per second", median(float(rate) for rate, _ in runs), "/s", 1e6, at_least=True)
    yield Figure("peak memory over base", max(float(memory) for _, memory in runs), "MiB", 64)


@row
def growth() -> Iterator[Figure]:
    """10 scalars per call in a young run, in one a million steps old, in one of 10,000 names; then 10,000 per call."""
    rows = [{f"train/metric_{number + at}": 0.123 for number in range(10)} for at in range(0, 10_000, 10)]
    wide = dict(pair for one in rows for pair in one.items())
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for name, steps in (("young", 1_000), ("old", 1_000_000), ("wide", 1_000)):
            chiplog.core.run.current = None
            runs[name] = chiplog.init("bench", sinks="none", dir=folder, id=name, compact=False)
            for step in range(steps):
                runs[name].log(rows[step] if name == "wide" else rows[0], step=step)
        turn = itertools.cycle(rows)
        calls = {
            "young": lambda: runs["young"].log(rows[0]),
            "old": lambda: runs["old"].log(rows[0]),
            "wide": lambda: runs["wide"].log(next(turn)),
        }
        taken = interleaved(calls, calls_each=1000, rounds=31)
        at_once = interleaved(
            {"10": calls["young"], "10,000": lambda: runs["wide"].log(wide)}, calls_each=10, rounds=31
        )
        for run in runs.values():
            run.finish()
    yield Figure("a call at step 1,000", median(taken["young"]), "µs")
    yield Figure("a call at step 1,000,000", median(taken["old"]), "µs")
    yield Figure("  times that at step 1,000", ratio(taken, "old", "young"), "x", 1.15)
    yield Figure("a call in a run of 10,000 names", median(taken["wide"]), "µs")
    yield Figure("  times that in a run of 10", ratio(taken, "wide", "young"), "x", 1.5)
    yield Figure("10,000 values in one call", median(at_once["10,000"]), "µs")
    yield Figure("  a value, times that of 10 in a call", ratio(at_once, "10,000", "10") / 1000, "x", 1.0)
