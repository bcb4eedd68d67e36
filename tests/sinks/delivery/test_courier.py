"""Delivery: a sink may be slow, broken or dead; nobody else notices, and it gets everything in the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core import records
from chiplog.core.records import AnyRecord
from chiplog.sinks.delivery import courier, retries
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "POLL", 0.01)
    monkeypatch.setattr(retries, "BACK_OFF", (0.01, 0.05))
    monkeypatch.setattr(courier, "SAVE", 0.0)


class Recorder:
    """Keeps the steps it was given; raises, hangs or sleeps when told to."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.error: BaseException | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self.gate.wait()
        if self.error is not None:
            raise self.error
        self.steps += [int(record.step) for record in batch if isinstance(record, records.Step)]

    def close(self) -> None:
        self.closed = True


def begin(path: Path, *sinks: Any, **settings: Any) -> chiplog.Run:
    return chiplog.init("p", sinks=list(sinks), dir=path, **settings)


def test_every_sink_gets_every_record_once_and_in_order(tmp_path: Path) -> None:
    """From the journal, at its own pace."""
    one, two = Recorder(), Recorder()
    run = begin(tmp_path, one, two)
    for step in range(500):
        run.log({"x": 1.0}, step=step)
    done = run.finish()
    assert done and done.missing == {}
    assert one.steps == two.steps == list(range(500)) and one.closed


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), SystemExit(3), KeyboardInterrupt(), RecursionError(), BaseException("x")]
)
def test_a_failing_sink_disturbs_nobody(
    tmp_path: Path, error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sink that raises is reported once, and the others still get every record; when it works again it catches up."""
    bad, good = Recorder(), Recorder()
    bad.error = error
    run = begin(tmp_path, bad, good)
    for step in range(50):
        run.log({"x": 1.0}, step=step)
    wait_for(lambda: good.steps == list(range(50)))
    wait_for(lambda: run.health()["sinks"]["recorder"]["state"] == "failing")
    health = run.health()["sinks"]["recorder"]
    assert health["errors"] > 2 and type(error).__name__ in health["last_error"]
    bad.error = None
    assert run.finish()
    assert bad.steps == list(range(50))
    assert capsys.readouterr().err.count("failed") == 1


def test_a_hanging_sink_costs_finish_its_timeout_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named with what it did not get."""
    hung, good = Recorder(), Recorder()
    hung.gate.clear()
    run = begin(tmp_path, hung, good)
    run.log({"x": 1.0}, step=0)
    began = time.monotonic()
    done = run.finish(timeout=0.5)
    assert time.monotonic() - began < 5
    assert not done and list(done.missing) == ["recorder"] and good.steps == [0]
    assert "is not complete" in capsys.readouterr().err
    hung.gate.set()


def test_functions_classes_and_objects_are_sinks(tmp_path: Path) -> None:
    """Each in the shape people have."""
    seen: list[AnyRecord] = []
    run = begin(tmp_path, seen.extend, Recorder, "memory")
    run.log({"x": 1.0})
    run.finish()
    kinds = [records.kind_of(record) for record in seen]
    assert kinds[0] == "attempt" and kinds[-1] == "finish" and "step" in kinds
    assert run.sink("recorder").steps == [0]  # type: ignore[attr-defined]
    assert len(run.sink("memory").records) == len(seen)  # type: ignore[attr-defined]


def test_what_is_no_sink_is_refused_at_the_door(tmp_path: Path) -> None:
    """With what a sink is."""
    with pytest.raises(chiplog.ChiplogError, match="write"):
        begin(tmp_path, 5)


class Ledger:
    """A sink that keeps a file: one step a line. `crash` lets it write and then fail before it is acknowledged."""

    name = "ledger"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.crash = False
        path.touch()

    def write(self, batch: Sequence[AnyRecord]) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{record.step}\n" for record in batch if isinstance(record, records.Step))
        if self.crash:
            raise OSError("power cut")

    def close(self) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {"size": self.path.stat().st_size}

    def restore(self, state: dict[str, Any]) -> None:
        with self.path.open("r+") as file:
            file.truncate(state["size"])

    @property
    def steps(self) -> list[int]:
        return [int(line) for line in self.path.read_text().split()]


def test_a_file_sink_is_put_back_before_a_batch_is_tried_again(tmp_path: Path) -> None:
    """So nothing is written twice, though it failed after writing."""
    ledger = Ledger(tmp_path / "ledger")
    run = begin(tmp_path, ledger)
    run.log({"x": 1.0}, step=0)
    wait_for(lambda: ledger.steps == [0])
    ledger.crash = True
    for step in range(1, 20):
        run.log({"x": 1.0}, step=step)
    wait_for(lambda: run.health()["sinks"]["ledger"]["errors"] > 2)
    ledger.crash = False
    assert run.finish()
    assert ledger.steps == list(range(20))


def test_a_file_sink_goes_on_where_a_killed_process_left_it(tmp_path: Path) -> None:
    """From the stored position and state: what came after them is taken back and delivered again."""
    ledger = Ledger(tmp_path / "ledger")
    run = begin(tmp_path, ledger, id="r")
    for step in range(10):
        run.log({"x": 1.0}, step=step)
    run.finish()
    with ledger.path.open("a") as file:
        file.write("99\n")  # written, but never acknowledged
    again = begin(tmp_path, Ledger(tmp_path / "ledger"), id="r")
    again.log({"x": 1.0}, step=10)
    again.finish()
    assert ledger.steps == list(range(11))


def test_two_processes_do_not_deliver_to_the_same_files(tmp_path: Path) -> None:
    """The second one waits for the lease, and takes over when the first has gone."""
    first_ledger, second_ledger = Ledger(tmp_path / "ledger"), Ledger(tmp_path / "ledger")
    first = begin(tmp_path, first_ledger, id="r")
    first.log({"x": 1.0}, step=0)
    wait_for(lambda: first_ledger.steps == [0])
    chiplog.core.run.current = None
    second = begin(tmp_path, second_ledger, id="r")
    second.log({"x": 1.0}, step=1)
    wait_for(lambda: "another process" in second.health()["sinks"]["ledger"]["state"])
    first.finish()
    done = second.finish(timeout=20)
    assert done, done
    assert sorted(second_ledger.steps) == [0, 1]


def test_a_sink_waits_for_a_run_that_was_renamed(tmp_path: Path) -> None:
    """It makes no empty run in the old place, says that it is not complete, and goes on when the run is back."""
    ledger = Ledger(tmp_path / "ledger")
    run = begin(tmp_path, ledger, id="r")
    run.log({"x": 1.0}, step=0)
    wait_for(lambda: ledger.steps == [0])
    moved = run.dir.rename(run.dir.with_name("moved"))
    ledger.crash = True
    run.log({"x": 1.0}, step=1)
    wait_for(lambda: run.health()["sinks"]["ledger"]["errors"] > 2)
    assert not run.dir.exists()
    moved.rename(run.dir)
    ledger.crash = False
    wait_for(lambda: ledger.steps == [0, 1])
    run.dir.rename(moved)
    run.log({"x": 1.0}, step=2)
    done = run.finish()
    assert "ledger" in done.missing
    assert not run.dir.exists()


def test_nothing_is_promised_of_a_run_that_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A failing sink loses nothing as long as the journal is there."""
    for run in (tmp_path, tmp_path / "gone"):
        courier.say_failing(run, "csv", str(run), "disk")
    there, gone = capsys.readouterr().err.splitlines()
    assert there == "chiplog: sink 'csv' failed (disk); retrying. Nothing is lost: the journal has everything"
    assert gone == "chiplog: sink 'csv' failed (disk); retrying"
