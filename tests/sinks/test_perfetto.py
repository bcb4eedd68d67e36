"""The trace file that grows with the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import chiplog
from chiplog.core.records import Attempt, Step
from chiplog.sinks.perfetto import Perfetto
from tests.perfetto.processor import SLICES, ask
from tests.support.span_batches import NOW, batch


def test_the_sink_writes_what_the_view_writes(tmp_path: Path) -> None:
    """The same spans, while the run goes on; one process for each attempt."""
    for attempt in range(2):
        with chiplog.init("p", id="run", sinks="perfetto", dir=tmp_path, strict=True) as run:
            for step in range(3):
                run.log({"train/loss": 1.0}, step=step)
                with run.span(f"attempt {attempt}"), run.span("inner"):
                    pass
    slices, processes = ask(
        run.dir / "files" / "trace-r00000.pftrace", SLICES, "select name from process where pid > 0"
    )
    stored = chiplog.read(run.dir).spans()
    assert sorted((row["name"], row["ts"], row["dur"]) for row in slices) == sorted(
        (span.name, span.start, span.duration) for span in stored
    )
    assert len(processes) == 2 and {row["depth"] for row in slices if row["name"] == "inner"} == {1}


def test_a_killed_run_leaves_a_trace_that_opens(tmp_path: Path) -> None:
    """Everything up to the last batch is in it."""
    code = (
        "import chiplog, time\n"
        f"run = chiplog.init('p', id='run', sinks='perfetto', dir={str(tmp_path)!r})\n"
        "for step in range(10**9):\n"
        "    with run.span('step', tags={'n': step}): time.sleep(0.001)\n"
        "    run.log({'train/loss': 1.0}, step=step)\n"
    )
    victim = subprocess.Popen([sys.executable, "-c", code])
    path = tmp_path / "p" / "run" / "files" / "trace-r00000.pftrace"
    deadline = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size > 20_000):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    [slices] = ask(path, SLICES)
    assert len(slices) > 100


ATTEMPT = Attempt(0, NOW, 1, "l", 0, 1, "here", 5, 0, "process", "0.1.0")


def test_a_sink_goes_on_after_a_failure(tmp_path: Path) -> None:
    """Cut back to its last state, with the same tracks, nothing twice and nothing unreadable."""
    path = tmp_path / "t.pftrace"
    sink = Perfetto(path)
    sink.write([ATTEMPT, batch(("one", 1, 2)), Step(1, NOW, 0, {"train/loss": 2.0})])
    state = sink.state()
    sink.write([batch(("lost", 3, 4))])
    sink.restore(state)
    sink.write([batch(("two", 3, 4))])
    again = Perfetto(path)  # another process
    again.restore(sink.state())
    again.write([batch(("three", 5, 6)), Step(1, NOW + 9, 0, {"train/loss": 1.0})])
    again.close()
    slices, tracks, threads = ask(
        path,
        SLICES,
        "select count(distinct track_id) as n from counter",
        "select count(distinct utid) as n from thread where name = 'main'",
    )
    assert [row["name"] for row in slices] == ["one", "two", "three"]
    assert tracks == [{"n": 1}] and threads == [{"n": 1}]


def test_an_append_costs_what_is_new(tmp_path: Path) -> None:
    """The bytes of a step do not grow with what the file already holds."""
    sink = Perfetto(tmp_path / "t.pftrace")
    sink.write([ATTEMPT])
    sizes = []
    for step in range(50):
        before = sink.state()["size"]
        sink.write([batch(*[("work", step + n / 10, step + n / 10 + 0.05) for n in range(10)])])
        sizes.append(sink.state()["size"] - before)
    assert max(sizes[1:]) == min(sizes[1:]) < 600
