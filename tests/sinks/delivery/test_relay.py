"""The relay process, and `chiplog sync`: services get everything, and the training never waits for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.cli import main
from chiplog.core import messages
from chiplog.core.errors import BadSetting, UnknownSink
from chiplog.store.journal.cursors import cursors
from tests.faults.harness import trainer
from tests.support.destinations import enrol
from tests.support.waiting import wait_for

EXPECTED = [(step, {"loss": step / 7}) for step in range(50)]


def begin(tmp_path: Path, boat: Any, **more: object) -> chiplog.Run:
    sinks = {"boat": {"path": str(boat.path), "secret": "hunter2"}}
    return chiplog.init("test", sinks=sinks, dir=tmp_path / "runs", id="run", **more)  # type: ignore[arg-type]


def log(run: chiplog.Run, first: int = 0, last: int = 50) -> None:
    for step in range(first, last):
        run.log({"loss": step / 7}, step=step)


def test_a_service_gets_everything_in_another_process(tmp_path: Path, boat: Any) -> None:
    """Everything arrives once and in order, and the training process has not even imported the service."""
    run = begin(tmp_path, boat)
    log(run)
    assert run.finish()
    assert boat.cargo == EXPECTED
    assert boat.closed
    assert "boat" not in sys.modules
    health = run.health()["sinks"]["boat"]
    assert (health["state"], health["errors"], health["rejected"], health["lag_bytes"]) == ("closed", 0, 0, 0)


def test_the_native_object_is_out_of_reach_in_the_relay(tmp_path: Path, boat: Any) -> None:
    """`run.sink` says why, and how to have it."""
    run = begin(tmp_path, boat)
    with pytest.raises(UnknownSink, match="relay='thread'"):
        run.sink("boat")
    run.finish()


def test_on_a_thread_the_native_object_is_here(tmp_path: Path, boat: Any) -> None:
    """The same sink, in this process."""
    run = begin(tmp_path, boat, relay="thread")
    log(run)
    assert run.sink("boat").secret == "hunter2"  # type: ignore[attr-defined]
    assert run.finish()
    assert boat.cargo == EXPECTED
    assert not list((run.dir / "relay").glob("*.json")), "nothing was left to the process that stands by"


def test_a_service_that_is_down_costs_one_warning(
    tmp_path: Path,
    boat: Any,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It is said once, tried again, and delivered when it is back."""
    boat.weather("raise")
    run = begin(tmp_path, boat)
    log(run)
    wait_for(lambda: run.health()["sinks"]["boat"]["state"] == "failing", 20)
    wait_for(lambda: "sink 'boat' failed" in capfd.readouterr().err, 10)
    assert run.health()["sinks"]["boat"]["lag_bytes"] > 0
    assert main(["show", str(run.dir)]) == 0
    (line,) = (line for line in capfd.readouterr().out.splitlines() if line.startswith("  boat"))
    assert "behind, failing after" in line and "no wind" in line
    boat.weather(None)
    assert run.finish()
    assert main(["show", str(run.dir)]) == 0
    assert "  boat  up to date" in capfd.readouterr().out
    assert boat.cargo == EXPECTED
    assert "failed" not in capfd.readouterr().err


@pytest.mark.parametrize("weather", ["raise", "hang"])
def test_finish_is_bounded_and_sync_completes(
    tmp_path: Path,
    boat: Any,
    weather: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A service that does not answer: finish returns in time and names the command that completes it."""
    boat.weather(weather)
    run = begin(tmp_path, boat)
    log(run)
    began = time.monotonic()
    done = run.finish(timeout=2)
    assert time.monotonic() - began < 6
    assert not done
    assert f"chiplog sync {run.dir}" in done.missing["boat"]
    relay = run.post
    assert relay is not None
    os.kill(_relay_pid(run.dir), signal.SIGKILL)  # as a scheduler would
    boat.weather(None)
    assert main(["sync", str(run.dir)]) == 0
    assert boat.cargo == EXPECTED
    assert "boat: complete" in capsys.readouterr().out
    assert main(["sync", str(run.dir)]) == 0
    assert boat.cargo == EXPECTED  # nothing twice


def test_services_that_fail_are_reported_and_not_waited_for(
    tmp_path: Path, boat: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The end takes five seconds from when the failure is known, whatever the timeout; and says why."""
    boat.weather("raise")
    run = begin(tmp_path, boat)
    log(run)
    wait_for(lambda: run.health()["sinks"]["boat"]["state"] == "failing", 60)
    began = time.monotonic()
    done = run.finish(timeout=90)
    assert time.monotonic() - began < 30 and "boat" in done.missing
    assert capsys.readouterr().err.count("no wind") == 1
    os.kill(_relay_pid(run.dir), signal.SIGKILL)


@pytest.mark.parametrize("relay", ["auto", "thread"])
def test_a_trainer_that_is_killed_alone_is_delivered_by_its_relay(tmp_path: Path, boat: Any, relay: str) -> None:
    """The relay outlives it, delivers the last records, and ends; also one that only stands by for a thread."""
    code = f"""
    run = init(sinks={{"boat": {{"path": {str(boat.path)!r}}}}}, relay={relay!r})
    for n in range(50):
        run.log({{"loss": n / 7}}, step=n)
        ack(n)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    with trainer(tmp_path, code) as victim:
        victim.wait()
        wait_for(lambda: boat.closed, 30)
        assert boat.cargo == EXPECTED
        pid = _relay_pid(victim.run)
        wait_for(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text(), 10)


def test_a_service_that_clings_to_the_process_does_not_hold_sync(tmp_path: Path, boat: Any) -> None:
    """As packages do that wait for their server at the end of the interpreter."""
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        log(run)
    boat.weather("cling")
    enrol(run.dir, "boat", {"path": str(boat.path)})
    words = [sys.executable, "-m", "chiplog", "sync", str(run.dir)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "boat: complete" in done.stdout, done.stderr
    assert boat.cargo == EXPECTED


def test_what_packages_leave_behind_is_removed(tmp_path: Path, boat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """W&B makes two folders when it is imported, and relies on an interpreter that ends as usual."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    boat.weather("litter")
    run = begin(tmp_path, boat)
    log(run)
    assert run.finish()
    wait_for(lambda: not list((tmp_path / "temporary").iterdir()), 20)
    (run.dir / "cursors" / "boat.json").unlink()
    enrol(run.dir, "boat", {"path": str(boat.path)})
    subprocess.run([sys.executable, "-m", "chiplog", "sync", str(run.dir)], timeout=60, check=True)
    assert boat.cargo == EXPECTED * 2
    assert not list((tmp_path / "temporary").iterdir())


def test_sync_follows_a_run_that_was_begun_without_a_service(tmp_path: Path, boat: Any) -> None:
    """`--to` adds one later, `--follow` stays until the run has ended."""
    run = chiplog.init("test", sinks="none", dir=tmp_path / "runs", id="run")
    log(run, 0, 20)
    enrol(run.dir, "boat", {"path": str(boat.path)})
    words = [sys.executable, "-m", "chiplog", "sync", str(run.dir), "--to", "boat", "--follow"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as following:
        wait_for(lambda: len(boat.cargo) == 20, 20)
        log(run, 20, 50)
        run.finish()
        out, _ = following.communicate(timeout=30)
    assert following.returncode == 0
    assert "boat: complete" in out
    assert boat.cargo == EXPECTED


def test_a_record_that_is_rejected_costs_nothing_but_itself(tmp_path: Path, boat: Any) -> None:
    """The batch is narrowed down to it; all others arrive, and it is counted."""
    boat.weather("reject")
    run = begin(tmp_path, boat)
    log(run)
    assert "1 record was rejected" in run.finish().missing["boat"]
    assert boat.cargo == [row for row in EXPECTED if row[0] != 3]
    assert run.health()["sinks"]["boat"]["rejected"] == 1


def test_a_service_that_cannot_be_opened_is_left_to_sync(
    tmp_path: Path,
    boat: Any,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One warning, no exception, and the run is complete on disk."""
    run = chiplog.init("test", sinks={"boat": {"path": "broken"}}, dir=tmp_path / "runs", id="run")
    log(run)
    done = run.finish(timeout=20)
    assert "no such harbour" in done.missing["boat"]
    assert capfd.readouterr().err.count("no such harbour") <= 2  # as a warning, and at the end
    assert len(chiplog.read(run.dir).series("loss").values) == 50


def test_a_relay_that_dies_is_started_again(
    tmp_path: Path,
    boat: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever kills it, the run's end is delivered."""
    monkeypatch.setattr("chiplog.sinks.delivery.relay.RESTART", 0.0)
    monkeypatch.setattr("chiplog.sinks.delivery.relay.CHECK", 0.2)
    run = begin(tmp_path, boat)
    log(run, 0, 20)
    wait_for(lambda: len(boat.cargo) == 20, 20)
    wait_for(lambda: [one.lag for one in cursors(run.dir)] == [0], 20)  # noted, or a batch comes twice
    first = _relay_pid(run.dir)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: _relay_pid(run.dir) != first, 20)
    log(run, 20, 50)
    assert run.finish()
    assert boat.cargo == EXPECTED


def test_two_relays_of_one_run_do_not_get_in_each_others_way(tmp_path: Path, boat: Any) -> None:
    """The run goes on while the relay of the attempt before still waits for the service: all arrives once, in order."""
    boat.weather("hang")
    first = begin(tmp_path, boat)
    log(first, 0, 20)
    assert not first.finish(timeout=1)
    second = begin(tmp_path, boat)
    log(second, 20, 50)
    boat.weather(None)
    assert second.finish()
    assert boat.cargo == EXPECTED


def test_a_relay_that_cannot_be_started_costs_no_run(
    tmp_path: Path, boat: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """Training goes on, it is said, and the journal has everything."""
    folder = tmp_path / "runs" / "test" / "run"
    folder.mkdir(parents=True)
    (folder / "cursors").write_text("in the way")
    run = begin(tmp_path, boat)
    log(run)
    done = run.finish(timeout=5)
    assert "chiplog sync" in done.missing["boat"]
    assert "the relay process cannot be started" in capfd.readouterr().err
    assert len(chiplog.read(run.dir).series("loss").values) == 50


def test_options_with_secrets_do_not_stay_on_disk(tmp_path: Path, boat: Any) -> None:
    """They travel in a file that the relay deletes; never in the arguments of a process."""
    run = begin(tmp_path, boat)
    log(run)
    wait_for(lambda: boat.cargo, 20)
    pid = _relay_pid(run.dir)
    assert b"hunter2" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert run.finish()
    for path in run.dir.rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes(), path
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_option_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """As every other mistake at the door."""
    with pytest.raises(BadSetting, match="the 'csv' sink has no option 'colour'"):
        chiplog.init("test", sinks={"csv": {"colour": "red"}}, dir=tmp_path)


def test_options_come_from_the_settings_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says how, the nearest source says which."""
    (tmp_path / "chiplog.toml").write_text('[sinks.console]\n[sinks.csv]\ncolour = "red"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSetting, match="no option 'colour'"):
        chiplog.init("test", dir=tmp_path, sinks="csv")
    chiplog.init("test", dir=tmp_path, sinks="jsonl").finish()


def _relay_pid(run: Path) -> int:
    import json

    messages.forget()
    path = run / "relay" / "r00000-a01.json"
    return int(wait_for(lambda: path.exists() and json.loads(path.read_text())["pid"], 20))
