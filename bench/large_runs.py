"""Large runs and living runs: how soon they open, and what that takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from bench.rows import Figure, median, row

STEPS = int(os.environ.get("BENCH_STEPS", "1000000"))
SEGMENTS = int(os.environ.get("BENCH_SEGMENTS", "442"))  # as many as 10 GB have
RUNS = int(os.environ.get("BENCH_RUNS", "10000"))
OPEN = int(os.environ.get("BENCH_OPEN", "20"))  # runs on the page at once
TAIL = 1000  # rows of 100 values: 4 MB, half of the newest segment
ROUNDS = 3
_TRAINING = """
import resource, sys, time
import chiplog
from chiplog.store.journal import segment_file
segment_file.SEGMENT_BYTES = 2 << 20
row = {f"train/metric-{n:02d}": 0.1234567 * n for n in range(20)}
run = chiplog.init("bench", dir=sys.argv[1], id=f"c{sys.argv[2]}", sinks="none", compact=sys.argv[2] == "1")
run.log(row, step=0)
before, calls = resource.getrusage(resource.RUSAGE_SELF), 0.0
for step in range(1, int(sys.argv[3])):
    began = time.perf_counter()
    run.log(row, step=step)
    calls += time.perf_counter() - began
    if not step % 100:
        time.sleep(0.02)
after = resource.getrusage(resource.RUSAGE_SELF)
print(calls, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
run.finish()
"""


class Use(NamedTuple):
    """What a command took: seconds by the clock and of processor, and MiB at most."""

    seconds: float
    cpu: float
    memory: float


def use(root: Path, cache: Path, *words: str) -> Use:
    """Run a verb of chiplog in a process of its own."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache), "COLUMNS": "160", "LINES": "50"}
    began = time.perf_counter()
    command = [sys.executable, "-m", "chiplog", "--dir", str(root), *words]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    _, status, spent = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return Use(time.perf_counter() - began, spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1024)


@row
def live_run() -> Iterator[Figure]:
    """A run of 10 GB that is being written, 3 M steps × 100 metrics: every verb, opened again.

    Its closed segments are simulated: there are parts, without the journals that they cover.
    """
    from bench.fixtures import living_run

    with tempfile.TemporaryDirectory() as folder:
        root, cache = Path(folder) / "runs", Path(folder) / "cache"
        living_run(root, "long", segments=SEGMENTS, steps=7000, metrics=100, tail=TAIL)
        floor = median(_seconds("import numpy, pyarrow.parquet, pyarrow.compute") for _ in range(ROUNDS))
        yield Figure("importing numpy and pyarrow", floor, "s", note="the floor")
        for words in (
            ("ls",),
            ("show", "long"),
            ("watch", "long", "--once"),
            ("plot", "long", "train/loss", "-o", "-"),
        ):
            taken = [use(root, cache, *words) for _ in range(ROUNDS)]
            yield Figure(f"chiplog {words[0]}", median(one.seconds for one in taken), "s", 0.5)
            yield Figure("  of it processor", median(one.cpu for one in taken), "s")
            yield Figure("  memory", max(one.memory for one in taken), "MiB", 300)


@row
def many_runs() -> Iterator[Figure]:
    """`chiplog ls` of 10,000 runs, the first time and again."""
    from bench.fixtures import small_runs

    with tempfile.TemporaryDirectory() as folder:
        root, cache = Path(folder) / "runs", Path(folder) / "cache"
        small_runs(root, RUNS)
        first = use(root, cache, "ls")
        use(root, cache, "ls")
        again = [use(root, cache, "ls") for _ in range(ROUNDS)]
    yield Figure(f"ls of {RUNS:,} runs, the first time", first.seconds, "s", 5.0)
    yield Figure("  of it processor", first.cpu, "s")
    yield Figure("again", median(one.seconds for one in again), "s", 0.5)
    yield Figure("  of it processor", median(one.cpu for one in again), "s")


@row
def page_memory() -> Iterator[Figure]:
    """The server of the page after all series of 20 runs of 1 M steps × 50 series were asked for."""
    from bench.fixtures import large_run

    with tempfile.TemporaryDirectory() as folder:
        root, token = Path(folder) / "runs", Path(folder) / "token"
        for number in range(OPEN):
            large_run(root, f"run-{number:02d}", steps=STEPS, metrics=50, seed=number)
        token.touch(mode=0o600)
        token.write_text("0123456789abcdef0123456789abcdef")
        command = [sys.executable, "-m", "chiplog", "ui", str(root), "--no-browser", "--token-file", str(token)]
        environ = {**os.environ, "XDG_CACHE_HOME": str(Path(folder) / "cache")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
            try:
                assert process.stdout is not None
                site = _Site(process.stdout.readline().strip(), token.read_text())
                while len(runs := site.ask("api/runs")["runs"]) < OPEN:
                    time.sleep(0.05)
                for one in runs:
                    names = site.ask("api/run", run=one["key"])["names"]
                    for at in range(0, len(names), 10):
                        site.fetch("api/series", q=json.dumps([[[one["key"], name]] for name in names[at : at + 10]]))
                status = dict(
                    line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
                )
            finally:
                process.terminate()
                process.wait(30)
    yield Figure(f"{OPEN} runs of {STEPS:,} steps × 50, at most", _mebibytes(status["VmHWM"]), "MiB", 500)
    yield Figure("  afterwards", _mebibytes(status["VmRSS"]), "MiB")


@row
def live_compaction() -> Iterator[Figure]:
    """A training that logs while its closed segments are compacted: its calls, and the processor of its process."""
    steps = max(20_000, STEPS // 20)
    taken: dict[str, list[tuple[float, float]]] = {"0": [], "1": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2 * ROUNDS):
            for on, figures in taken.items():
                words = [sys.executable, "-c", _TRAINING, f"{folder}/{number}", on, str(steps)]
                done = subprocess.run(words, check=True, capture_output=True, text=True)
                calls, cpu = map(float, done.stdout.split())
                figures.append((calls, cpu))
    for at, what in enumerate(("time in log", "processor of the training process")):
        off, on = (min(one[at] for one in taken[key]) for key in "01")
        yield Figure(f"{what}, compact=False", off / steps * 1e6, "µs a row")
        yield Figure(f"{what}, compacted meanwhile", on / steps * 1e6, "µs a row")
        yield Figure("  times", on / off, "x", 1.1)


class _Site(NamedTuple):
    address: str
    token: str

    def fetch(self, path: str, **query: str) -> bytes:
        address = f"{self.address}{path}?{urlencode(query)}"
        with urlopen(Request(address, headers={"Authorization": f"Bearer {self.token}"}), timeout=120) as answer:
            body: bytes = answer.read()
            return body

    def ask(self, path: str, **query: str) -> dict[str, list[dict[str, str]]]:
        answer: dict[str, list[dict[str, str]]] = json.loads(self.fetch(path, **query))
        return answer


def _seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def _mebibytes(status: str) -> float:
    return int(status.split()[0]) / 1024
