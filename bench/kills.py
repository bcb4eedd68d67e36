"""What is lost when the whole process tree of a trainer is killed."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.rows import Figure, row
from tests.faults import reference
from tests.faults.harness import trainer

# Logs at 1 kHz; a record counts as acknowledged when `log` has returned.
STEADY = """
run = init()
n = 0
while True:
    run.log({"i": n}, step=n)
    ack(n)
    n += 1
    time.sleep(0.001)
"""


@row
def kills() -> Iterator[Figure]:
    """100 random kills (SIGKILL) of the whole tree of a trainer that logs at 1 kHz, default durability."""
    moments = [random.uniform(0.05, 1.5) for _ in range(100)]

    def one(case: tuple[int, float]) -> tuple[int, int]:
        with trainer(Path(folder) / str(case[0]), STEADY) as victim:
            victim.until_acked(0)
            time.sleep(case[1])
            victim.kill_tree()
            kept = set(reference.series(victim.run, "i"))
            return victim.acked + 1, sum(n not in kept for n in range(victim.acked + 1))

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(one, enumerate(moments)))
    yield Figure("records acknowledged before the kill", sum(acked for acked, _ in counts), "records")
    yield Figure("lost", sum(lost for _, lost in counts), "records", 0)
