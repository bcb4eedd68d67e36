"""Ranks for tests: `python -m tests.runtime.ranks.nursery FOLDER SCENARIO...` imports torch once and forks a process group
of a few ranks for each scenario; what the ranks return is written to FOLDER/results.json.

A scenario is a function of `tests/runtime/ranks/scenarios.py`: it is called on every rank with a `Rank`, and returns data.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy  # noqa: F401  imported before the forks, so that no child has to
import torch
import torch.distributed as dist

import chiplog
from chiplog.runtime.ranks import rendezvous  # noqa: F401
from chiplog.runtime.ranks.transport import torch_gloo  # noqa: F401
from chiplog.store import reader  # noqa: F401
from chiplog.store.points import run_points  # noqa: F401
from tests.support.ports import free_port


class Rank(NamedTuple):
    rank: int
    world: int
    folder: Path

    def init(self, **settings: Any) -> chiplog.Run:
        return chiplog.init("p", sinks="none", dir=self.folder / "runs", id=settings.pop("id", None), **settings)


def start(scenario: Callable[[Rank], Any], world: int, folder: Path) -> list[int]:
    """Fork the ranks of a scenario; gives their pids. Each leaves its result in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    sys.stdout.flush()
    pids = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            _be(Rank(rank, world, folder), scenario, port)
        pids.append(pid)
    return pids


def results(pids: list[int], folder: Path, seconds: float = 60.0) -> list[Any]:
    """Wait for the ranks: what each returned, or how it ended."""
    until = time.monotonic() + seconds
    codes = {}
    for pid in pids:
        while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > until:
                os.kill(pid, 9)
            time.sleep(0.01)
        codes[pid] = os.waitstatus_to_exitcode(done[1])
    found = []
    for rank, pid in enumerate(pids):
        file = folder / f"{rank}.json"
        found.append(json.loads(file.read_text()) if file.exists() else {"code": codes[pid]})
        if codes[pid]:
            found[-1]["code"] = codes[pid]
    return found


def _be(mine: Rank, scenario: Callable[[Rank], Any], port: int) -> None:
    os.environ.update(
        RANK=str(mine.rank),
        WORLD_SIZE=str(mine.world),
        LOCAL_RANK=str(mine.rank),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        GLOO_SOCKET_IFNAME="lo",
    )
    errors = os.open(mine.folder / f"{mine.rank}.err", os.O_CREAT | os.O_WRONLY, 0o600)
    os.dup2(errors, 2)
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo")
        result = scenario(mine)
    except BaseException:
        traceback.print_exc()
        os._exit(3)
    (mine.folder / f"{mine.rank}.json").write_text(json.dumps({"value": result}))
    if getattr(scenario, "leaves", False):
        sys.exit(0)  # as a training script ends; taking torch apart takes seconds
    atexit._run_exitfuncs()
    os._exit(0)


def main(folder: str, *names: str) -> None:
    from tests.runtime.ranks import scenarios

    told: dict[str, Any] = {}
    for name in names:
        scenario = getattr(scenarios, name)
        place = Path(folder) / name
        began = time.monotonic()
        pids = start(scenario, getattr(scenario, "world", 3), place)
        told[name] = {"ranks": results(pids, place), "seconds": time.monotonic() - began}
    (Path(folder) / "results.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
