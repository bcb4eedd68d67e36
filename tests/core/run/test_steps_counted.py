"""Steps that nobody gives: counted, marked, and gone on with by the next attempt."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import chiplog
from chiplog.core.records import Step
from chiplog.store import layout
from chiplog.store.runs import state
from tests.core.run.begun import begin


def steps(run: chiplog.Run) -> list[Step]:
    return [record for record in chiplog.read(run.dir).records("step") if isinstance(record, Step)]


def log(run: chiplog.Run) -> None:
    for _ in range(3):
        run.log({"loss": 1.0})


def log_spans(run: chiplog.Run) -> None:
    for _ in range(3):
        with run.step(tokens=8):
            run.log({"loss": 1.0})


def log_items(run: chiplog.Run) -> None:
    for _ in run.steps(range(3)):
        run.log({"loss": 1.0})


def log_ends(run: chiplog.Run) -> None:
    for _ in range(3):
        run.start_step()
        run.end_step({"loss": 1.0}, tokens=8)


LOOPS = pytest.mark.parametrize("loop", [log, log_spans, log_items, log_ends])


@LOOPS
def test_the_next_attempt_goes_on_behind_the_last(loop: Callable[[chiplog.Run], None], tmp_path: Path) -> None:
    """However the steps are made; none lies over another."""
    for _ in range(3):
        with begin(tmp_path, id="again") as run:
            loop(run)
    assert chiplog.read(run.dir).series("loss").steps.tolist() == list(range(9))


@LOOPS
def test_every_row_of_a_counted_step_is_marked(loop: Callable[[chiplog.Run], None], tmp_path: Path) -> None:
    """Also those that the end of a step writes."""
    with begin(tmp_path) as run:
        loop(run)
    assert {(record.step, record.auto) for record in steps(run)} == {(0, True), (1, True), (2, True)}


def test_a_given_step_is_not_marked(tmp_path: Path) -> None:
    """Nor what joins it."""
    with begin(tmp_path) as run:
        run.log({"a": 1})
        run.log({"a": 1}, step=7)
        run.log({"b": 1})
        run.start_step(9)
        run.end_step({"a": 1})
        for _ in run.steps(range(1), start=20):
            run.log({"a": 1})
    assert {record.step: record.auto for record in steps(run)} == {0: True, 7: False, 9: False, 20: False}


@jax.jit
def slow(x: jax.Array) -> jax.Array:
    """A value that takes a good part of a second on any CPU."""
    return jax.lax.fori_loop(0, 100, lambda _, y: jnp.tanh(y @ y), x).sum() * 0 + 5


def test_what_comes_later_is_marked_too(tmp_path: Path) -> None:
    """Values that were on a device, and the times of spans."""
    value = jnp.ones((300, 300))
    slow(value).block_until_ready()
    with begin(tmp_path) as run:
        run.trace(True, metrics=True)
        for _ in range(4):
            with run.span("work"):
                pass
            run.log({"late": slow(value), "now": 1.0})
    rows = steps(run)
    assert {name for record in rows for name in record.metrics} >= {"late", "now"}
    assert any(name.startswith("perf/") for record in rows for name in record.metrics)
    assert all(record.auto for record in rows)


def test_loaders_one_after_the_other_go_on(tmp_path: Path) -> None:
    """The second epoch does not lie over the first."""
    with begin(tmp_path) as run:
        for _ in range(2):
            log_items(run)
    assert chiplog.read(run.dir).series("loss").steps.tolist() == list(range(6))


KILLED = """
import os, sys, chiplog
run = chiplog.init("p", sinks="none", dir=sys.argv[1], id="killed")
for _ in range(int(sys.argv[2])):
    run.log({"loss": 1.0})
run.table("much", [{"text": "x" * 1000}] * 3000)
os.kill(os.getpid(), 9)
"""


def test_a_killed_attempt_is_gone_on_with(tmp_path: Path) -> None:
    """From its journal's end, also where much else stands behind the last row."""
    for count in (40, 2):
        done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(count)], check=False)
        assert done.returncode == -9
    with begin(tmp_path, id="killed") as run:
        run.log({"loss": 1.0})
    assert chiplog.read(run.dir).series("loss").steps.tolist() == list(range(43))


def test_the_highest_step_counts_and_not_the_last(tmp_path: Path) -> None:
    """An attempt that went back hides what came after, and that stays the past."""
    for first, last in ((0, 100), (50, 60)):
        with begin(tmp_path, id="back") as run:
            for step in range(first, last):
                run.log({"loss": 1.0}, step=step)
    with begin(tmp_path, id="back") as run:
        run.log({"loss": 1.0})
        assert run.next_step == 101
    assert steps(run)[-1].step == 100


def test_a_long_journal_is_not_read_at_the_start(tmp_path: Path) -> None:
    """A look at its end is enough."""
    with begin(tmp_path, compact=False) as run:
        log(run)
    (segment,) = layout.segments(run.dir)
    file = run.dir / layout.JOURNAL / segment.filename
    text = file.read_bytes()
    with file.open("wb") as long:  # 10 GB that take no room, and no time as long as nobody reads them
        long.truncate(10 << 30)
        os.pwrite(long.fileno(), b"\n" + text, (10 << 30) - len(text) - 1)
    assert state.highest_step(run.dir, 0) == 2
