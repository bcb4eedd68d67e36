"""What it costs to begin: `import chiplog` and `init`, in fresh interpreters."""

from __future__ import annotations

import compileall
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import chiplog
from bench.peers import PEERS, python_of
from bench.rows import Figure, median, row
from bench.workers import QUIET


def _cpu(python: str, code: str) -> float:
    """CPU milliseconds of a fresh interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([python, "-c", code], check=True, capture_output=True, env={**os.environ, **QUIET})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


@row
def import_() -> Iterator[Figure]:
    """`import chiplog` in a fresh interpreter, compared with its one dependency and the other trackers."""
    compileall.compile_dir(Path(chiplog.__file__).parent, quiet=1)  # as an installed package is
    pythons = {peer.module: python_of(peer) for peer in PEERS.values()} | {"msgspec": sys.executable}
    taken: dict[str, list[float]] = {module: [] for module in pythons}
    for number in range(21):
        for module, python in pythons.items():
            if module in ("chiplog", "msgspec") or number < 5:  # the slow ones are slow every time
                taken[module].append(_cpu(python, f"import {module}") - _cpu(python, "pass"))
    ours = median(taken["chiplog"])
    yield Figure("import msgspec, over bare Python", median(taken.pop("msgspec")), "ms CPU")
    for module, cpu in taken.items():
        yield Figure(f"import {module}, over bare Python", median(cpu), "ms CPU", 55 if module == "chiplog" else None)
        if module != "chiplog":
            bar = 10 if module in ("wandb", "mlflow", "trackio") else None
            yield Figure("  times chiplog", median(cpu) / ours, "x", bar, at_least=True)


@row
def init() -> Iterator[Figure]:
    """`init` to the first record on disk, in a fresh interpreter."""
    code = (
        "import chiplog, sys, time, tempfile\n"
        "folder = tempfile.mkdtemp()\n"
        "began = time.perf_counter()\n"
        "run = chiplog.init('bench', sinks='none', dir=folder)\n"
        "run.log({'loss': 1.0})\n"
        "print((time.perf_counter() - began) * 1e3)\n"
    )
    starts = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout) for _ in range(9)
    ]
    yield Figure("init to the first record on disk", median(starts), "ms", 20)
