"""The ezpz front end and the end of a run: a call, the sheet, datasets, plots and the report.

ezpz itself cannot be installed from a package index (the `ezpz` there is another project), so its figures are not
measured alongside ours: the bars are those that were derived from a run of it on a machine like this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.calls import _Floor
from bench.rows import Figure, interleaved, median, ratio, row
from bench.workers import metrics_of


@contextmanager
def _inside() -> Iterator[Path]:
    """A directory of its own to work in."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


@row
def history() -> Iterator[Figure]:
    """ezpz front end: `History.update` of 10 metrics, its line included."""
    from chiplog.frontends.ezpz import History
    from chiplog.frontends.ezpz.utils import format_compact_summary

    metrics = metrics_of(10)
    with _inside() as folder:
        floor = _Floor(str(folder), metrics)
        one = History()
        taken = interleaved(
            {
                "floor": floor,
                "update": lambda: one.update(metrics),
                "line": lambda: format_compact_summary(metrics),
            },
            calls_each=500,
            rounds=41,
        )
        one.run.finish()
    yield Figure("encode + write(2), the floor", median(taken["floor"]), "µs")
    yield Figure("the line alone", median(taken["line"]), "µs")
    yield Figure("update, no backends", median(taken["update"]), "µs", 25)
    yield Figure("  times the floor", ratio(taken, "update", "floor"), "x")


@row
def sheet() -> Iterator[Figure]:
    """The same with the csv backend, in the 100th row and in the 10,000th."""
    from chiplog.frontends.ezpz import History

    metrics = metrics_of(10)
    with _inside():
        one = History(backends="csv", outdir="logs")
        taken: dict[str, list[float]] = {"young": [], "old": []}
        for number in range(10_500):
            began = time.perf_counter()
            one.update(metrics)
            if 100 <= number < 600 or number >= 10_000:
                taken["young" if number < 600 else "old"].append((time.perf_counter() - began) * 1e6)
            if number < 600 or number >= 10_000:
                time.sleep(0.0005)  # as training does
        one.run.finish()
    yield Figure("update from row 100 on", median(taken["young"]), "µs")
    yield Figure("update from row 10,000 on", median(taken["old"]), "µs")
    yield Figure("  times that of row 100", median(taken["old"]) / median(taken["young"]), "x", 1.5)


@row
def finalize() -> Iterator[Figure]:
    """The end of a history of 10,000 steps: 20 metrics with plots, 100 without."""
    for metrics, plot, bar in ((20, True, 15 / 4), (100, False, 3.0)):
        code = (
            "import sys, time\n"
            "from chiplog.frontends.ezpz import History\n"
            "history = History()\n"
            f"row = {{f'train/metric_{{n}}': 0.123 * n for n in range({metrics})}}\n"
            "for step in range(10_000):\n"
            "    history.update({name: value + step % 97 for name, value in row.items()}, step=step)\n"
            "history.run.flush()\n"
            "began, spent = time.perf_counter(), time.process_time()\n"
            f"history.finalize(outdir='out', plot={plot})\n"
            "print('took', time.perf_counter() - began, time.process_time() - spent)\n"
        )
        with _inside():
            done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        took, spent = map(float, done.stdout.rpartition("took")[2].split())
        words = "data and plots" if plot else "data, no plots"
        yield Figure(f"finalize, 10k steps of {metrics} metrics, {words}", took, "s", bar)
        yield Figure("  its CPU time", spent, "s")


@row
def import_ezpz() -> Iterator[Figure]:
    """`from chiplog.frontends.ezpz import History` in a new process, beyond the interpreter's own start."""
    taken: dict[str, list[float]] = {"pass": [], "from chiplog.frontends.ezpz import History": []}
    for _ in range(7):
        for code, times in taken.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - began)
    bare, whole = (median(times) for times in taken.values())
    yield Figure("import", whole - bare, "s", 0.3)


@row
def report() -> Iterator[Figure]:
    """`report.html` of a compacted run of 1 M steps with 50 metrics."""
    import chiplog
    from chiplog.views.report.write import finalize as end

    with _inside():
        run = chiplog.init("bench", sinks="none", durability="process", compact=False, alerts=False)
        row = {f"train/metric_{number}": 0.123 * number for number in range(50)}
        for step in range(1_000_000):
            row["train/metric_0"] = float(step % 9973)
            run.log(row, step=step)
        assert run.finish(timeout=120).lost == 0
        subprocess.run([sys.executable, "-m", "chiplog", "compact", "--quiet", str(run.dir)], check=True)
        began = time.perf_counter()
        ending = end(chiplog.read(run.dir), "out", stages=["report"])
        took = time.perf_counter() - began
        size = Path("out/report.html").stat().st_size / 1e6
        assert not ending.trouble, ending.trouble
    yield Figure("report.md and report.html", took, "s", 10)
    yield Figure("report.html", size, "MB", 3)


@row
def across() -> Iterator[Figure]:
    """ezpz front end: `History.update` of 20 metrics on 4 ranks, next to the four collectives that ezpz makes of it."""
    code = (
        "import os, sys, time, torch, torch.distributed as dist\n"
        "torch.set_num_threads(1)\n"
        "dist.init_process_group('gloo')\n"
        "from chiplog.frontends.ezpz import History\n"
        "history = History()\n"
        "row = {f'train/metric_{n}': 0.123 * n + dist.get_rank() for n in range(20)}\n"
        "complete = [0, 0]\n"
        "def ours():\n"
        "    complete['±' in history.update(row)] += 1\n"
        "def theirs():\n"
        "    sums = torch.tensor(list(row.values()), dtype=torch.float64)\n"
        "    squares, most, least = sums * sums, sums.float(), sums.float()\n"
        "    dist.all_reduce(sums); dist.all_reduce(squares)\n"
        "    dist.all_reduce(most, dist.ReduceOp.MAX); dist.all_reduce(least, dist.ReduceOp.MIN)\n"
        "    return sums.tolist(), squares.tolist(), most.tolist(), least.tolist()\n"
        "def timed(call):\n"
        "    dist.barrier()\n"
        "    began = time.perf_counter()\n"
        "    for _ in range(20): call()\n"
        "    return (time.perf_counter() - began) / 20 * 1e3\n"
        "timed(ours); timed(theirs)\n"
        "taken = [(timed(ours), timed(theirs)) for _ in range(9)]\n"
        "middle = [sorted(one)[4] for one in zip(*taken)]\n"
        "if dist.get_rank() == 0: print(*middle, complete[1] / sum(complete), 'taken')\n"
        "history.run.finish(); sys.stdout.flush(); os._exit(0)\n"
    )
    with _inside():
        Path("ranks.py").write_text(code)
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", "ranks.py"]
        done = subprocess.run(launch, check=True, capture_output=True, text=True, timeout=300)
    found = next(line for line in done.stdout.splitlines() if "taken" in line).split()
    ours, theirs, complete = map(float, found[:3])
    yield Figure("update, 20 metrics, 4 ranks, on rank 0", ours, "ms")
    yield Figure("four collectives and their numbers", theirs, "ms")
    yield Figure("  times ours", theirs / ours, "x", 3, at_least=True)
    yield Figure("updates that had their statistics", complete, "of 1", 0.99, at_least=True)
