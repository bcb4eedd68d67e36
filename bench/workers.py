"""A peer at work in a process of its own, in its own environment, taking turns with the others.

The benchmark holds a `Worker` for each peer; this file is also what runs at the other end (`python -m bench.workers`),
where only the standard library and the peer itself can be imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.peers import PEERS, TRACERS, python_of

ALL = PEERS | TRACERS
ROOT = Path(__file__).parents[1]
QUIET = {  # none of them may phone home or ask a question
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "DO_NOT_TRACK": "true",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "GIT_PYTHON_REFRESH": "quiet",
}


def metrics_of(count: int) -> dict[str, float]:
    """A row as training loops log it."""
    return {f"train/metric_{number}": 0.1234567 * number + 1e-3 for number in range(count)}


class Worker:
    """A run of one peer in another process, which logs when it is told to."""

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "home").mkdir()
        self._errors = folder / "stderr"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [python_of(ALL[name]), "-m", "bench.workers", name, str(folder / "runs")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env={**os.environ, **QUIET, "HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)},
            )
        self._told()  # it has begun its run

    def _told(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args}: ended.\n{self._errors.read_text()[-2000:]}")
        return json.loads(line)

    def log(self, seconds: float, *, pause: float = 0.0) -> list[float]:
        """Microseconds of each call, for so many seconds, with a pause before each; at least 20 calls."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([seconds, pause]).encode() + b"\n")
        self._process.stdin.flush()
        taken: list[float] = self._told()
        return taken

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def workers(names: list[str], folder: Path) -> Iterator[dict[str, Worker]]:
    """One worker for each of these peers, all alive side by side."""
    for name in names:
        python_of(ALL[name])  # no installing while another install is at work
    with ExitStack() as stack:
        made = {}
        for name in names:
            made[name] = Worker(name, folder / name)
            stack.callback(made[name].end)
        yield made


def main(name: str, folder: str) -> None:
    """The other end: begin a run, then read orders from stdin until it is closed."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the peer prints is not an answer
    Path(folder).mkdir()
    os.chdir(folder)
    log, end = ALL[name].begin(Path(folder))
    answers.write(b"null\n")
    step = 0
    metrics = metrics_of(10)
    for order in sys.stdin:
        seconds, pause = json.loads(order)
        taken: list[float] = []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until or len(taken) < 20:
            if pause:
                time.sleep(pause)
            began = time.perf_counter_ns()
            log(metrics, step)
            taken.append((time.perf_counter_ns() - began) / 1e3)
            step += 1
        answers.write(json.dumps(taken).encode() + b"\n")
    end()


if __name__ == "__main__":
    main(*sys.argv[1:])
