"""`python -m tests.frontends.ezpz.uneven FOLDER`: histories on two ranks that are not in step, one after the other."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist

import chiplog
from chiplog.frontends.ezpz import History
from chiplog.frontends.ezpz import history as histories
from chiplog.frontends.ezpz.output.jsonl import JsonlFile
from tests.runtime.ranks.nursery import Rank, results, start

DEADLINE = 1.0


def _history(mine: Rank) -> History:
    os.chdir(mine.folder)
    histories.REDUCE = f"sync,order,nan,late,deadline={DEADLINE}"
    return History()


def _rows(history: History) -> list[dict[str, Any]]:
    return [json.loads(line)["metrics"] for line in history.jsonl_path.read_text().splitlines()]


def slow(mine: Rank) -> Any:
    """Rank 1 stands still once, for longer than it is waited for; rank 0 goes on at its pace."""
    history, took = _history(mine), []
    for step in range(60):
        if step == 5 and mine.rank:
            time.sleep(DEADLINE + 0.5)
        time.sleep(0.02)
        began = time.perf_counter()
        history.update({"loss": 1.0 + mine.rank}, step=step)
        took.append(time.perf_counter() - began)
    dist.barrier()
    history.finalize(outdir="out", plot=False)
    return {"took": took, "rows": [] if mine.rank else _rows(history)}


def first_to_finish(mine: Rank) -> Any:
    """Rank 1 has logged everything and ends, while rank 0 saves a checkpoint before its last rows."""
    history = _history(mine)
    for step in range(10):
        if step == 7 and mine.rank == 0:
            time.sleep(3.0)
        history.update({"loss": 1.0 + mine.rank}, step=step)
    history.finalize(outdir="out", plot=False)
    return {"rows": [] if mine.rank else _rows(history)}


def slow_start(mine: Rank) -> Any:
    """Rank 0 opens its files for long, as if it imported W&B; rank 1 logs everything and ends, without `finalize`."""
    if mine.rank == 0:
        opened = JsonlFile.open

        def slowly(self: JsonlFile, outdir: str = "", rank: int = 0) -> Any:
            time.sleep(DEADLINE + 4)
            return opened(self, outdir, rank)

        JsonlFile.open = slowly  # type: ignore[method-assign]
    history = _history(mine)
    for step in range(10):
        history.update({"loss": 1.0 + mine.rank}, step=step)
    if mine.rank == 0:
        history.finalize(outdir="out", plot=False)
    return {"rows": [] if mine.rank else _rows(history)}


def own_row(mine: Rank) -> Any:
    """Rank 0 evaluates alone, without steps, while the other one trains on."""
    history, took = _history(mine), []
    for step in range(8):
        history.update({"loss": float(step) + mine.rank, "lr": 0.1})
        began = time.perf_counter()
        if mine.rank == 0 and step % 2:
            history.update({"eval/acc": 0.9})
        took.append(time.perf_counter() - began)
    dist.barrier()
    history.finalize(outdir="out", plot=False)
    return {"took": took, "rows": [] if mine.rank else _rows(history)}


def epochs(mine: Rank) -> Any:
    """Steps begin again with each epoch."""
    history = _history(mine)
    for epoch in range(3):
        for step in range(3):
            history.update({"loss": 10.0 * epoch + step + mine.rank}, step=step)
    dist.barrier()
    history.finalize(outdir="out", plot=False)
    return {"rows": [] if mine.rank else _rows(history)}


def one_alone(mine: Rank) -> Any:
    """Only rank 0 makes a history."""
    if mine.rank:
        dist.barrier()
        return None
    began = time.perf_counter()
    history = _history(mine)
    took = time.perf_counter() - began
    history.update({"loss": 1.0})
    history.finalize(outdir="out", plot=False)
    dist.barrier()
    return {"took": took, "rows": _rows(history)}


def not_a_number(mine: Rank) -> Any:
    """NaN on the other rank."""
    history = _history(mine)
    for step in range(3):
        history.update({"loss": math.nan if mine.rank and step else 1.0}, step=step)
    dist.barrier()
    history.finalize(outdir="out", plot=False)
    alerts = [] if mine.rank else [one.title for one in chiplog.read(history.run.dir).records("alert")]
    return {"rows": [] if mine.rank else _rows(history), "alerts": alerts}


if __name__ == "__main__":
    home = Path(sys.argv[1])
    told = {}
    for scenario in (slow, first_to_finish, slow_start, own_row, epochs, one_alone, not_a_number):
        place = home / scenario.__name__
        told[scenario.__name__] = results(start(scenario, 2, place), place)
    (home / "results.json").write_text(json.dumps(told))
