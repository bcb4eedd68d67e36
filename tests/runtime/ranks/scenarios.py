"""What ranks do in tests; each function runs on every rank of a process group of its own."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import threading
import time
from typing import Any

import numpy
import torch.distributed as dist

import chiplog
from chiplog.runtime.ranks.reduce import Reduce
from chiplog.runtime.ranks.transport import torch_gloo
from chiplog.runtime.ranks.transport.group import GroupBroken
from tests.runtime.ranks.nursery import Rank


def reduce_of(run: chiplog.Run) -> Reduce:
    """What makes the statistics of a run."""
    return next(call.__self__ for call in run._shutdown.before if isinstance(getattr(call, "__self__", None), Reduce))


def synchronous(mine: Rank) -> Any:
    """Rows come back with their statistics; names in another order, counters among them, one that rank 2 lacks."""
    run = mine.init(reduce="sync")
    rows = []
    for step in range(5):
        row = {"train/loss": 123456789.0 + mine.rank % 2, "lr": 0.1, "step": step, "acc": step * (mine.rank + 1)}
        if mine.rank == 1:
            row = dict(reversed(row.items()))
        if mine.rank == 2:
            del row["acc"]
        rows.append(run.log(row, step=step))
    dist.barrier()
    run.finish()
    return {"id": run.id, "rows": rows, "kept": sorted(path.name for path in run.dir.glob("journal/*.jsonl"))}


def two(mine: Rank) -> Any:
    """The two largest neighbours that a float32 does not tell apart."""
    with mine.init(reduce="sync") as run:
        row = run.log({"x": 123456789 + mine.rank}, step=0)
        dist.barrier()
        return row


two.world = 2  # type: ignore[attr-defined]


def everyone(mine: Rank) -> Any:
    """Every rank gets the row, with all extras."""
    with mine.init(reduce="sync,all,count,where,p50,p100") as run:
        return [run.log({"x": float(mine.rank * 10 + step)}, step=step) for step in range(3)]


def four(mine: Rank) -> Any:
    """Four ranks: what is gathered goes to everyone in a tree."""
    with mine.init(reduce="sync,all") as run:
        return [run.log({"x": float(mine.rank + step), f"of/{mine.rank}": 1.0}, step=step) for step in range(70)]


four.world = 4  # type: ignore[attr-defined]


def asynchronous(mine: Rank) -> Any:
    """Statistics are written later, at the step they belong to; two calls a step, journals on all ranks."""
    run = mine.init(reduce="async", ranks="all")
    longest = 0.0
    for step in range(200):
        began = time.perf_counter()
        run.log({"x": float(step * (mine.rank + 1))}, step=step)
        run.log({"y": float(mine.rank), f"only/{mine.rank}": 1.0}, step=step)
        longest = max(longest, time.perf_counter() - began)
    return {"id": run.id, "launch": run.identity.launch, "done": bool(run.finish()), "longest": longest}


def automatic(mine: Rank) -> Any:
    """Nothing is said, and no collective of the user's is called."""
    called = []
    for name in ("all_reduce", "all_gather", "all_gather_into_tensor", "gather", "broadcast", "barrier", "new_group"):
        setattr(dist, name, lambda *_, _name=name, **__: called.append(_name))
    with mine.init() as run:
        for step in range(20):
            run.log({"x": float(mine.rank)}, step=step)
    return {"called": called, "dir": str(run.dir)}


def silent(mine: Rank) -> Any:
    """One rank never logs."""
    with mine.init(reduce="deadline=0.5") as run:
        for step in range(10):
            if mine.rank != 2:
                run.log({"x": float(mine.rank)}, step=step)
        dist.barrier()
    return str(run.dir)


def silent_synchronously(mine: Rank) -> Any:
    """One rank never logs, and rank 0 waits for it: once."""
    run = mine.init(reduce="sync,deadline=0.5")
    dist.barrier()  # a busy machine starts them more than a deadline apart
    began = time.perf_counter()
    rows = [run.log({"x": float(mine.rank)}, step=step) for step in range(10) if mine.rank != 2]
    took = time.perf_counter() - began
    dist.barrier()
    run.finish()
    return {"rows": rows, "took": took}


def uneven(mine: Rank) -> Any:
    """Rank 1 logs every other step, and rank 2 finishes after ten."""
    run = mine.init(reduce="async")
    for step in range(20):
        if mine.rank == 0 or (mine.rank == 1 and step % 2 == 0) or (mine.rank == 2 and step < 10):
            run.log({"x": float(mine.rank)}, step=step)
        if mine.rank == 2 and step == 10:
            run.finish()
    dist.barrier()
    run.finish()
    return str(run.dir)


def early(mine: Rank) -> Any:
    """Rank 2 ends while the others go on; they form a group without it."""
    run = mine.init(reduce="async,deadline=2")
    for step in range(10):
        run.log({"x": float(mine.rank)}, step=step)
    dist.barrier()
    if mine.rank == 2:
        run.finish()
        return str(run.dir)
    across = reduce_of(run)
    until = time.monotonic() + 20
    step = 10
    while time.monotonic() < until and len(across.members) != 2:
        run.log({"x": float(mine.rank)}, step=step)
        step += 1
        time.sleep(0.005)
    for more in range(5):
        run.log({"y": float(mine.rank)}, step=100_000 + more)
    run.finish()
    return str(run.dir)


def not_finite(mine: Rank) -> Any:
    """NaN on one rank, infinity on another."""
    with mine.init(reduce="sync") as run:
        rows = [
            run.log(
                {"x": math.nan if mine.rank == 1 else 2.0 + mine.rank, "y": math.inf if mine.rank == 2 else 1.0},
                step=step,
            )
            for step in range(3)
        ]
        dist.barrier()
    return [*rows, str(run.dir)]


def straggler(mine: Rank) -> Any:
    """Rank 2 waits for its data all the time, with a device that says why."""
    with mine.init(reduce="async") as run:
        reduce_of(run).update_device({"id": mine.rank, "clock": 300, "throttle": "thermal", "memory": 1})
        for step in range(60):
            run.log({"train/step_time_sec": 1.0, "train/data_time_sec": 0.6 if mine.rank == 2 else 0.01}, step=step)
    return str(run.dir)


def fallback(mine: Rank) -> Any:
    """Another torch, whose store cannot be had: a group by `new_group`."""

    def gone(*_: Any) -> None:
        raise AttributeError("_get_default_store")

    torch_gloo.own_store = gone
    with mine.init(reduce="sync,all") as run:
        rows = [run.log({"x": float(mine.rank)}, step=step) for step in range(70)]
    return {"row": rows[-1], "id": run.id}


def evaluations(mine: Rank) -> Any:
    """All evaluate at two steps, rank 0 alone at a third while the others wait for it, and all go on training."""
    told: dict[str, Any] = {}
    for mode in ("async", "sync"):
        with mine.init(reduce=f"{mode},deadline=5") as run:
            rows, longest = [], 0.0
            for step in range(12):
                run.log({"loss": float(mine.rank)}, step=step)
                began = time.perf_counter()
                if step in (4, 8):
                    rows.append(run.eval({"loss": step + mine.rank, f"of/{mine.rank}": 1.0, "epoch": 3}, step=step))
                if step == 6 and mine.rank == 0:
                    rows.append(run.eval({"alone": 1.0}, step=step))
                longest = max(longest, time.perf_counter() - began)
                dist.barrier()
        told[mode] = {"dir": str(run.dir), "rows": rows, "longest": longest}
    return told


ROUTED = 64  # tokens that each rank routes


def routed(rank: int, step: int) -> tuple[Any, Any]:
    """Counts and probabilities of one rank at a step: three layers of four experts, one layer of which rank 1 lacks."""
    random = numpy.random.default_rng([rank, step])
    logits = 3 * random.normal(size=(3, ROUTED, 4))
    probs = numpy.exp(logits) / numpy.exp(logits).sum(axis=2, keepdims=True)
    counts = numpy.stack([numpy.bincount(layer.argmax(axis=1), minlength=4) for layer in probs])
    if rank == 1:
        counts[2] = 0
    return counts, probs


def routers(mine: Rank) -> Any:
    """Both ranks say what their routers did, at one step with other experts than the other's; and rank 0 alone."""
    with mine.init(reduce="async") as run:
        for step in range(4):
            counts, probs = routed(mine.rank, step)
            run.log({"moe": chiplog.Router(counts, probs, z=counts.sum(axis=1) / 7.0, aux_coefficient=0.01)}, step=step)
        run.log({"odd": chiplog.Router([[1] * (mine.rank + 2)])}, step=4)
        if mine.rank == 0:
            run.log({"alone": chiplog.Router([[1, 2]])}, step=4)
    return str(run.dir)


routers.world = 2  # type: ignore[attr-defined]
automatic.leaves = True  # type: ignore[attr-defined]


def alone(mine: Rank) -> Any:
    """Only rank 0 calls `init`, as many scripts do."""
    if mine.rank:
        return None
    began = time.perf_counter()
    run = mine.init()
    run.log({"x": 1.0}, step=0)
    run.finish()
    found = {"took": time.perf_counter() - began, "x": chiplog.read(run.dir).series("x").values.tolist()}
    with mine.init(reduce=True) as asked:
        asked.log({"x": 1.0}, step=0)
    return found


def one_after_the_other(mine: Rank) -> Any:
    """The ranks' processes end at different times, the last rank first; none calls `finish`."""
    run = mine.init()
    until = time.monotonic() + 0.6 * (mine.world - mine.rank)
    step = 0
    while time.monotonic() < until:
        run.log({"x": float(mine.rank)}, step=step)
        step += 1
        time.sleep(0.02)
    return str(run.dir)


one_after_the_other.leaves = True  # type: ignore[attr-defined]


def forks(mine: Rank) -> Any:
    """Children are forked while rounds are under way, as a data loader does; they log, and end."""
    run = mine.init(reduce="sync")
    codes = []
    for step in range(30):
        run.log({"x": float(mine.rank)}, step=step)
        if step % 5 == 0:
            pid = os.fork()
            if pid == 0:
                run.log({"x": 1.0}, step=step)
                run.finish()
                os._exit(0)
            codes.append(os.waitpid(pid, 0)[1])
    dist.barrier()
    run.finish()
    return {"codes": codes, "dir": str(run.dir)}


def restarted(mine: Rank) -> Any:
    """Two runs one after the other in one process, and the second has the first one's id."""
    rows = []
    for _ in range(2):
        with mine.init(reduce="sync", id="again") as run:
            rows.append(run.log({"x": float(mine.rank)}, step=0))
            dist.barrier()
    until = time.monotonic() + 10
    while (left := [one.name for one in threading.enumerate() if one.name == "chiplog-ranks"]) and (
        time.monotonic() < until
    ):
        time.sleep(0.01)
    return {"rows": rows, "left": left}


def started_again(mine: Rank) -> Any:
    """As torchrun starts ranks again: with the store in which those before have left their words and addresses."""
    store = dist.distributed_c10d._get_default_store()
    if mine.rank == 0:
        for restarts in ("", "0/"):
            store.set(f"chiplog/{restarts}0/word", "old 0123")
            store.set(f"chiplog/{restarts}0/0/go", "[0, 1, 2]")
            for rank in range(3):
                store.set(f"chiplog/{restarts}0/0/0/{rank}", b"no address")
    dist.barrier()
    os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"
    with mine.init(reduce="sync") as run:
        row = run.log({"x": float(mine.rank)}, step=0)
        dist.barrier()
    return {"id": run.id, "row": row}


def closed_under_way(mine: Rank) -> Any:
    """Rank 0 closes the group in the second round; how long the other waits for it."""
    group = torch_gloo.TorchGroup(5.0)
    while not group.form():
        time.sleep(0.001)
    group.exchange(b"one", True)(None)
    finish = group.exchange(b"two", True)
    if mine.rank == 0:
        finish(None)
        finish = group.exchange(b"six", True)
        group.close()
    began = time.perf_counter()
    try:
        for _ in range(4 * mine.rank):
            finish(None)
            finish = group.exchange(b"six", True)
    except GroupBroken:
        pass
    took = time.perf_counter() - began
    dist.barrier()
    return took


closed_under_way.world = 2  # type: ignore[attr-defined]


def gone_before(mine: Rank) -> Any:
    """Rank 1 is ready, and ends before rank 0 starts; how long each attempt of the others took, and who they are."""
    group = torch_gloo.TorchGroup(5.0)
    if mine.rank == 1:
        group.form()
        group.close()
    dist.barrier()
    longest, until, members = 0.0, time.monotonic() + 10, None
    while mine.rank != 1 and not members and time.monotonic() < until:
        began = time.perf_counter()
        members = group.form()
        longest = max(longest, time.perf_counter() - began)
        time.sleep(0.001)
    dist.barrier()
    return {"longest": longest, "members": members}


def refused(mine: Rank) -> Any:
    """Rank 0 makes a mistake in `init`; how long the others wait for it, synchronously."""
    began = time.perf_counter()
    run = None
    try:
        run = mine.init(reduce="sync", probes="nonsense" if mine.rank == 0 else None)
        run.log({"x": 1.0}, step=0)
    except chiplog.ChiplogError:
        pass
    took = time.perf_counter() - began
    dist.barrier()
    return {"took": took, "started": run is not None}


def several_calls(mine: Rank) -> Any:
    """Two calls a step, by ranks that are a little ahead of rank 0: it hears both rows of a step at once."""
    run, rows = mine.init(reduce="sync"), []
    for step in range(3):
        time.sleep(0.05 if mine.rank else 0.1)  # a rank that has nothing to say begins a round after 10 ms
        rows.append([run.log({name: float(mine.rank)}, step=step) for name in ("x", "y")])
        dist.barrier()
    run.finish()
    return {"rows": rows, "dir": str(run.dir)}


def own_rows(mine: Rank) -> Any:
    """Rank 0 logs rows that nobody else does, while the others wait for it, as they do in training."""
    run, rows, longest = mine.init(reduce="sync,deadline=0.5"), [], []
    for step, row in enumerate([{"lr": 0.1}, {}]):
        began = time.perf_counter()
        if mine.rank == 0:
            run.log(row, step=step)
        longest.append(time.perf_counter() - began)
        dist.barrier()
    for step in range(10, 16):
        began = time.perf_counter()
        rows.append(run.log({"loss": float(mine.rank)}, step=step))
        if mine.rank == 0:
            run.log({"only/0": 1.0}, step=step)
        longest.append(time.perf_counter() - began)
        dist.barrier()
    run.finish()
    return {"rows": rows, "longest": longest}


def stopped_synchronously(mine: Rank) -> Any:
    """Rank 2 stands still for two seconds; the others wait for it once, for half a second."""
    run = mine.init(reduce="sync,deadline=0.5")
    started = [time.time()]
    dist.broadcast_object_list(started)  # steps and the end are by one clock, so that no rank leaves before the others
    began = started[0]
    seen: list[tuple[int, float, bool]] = []
    last = -1
    while not seen or time.time() - began < 6:
        step = int((time.time() - began) * 50)
        if step <= last:
            time.sleep(0.002)
            continue
        if mine.rank == 2 and last < 50 <= step:
            subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
            step = int((time.time() - began) * 50)
        asked = time.perf_counter()
        row = run.log({"x": float(step)}, step=step)
        seen.append((step, time.perf_counter() - asked, "x/mean" in row and row.get("x/count", 3) == 3))
        last = step
    run.finish()
    return seen
