"""The client of W&B that gets nowhere: outages of any length, and ends that nobody announced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chiplog.sinks.delivery.retries import BACK_OFF
from tests.faults.harness import FULL
from tests.sinks.wandb.server import Remote, Server
from tests.support.waiting import wait_for
from tests.support.wandb_runs import PRELUDE, QUICK, environ, kill_relay, offline_rows, relay_pids, server, train

pytestmark = pytest.mark.timeout(900)
__all__ = ["server"]

RUN = Path("runs/tiny-lm/run")
STATUS = RUN / "relay" / "r00000-a01.json"
ROWS = [(step, step / 7) for step in range(30)]
OPENING = 20.0  # s that a relay on a busy machine may take from a try to the first row at the server

TRAINING = """
run = init(sinks={"wandb": {"settings": SETTINGS}}, relay=RELAY)
for step in range(30):
    run.log({"loss": step / 7}, step=step)
    if step == HALF:
        Path("half").touch()
        while not Path("down").exists():
            time.sleep(0.05)
Path("logged").touch()
while not Path("go").exists():
    time.sleep(0.05)
end(run)
"""
OWN = """
import wandb
own = wandb.init(project="own", mode="offline", settings=wandb.Settings(silent=True))
"""


@contextmanager
def training(
    code: str, world: dict[str, str], settings: dict[str, object], relay: str = "auto", half: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A training script beside the test, which may wait halfway for the file `down`."""
    names = f"SETTINGS, RELAY, HALF = {settings!r}, {relay!r}, {half!r}\n"
    Path("train.py").write_text(PRELUDE % QUICK + names + textwrap.dedent(code))
    words = [sys.executable, "train.py"]
    with subprocess.Popen(words, env=world, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
            kill_relay()


def arrived(server: Server) -> list[tuple[object, object]]:
    return server.runs.get("run", Remote("")).series("loss")


def tries(server: Server, name: str) -> int:
    return server.asked[name]


OUTAGES = [(relay, half, away) for relay in ("auto", "thread") for half in (None, 14) for away in (5, 90, 600)]


@pytest.mark.parametrize(("relay", "half", "away"), OUTAGES if FULL else [("auto", None, 5), ("thread", 14, 5)])
def test_an_outage_of_any_length_ends_with_the_next_try(
    server: Server, relay: str, half: int | None, away: float
) -> None:
    """Down from the start or the middle for so many seconds: rows arrive one pause after the service has come back."""
    if half is None:
        server.stop()
    with training(TRAINING, environ(server), QUICK, relay, half) as process:
        if half is not None:
            wait_for(lambda: arrived(server) == ROWS[: half + 1], 60)
            server.stop()
            Path("down").touch()
        wait_for(Path("logged").exists, 60)
        time.sleep(away)  # the outage itself
        server.start()
        back = time.monotonic()
        wait_for(lambda: arrived(server) == ROWS, 120)
        assert time.monotonic() - back < BACK_OFF[1] + OPENING
        Path("go").touch()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert said.count("sink 'wandb' failed") <= 1
    assert server.runs["run"].exit == 0 and len(server.runs["run"].lines) == len(ROWS)
    assert half is not None or server.runs["run"].sent == len(ROWS)


@pytest.mark.parametrize(("relay", "own"), [("auto", ""), ("thread", OWN)], ids=["relay", "beside another run"])
def test_a_beginning_that_fails_is_tried_with_a_new_client(server: Server, relay: str, own: str) -> None:
    """W&B's client refuses the id of a run whose beginning it has given up, for as long as it lives. One that serves
    another run too is left alone, and a relay process delivers."""
    server.refuses["UpsertBucket"] = 503
    with training(own + TRAINING, environ(server), {**QUICK, "init_timeout": 2}, relay) as process:
        wait_for(lambda: STATUS.exists() and "failing" in STATUS.read_text(), 60)
        first = tries(server, "UpsertBucket")
        wait_for(lambda: tries(server, "UpsertBucket") > first, 60)
        server.refuses.clear()
        wait_for(lambda: arrived(server) == ROWS, BACK_OFF[1] + OPENING)
        Path("go").touch()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert said.count("sink 'wandb' failed") == 1, said
    assert "in use" not in said + STATUS.with_suffix(".log").read_text()
    assert server.runs["run"].exit == 0


class Shared(Server):
    """Gets a row of another process at the moment when a run starts."""

    def _UpsertBucket(self, given: dict[str, object]) -> dict[str, object]:
        answer = super()._UpsertBucket(given)
        if self.asked["UpsertBucket"] == 2:  # the first asks whether the run was deleted
            self.runs["run"].lines.append('{"_step": 0, "theirs": 1}')
        return answer


def test_a_run_that_cannot_be_used_yet_is_given_up_with_its_client() -> None:
    """It has started, but rows of another process came in between: the next try may use its id again."""
    server = Shared()
    server.runs["run"] = Remote("run")
    try:
        with training(TRAINING, environ(server, WANDB_RUN_ID="run"), QUICK) as process:
            wait_for(lambda: arrived(server) == ROWS, 60)
            Path("go").touch()
            _, said = process.communicate(timeout=60)
    finally:
        server.stop()
    assert process.returncode == 0, said
    log = STATUS.with_suffix(".log").read_text()
    assert "rows of run run from another process" in log and "in use" not in log


GIVEN_UP = """
import threading
import wandb
from wandb.sdk import wandb_run
from chiplog.sinks.wandb import client

class Event(threading.Event):
    def wait(self, timeout=None):
        between.set()
        return super().wait(timeout)

class Checker(wandb_run.RunStatusChecker):
    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        self._join_event = Event()

between, wandb_run.RunStatusChecker = threading.Event(), Checker
client.start()
run = wandb.init(project="tiny-lm", settings=wandb.Settings(console="off", silent=True))
assert between.wait(30) and client.discard(run) and wandb.run is None
run._run_status_checker._network_status_thread.join(10)
"""


def test_a_client_that_is_given_up_does_not_complain(server: Server) -> None:
    """Its thread, which asks for the state of the network now and then, ends without a traceback on stderr."""
    done = train(GIVEN_UP, environ(server))
    assert "Traceback" not in done.stderr, done.stderr


def test_a_client_that_dies_is_replaced(server: Server) -> None:
    """SIGKILL of the SDK's own process in the middle of a run: what follows arrives, and nothing twice."""
    code = """
    run = init(sinks={"wandb": {"settings": SETTINGS}})
    for step in range(30):
        run.log({"loss": step / 7}, step=step)
        if step == 15:
            Path("half").touch()
            while not Path("go").exists():
                time.sleep(0.05)
    end(run)
    """
    with training(code, environ(server), QUICK) as process:
        wait_for(lambda: len(arrived(server)) == 16, 60)
        (relay,) = relay_pids(RUN)
        os.kill(child(relay, "wandb-core"), signal.SIGKILL)
        Path("go").touch()
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert arrived(server) == ROWS and server.runs["run"].exit == 0


def child(pid: int, name: str) -> int:
    """A process that another one has started."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and name in (path / "cmdline").read_text():
                return int(path.name)
        except OSError:
            continue
    raise AssertionError(f"{pid} has no {name}")


# -- ends --------------------------------------------------------------------------------------------------------------

ENDS = {
    "end": ("", 0),
    "exit": ("sys.exit(3)", 3),
    "exception": ("raise ValueError('no')", 1),
    "_exit": ("os._exit(4)", 4),
    "kill": ("os.kill(os.getpid(), 9)", -9),
}
ABRUPT = ("_exit", "kill")
EVERY = [(how, relay, mode) for how in ENDS for relay in ("auto", "thread") for mode in ("online", "offline")]
SOME = [
    ("end", "thread", "offline"),
    ("exit", "thread", "online"),
    ("exception", "thread", "offline"),
    ("_exit", "thread", "online"),
    ("kill", "auto", "offline"),
    ("end", "auto", "online"),
]


@pytest.mark.parametrize(("how", "relay", "mode"), EVERY if FULL else SOME)
def test_an_end_without_finish_is_complete(server: Server, how: str, relay: str, mode: str) -> None:
    """However a script ends, W&B gets what the journal has; for a thread that was killed, a process stands by."""
    last, code = ENDS[how]
    script = f"""
    run = init(relay={relay!r})
    for step in range(29):
        run.log({{"loss": step / 7}}, step=step)
    while {relay!r} == "thread" and run.sink("wandb").native is None:
        time.sleep(0.01)  # now W&B's client has said what it will do at the end
    run.log({{"loss": 29 / 7}}, step=29)
    {last}
    """
    world = environ(server, WANDB_MODE=mode)
    with training(script, world, {}) as process:
        _, said = process.communicate(timeout=60)
        assert process.returncode == code, said
        wait_for(lambda: not relay_pids(RUN), 60)
    if mode == "online":
        assert arrived(server) == ROWS
        assert server.runs["run"].exit == (0 if how == "end" else 1)
    else:
        found = [(row["step"], row["loss"]) for row in offline_rows() if "loss" in row]
        assert found == ROWS or (relay == "thread" and how in ABRUPT and set(found) == set(ROWS))
    assert "failed" not in said and "not complete" not in said


def test_a_relay_goes_on_with_what_a_thread_leaves(server: Server) -> None:
    """W&B hangs when the training ends: a process of its own brings the rest when it is back."""
    server.weather = "hang"
    script = """
    run = init(relay="thread")
    for step in range(30):
        run.log({"loss": step / 7}, step=step)
    done = run.finish(timeout=3)
    assert not done and "the relay process" in done.missing["wandb"], done.missing
    """
    with training(script, environ(server), {}) as process:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        server.weather = None
        wait_for(lambda: arrived(server) == ROWS and server.runs["run"].exit == 0, 90)
