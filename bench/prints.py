"""What one `print` costs when it is captured, compared with one that is not."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO

import chiplog
from bench.rows import Figure, interleaved, median, ratio, row
from bench.workers import metrics_of

# A `print` is two writes, and each costs one call in Python more: about as much as a line to a terminal costs anyway.
# Into a buffer it is nearly free without us, so there the bar is what is added, and not how many times nothing it is.
TIMES, MORE = 3.0, 5.0  # x, µs
WORDS = "epoch 3: loss 2.3456, 16,384 tokens/s, grad norm 0.87"


def _captured(stream: TextIO, folder: str, id: str) -> chiplog.Run:
    """A run that listens to this stream."""
    with redirect_stdout(stream):
        return chiplog.init("bench", sinks="none", dir=folder, id=id, capture=True, alerts=False, compact=False)


@row
def prints() -> Iterator[Figure]:
    """`print` of a line with capture on, next to the same without; as fast as it goes, so that most is counted only."""
    with tempfile.TemporaryDirectory() as folder:
        streams = {
            (name, buffering): (Path(folder) / f"{name}{buffering}").open("w", buffering=buffering)
            for name in ("plain", "captured")
            for buffering in (1, 8192)
        }
        runs = []
        for buffering in (1, 8192):
            chiplog.core.run.current = None
            runs.append(_captured(streams["captured", buffering], folder, f"lines{buffering}"))
        calls = {
            f"{name}{buffering}": lambda stream=stream: print(WORDS, file=stream)  # type: ignore[misc]
            for (name, buffering), stream in streams.items()
        }
        taken = interleaved(calls, calls_each=2000, rounds=41)
        longest = _longest(streams["captured", 1], 50_000)
        for run in runs:
            run.finish()
        for stream in streams.values():
            stream.close()
    middle = {name: median(values) for name, values in taken.items()}
    yield Figure("print, a write(2) a line (a terminal), the floor", middle["plain1"], "µs")
    yield Figure("  captured", middle["captured1"], "µs")
    yield Figure("  times the floor", ratio(taken, "captured1", "plain1"), "x", TIMES)
    yield Figure("print, buffered (a file), the floor", middle["plain8192"], "µs")
    yield Figure("  captured", middle["captured8192"], "µs")
    yield Figure("  more than the floor", middle["captured8192"] - middle["plain8192"], "µs", MORE)
    yield Figure("the longest of 50,000 captured prints", longest * 1e3, "ms", 20.0)
    yield from _log()


def _longest(stream: TextIO, count: int) -> float:
    longest = 0.0
    for _ in range(count):
        began = time.perf_counter()
        print(WORDS, file=stream)
        longest = max(longest, time.perf_counter() - began)
    return longest


def _log() -> Iterator[Figure]:
    """Capture is not on the way of `log`."""
    metrics = metrics_of(10)
    with tempfile.TemporaryDirectory() as folder:
        captured = _captured(sys.stdout, folder, "captured")
        chiplog.core.run.current = None
        plain = chiplog.init("bench", sinks="none", dir=folder, id="plain", alerts=False, compact=False)
        taken = interleaved(
            {
                "plain": lambda: plain.log(metrics, step=100),
                "captured": lambda: captured.log(metrics, step=100),
            },
            calls_each=2000,
            rounds=21,
        )
        captured.finish()
        plain.finish()
    yield Figure("`log` of 10 scalars, capture on, times the same without", ratio(taken, "captured", "plain"), "x", 1.2)
