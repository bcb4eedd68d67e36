"""`python -m tests.frontends.ezpz.ranks FOLDER`: histories on two ranks of a real process group, one after the other."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import chiplog
from chiplog.frontends.ezpz import History
from tests.runtime.ranks.nursery import Rank, results, start


def _history(mine: Rank, **how: Any) -> History:
    os.chdir(mine.folder)
    return History(**how)


def statistics(mine: Rank) -> Any:
    """Losses of 1 and 2; the columns in another order, one missing on rank 1, one not a number there."""
    history = _history(mine)
    row: dict[str, Any] = {"train/loss": 1.0 + mine.rank, "big": 123456789 + mine.rank, "lr": 1e-3, "iter": 8}
    row |= {"bad": math.nan if mine.rank else 1.0} | ({} if mine.rank else {"mine": 4.0})
    line = history.update(dict(reversed(row.items())) if mine.rank else row, precision=3)
    history.finalize(outdir="out")
    return {
        "line": line,
        "on": history.distributed_history,
        "history": history.history,
        "groups": history.groups,
    }


def many(mine: Rank) -> Any:
    """So many rows that something is known about the ranks themselves."""
    history = _history(mine)
    for step in range(30):
        history.update({"loss": float(mine.rank)}, step=step)
    history.finalize(outdir="out", plot=False)
    return {"history": history.history, "groups": history.groups, "stored": chiplog.read(history.run.dir).names()}


def switched_off(mine: Rank) -> Any:
    os.environ["EZPZ_LOCAL_HISTORY"] = "1"
    history = _history(mine)
    line = history.update({"loss": 1.0 + mine.rank})
    history.run.finish()
    return {"line": line, "on": history.distributed_history}


if __name__ == "__main__":
    home = Path(sys.argv[1])
    told = {}
    for scenario in (statistics, many, switched_off):
        place = home / scenario.__name__
        told[scenario.__name__] = results(start(scenario, 2, place), place)
    (home / "results.json").write_text(json.dumps(told))
