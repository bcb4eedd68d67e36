"""Starting trainers, waiting for what they do, and ending them: what the fault tests share."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.support.waiting import wait_for

T = TypeVar("T")

FULL = os.environ.get("CHIPLOG_FAULTS") == "full"
PATIENCE = 3600 if FULL else 120  # s for one test

# A trainer acknowledges a record in a file of its own after `log` has returned; what was acknowledged must be kept.
PRELUDE = """
import atexit, gc, os, signal, sys, threading, time
import chiplog

ROOT = sys.argv[1]
_ack = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT, 0o600)

def ack(n):
    os.pwrite(_ack, b"%020d" % n, 0)

def init(**more):
    return chiplog.init(project="faults", id="run", dir=ROOT, **{"sinks": "none", **more})
"""

# A trainer that hangs says where, and ends.
WATCHED = f"import faulthandler; faulthandler.dump_traceback_later({PATIENCE // 3}, exit=True)\n"
# Logs at 1 kHz until the file `stop` is there.
STEADY = """
run = init()
n = 0
while not os.path.exists("stop"):
    run.log({"i": n}, step=n)
    ack(n)
    n += 1
    time.sleep(0.001)
"""

# The last words of a trainer whose loss is to be checked.
COUNTED = """
run.finish()
print("given out", next(run._recorder.seq), file=sys.stderr, flush=True)
"""


def count(few: int, many: int) -> int:
    """How often: `few` on every change, `many` with CHIPLOG_FAULTS=full."""
    return many if FULL else few


class Trainer:
    """A training process of ours, in a session of its own so that its whole tree can be killed."""

    def __init__(
        self,
        folder: Path,
        code: str,
        *words: str,
        root: Path | None = None,
        under: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.dir = (root or folder) / "runs"
        self.run = self.dir / "faults" / "run"
        self._ack = folder / "ack"
        script = folder / "train.py"
        script.write_text(PRELUDE + textwrap.dedent(code.strip("\n")))
        self.stderr = folder / f"stderr-{time.monotonic_ns()}"
        with self.stderr.open("wb") as errors:
            self.process = subprocess.Popen(
                [*under, sys.executable, str(script), str(self.dir), str(self._ack), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                cwd=folder,
                env={**os.environ, **(env or {})},
            )

    @property
    def acked(self) -> int:
        """How far the trainer says it has come; -1 before the first record."""
        try:
            return int(self._ack.read_bytes() or b"-1")
        except FileNotFoundError:
            return -1

    @property
    def said(self) -> str:
        """What it wrote to stderr so far."""
        return self.stderr.read_text(errors="replace")

    @property
    def missing_said(self) -> int:
        """How many records it said were missing, at its end."""
        found = re.search(r"chiplog: ([\d,]+) records of run run are missing", self.said)
        return int(found[1].replace(",", "")) if found else 0

    @property
    def given_out(self) -> int:
        """How many `seq` numbers it gave out, if its last words were `COUNTED`; -1 if not."""
        found = re.search(r"given out (\d+)\n$", self.said)
        return int(found[1]) if found else -1

    def kill_tree(self) -> None:
        """SIGKILL for the process and all it started; returns when it is gone."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(60)  # a write to a busy disk ends first

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout: float = 60) -> int:
        """Its exit code."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill_tree()
            raise AssertionError(f"the trainer did not end within {timeout} s; it said:\n{self.said}") from None

    def until_acked(self, n: int, timeout: float = 30) -> None:
        wait_for(lambda: self.acked >= n or self.process.poll() is not None, timeout, f"record {n} of {self.acked}")
        assert self.acked >= n, f"the trainer ended at record {self.acked} of {n}; it said:\n{self.said}"


@contextmanager
def trainer(folder: Path, code: str, *words: str, **more: object) -> Iterator[Trainer]:
    """A trainer that is gone when the test is."""
    made = Trainer(folder, code, *words, **more)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.kill_tree()
