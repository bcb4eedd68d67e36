"""What logging costs a real training loop: a small torch model on the CPU, console and csv on."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import chiplog
from bench.rows import Figure, median, row


def _thread_cpu(ours: bool) -> float:
    """CPU seconds of the threads of this process, ours or the others, from the kernel's counters."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    total = 0
    for task in Path("/proc/self/task").iterdir():
        if names.get(int(task.name), "").startswith("chiplog") == ours:
            fields = (task / "schedstat").read_text().split()
            total += int(fields[0])
    return total / 1e9


@row
def training() -> Iterator[Figure]:
    """A torch CPU loop at about 100 steps/s that logs 20 scalars a step, console and csv on."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    width = 512
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(96, width)

    def train_step() -> float:
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(50):
        train_step()
    plain: list[float] = []
    logged: list[float] = []
    inside: list[float] = []
    cpu: list[float] = []
    steps = 200
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        run = chiplog.init("bench", sinks="console,csv", dir=folder, compact=False)
        step = 0
        for _ in range(8):
            began = time.perf_counter()
            for _ in range(steps):
                loss = train_step()
            plain.append(time.perf_counter() - began)
            began, before, spent = time.perf_counter(), _thread_cpu(ours=True), 0.0
            for _ in range(steps):
                loss = train_step()
                metrics = {"train/loss": loss, **{f"train/metric_{number}": loss * number for number in range(19)}}
                called = time.perf_counter()
                run.log(metrics, step=step)
                spent += time.perf_counter() - called
                step += 1
            logged.append(time.perf_counter() - began)
            inside.append(spent)
            cpu.append(_thread_cpu(ours=True) - before)
        run.finish()
    ratios = sorted(with_log / without for with_log, without in zip(logged, plain, strict=True))
    wall = median(logged)
    yield Figure("steps a second, nothing logged", steps / median(plain), "/s", note=f"{os.cpu_count()} cores")
    yield Figure("inside our calls", median(inside) / wall * 100, "% of loop")
    yield Figure("CPU of our threads", median(cpu) / wall * 100, "% of loop")
    yield Figure("our cost together", (median(inside) + median(cpu)) / wall * 100, "% of loop", 2.0)
    yield Figure("wall ratio, lowest of 8 blocks", ratios[0], "x", 1.0, note="with the highest: must include 1.0")
    yield Figure("wall ratio, median", median(ratios), "x")
    yield Figure("wall ratio, highest of 8 blocks", ratios[-1], "x", 1.0, at_least=True)
