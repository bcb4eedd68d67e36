"""Training scripts that torchrun starts again, each from its last checkpoint: `python elastic.py FOLDER dies|grows`.

What a start logs has its own number in the hundreds of thousands: that of the restart, or that of its ranks.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from itertools import count
from pathlib import Path

import torch
import torch.distributed as dist

import chiplog


def dies(folder: Path, run: chiplog.Run, first: int) -> None:
    """Up to step 20; rank 1 of the first start kills itself behind step 12."""
    rank, start = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    for step in range(first, 20):
        run.log({"x": 100_000.0 * start + 10 * step + rank}, step=step)
        dist.barrier()
        if step == 12 and start == 0 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 9 and rank == 0:
            (folder / "checkpoint").write_text("10")


def grows(folder: Path, run: chiplog.Run, first: int) -> None:
    """Until three ranks have made 20 steps; a checkpoint at every tenth."""
    rank, world = dist.get_rank(), dist.get_world_size()
    for step in count(first):
        run.log({"x": 100_000.0 * world + 10 * step + rank}, step=step)
        dist.all_reduce(torch.ones(1))
        if rank == 0 and step % 10 == 9:
            (folder / "checkpoint").write_text(str(step + 1))
        if world == 3 and step == first + 20:
            return
        time.sleep(0.02)


def main(folder: str, what: str) -> None:
    dist.init_process_group("gloo")
    checkpoint = Path(folder) / "checkpoint"
    first = int(checkpoint.read_text()) if checkpoint.exists() else 0
    with chiplog.init("p", sinks="none", dir=folder, id="job7", ranks="all", reduce="async") as run:
        {"dies": dies, "grows": grows}[what](Path(folder), run, first)
    dist.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
