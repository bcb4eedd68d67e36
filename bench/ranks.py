"""What statistics across ranks cost, over gloo on loopback, compared with the collectives that they stand for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.rows import Figure, median, p99, row
from bench.workers import metrics_of

ROOT = Path(__file__).parents[1]
METRICS = 20
STEPS = 200
PAUSE = 0.02  # s that a step of training takes besides; in it a rank may begin a round for nothing
WRITERS = """
import os, sys
import chiplog
for rank in range(int(sys.argv[1]), 1024, 2):
    os.environ.update(RANK=str(rank), WORLD_SIZE="1024", CHIPLOG_RUN_ID="many", CHIPLOG_NO_REDUCE="1")
    with chiplog.init("bench", sinks="none", dir=sys.argv[2], ranks="all", compact=False, alerts=False) as run:
        for step in range(1000):
            run.log({"train/loss": step + rank / 4096, "train/tokens": step, "train/step_time_sec": 0.5}, step=step)
"""
READER = """
import resource, time
began = time.perf_counter()
import chiplog
matrix = chiplog.read("many", dir=__import__("sys").argv[1]).series("train/loss").by_rank()
took = time.perf_counter() - began
lost = int((matrix.values != matrix.values).sum()) + (matrix.values.shape != (1000, 1024))
use = resource.getrusage(resource.RUSAGE_SELF)
print(took, use.ru_utime + use.ru_stime, lost)
"""


@row
def ranks() -> Iterator[Figure]:
    """20 metrics across 2, 4 and 8 ranks, as rank 0 waits for them, after a collective of the training."""
    for world in (2, 4, 8):
        taken = _in_ranks(world, "synchronous")
        plain = median(taken["plain"])  # the row is logged with statistics or without
        mine, everyone = median(taken["sync"]) - plain, median(taken["sync,all"]) - plain
        vectors, singles = median(taken["four"]), median(taken["singles"])
        yield Figure(f"{world} ranks: four vector all-reduces", vectors, "µs")
        yield Figure(f"{world} ranks: four all-reduces per metric", singles, "µs")
        yield Figure(f"{world} ranks: log without statistics", plain, "µs")
        yield Figure(f"{world} ranks: what they add to the row of rank 0", mine, "µs", p99=p99(taken["sync"]))
        yield Figure("  times cheaper than the vectors", vectors / mine, "x", 3.0, at_least=True)
        yield Figure("  times cheaper than each metric alone", singles / mine, "x", 30.0, at_least=True)
        yield Figure(f"  behind a step of {PAUSE * 1e3:.0f} ms, in two rounds", median(taken["paused"]) - plain, "µs")
        yield Figure(
            f"{world} ranks: what they add to the row of every rank", everyone, "µs", p99=p99(taken["sync,all"])
        )
        yield Figure("  times cheaper than the vectors", vectors / everyone, "x")
        yield Figure("  times cheaper than each metric alone", singles / everyone, "x", 15.0, at_least=True)


@row
def ranks_async() -> Iterator[Figure]:
    """20 metrics at every step across 8 ranks, asynchronously: all that the training thread spends on a `log`.

    Judged by the thread's processor time, since eight ranks on few cores wait for each other's turns by the clock; both
    are shown. Between two steps it sleeps, so that it comes back to a processor that has done other things.
    """
    taken = _in_ranks(8, "asynchronous")
    with_, without = taken["async"], taken["off"]
    yield Figure("log with statistics, processor", median(with_), "µs", 50.0, p99=p99(with_))
    yield Figure("  by the clock", median(taken["async, clock"]), "µs", p99=p99(taken["async, clock"]))
    yield Figure("log without them, processor", median(without), "µs", p99=p99(without))
    yield Figure("  by the clock", median(taken["off, clock"]), "µs", p99=p99(taken["off, clock"]))


@row
def ranks_model() -> Iterator[Figure]:
    """One gather to rank 0, by ranks and metrics, compared with t = a + b · ranks · bytes fitted at 2 and 8 ranks."""
    times = {(world, count): at for world in (2, 4, 8, 16) for count, at in _gathers(world).items()}
    sizes = {20: 512, 1000: 8192}
    each = (times[8, "20"] - times[2, "20"]) / 6  # µs a rank
    byte = (times[8, "1000"] - times[8, "20"]) / (8 * (sizes[1000] - sizes[20]))  # µs a byte
    fixed = times[2, "20"] - 2 * each
    yield Figure("a rank", each, "µs")
    yield Figure("a byte", byte * 1000, "ns")
    for (world, count), took in times.items():
        model = fixed + world * (each + byte * (sizes[int(count)] - sizes[20]))
        yield Figure(f"{world} ranks, {count} metrics", took, "µs", note=f"model {model:.0f}")
    for world in (10, 100, 1000, 10_000):
        for count in (20, 1000):
            size = max(512, 1 << (8 + 29 + 8 * count - 1).bit_length())
            model = fixed + world * (each + byte * (size - 512))
            yield Figure(
                f"  {world:,} ranks, {count:,} metrics: {world * size / 1e6:,.2f} MB", model / 1e3, "ms", note="model"
            )


@row
def ranks_read() -> Iterator[Figure]:
    """One metric over 1,000 steps out of the journals of 1,024 ranks, by a new process."""
    with tempfile.TemporaryDirectory() as folder:
        writers = [subprocess.Popen([sys.executable, "-c", WRITERS, str(first), folder]) for first in (0, 1)]
        assert [writer.wait() for writer in writers] == [0, 0]
        os.sync()
        try:
            Path("/proc/sys/vm/drop_caches").write_text("1")
        except OSError:  # not root: the files are warm
            pass
        done = subprocess.run([sys.executable, "-c", READER, folder], capture_output=True, check=True)
    took, cpu, lost = map(float, done.stdout.split())
    yield Figure("read, cold", took, "s", 2.5)
    yield Figure("  of it processor", cpu, "s")
    yield Figure("records lost", lost, "", 0)


def _in_ranks(world: int, what: str) -> dict[str, list[float]]:
    """What rank 0 of a process group measures; in a process of its own, which forks the ranks."""
    words = [sys.executable, "-m", "bench.ranks", str(world), what]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _gathers(world: int) -> dict[str, float]:
    return {count: median(values) for count, values in _in_ranks(world, "gathers").items()}


# -- in the ranks ------------------------------------------------------------------------------------------------------


def synchronous(folder: str) -> dict[str, list[float]]:
    import torch
    import torch.distributed as dist

    import chiplog

    metrics = metrics_of(METRICS)
    vector, one = torch.ones(METRICS, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    ops = (dist.ReduceOp.SUM, dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN)

    def four() -> None:
        for op in ops:
            dist.all_reduce(vector, op=op)

    def singles() -> None:
        for _ in range(METRICS):
            for op in ops:
                dist.all_reduce(one, op=op)

    taken: dict[str, list[float]] = {"four": [], "singles": [], "sync": [], "sync,all": [], "plain": [], "paused": []}
    with chiplog.init("bench", sinks="none", dir=folder, reduce=False, compact=False, alerts=False) as run:
        for step in range(STEPS):
            taken["plain"].append(_timed(lambda run=run, step=step: run.log(metrics, step=step)))
    for mode in ("sync", "sync,all"):
        with chiplog.init("bench", sinks="none", dir=folder, reduce=mode, compact=False, alerts=False) as run:
            for step in range(STEPS):
                if step % 20 == 0:
                    taken["singles"].append(_timed(singles))
                taken["four"].append(_timed(four))
                taken[mode].append(_timed(lambda run=run, step=step: run.log(metrics, step=step)))
            for step in range(STEPS, STEPS + 50 if mode == "sync" else STEPS):
                time.sleep(PAUSE)
                taken["paused"].append(_timed(lambda run=run, step=step: run.log(metrics, step=step)))
            dist.barrier()
    return taken


def asynchronous(folder: str) -> dict[str, list[float]]:
    import torch.distributed as dist

    import chiplog

    metrics = metrics_of(METRICS)
    taken: dict[str, list[float]] = {}
    for reduce in ("off", "async") * 4:  # in turns, so that what else the machine does hits both
        used, took = taken.setdefault(reduce, []), taken.setdefault(f"{reduce}, clock", [])
        with chiplog.init("bench", sinks="none", dir=folder, reduce=reduce, compact=False, alerts=False) as run:
            for step in range(250):
                time.sleep(0.002)
                began, spent = time.perf_counter(), time.thread_time()
                run.log(metrics, step=step)
                used.append((time.thread_time() - spent) * 1e6)
                took.append((time.perf_counter() - began) * 1e6)
        dist.barrier()
    return taken


def gathers(_: str) -> dict[str, list[float]]:
    from chiplog.runtime.ranks.transport.torch_gloo import TorchGroup

    group = TorchGroup(30.0)
    while group.form() is None:
        time.sleep(0.01)
    taken: dict[str, list[float]] = {"20": [], "1000": []}
    for _step in range(STEPS):
        for count, size in (("20", 512), ("1000", 8192)):
            taken[count].append(_timed(lambda size=size: group.exchange(bytes(size), False)(None)))
    return taken


def _timed(call: Callable[[], object]) -> float:
    """Microseconds, after all ranks have met in a collective of the training."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def main(world: str, what: str) -> None:
    import numpy  # noqa: F401
    import torch
    import torch.distributed as dist

    import chiplog.runtime.ranks.rendezvous
    import chiplog.runtime.ranks.transport.torch_gloo  # noqa: F401

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    measure: Callable[[str], Any] = globals()[what]
    with tempfile.TemporaryDirectory() as folder:
        pids = []
        for rank in range(int(world)):
            if (pid := os.fork()) == 0:
                os.environ.update(RANK=str(rank), WORLD_SIZE=world, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
                os.environ["GLOO_SOCKET_IFNAME"] = "lo"
                torch.set_num_threads(1)
                dist.init_process_group("gloo")
                taken = measure(folder)
                dist.barrier()
                if rank == 0:
                    print(json.dumps(taken), flush=True)
                dist.barrier()
                os._exit(0)
            pids.append(pid)
        if any(os.waitpid(pid, 0)[1] for pid in pids):
            raise SystemExit("a rank failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
