"""Ranks of which some log, as torchrun starts them: `python keepers.py FOLDER`; each leaves a file."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch.distributed as dist

import chiplog
from chiplog.runtime.ranks import run_owner


def main(folder: str) -> None:
    dist.init_process_group("gloo")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    told = {}
    run_owner.POLL = 0.1

    def play(name: str, who: set[int], steps: int = 10, pause: float = 0.0, **settings: object) -> None:
        run = chiplog.init(name, sinks="csv", dir=folder, compact=False, **settings)  # type: ignore[arg-type]
        for step in range(steps):
            if rank in who:
                run.log({"loss": float(rank), "lr": 0.1}, step=step)
            time.sleep(pause)
        done = run.finish()
        told[name] = {"id": run.id, "dir": str(run.dir), "complete": bool(done)}
        dist.barrier()

    play("everyone", set(range(last + 1)), steps=20, pause=0.05)
    play("at-the-end", {last})
    run_owner.PATIENCE = 0.3
    play("under-way", {last}, steps=30, pause=0.1)
    play("named", set(range(last + 1)), ranks="last")
    play("several", set(range(last + 1)), ranks=[1, last])
    play("numbered", set(range(last + 1)), ranks=1)
    play("unkept", {0}, ranks=1)
    (Path(folder) / f"{rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
