"""Every way out of a training process, with and without a sink that hangs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import chiplog
from tests.support.waiting import wait_for

from . import reference
from .harness import FULL, PATIENCE, count, trainer

pytestmark = pytest.mark.timeout(PATIENCE)


class Exit(NamedTuple):
    """What the trainer does at its end, and what must come of it."""

    code: str
    state: str
    status: int
    send: signal.Signals | None = None
    more: str = ""  # further arguments of init


MATRIX = {
    "return": Exit("", "finished", 0),
    "exception": Exit("raise ValueError('boom')", "failed", 1),
    "sys.exit": Exit("sys.exit(3)", "failed", 3),
    "os._exit": Exit("os._exit(4)", "killed", 4),
    "keyboard interrupt": Exit("sleep()", "interrupted", -2, signal.SIGINT),
    "SIGTERM": Exit("sleep()", "killed", -15, signal.SIGTERM),
    "SIGTERM with a handler": Exit(
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); sleep()", "failed", 9, signal.SIGTERM
    ),
    "SIGTERM with flush": Exit("sleep()", "killed", -15, signal.SIGTERM, 'on_signal="flush"'),
    "SIGHUP": Exit("sleep()", "killed", -1, signal.SIGHUP),
    "a daemon thread still logs": Exit(
        "def work():\n    while True: run.log({'thread': 1})\nthreading.Thread(target=work, daemon=True).start()",
        "finished",
        0,
    ),
    "exception at exit": Exit("atexit.register(lambda: 1 / 0)", "finished", 0),
    "finish twice": Exit("run.finish(); run.finish()", "finished", 0),
    "log after finish": Exit("run.finish(); run.log({'late': 1}); run.event('late'); run.flush()", "finished", 0),
    "finish in __del__": Exit(
        "class Late:\n    def __del__(self): run.finish()\nlate = Late(); del late", "finished", 0
    ),
    "with block": Exit("with run:\n    raise KeyError('inside')", "failed", 1),
}

# The bound of `finish` is 30 s; the tests of hanging sinks set it lower for the whole trainer, but for one.
TRAIN = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins with these ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)

class Hangs:
    def write(self, batch):
        threading.Event().wait()
    def close(self):
        pass

def sleep():
    while True:
        time.sleep(0.01)

if {timeout}:
    chiplog.Run.finish.__defaults__ = ({timeout}, *chiplog.Run.finish.__defaults__[1:])
run = init(sinks={sinks}, {more})
for n in range(50):
    run.log({{"i": n}}, step=n)
while not any(event.name == "environment" for event in chiplog.read(run.dir).records("event")):
    time.sleep(0.01)
ack(49)
"""


def leave(folder: Path, way: Exit, *, hangs: bool, timeout: float = 0) -> tuple[float, str]:
    """Go this way out; the seconds it took, and what was said."""
    code = TRAIN.format(timeout=timeout, sinks="[Hangs()]" if hangs else '"none"', more=way.more)
    with trainer(folder, f"{code.strip()}\n{way.code}\n") as leaving:
        leaving.until_acked(49)
        if way.send is not None:
            leaving.send(way.send)
        began = time.monotonic()
        assert leaving.wait(60) == way.status, leaving.said
        took = time.monotonic() - began
        assert reference.series(leaving.run, "i") == list(range(50))
        assert chiplog.read(leaving.run).state == way.state
        return took, leaving.said


@pytest.mark.parametrize("way", MATRIX)
def test_every_way_out_has_its_state_and_its_exit_code(tmp_path: Path, way: str) -> None:
    """The exit code is the user's, the state says what happened, every record is there, and the end comes at once."""
    took, said = leave(tmp_path, MATRIX[way], hangs=False)
    assert took < 5
    if MATRIX[way].status != 1 and way != "exception at exit" and MATRIX[way].send != signal.SIGINT:
        assert "Traceback" not in said


@pytest.mark.parametrize("way", MATRIX)
def test_a_sink_that_hangs_holds_nobody(tmp_path: Path, way: str) -> None:
    """The same with a sink whose write never returns: the same state and code, at most 5 s after finish's own bound."""
    took, said = leave(tmp_path, MATRIX[way], hangs=True, timeout=0.5)
    assert took < 0.5 + 5
    if MATRIX[way].state in ("finished", "failed", "interrupted"):
        assert "'hangs' is not complete" in said


@pytest.mark.parametrize("way", ["return", "exception"])
def test_the_bound_of_finish_holds_at_interpreter_exit(tmp_path: Path, way: str) -> None:
    """A run that nobody finished: the interpreter is gone 5 s after finish's bound (in full, its default of 30 s)."""
    took, _ = leave(tmp_path, MATRIX[way], hangs=True, timeout=0 if FULL else 2)
    assert took < (30 if FULL else 2) + 5


def test_finish_says_what_is_not_delivered(tmp_path: Path) -> None:
    """finish(timeout) returns in time, false, and names the sink that hangs."""
    code = (
        TRAIN.format(timeout=0, sinks="[Hangs()]", more="")
        + """
began = time.monotonic()
delivery = run.finish(timeout=1)
assert not delivery and list(delivery.missing) == ["hangs"], delivery
assert time.monotonic() - began < 2
ack(1000)
"""
    )
    with trainer(tmp_path, code) as leaving:
        assert leaving.wait(20) == 0, leaving.said
        assert leaving.acked == 1000


def test_a_failure_says_why(tmp_path: Path) -> None:
    """The finish record of a failed run holds the exception's type and text."""
    leave(tmp_path, MATRIX["exception"], hangs=False)
    [finish] = reference.records(tmp_path / "runs" / "faults" / "run", "finish")
    assert finish["state"] == "failed"
    assert finish["reason"] == "ValueError: boom"


def test_two_signals_are_no_worse_than_one(tmp_path: Path) -> None:
    """SIGTERM twice with on_signal="flush": flushed, killed, and the user's own handler is still called."""
    code = """
    signal.signal(signal.SIGTERM, lambda *_: print("mine", file=sys.stderr, flush=True))
    run = init(on_signal="flush", durability="relaxed")
    for n in range(50):
        run.log({"i": n}, step=n)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    with trainer(tmp_path, code) as leaving:
        assert leaving.wait() == -9
        assert leaving.said.count("mine") == 2
        assert reference.series(leaving.run, "i") == list(range(50))


SECOND = {
    "SIGINT": ("", signal.SIGINT, "interrupted", -2),
    "SIGTERM with a handler": ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))", signal.SIGTERM, "failed", 9),
}


@pytest.mark.parametrize("way", SECOND)
@pytest.mark.parametrize("waits_for", ["before its end", "a sink"])
def test_a_second_signal_ends_the_waiting(tmp_path: Path, way: str, waits_for: str) -> None:
    """The first signal ends the run, which still waits for something; the second ends that, and the state is right."""
    handler, number, state, status = SECOND[way]
    hold = "run.before_finish(lambda: (ack(100), time.sleep(60)))" if waits_for == "before its end" else ""
    code = TRAIN.format(timeout=0, sinks="[Hangs()]" if waits_for == "a sink" else '"none"', more="").replace(
        "ack(49)", f"{hold}\n{handler}\nack(49)\nsleep()"
    )
    with trainer(tmp_path, code) as leaving:
        leaving.until_acked(49)
        leaving.send(number)
        if hold:
            leaving.until_acked(100)
        else:
            wait_for(lambda: reference.records(leaving.run, "finish"))
            time.sleep(0.2)
        leaving.send(number)
        assert leaving.wait(10) == status, leaving.said
        assert chiplog.read(leaving.run).state == state
        assert reference.series(leaving.run, "i") == list(range(50))


PREEMPTED = {
    "no handler": "run = init()",
    "a handler": "signal.signal(signal.SIGTERM, mine); run = init()",
    "flush": 'run = init(on_signal="flush", durability="relaxed")',
    "flush and a handler": 'signal.signal(signal.SIGTERM, mine); run = init(on_signal="flush")',
    "flush below a handler": 'run = init(on_signal="flush"); signal.signal(signal.SIGTERM, mine)',
}


@pytest.mark.parametrize("way", PREEMPTED)
def test_a_preempted_job_loses_nothing(tmp_path: Path, way: str) -> None:
    """SIGTERM to the whole tree, then SIGKILL: all is kept, the run was killed, and the user's handler was called."""
    code = f"""
def mine(*_):
    print("mine", file=sys.stderr, flush=True)
{PREEMPTED[way]}
n = 0
while True:
    run.log({{"i": n}}, step=n)
    ack(n)
    n += 1
    time.sleep(0.001)
"""
    with trainer(tmp_path, code) as preempted:
        preempted.until_acked(100)
        os.killpg(preempted.process.pid, signal.SIGTERM)
        handled = way.endswith("a handler")
        if handled:  # it goes on training
            wait_for(lambda: "mine" in preempted.said)
            preempted.until_acked(preempted.acked + count(100, 1000))
        else:
            preempted.process.wait(30)
        preempted.kill_tree()
        assert preempted.process.returncode == (-9 if handled else -15)
        assert preempted.said.count("mine") == handled
        found = reference.series(preempted.run, "i")
        assert found == list(range(len(found)))
        assert len(found) - 1 - preempted.acked in (0, 1)  # the last may be written and not yet acknowledged
        assert chiplog.read(preempted.run).state == "killed"


def test_a_stuck_executor_of_the_user_costs_no_record(tmp_path: Path) -> None:
    """A worker thread that never ends keeps the interpreter alive: what was logged is in the journal already."""
    code = """
    import concurrent.futures
    pool = concurrent.futures.ThreadPoolExecutor(1)
    pool.submit(threading.Event().wait)
    run = init()
    for n in range(50):
        run.log({"i": n}, step=n)
    ack(49)
    """
    with trainer(tmp_path, code) as stuck:
        stuck.until_acked(49)
        assert reference.series(stuck.run, "i") == list(range(50))
