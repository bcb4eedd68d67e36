"""A training script that torchrun starts again when a worker dies: `python elastic.py FOLDER`.

Each start logs from the last checkpoint up to step 20, with its own number in the hundreds of thousands; rank 1 of the
first one kills itself behind step 12.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch.distributed as dist

import chiplog


def main(folder: str) -> None:
    dist.init_process_group("gloo")
    rank, start = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    checkpoint = Path(folder) / "checkpoint"
    resumed = int(checkpoint.read_text()) if checkpoint.exists() else 0
    with chiplog.init("p", sinks="none", dir=folder, id="job7", ranks="all", reduce="async") as run:
        for step in range(resumed, 20):
            run.log({"x": 100_000.0 * start + 10 * step + rank}, step=step)
            dist.barrier()
            if step == 12 and start == 0 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == 9 and rank == 0:
                checkpoint.write_text("10")
    dist.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
