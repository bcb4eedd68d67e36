"""A small training script, as launchers start it: `python launched.py FOLDER ENGINE`; each rank leaves a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import chiplog


def main(folder: str, engine: str) -> None:
    if engine == "torch":
        import torch.distributed as dist

        dist.init_process_group("gloo")
    elif engine == "mpi":
        from mpi4py import MPI  # noqa: F401
    elif engine == "jax":
        import os

        import jax

        jax.distributed.initialize(os.environ["COORDINATOR"], int(os.environ["WORLD"]), int(os.environ["ME"]))
    told = {}
    if engine != "none":
        with chiplog.init("p", sinks="none", dir=folder, reduce="sync") as run:
            rank = run.identity.rank
            rows = [run.log({"x": 123456789 + rank, f"of/{rank}": 1.0}, step=step) for step in range(70)]
            told = {"sync": rows[-1], "id": run.id}
    with chiplog.init("p", sinks="none", dir=folder, ranks="all") as run:
        rank = run.identity.rank
        for step in range(20):
            run.log({"x": float(step + rank)}, step=step)
    told |= {"rank": rank, "world": run.identity.world, "dir": str(run.dir), "launch": run.identity.launch}
    (Path(folder) / f"{rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
