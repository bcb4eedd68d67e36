"""The engine at its limits: functions of users that misbehave, and systems without threads, memory or time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import chiplog
from chiplog.core import messages
from chiplog.core.records import Step
from chiplog.metrics.ranks.step_gather import Topic
from chiplog.metrics.rules.outliers import Outliers
from chiplog.runtime.ranks.rounds.row_queue import QueuedRow, RowQueue
from chiplog.sinks import registry
from chiplog.sinks.shared.lease import Lease
from chiplog.store.journal import segment_file
from tests.support.memory import peak, reset_peak

from . import reference
from .harness import FULL, PATIENCE
from .hostile_runs import identity

pytestmark = pytest.mark.timeout(PATIENCE)


def init(path: Path, **more: Any) -> Any:
    return chiplog.init(
        project="faults", id="run", dir=path, **{"sinks": "none", "alerts": False, "compact": False, **more}
    )


def rows(path: Path) -> list[dict[str, Any]]:
    return [row["metrics"] for row in reference.records(path, "step")]


class Unwilling:
    """A system that starts no thread of ours while it is closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.closed = False
        real = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if self.closed and thread.name.startswith("chiplog"):
                raise RuntimeError("can't start new thread")
            real(thread)

        monkeypatch.setattr(threading.Thread, "start", start)


def picture() -> chiplog.Image:
    return chiplog.Image(np.zeros((4, 4), np.uint8))


@pytest.mark.parametrize("back", [True, False], ids=["again", "never"])
def test_without_new_threads_every_picture_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], back: bool
) -> None:
    """Pictures wait while no thread can be started, and are written by the thread that finishes the run if need be."""
    run = init(tmp_path, sinks="jsonl")
    system = Unwilling(monkeypatch)
    system.closed = True
    run.log({"p/1": picture()}, step=1)
    system.closed = not back
    run.log({"p/2": picture()}, step=2)
    assert run.finish(timeout=20)
    assert chiplog.read(run.dir).state == "finished"
    assert sorted(file["name"] for file in reference.records(run.dir, "file")) == ["p/1", "p/2"]
    assert capfd.readouterr().err.count("no thread could be started") == 1


def test_a_run_that_gets_no_thread_at_all_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every record is in the journal, the run has finished, and the sink that could not run is reported."""
    system = Unwilling(monkeypatch)
    system.closed = True
    run = init(tmp_path, sinks="jsonl")
    for step in range(100):
        run.log({"x": step}, step=step)
    done = run.finish(timeout=5)
    assert not done and "can't start new thread" in done.missing["jsonl"]
    assert rows(run.dir) == [{"x": step} for step in range(100)]
    assert chiplog.read(run.dir).state == "finished"
    assert "no background thread could be started" in capfd.readouterr().err


def test_functions_of_users_that_log_are_not_called_with_what_they_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A stage, a rule and listeners that log on every call: all rows are written once, and each is reported once."""
    run: Any = None

    def stage(row: Mapping[str, float], step: float) -> Any:
        run.log({"from_stage": 1}, step=step)
        return row

    def rule(row: Mapping[str, float], step: float) -> None:
        run.log({"from_rule": 1}, step=step)

    run = init(tmp_path, stages=[stage], rules=[rule])
    run.on_alert(lambda alert: run.alert("again"))
    run.on_record(lambda record: run.event("seen"))
    for step in range(3):
        run.log({"x": step}, step=step)
    run.alert("first")
    assert run.finish()
    assert len(rows(run.dir)) < 40 and {"x": 2} in rows(run.dir)
    assert len(reference.records(run.dir, "alert")) == 2
    said = capfd.readouterr().err
    for what in ("stage stage", "rule rule", "on_alert", "on_record"):
        assert said.count(f"{what} calls `log`") == 1, said


@pytest.mark.parametrize("odd", [5, [], {"x/loss": 3}, {"train/loss": {"values": "no", "bad": [], "told": {}}}])
def test_an_odd_saved_state_of_a_rule_costs_no_row(tmp_path: Path, odd: object) -> None:
    """Whatever the file holds, the first row of the next attempt is written, and so are all others."""
    for attempt in range(2):
        run = init(tmp_path, alerts=True)
        for step in range(5):
            run.log({"train/loss": 1.0}, step=attempt * 5 + step)
        assert run.finish()
        [saved] = (run.dir / "baselines").iterdir()
        state = json.loads(saved.read_bytes())
        saved.write_text(json.dumps({**state, "parts": odd if attempt else {"oddities": odd}}))
    assert len(rows(run.dir)) == 10


def test_a_lease_that_names_nobody_blocks_nobody_for_long(tmp_path: Path) -> None:
    """An empty file is left by a full disk, or by a kill between two calls."""
    path = tmp_path / "sink.lease"
    path.write_bytes(b"")
    lease = Lease(path)
    began = time.monotonic()
    while not lease.hold():
        assert time.monotonic() - began < 5
        time.sleep(0.05)


def test_a_slow_artifact_leaves_time_for_the_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not copied in time is named, and the sinks have everything else."""
    real = shutil.copyfileobj

    def slowly(*args: Any) -> None:
        time.sleep(4)
        real(*args)

    monkeypatch.setattr(shutil, "copyfileobj", slowly)
    (tmp_path / "large").write_bytes(b"x")
    run = init(tmp_path, sinks="jsonl")
    run.artifact(tmp_path / "large")
    run.log({"x": 1}, step=1)
    done = run.finish(timeout=3)
    assert list(done.missing) == ["files"]
    assert '"x":1' in (run.dir / "files" / "metrics.jsonl").read_text()


def test_the_cost_of_default_alerts_does_not_grow_with_the_names() -> None:
    """A row costs what its own names cost, however many losses were seen before."""

    def cost(rule: Outliers) -> float:
        row = {"train/loss": 1.0}
        best = float("inf")
        for _ in range(20):
            began = time.perf_counter()
            for step in range(50):
                rule(row, step)
            best = min(best, time.perf_counter() - began)
        return best

    few, many = Outliers(), Outliers()
    few({"train/loss": 1.0}, 0)
    for n in range(40_000):
        many({f"task{n}/loss": 1.0}, n)
    many({"train/loss": 1.0}, 0)
    assert cost(many) < 3 * cost(few)


def test_a_million_names_in_rules_take_bounded_memory(capfd: pytest.CaptureFixture[str]) -> None:
    """Alerts watch so many series and no more, which is reported once."""
    messages.forget()
    rule = Outliers()
    for n in range(300):
        rule({f"task{n}/{m}/loss": 1.0 for m in range(1000)}, n)
    assert len(rule.state()) == 10_000
    assert capfd.readouterr().err.count("the run has too many") == 1


@pytest.mark.parametrize("name", ["csv", "jsonl", "json", "console", "tensorboard", "prometheus"])
def test_a_million_names_in_a_sink_take_bounded_memory(name: str) -> None:
    """New names in every row: what a sink remembers of them, and what it saves, has a bound that is reported."""
    count = 1_000_000 if FULL else 300_000
    program = "import sys; from tests.faults.test_limits import feed; feed(sys.argv[1], int(sys.argv[2]))"
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    words = [sys.executable, "-c", program, name, str(count)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False, env=here)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr.count("the journal has everything") == (name in ("csv", "prometheus")), done.stderr[-2000:]


def feed(name: str, count: int) -> None:
    """Give a sink rows of a thousand new names each; more than 32 MiB for them, or a state of 16 MiB, is an error."""
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        run = Path(folder, "p", "r")
        run.mkdir(parents=True)
        sys.stdout = nowhere
        sink = registry.open_named(name, {"port": 0} if name == "prometheus" else {}, identity(run), {})
        sink.write([Step(0, 1, 0, {"a": 1.0})])
        sink.write([])
        reset_peak()
        before = peak()
        for n in range(count // 1000):
            sink.write([Step(n + 1, n + 1, n, {f"task{n}/metric{m}/loss": 1.0 for m in range(1000)})])
            if n % 50 == 49:
                sink.write([])
        state = sink.state() if hasattr(sink, "state") else None
        sink.close()
        assert peak() - before < 32, f"{peak() - before} MiB"
        assert len(msgspec.json.encode(state)) < 16 << 20


def test_a_row_without_memory_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A MemoryError on the way to the disk: the row is missing, and the run says how many are."""
    run = init(tmp_path)
    run.log({"x": 1}, step=1)
    from chiplog.store.journal import writer

    real = writer.line_of
    left = [3]

    def line_of(record: Any) -> bytes:
        if left[0]:
            left[0] -= 1
            raise MemoryError
        return real(record)

    monkeypatch.setattr(writer, "line_of", line_of)
    for step in range(2, 10):
        run.log({"x": step}, step=step)
    done = run.finish()
    assert not done and done.lost == 3
    assert len(rows(run.dir)) == 9 - 3
    assert reference.records(run.dir, "finish")[0]["missing"] == 3


class Interrupting(Mapping[str, Any]):
    """A mapping in which the user presses ^C."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __getitem__(self, key: str) -> Any:
        raise self.error

    def __iter__(self) -> Iterator[str]:
        raise self.error

    def __len__(self) -> int:
        raise self.error

    def __float__(self) -> float:
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_leaves_the_engine_consistent(tmp_path: Path, error: type[BaseException]) -> None:
    """It reaches the caller, and every row before and after it is written, without a hole in the numbers."""
    run = init(tmp_path, sinks="jsonl")
    calls = [
        lambda: run.log(Interrupting(error), step=1),
        lambda: run.log({"x": Interrupting(error)}, step=1),
        lambda: run.eval(Interrupting(error)),
        lambda: run.event("e", data=Interrupting(error)),
        lambda: run.table("t", Interrupting(error)),
        lambda: run.config.update(Interrupting(error)),
    ]
    for call in calls:
        run.log({"x": 1.0})
        try:
            call()
        except error:
            pass
    run.log({"x": 2.0})
    assert run.finish()
    stored = chiplog.read(run.dir)
    assert not stored.missing and not stored.damage
    assert [row for row in rows(run.dir) if row == {"x": 1.0}] == [{"x": 1.0}] * len(calls)
    assert rows(run.dir)[-1] == {"x": 2.0}


def test_a_background_task_that_ends_its_thread_ends_nothing(tmp_path: Path) -> None:
    """A rule whose `tick` raises SystemExit, on a thread of ours: the journal is still cared for."""

    class Quitting:
        name = "quitting"
        ticks = 0

        def __call__(self, row: Mapping[str, float], step: float) -> None: ...

        def tick(self) -> None:
            self.ticks += 1
            raise SystemExit

    rule = Quitting()
    run = init(tmp_path, rules=[rule])
    run.log({"x": 1}, step=1)
    deadline = time.monotonic() + 10
    while not rule.ticks and time.monotonic() < deadline:
        time.sleep(0.02)
    assert run._background._thread.is_alive()
    assert run.finish()


def test_names_that_collide_and_steps_that_no_file_can_hold_are_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`{1: …, "1": …}`, a nested name that exists already, a name of 9 MB, a step of 5,000 digits: kept, and reported."""
    messages.forget()
    run = init(tmp_path, alerts=True)
    run.log({1: 1.0, "1": 2.0}, step=1)
    run.log({"x": {"1": 2}, "x/1": 3.0}, step=2)
    run.log({"n" * 9_000_000: 1.0}, step=3)
    run.log({"a": 1.0}, step=10**5000)
    run.log({"a": 2.0}, step=4)
    assert run.finish()
    said = capfd.readouterr().err
    for words in ("the name '1' has two", "the name 'x/1' has two", "too long for a line", "recorded as infinity"):
        assert said.count(words) == 1, said
    found = [record for record in chiplog.read(run.dir).records("step") if isinstance(record, Step)]
    assert [record.step for record in found] == [1, 2, 3, float("inf"), 4]
    assert not chiplog.read(run.dir).damage


@pytest.mark.parametrize("durability", ["process", "relaxed"])
def test_rows_that_wait_for_the_disk_are_bounded_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    """Rows of one metric with a name of 20 KB, on a full disk: memory is bounded, and every row is kept or counted."""
    run = init(tmp_path, durability=durability)

    def refuse(self: Any, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segment_file.SegmentFile, "write", refuse)
    real = os.write
    fd = run.engine.journal._file.fd
    monkeypatch.setattr(os, "write", lambda to, data: refuse(None, data) if to == fd else real(to, data))
    for step in range(20_000):
        run.log({f"{step}-{'n' * 20_000}": 1.0}, step=step)
    backlog = run.engine.journal._backlog
    assert sum(len(one) for item in list(backlog._items) if isinstance(item, Step) for one in item.metrics) < 64 << 20
    assert run.health()["journal"]["dropped"] > 15_000
    monkeypatch.undo()
    done = run.finish()
    assert len(rows(run.dir)) + done.lost >= 20_000


def test_rows_that_wait_for_ranks_are_bounded_by_bytes() -> None:
    """Long names count: few of them may wait."""
    queue = RowQueue()
    for step in range(3000):
        queue.append(QueuedRow(Topic.TRAIN, step, {f"{step}-{'n' * 200_000}": 1.0}, 0))
    assert len(queue) <= 1_000_000 // 2000
