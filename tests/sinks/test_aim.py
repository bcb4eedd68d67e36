"""The Aim sink, through a run and its relay, read back by Aim itself from a real repository, or a real server's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chiplog
from tests.sinks.conftest import png
from tests.support import packages
from tests.support.aim_runs import points, runs
from tests.support.ports import free_port
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timeout(300)  # a new repository takes seconds to make, and many on a busy machine


@pytest.fixture(autouse=True)
def aim() -> None:
    packages.need("aim")


def test_a_run_arrives_and_a_new_attempt_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All numbers by the names of the services, the config as parameters, what Aim has objects for, alerts as messages; of a
    step logged again the newer value. The repository is where the training sees it."""
    monkeypatch.chdir(tmp_path)
    sinks = {"aim": {"repo": "aim", "experiment": "tiny", "name": "one"}}

    def begin(**more: Any) -> chiplog.Run:
        return chiplog.init("test", sinks=sinks, dir=tmp_path / "runs", id="run", **more)

    run = begin(config={"lr": 0.1, "model": {"layers": [1, 2]}, "seed": 10**30})
    for step in range(10):
        run.log({"loss": step / 7}, step=step)
    run.log({"nan": float("nan"), "huge": 10**400, "on": True, "a\ud800": 1.0}, step=9)
    run.eval({"loss": 2.5}, step=9)
    run.event("gpu", id=1, dram_free=8 << 30, power=300)
    run.event("moe", aux_loss=0.5)
    run.event("allocator", stats=[{"name": "weights", "device": 4 << 30}])
    run.log({"said": chiplog.Text("<hi>\ud800"), "picture": chiplog.Image(png(), caption="red")}, step=9)
    run.log({"even": chiplog.Histogram(edges=[0, 1, 2], counts=[3, 4])}, step=9)
    run.log({"uneven": chiplog.Histogram(edges=[0, 1, 4], counts=[3, 6])}, step=9)
    run.alert("too hot", text="90 degrees", level="error")
    run.alert("too cold")
    assert run.finish(timeout=120)
    again = begin(config={"lr": 0.2})
    for step in range(8, 12):
        again.log({"loss": step * 10}, step=step)
    assert again.finish(timeout=120)

    (found,) = runs(tmp_path / "aim")
    assert (found["name"], found["experiment"]) == ("one", "tiny")
    assert found["params"]["config"] == {"lr": 0.2, "model": {"layers": [1, 2]}, "seed": str(10**30)}
    assert found["params"]["chiplog"] == {"id": "run", "project": "test"}
    assert points(found, "loss") == [(step, step / 7) for step in range(8)] + [(n, n * 10.0) for n in range(8, 12)]
    assert points(found, "eval/loss") == [(9, 2.5)]
    assert points(found, "gpu/1/dram_free") == [(9, 8192.0)]
    assert points(found, "gpu/1/power") == [(9, 300.0)]
    assert points(found, "train/aux_loss") == points(found, "train/moe_aux_loss") == [(9, 0.5)]
    assert points(found, "allocator/weights_mib") == [(9, 4096.0)]
    assert points(found, "huge") == [(9, float("inf"))]
    assert points(found, "on") == points(found, "a\\ud800") == [(9, 1.0)]
    assert str(points(found, "nan")) == "[(9, nan)]"
    assert found["media"] == {
        "said": [[9, "<hi>\\ud800"]],
        "picture": [[9, ["red", [255, 0, 0]]]],
        "even": [[9, [[3.0, 4.0], [0.0, 1.0, 2.0]]]],
        "uneven": [[9, [[5.0, 4.0], [0.0, 2.0, 4.0]]]],
    }
    said = [(one["log_level"], one["message"]) for one in found["said"]]
    assert ("ERROR", "too hot: 90 degrees") in said and ("WARNING", "too cold") in said
    assert not [name for name in found["series"] if name.startswith("__system")]
    (first, *_) = chiplog.read(run.dir).records("step")
    assert abs(found["series"]["loss"][2][0] - first.time / 1e9) < 0.001


# What Aim cannot take, with the sink in a process of its own: Aim leaves threads behind.
REFUSED = """
import sys
from pathlib import Path
from chiplog.core.identity import Identity
from chiplog.core.records import File, Step, TextRecord
from chiplog.sinks import aim

here = Path(sys.argv[1])
(here / "drawing.svg").write_text("<svg/>")
sink = aim.open_sink(Identity("test", "run", here, "one", "launch", cwd=str(here)), {})
sink.write([Step(0, 10**18, 0, {"loss": 1.0}), TextRecord(1, 10**18, "said", "x", 0)])
for number in (File(2, 10**18, "drawing", "drawing.svg", "image/svg+xml", 6, "", 0), TextRecord(3, 10**18, "loss", "x", 1),
               Step(4, 10**18, 1, {"said": 2.0})):
    try:
        sink.write([number])
    except aim.Rejected:
        print("rejected")
sink.write([File(5, 10**18, "gone", "gone.png", "image/png", 6, "", 0)])
sink.close()
"""


def test_what_aim_will_never_take_holds_nothing_up(tmp_path: Path) -> None:
    """A drawing that it does not take for a picture, a name that was of another kind: left out, and not retried forever. Without
    a repository it is `.aim` in the training's folder, wherever the sink runs."""
    words = [sys.executable, "-c", REFUSED, str(tmp_path)]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False, cwd=elsewhere)
    assert done.stdout.split() == ["rejected"] * 3, done.stderr
    assert (tmp_path / ".aim").is_dir()


class Server:
    """A real `aim server` on loopback, that may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "aim"
        self.repo.mkdir()
        self.port = free_port()
        self.uri = f"aim://127.0.0.1:{self.port}"
        self._log = folder / "aim-server.log"

    def start(self) -> None:
        program = Path(sys.executable).with_name("aim")
        words = [program, "server", "--yes", "--repo", self.repo, "--host", "127.0.0.1", "--port", str(self.port)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        wait_for(self._answers, 120, "an Aim server")

    def signal(self, number: int) -> None:
        """It is two processes, of which one serves."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    made.start()
    yield made
    made.kill()


def test_a_server_that_is_killed_and_started_again_has_every_point(server: Server, tmp_path: Path) -> None:
    """Once, in one run, with what came while it was away and with a second attempt."""
    sinks = {"aim": {"repo": server.uri, "experiment": "tiny"}}

    def begin() -> chiplog.Run:
        return chiplog.init("test", sinks=sinks, dir=tmp_path / "runs", id="run", config={"lr": 0.1})

    def has(run: chiplog.Run, records: int) -> bool:
        return bool(run.health()["sinks"]["aim"].get("delivered", 0) >= records)

    run = begin()
    for step in range(20):
        run.log({"loss": step / 7}, step=step)
    wait_for(lambda: has(run, 20), 60, "a first delivery")
    server.kill()
    for step in range(20, 40):
        run.log({"loss": step / 7}, step=step)
    server.start()
    wait_for(lambda: has(run, 40), 120, "the rest")
    assert run.finish(timeout=60)
    again = begin()
    again.log({"loss": 40 / 7}, step=40)
    again.alert("too hot")
    assert again.finish(timeout=60)
    (found,) = runs(server.repo)
    assert points(found, "loss") == [(step, step / 7) for step in range(41)]
    assert found["params"]["config"] == {"lr": 0.1} and found["experiment"] == "tiny"
    assert "too hot" in [one["message"] for one in found["said"]]


STOPPED = """
import os, signal, sys
from pathlib import Path
from chiplog.core.identity import Identity
from chiplog.core.records import Step
from chiplog.sinks import aim

aim.PATIENCE = 1.0
uri, group = sys.argv[1], int(sys.argv[2])
sink = aim.open_sink(Identity("test", "run", Path.cwd(), "one", "launch"), {}, repo=uri)
sink.write([Step(0, 10**18, 0, {"loss": 0.0})])
kept = sink.state()
os.killpg(group, signal.SIGSTOP)
try:
    sink.write([Step(1, 10**18, 1, {"loss": 1.0})])
except ConnectionError as error:
    print(error)
os.killpg(group, signal.SIGCONT)
sink.restore(kept)
sink.write([Step(1, 10**18, 1, {"loss": 1.0})])
sink.close()
print("closed")
"""


def test_a_server_that_hangs_is_not_waited_for_without_end(server: Server, tmp_path: Path) -> None:
    """The batch is tried again over another connection, and the process can end."""
    words = [sys.executable, "-c", STOPPED, server.uri, str(server.process.pid)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path)
    assert "has accepted nothing for 1 s" in done.stdout and "closed" in done.stdout, done.stderr
    (found,) = runs(server.repo)
    assert points(found, "loss") == [(0, 0.0), (1, 1.0)]
