"""chiplog next to the other trackers: all alive at once, each in its own process, logging in turns."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.peers import PEERS
from bench.rows import Figure, median, p99
from bench.workers import workers

REST = 0.3  # s after a burst: a peer that hands its work to a thread finishes it before the next one is measured


def beside(bars: Mapping[str, float], *, rounds: int, seconds: float, pause: float = 0.0) -> Iterator[Figure]:
    """What a call of 10 scalars costs with each tracker, and how many times that of chiplog, with these bars."""
    taken: dict[str, list[list[float]]] = {name: [] for name in PEERS}
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        workers(list(PEERS), Path(folder)) as made,
    ):
        for worker in made.values():
            worker.log(0)  # what happens at the first call only is not the cost of a call
        for _ in range(rounds):
            for name, worker in made.items():
                time.sleep(REST)
                taken[name].append(worker.log(seconds, pause=pause))
    ours = [median(block) for block in taken["chiplog"]]
    for name, blocks in taken.items():
        middle = [median(block) for block in blocks]
        yield Figure(PEERS[name].title, median(middle), "µs", p99=p99(itertools.chain(*blocks)), peer=name)
        if name != "chiplog":
            times = median(theirs / mine for theirs, mine in zip(middle, ours, strict=True))
            yield Figure("  times chiplog", times, "x", bars.get(name), at_least=True, peer=name)
