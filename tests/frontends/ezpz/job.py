"""`torchrun … -m tests.frontends.ezpz.job FOLDER`: two histories side by side on every rank, with everything a row may
have; each rank leaves what it saw in FOLDER."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from chiplog.frontends import ezpz
from chiplog.frontends.ezpz.tracker import TrackerBackend, register_backend


class Mine(TrackerBackend):
    name = "mine"

    def __init__(self, rank: int = -1, **_: Any) -> None:
        self.rank, self.calls = rank, []

    def log(self, metrics: Any, step: Any = None, commit: bool = True) -> None:
        self.calls.append(["log", dict(metrics), step])

    def log_config(self, config: Any) -> None:
        self.calls.append(["config", dict(config)])

    def finish(self) -> None:
        self.calls.append(["finish"])
        Path(f"finished-{self.rank}.json").write_text(json.dumps(self.calls))


def main(folder: Path) -> None:
    os.chdir(folder)
    register_backend("mine", Mine)
    rank = ezpz.setup_torch()
    history = ezpz.History(backends="csv,mine", outdir="sheets", config={"lr": 0.1})
    other = ezpz.History(report_dir="other")
    lines = []
    for step in range(4):
        row: dict[str, Any] = {"loss": 1.0 + rank + step, "step": step, "lr": 1e-3, "d": {"a": 1.0 * rank}}
        if step == 1 and rank:
            row["loss"] = math.nan
        if step == 2 and rank:
            del row["d"]
        if step == 3:
            row |= {"v": [1.0, 2.0], "t": "words", "m": np.eye(2)}
        with ezpz.StopWatch("forward", wbtag="timing/forward"):
            lines.append(history.update(row, step=step, precision=1))
        other.update({"acc": float(rank)})
    told: dict[str, Any] = {"lines": lines, "rank": history.tracker.get_backend("mine").rank}
    if rank == 0:
        history.finalize(outdir="out", plot=False, timings={"data": 1.5}, env_info={"site": {"nodes": 2}})
        other.finalize(outdir="out-other", plot=False)
    Path(f"{rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
