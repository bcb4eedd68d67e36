"""`torchrun -m tests.frontends.ezpz.launched FOLDER KIND`: a training with everything odd on one rank, to its end.

Rank 0 writes what `finalize` returned to `FOLDER/result.json`.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import torch.distributed
import xarray as xr

from chiplog.frontends import ezpz

STEPS = 12


def row(rank: int, step: int) -> dict[str, Any]:
    """Unprefixed metrics: NaN on one rank, a key that one lacks, a mapping in the row, and the step as a metric."""
    found: dict[str, Any] = {"loss": 2.0 / (step + 1) + rank, "acc": step / STEPS, "lr": 1e-3, "step": step}
    if rank == 1:
        found["loss"] = math.nan if step == 3 else found["loss"]
        found |= {} if step % 2 else {"mine": 1.0}
    if step % 4 == 0:
        found["grad"] = {"norm": 1.0 + rank, "clip": {"share": 0.5}}
    return found


def grouped(rank: int, step: int) -> dict[str, Any]:
    """Training with a learning rate that has no group; evaluations come seldom."""
    return {"train/loss": 2.0 / (step + 1) + rank, "lr": 1e-3}


def main(folder: Path, kind: str) -> None:
    rank = ezpz.setup_torch()
    os.chdir(folder)
    history = ezpz.History()
    for step in range(STEPS):
        with ezpz.StopWatch("forward", wbtag="timing/forward"):
            history.update(row(rank, step) if kind == "plain" else grouped(rank, step), step=step)
        if kind == "grouped" and step % 4 == 3:
            history.update({"eval/loss": 3.0 / (step + 1) + rank}, step=step)
    noted = {"Torch": {"Version": "2.0"}, "world": 2}
    result = history.finalize(outdir="out", timings={"train": 12.5, "load": 3.25}, env_info=noted)
    if rank == 0:
        groups = {"(one)": result} if isinstance(result, xr.Dataset) else result
        told = {
            name: {str(one): values.values.tolist() for one, values in found.items()} for name, found in groups.items()
        }
        Path("result.json").write_text(json.dumps(told))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
