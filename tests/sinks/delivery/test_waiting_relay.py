"""Services that are down when a run ends, and for long after: its relay comes back, and costs little until then."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.sinks.delivery import relay, waiting_relay
from chiplog.sinks.delivery.relay import Patience
from tests.support.waiting import wait_for
from tests.support.wandb_runs import kill_tree, relay_pids

EXPECTED = [(step, {"loss": step / 7}) for step in range(50)]
QUICK = Patience(busy=0.5, pauses=(0.2, 0.4), retry=0.2, total=300.0)
ASLEEP = b"-S"  # an argument of an interpreter that sleeps


def end(tmp_path: Path, boat: Any) -> Path:
    """A run that ends while the service is down."""
    boat.weather("raise")
    options = {"boat": {"path": str(boat.path), "secret": "hunter2"}}
    run = chiplog.init("test", sinks=options, dir=tmp_path / "runs", id="run")
    for step in range(50):
        run.log({"loss": step / 7}, step=step)
    assert not run.finish(timeout=1)
    return run.dir


def sleeper(run: Path) -> int | None:
    """The process that waits for the next try."""
    for pid in relay_pids(run):
        try:
            if ASLEEP in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return pid
        except OSError:
            continue
    return None


def test_a_service_that_is_down_for_long_gets_everything_when_it_is_back(
    tmp_path: Path, boat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Try after try, each in a process of its own; its options come with it, also those that are secrets."""
    monkeypatch.setattr(relay, "PATIENCE", QUICK)
    run = end(tmp_path, boat)
    tries = {wait_for(lambda: sleeper(run), 30)}
    while len(tries) < 3:
        tries.add(wait_for(lambda: sleeper(run), 30))
    boat.weather(None)
    wait_for(lambda: boat.closed and not relay_pids(run), 30)
    assert boat.cargo == EXPECTED
    log = (run / "relay" / "r00000-a01.log").read_text()
    assert "no wind" in log and "hunter2" not in log and "Traceback" not in log


def test_a_relay_that_waits_is_small(tmp_path: Path, boat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has imported nothing: 8 MB, most of it shared with every other interpreter."""
    monkeypatch.setattr(relay, "PATIENCE", Patience(busy=0.2, pauses=(60.0, 60.0)))
    pid = wait_for(lambda: sleeper(run), 30) if (run := end(tmp_path, boat)) else 0
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private = sum(int(line.split()[1]) for line in lines if line.startswith("Private"))
    kill_tree(pid)
    assert private < 6_000  # KB


@pytest.mark.parametrize("why", ["time", "places"])
def test_a_relay_gives_up(tmp_path: Path, boat: Any, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """When its time is over, and at once if many others wait; `chiplog sync` then finds the run."""
    total = 0.0 if why == "time" else 300.0
    monkeypatch.setattr(relay, "PATIENCE", Patience(busy=0.2, pauses=(0.2, 0.4), total=total))
    places = every_place(os.environ) if why == "places" else []
    run = end(tmp_path, boat)
    wait_for(lambda: not relay_pids(run), 30)
    for place in places:
        os.close(place)
    boat.weather(None)
    assert boat.cargo == []


def every_place(environ: Mapping[str, str]) -> list[int]:
    places: list[int] = []
    while (place := waiting_relay.find_place(environ)) is not None:
        places.append(place)
    assert len(places) == waiting_relay.MOST
    return places
