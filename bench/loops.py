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
from typing import NamedTuple

import chiplog
from bench.rows import Figure, median, row


def _thread_cpu(ours: tuple[str, ...]) -> float:
    """CPU seconds of the threads of this process whose names begin so, from the kernel's counters."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    total = 0
    for task in Path("/proc/self/task").iterdir():
        if names.get(int(task.name), "").startswith(ours):
            fields = (task / "schedstat").read_text().split()
            total += int(fields[0])
    return total / 1e9


class Cost(NamedTuple):
    """What blocks of steps took, those that log compared with those that do not."""

    steps: int  # to a block
    plain: list[float]
    logged: list[float]
    inside: list[float]  # in our calls
    cpu: list[float]  # of our threads

    @property
    def share(self) -> float:
        """Our part of the loop in percent."""
        return (median(self.inside) + median(self.cpu)) / median(self.logged) * 100

    def figures(self, what: str = "our cost together", bar: float | None = 2.0) -> Iterator[Figure]:
        wall = median(self.logged)
        yield Figure("inside our calls", median(self.inside) / wall * 100, "% of loop")
        yield Figure("CPU of our threads", median(self.cpu) / wall * 100, "% of loop")
        yield Figure(what, self.share, "% of loop", bar)


def measure(run: chiplog.Run, ours: tuple[str, ...] = ("chiplog",), blocks: int = 8, steps: int = 200) -> Cost:
    """A small model on the CPU at about 100 steps/s; every other block logs 20 scalars per step."""
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
    cost = Cost(steps, [], [], [], [])
    step = 0
    for _ in range(blocks):
        began = time.perf_counter()
        for _ in range(steps):
            loss = train_step()
        cost.plain.append(time.perf_counter() - began)
        began, before, spent = time.perf_counter(), _thread_cpu(ours), 0.0
        for _ in range(steps):
            loss = train_step()
            metrics = {"train/loss": loss, **{f"train/metric_{number}": loss * number for number in range(19)}}
            called = time.perf_counter()
            run.log(metrics, step=step)
            spent += time.perf_counter() - called
            step += 1
        cost.logged.append(time.perf_counter() - began)
        cost.inside.append(spent)
        cost.cpu.append(_thread_cpu(ours) - before)
    return cost


@row
def training() -> Iterator[Figure]:
    """A torch CPU loop at about 100 steps/s that logs 20 scalars per step, console and csv on."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        run = chiplog.init("bench", sinks="console,csv", dir=folder, compact=False)
        cost = measure(run)
        run.finish()
    rate = cost.steps / median(cost.plain)
    yield Figure("steps per second, nothing logged", rate, "/s", note=f"{os.cpu_count()} cores")
    yield from cost.figures()
    ratios = sorted(with_log / without for with_log, without in zip(cost.logged, cost.plain, strict=True))
    yield Figure("wall ratio, lowest of 8 blocks", ratios[0], "x", 1.0, note="with the highest: must include 1.0")
    yield Figure("wall ratio, median", median(ratios), "x")
    yield Figure("wall ratio, highest of 8 blocks", ratios[-1], "x", 1.0, at_least=True)
