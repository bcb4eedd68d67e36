"""Deliverers that are killed at the worst moment: nothing is lost, and where a service has a key, nothing is there twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import chiplog
from tests.faults.harness import PATIENCE, count, trainer
from tests.sinks.conftest import Boat
from tests.sinks.mlflow.server import Server
from tests.sinks.wandb.server import Server as Wandb
from tests.support import packages
from tests.support.aim_runs import points as aim_points
from tests.support.aim_runs import runs as aim_runs
from tests.support.destinations import enrol, enrolled
from tests.support.otlp import Endpoint
from tests.support.trackio_runs import steps as trackio_steps
from tests.support.waiting import wait_for
from tests.support.wandb_runs import KEY, QUICK

pytestmark = [
    pytest.mark.timeout(max(PATIENCE, 600)),  # the packages of services take seconds to import, many on a busy machine
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]

TIMES = count(2, 100)
Points = list[tuple[int, float]]

# Small batches; after SAVES of them have been noted, the next is accepted and not noted any more.
MURDER = """
import os, signal
from chiplog.sinks.delivery import courier as delivery
from chiplog.store.journal import lines, tail
lines.CHUNK = 2000
tail.Tail.read.__defaults__ = (2000,)  # bytes to a batch
left = int(os.environ["SAVES"])
save = delivery.Courier._save
def _save(self):
    global left
    if self._batch == [] and self.delivered:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    save(self)
delivery.Courier._save = _save
"""


class Case(NamedTuple):
    """How a service is reached, how its points of `loss` are read back, and whether it has a key for a point."""

    options: dict[str, Any]
    read: Callable[[], Points]
    keyed: bool = True


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("HOME", str(tmp_path))  # no credentials and projects of whoever runs the tests
    for name in [name for name in os.environ if name.startswith(("MLFLOW_", "WB_", "WANDB_", "AMSC_"))]:
        monkeypatch.delenv(name)
    make: Callable[..., Case] = CASES[request.param]
    return make(tmp_path, request)


def _boat(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    boat: Boat = request.getfixturevalue("boat")
    return Case({"path": str(boat.path)}, lambda: [(step, row["loss"]) for step, row in boat.cargo], keyed=False)


def _otel(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    """Its points have no step: the loss says it."""
    endpoint = Endpoint()
    request.addfinalizer(endpoint.server.server_close)
    request.addfinalizer(endpoint.server.shutdown)

    def read() -> Points:
        return [(round(value * 7), value) for name, _, value in endpoint.points if name == "loss"]

    return Case({"endpoint": endpoint.url}, read, keyed=False)


def _trackio(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    return Case({"dir": str(tmp_path / "trackio")}, lambda: trackio_steps(tmp_path, project="faults"))


def _aim(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    packages.need("aim")

    def read() -> Points:
        found = aim_runs(tmp_path / "aim") if (tmp_path / "aim").exists() else []
        assert len(found) < 2
        return [point for one in found for point in aim_points(one, "loss")]

    return Case({"repo": str(tmp_path / "aim")}, read)


def _mlflow(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    sqlite: Server = request.getfixturevalue("sqlite")
    name = f"kills {tmp_path}"
    return Case({"uri": sqlite.uri, "experiment": name, "system": False}, lambda: sqlite.run(name).rows("loss"))


def _wandb(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    server = Wandb()
    request.addfinalizer(server.stop)
    world = {"BASE_URL": server.url, "API_KEY": KEY, "DATA_DIR": str(tmp_path), "CACHE_DIR": str(tmp_path)}
    for name, value in world.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    return Case({"settings": QUICK}, lambda: server.runs["run"].series("loss"))


CASES: dict[str, Callable[..., Case]] = {
    "boat": _boat,
    "otel": _otel,
    "trackio": _trackio,
    "aim": _aim,
    "mlflow": _mlflow,
    "wandb": _wandb,
}


@pytest.mark.parametrize(("name", "case"), [(name, name) for name in CASES], indirect=["case"])
def test_a_deliverer_that_is_killed_before_it_notes_an_acknowledgement(name: str, case: Case, tmp_path: Path) -> None:
    """Nothing is lost, and one batch at most is there twice, none where the service has a key; the first time not even
    what the service calls the run was noted."""
    run = chiplog.init("faults", id="run", sinks="none", dir=tmp_path / "runs", alerts=False)
    logged = [(step, step / 7) for step in range(40 * (TIMES + 2))]  # a batch of about 34 is noted before each kill
    for step, loss in logged:
        run.log({"loss": loss}, step=step)
    run.finish()
    enrol(run.dir, name, case.options)
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(MURDER)
    hook = {"PYTHONPATH": f"{tmp_path / 'hook'}:{os.environ.get('PYTHONPATH', '')}"}
    for number in range(TIMES):
        done = _sync(run.dir, **hook, SAVES=str(min(number, 1)))
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    assert 0 < len(set(case.read())) < len(logged)
    done = _sync(run.dir)
    assert done.returncode == 0, done.stdout + done.stderr
    found = case.read()
    assert list(dict.fromkeys(found)) == logged
    if case.keyed:
        assert found == logged
    else:
        assert max(Counter(found).values()) == 2
        assert sum(later <= earlier for (earlier, _), (later, _) in pairwise(found)) == TIMES


@pytest.mark.parametrize(("name", "case"), [(name, name) for name in ("aim", "trackio")], indirect=["case"])
def test_nothing_is_lost_or_doubled_when_everything_is_killed(name: str, case: Case, tmp_path: Path) -> None:
    """Relay and trainer die in the middle; `chiplog sync` continues, or starts from scratch: every point is there once."""
    code = f"""
    import json
    run = init(sinks={{{name!r}: json.loads(sys.argv[3])}})
    for n in range(10**6):
        run.log({{"loss": n / 7}}, step=n)
        assert {name!r} not in sys.modules  # nobody imports it beside the training
        ack(n)
        time.sleep(0.005)
    """
    with trainer(tmp_path, code, json.dumps(case.options)) as victim:
        cursor = victim.run / "cursors" / f"{name}.json"
        wait_for(lambda: cursor.exists() and len(json.loads(cursor.read_text())["positions"]), 200)
        os.kill(json.loads((victim.run / "relay" / "r00000-a01.json").read_text())["pid"], signal.SIGKILL)
        victim.until_acked(victim.acked + 50)
        victim.kill_tree()
    arrived = case.read()  # what was accepted has survived the kill
    kept = [(int(one.step), one.step / 7) for one in chiplog.read(victim.run).records("step")]
    assert 0 < len(arrived) < len(kept)
    options = enrolled(victim.run)[name]
    for from_scratch in (False, True):
        if from_scratch:
            cursor.unlink()  # as if nothing had ever been noted
            enrol(victim.run, name, options)
        done = _sync(victim.run)
        assert done.returncode == 0, done.stdout + done.stderr
        assert case.read() == kept


def _sync(run: Path, **world: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "chiplog", "sync", str(run)]
    environ = {**os.environ, **world}
    return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=600, check=False)
