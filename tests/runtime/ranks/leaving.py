"""Ranks of which the last one finishes early: `python leaving.py FOLDER ENGINE WORD`; the others log on until rank 0's
journal has the word.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import chiplog


def main(folder: str, engine: str, word: str) -> None:
    if engine == "jax":
        import jax

        jax.distributed.initialize(os.environ["COORDINATOR"], int(os.environ["WORLD"]), int(os.environ["ME"]))
    else:
        from mpi4py import MPI  # noqa: F401
    seen = Path(folder) / "seen"
    with chiplog.init("p", sinks="none", dir=folder, id="leaving", reduce="async,deadline=1", compact=False) as run:
        rank, world = run.identity.rank, run.identity.world
        for step in range(10):
            run.log({"x": float(rank)}, step=step)
        step, until = 10, time.monotonic() + 60
        while rank < world - 1 and not seen.exists() and time.monotonic() < until:
            run.log({"y": float(rank)}, step=step)
            step += 1
            time.sleep(0.02)
            if rank == 0 and any(word in file.read_text() for file in run.dir.glob("journal/*.jsonl")):
                seen.write_text(str(step))


if __name__ == "__main__":
    main(*sys.argv[1:])
