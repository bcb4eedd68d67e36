"""What one call of `log` costs, beside a bare encode and `write(2)` in the same process."""

from __future__ import annotations

import compileall
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import chiplog
from bench.rows import Figure, interleaved, median, ratio, row


def _metrics(count: int) -> dict[str, float]:
    return {f"train/metric_{number}": 0.1234567 * number + 1e-3 for number in range(count)}


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
    metrics = _metrics(count)
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
    yield Figure("  times the floor", ratio(taken, "bare", "floor"), "x", 2.5)
    yield Figure("log with the default rules and a sink", middle["default"], "µs")
    yield Figure("  times the floor", ratio(taken, "default", "floor"), "x", 4.0)


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
    metrics = _metrics(10)
    with tempfile.TemporaryDirectory() as folder:
        floor = _Floor(folder, metrics)
        run = chiplog.init("bench", sinks="none", dir=folder, durability="process", compact=False)
        calls = {"floor": floor, "log": lambda: run.log(metrics, step=100)}
        taken: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(1000):
            for name, call in calls.items():
                time.sleep(0.002)
                began = time.perf_counter()
                call()
                taken[name].append((time.perf_counter() - began) * 1e6)
        run.finish()
    yield Figure("encode + write(2), the floor", median(taken["floor"]), "µs")
    yield Figure("log with the default rules", median(taken["log"]), "µs")
    yield Figure("  p99", sorted(taken["log"])[990], "µs")
    yield Figure("  times the floor", median(taken["log"]) / median(taken["floor"]), "x")


@row
def relaxed() -> Iterator[Figure]:
    """`durability="relaxed"`, 10 scalars."""
    metrics = _metrics(10)
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


def _cpu(code: str) -> float:
    """CPU milliseconds of a fresh interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


@row
def imports() -> Iterator[Figure]:
    """`import chiplog` in a fresh interpreter, and `init` to the first record on disk."""
    compileall.compile_dir(Path(chiplog.__file__).parent, quiet=1)  # as an installed package is
    codes = ("pass", "import msgspec", "import chiplog")
    taken: dict[str, list[float]] = {code: [] for code in codes}
    for _ in range(21):
        for code in codes:
            taken[code].append(_cpu(code))
    bare = median(taken["pass"])
    yield Figure("import msgspec, over bare Python", median(taken["import msgspec"]) - bare, "ms CPU")
    yield Figure("import chiplog, over bare Python", median(taken["import chiplog"]) - bare, "ms CPU", 55)
    code = (
        "import chiplog, sys, time, tempfile\n"
        "folder = tempfile.mkdtemp()\n"
        "began = time.perf_counter()\n"
        "run = chiplog.init('bench', sinks='none', dir=folder)\n"
        "run.log({'loss': 1.0})\n"
        "print((time.perf_counter() - began) * 1e3)\n"
    )
    starts = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout) for _ in range(9)
    ]
    yield Figure("init to the first record on disk", median(starts), "ms", 20)


@row
def sustained() -> Iterator[Figure]:
    """Values a second in a tight loop, finish included, and peak memory."""
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
    yield Figure("values a second", median(float(rate) for rate, _ in runs), "/s", 1e6, at_least=True)
    yield Figure("peak memory over base", max(float(memory) for _, memory in runs), "MiB", 64)
