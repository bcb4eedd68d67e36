"""`python -m tests.faults.rank_faults FOLDER kill|stop TIMES SECONDS`: four ranks train, and the last one is hurt.

All log step after step by one clock, as training in step does; x is 1000 times the step plus the rank, so that a
statistic that mixes steps shows. What happened is printed as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from chiplog.runtime.ranks.rounds import group_rounds
from tests.runtime.ranks.nursery import Rank, results, start
from tests.support.waiting import wait_for

WORLD, VICTIM = 4, 3
A_SECOND = 200  # steps
PLAN = "async,deadline=2"  # the large tests have the default, 10 s


def train(mine: Rank) -> dict[str, Any]:
    """Log until told to stop; the last step whose `log` returned is in a file, and how long the longest took."""
    group_rounds.TICK = 0.002  # rounds without a pause: whatever happens, happens in one
    run = mine.init(reduce=os.environ["PLAN"], ranks="all", compact=False)
    ack = os.open(mine.folder / f"{mine.rank}.ack", os.O_CREAT | os.O_WRONLY, 0o600)
    began, longest, rows, last = float(os.environ["BEGAN"]), 0.0, 0, -1
    while not (mine.folder / "stop").exists():
        step = int((time.time() - began) * A_SECOND)
        if step <= last:
            time.sleep(0.0005)
            continue
        asked = time.perf_counter()
        run.log({"x": float(step * 1000 + mine.rank), "n": rows}, step=step)
        longest, rows, last = max(longest, time.perf_counter() - asked), rows + 1, step
        os.pwrite(ack, f"{rows:012d}".encode(), 0)
    return {"dir": str(run.dir), "rows": rows, "longest": longest, "done": bool(run.finish())}


def hurt(how: str, folder: Path, seconds: float) -> dict[str, Any]:
    """One process group, one victim: when it was hurt, when the gap was marked, and when all was well again."""
    os.environ["BEGAN"] = str(time.time())
    pids = start(train, WORLD, folder)
    try:
        return watch(pids, how, folder, seconds)
    except SystemExit:  # what was waited for did not happen: leave nobody behind
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        raise


def watch(pids: list[int], how: str, folder: Path, seconds: float) -> dict[str, Any]:
    wait_for(lambda: all(acked(folder, rank) > 20 for rank in range(WORLD)), 30, "all ranks log")
    wait_for(lambda: b'"x/mean"' in journal(folder), 30, "statistics come")
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(pids[VICTIM], signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    at = time.monotonic()
    wait_for(lambda: b'"gap"' in journal(folder), 60, "the gap is marked")
    marked = time.monotonic() - at
    healed = 0.0
    if how == "stop":
        time.sleep(max(0.0, seconds - marked))
        os.kill(pids[VICTIM], signal.SIGCONT)
        at = time.monotonic()
        wait_for(lambda: b'"until"' in journal(folder), 90, "the ranks come together again")
        healed = time.monotonic() - at
    before = acked(folder, 0)
    wait_for(lambda: acked(folder, 0) > before + 100, 30, "training goes on")
    (folder / "stop").touch()
    ranks = results(pids, folder)
    ranks[VICTIM].setdefault("value", {"rows": acked(folder, VICTIM)})
    return {
        "dir": str(next(folder.glob("runs/p/*"))),
        "ranks": [rank["value"] for rank in ranks],
        "marked": marked,
        "healed": healed,
    }


def acked(folder: Path, rank: int) -> int:
    file = folder / f"{rank}.ack"
    return int(file.read_bytes() or 0) if file.exists() else 0


def journal(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("runs/p/*/journal/r00000-*.jsonl"))


if __name__ == "__main__":
    folder, how, times, seconds = sys.argv[1:5]
    os.environ.setdefault("PLAN", PLAN)
    found = [hurt(how, Path(folder) / str(number), float(seconds)) for number in range(int(times))]
    (Path(folder) / "found.json").write_text(json.dumps(found))
