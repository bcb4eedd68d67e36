"""What the boards cost: event files for TensorBoard, and `log` with many sinks at once."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.peers import PEERS, python_of
from bench.rows import Figure, median, ratio, row

STEPS, ROUNDS = 3000, 5
MANY = ("wandb", "mlflow", "tensorboard", "csv")  # on at once

# Each prints the CPU microseconds of a step, all threads and the end of the run included, without imports and start.
_STEPS = f"metrics = {{f'train/metric_{{n}}': 0.1234567 * n + 1e-3 for n in range(10)}}\nSTEPS = {STEPS}\n"
_OURS = _STEPS + (
    "import chiplog, sys, time\n"
    "where, sinks = sys.argv[1:]\n"
    "run = chiplog.init('bench', sinks=sinks, dir=where, id=sinks, durability='process', compact=False)\n"
    "began = time.process_time()\n"
    "for step in range(STEPS):\n"
    "    run.log(metrics, step=step)\n"
    "run.finish()\n"
    "print((time.process_time() - began) / STEPS * 1e6)\n"
)
_THEIRS = _STEPS + (
    "import sys, time\n"
    "from torch.utils.tensorboard import SummaryWriter\n"
    "writer = SummaryWriter(sys.argv[1])\n"
    "began = time.process_time()\n"
    "for step in range(STEPS):\n"
    "    for name, value in metrics.items():\n"
    "        writer.add_scalar(name, value, step)\n"
    "writer.close()\n"
    "print((time.process_time() - began) / STEPS * 1e6)\n"
)
_PACED = _STEPS + (
    "import chiplog, json, statistics, sys, time\n"
    "where, id, sinks = sys.argv[1:]\n"
    "run = chiplog.init('bench', sinks=json.loads(sinks), dir=where, id=id, durability='process', compact=False)\n"
    "taken = []\n"
    "for step in range(500):\n"
    "    time.sleep(0.002)\n"
    "    began = time.perf_counter()\n"
    "    run.log(metrics, step=step)\n"
    "    taken.append((time.perf_counter() - began) * 1e6)\n"
    "run.finish()\n"
    "print(statistics.median(taken))\n"
)
_READ = (
    "import json, sys\n"
    "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
    "loaded = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})\n"
    "loaded.Reload()\n"
    "tags = loaded.Tags()['scalars']\n"
    "print(json.dumps({tag: [[one.step, one.value] for one in loaded.Scalars(tag)] for tag in tags}))\n"
)


def _told(python: str, code: str, *words: str) -> Any:
    done = subprocess.run([python, "-c", code, *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@row
def tensorboard() -> Iterator[Figure]:
    """10 scalars per step into TensorBoard's files: CPU of the whole process, next to `torch.utils.tensorboard`."""
    theirs = python_of(PEERS["tensorboard"])
    taken: dict[str, list[float]] = {"ours": [], "none": [], "torch": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            runs = Path(folder) / str(number)
            taken["torch"].append(_told(theirs, _THEIRS, str(runs / "torch")))
            taken["ours"].append(_told(sys.executable, _OURS, str(runs), "tensorboard"))
            taken["none"].append(_told(sys.executable, _OURS, str(runs), "none"))
        files = (runs / "bench" / "tensorboard" / "files" / "tensorboard", runs / "torch")
        ours, torch = (_told(theirs, _READ, str(path)) for path in files)
    yield Figure("torch.utils.tensorboard", median(taken["torch"]), "µs CPU per step")
    yield Figure("log with the tensorboard sink", median(taken["ours"]), "µs CPU per step")
    yield Figure("  of it without the sink", median(taken["none"]), "µs CPU per step")
    yield Figure("times cheaper", ratio(taken, "torch", "ours"), "x", 5.0, at_least=True)
    yield Figure("points read back that differ", _differing(ours, torch), "points", 0)


def _differing(ours: dict[str, list[Any]], theirs: dict[str, list[Any]]) -> int:
    """How many points of one file are not those of the other, in tag, step and value."""
    return sum(ours.get(tag) != theirs.get(tag) for tag in ours.keys() | theirs.keys()) * STEPS


@row
def sinks() -> Iterator[Figure]:
    """`run.log` of 10 scalars on the caller's thread, one call every 2 ms, with many sinks on, and with none."""
    taken: dict[str, list[float]] = {"none": [], "many": []}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = {"wandb": {"mode": "offline"}, "mlflow": {"uri": f"sqlite:///{folder}/mlflow.db", "system": False}}
        for number in range(9):
            for name in taken:  # each in a process of its own: sinks of one would share the interpreter of the other
                wanted = {one: options.get(one, {}) for one in MANY} if name == "many" else {"none": {}}
                taken[name].append(_told(sys.executable, _PACED, folder, f"{name}-{number}", json.dumps(wanted)))
    yield Figure("log, no sinks", median(taken["none"]), "µs")
    yield Figure(f"log with {', '.join(MANY)}", median(taken["many"]), "µs")
    yield Figure("  times no sinks", ratio(taken, "many", "none"), "x", 1.5)
