"""Backends that raise, return nonsense, hang, are slow or absent: the run, its journal and the others go on."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core import records
from chiplog.sinks.delivery import courier, retries
from tests.support.waiting import wait_for

from .harness import count, trainer

STEPS = count(200, 5_000)


def recurse() -> None:
    recurse()


def leave() -> None:
    raise BaseException("gone")


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def fail(error: BaseException) -> Callable[[], Any]:
    def raises() -> None:
        raise error

    return raises


FAILURES: dict[str, Callable[[], Any]] = {
    "Exception": fail(Exception("no")),
    "BaseException": leave,
    "SystemExit": lambda: sys.exit(3),
    "KeyboardInterrupt": fail(KeyboardInterrupt()),
    "RecursionError": recurse,
    "GeneratorExit": fail(GeneratorExit()),
    "StopIteration": fail(StopIteration()),
    "one that cannot say what it is": fail(Speechless()),
    "garbage": lambda: [5],
}
SHAPES = ("sink", "scalars", "tracker", "function")


def backend(shape: str, point: str, failure: Callable[[], Any]) -> Any:
    """A factory of a backend in one of the shapes that fails at one point of its life."""

    def at(where: str) -> Any:
        return failure() if where == point else None

    class Sink:
        def __init__(self) -> None:
            at("init")

        def write(self, batch: Any) -> Any:
            return at("log")

        def close(self) -> Any:
            return at("finish")

    class Scalars:
        def __init__(self) -> None:
            at("init")

        def log_scalar(self, event: str, value: float, **kwargs: Any) -> Any:
            return at("log")

        def close(self) -> Any:
            return at("finish")

    class Tracker(chiplog.TrackerBackend):
        def __init__(self, **kwargs: Any) -> None:
            at("init")

        def log(self, metrics: Any, step: Any = None, commit: bool = True) -> Any:
            return at("log")

        def log_config(self, config: Any) -> Any:
            return at("log")

        def finish(self) -> Any:
            return at("finish")

    def make_function() -> Any:
        at("init")
        return lambda batch: at("log")

    made: dict[str, Any] = {"sink": Sink, "scalars": Scalars, "tracker": Tracker, "function": make_function}
    if point == "init" and failure is FAILURES["garbage"]:
        return failure  # a function without arguments that makes something useless
    return made[shape]


class Good:
    """Keeps the steps it was given."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.closed = False

    def write(self, batch: Any) -> None:
        self.steps += [int(record.step) for record in batch if isinstance(record, records.Step)]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "POLL", 0.01)
    monkeypatch.setattr(retries, "BACK_OFF", (0.01, 0.05))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("point", ["init", "log", "finish"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_backend_that_raises_is_its_own_affair(
    shape: str, point: str, failure: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """At its making, with a row or at its end: the others and the journal are complete, and `health` shows it."""
    first, last = Good(), Good()
    run = chiplog.init(
        "p", sinks={"first": first, "bad": backend(shape, point, FAILURES[failure]), "last": last}, dir=tmp_path
    )
    for step in range(20):
        run.log({"loss": 1.0}, step=step)
    harmless = failure == "garbage" and point != "init"  # what a method returns is nobody's business
    harmless = harmless or (shape == "function" and point == "finish")  # it has no end
    if not harmless and point != "finish":
        wait_for(lambda: run.health()["sinks"]["bad"]["state"] == "failing", 20)
    done = run.finish()
    assert first.steps == last.steps == list(range(20)) and first.closed and last.closed
    assert len(chiplog.read(run.dir).series("loss").values) == 20
    health = run.health()["sinks"]
    assert health["first"]["state"] == health["last"]["state"] == "closed"
    said = capfd.readouterr().err
    if harmless:
        assert done and health["bad"]["state"] == "closed" and "bad" not in said
        return
    named = {"one that cannot say what it is": "Speechless", "garbage": "is not a sink"}.get(failure, failure)
    assert health["bad"]["state"] == "failing" and health["bad"]["errors"] >= 1
    assert named in health["bad"]["last_error"]
    assert list(done.missing) == ["bad"] and named in done.missing["bad"]
    assert said.count("sink 'bad' failed") == 1
    assert "Traceback" not in said


@pytest.fixture
def blackhole() -> Iterator[tuple[str, int]]:
    """A server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()


class Hangs:
    """Waits for an answer that never comes."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._sockets: list[socket.socket] = []

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        with socket.create_connection(self._address) as connection:
            self._sockets.append(connection)
            connection.recv(1)

    def close(self) -> None: ...

    def let_go(self) -> None:
        for connection in self._sockets:
            connection.shutdown(socket.SHUT_RDWR)


class Slow:
    """Takes a second for every call."""

    called = False

    def log(self, metrics: Mapping[str, Any], step: Any = None, commit: bool = True) -> None:
        self.called = True
        time.sleep(1)

    def log_config(self, config: Any) -> None: ...

    def finish(self) -> None: ...


class Absent:
    """Nobody listens where it wants to go."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def write(self, batch: Any) -> None:
        with socket.create_connection(self._address):
            pass

    def close(self) -> None: ...


def free_address() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address: tuple[str, int] = server.getsockname()
    return address


@pytest.mark.timeout(120)
def test_a_backend_that_hangs_is_slow_or_absent_holds_nobody(tmp_path: Path, blackhole: tuple[str, int]) -> None:
    """All calls of `log` return while they hang, the others get everything, and `finish` keeps its time."""
    good, hangs = Good(), Hangs(blackhole)
    sinks = {"hangs": hangs, "slow": Slow(), "absent": Absent(free_address()), "good": good, "csv": {}}
    run = chiplog.init("p", sinks=sinks, dir=tmp_path)
    for step in range(STEPS):
        run.log({"loss": 1.0}, step=step)
    wait_for(lambda: len(good.steps) == STEPS, 60)
    wait_for(lambda: run.health()["sinks"]["absent"]["state"] == "failing", 30)
    began = time.monotonic()
    done = run.finish(timeout=3)
    took = time.monotonic() - began
    hangs.let_go()
    assert took < 3 + 5
    assert sorted(done.missing) == ["absent", "hangs", "slow"]
    assert "ConnectionRefusedError" in done.missing["absent"]
    assert all("are not delivered" in done.missing[name] for name in ("hangs", "absent")), done.missing
    assert good.closed and good.steps == list(range(STEPS))
    assert len((run.dir / "files" / "metrics.csv").read_text().splitlines()) == STEPS + 1
    assert len(chiplog.read(run.dir).series("loss").values) == STEPS


@pytest.mark.timeout(120)
def test_log_costs_the_same_beside_backends_that_hang(tmp_path: Path, blackhole: tuple[str, int]) -> None:
    """Their threads wait without the interpreter's lock: many calls take about as long as without them."""

    def seconds(sinks: Any, slow: Slow | None = None) -> float:
        held = [len(one._sockets) for one in hangs]
        run = chiplog.init("p", sinks=sinks, dir=tmp_path)
        run.log({"loss": 1.0})
        if slow is not None:  # until the sinks have had their first batch
            wait_for(lambda: slow.called and all(len(one._sockets) > n for one, n in zip(hangs, held, strict=True)), 30)
        began = time.thread_time()
        for _ in range(2_000):
            run.log({"loss": 1.0})
        took = time.thread_time() - began
        run.finish(timeout=0.1)
        return took

    hangs = [Hangs(blackhole) for _ in range(3)]
    alone = min(seconds("none") for _ in range(3))
    beside = min(seconds([*hangs, slow], slow) for slow in (Slow(), Slow(), Slow()))
    for one in hangs:
        one.let_go()
    assert beside < 3 * alone + 0.05  # CPU time of this thread, on a busy machine; a wait would be seconds


TRAIN = """
import socket
class Hangs:
    def write(self, batch):
        with socket.create_connection(("127.0.0.1", int(sys.argv[3]))) as connection:
            connection.recv(1)
    def close(self):
        pass

run = init(sinks={"hangs": Hangs, "jsonl": {}})
for n in range(100):
    run.log({"loss": n}, step=n)
    ack(n)
run.finish(timeout=2)
"""


def test_a_process_with_a_backend_that_hangs_ends(tmp_path: Path, blackhole: tuple[str, int]) -> None:
    """Five seconds after the bound of `finish` at the latest; everything is in the journal and in the others."""
    with trainer(tmp_path, TRAIN, str(blackhole[1])) as victim:
        victim.until_acked(99)
        began = time.monotonic()
        assert victim.wait(30) == 0
        assert time.monotonic() - began < 2 + 5 + 5  # and five for a busy machine
        assert "'hangs' is not complete" in victim.said
        assert len(chiplog.read(victim.run).series("loss").values) == 100
        assert (victim.run / "files" / "metrics.jsonl").read_text().count('"log":"step"') == 100


def test_no_thread_of_a_lost_backend_stays(tmp_path: Path) -> None:
    """One that could not be made is given up at once."""

    class Never:
        def __init__(self) -> None:
            raise OSError("no licence")

        def write(self, batch: Any) -> None: ...

        def close(self) -> None: ...

    run = chiplog.init("p", sinks=[Never], dir=tmp_path)
    wait_for(lambda: run.health()["sinks"]["never"]["state"] == "failing", 20)
    wait_for(lambda: not any(thread.name == "chiplog-never" for thread in threading.enumerate()), 20)
    began = time.monotonic()
    done = run.finish()
    assert "no licence" in done.missing["never"] and time.monotonic() - began < 10


class Touchy(chiplog.TrackerBackend):
    """A tracker backend that does not take what is in `refuses`."""

    name = "touchy"
    refuses: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.finished = 0

    def _take(self, what: str) -> None:
        if what in self.refuses:
            raise RuntimeError(f"no {what}")

    def log(self, metrics: Any, step: Any = None, commit: bool = True) -> None:
        if metrics["loss"] != metrics["loss"]:
            self._take("nan")
        self._take("rows")
        self.steps.append(step)

    def log_config(self, config: Any) -> None:
        self._take("config")

    def log_table(self, key: str, columns: Any, data: Any) -> None:
        self._take("table")

    def log_image(self, key: str, image_path: str, caption: str | None = None) -> None:
        self._take("image")

    def log_artifacts(self, artifacts: Any) -> None:
        self._take("artifacts")

    def finish(self) -> None:
        self.finished += 1


class TouchyScalars(Good):
    """The same as a metrics logger, and as a metric writer of CLU."""

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        if value != value:
            raise ValueError("no nan")
        self.steps.append(kwargs["step"])

    write = None  # type: ignore[assignment]


class TouchyWriter(Good):
    def write_scalars(self, step: int, scalars: Mapping[str, float]) -> None:
        TouchyScalars.log_scalar(self, "loss", scalars["loss"], step=step)  # type: ignore[arg-type]

    write = None  # type: ignore[assignment]


class TouchySink(Good):
    def write(self, batch: Any) -> None:
        if any(
            record.metrics["loss"] != record.metrics["loss"] for record in batch if isinstance(record, records.Step)
        ):
            raise ValueError("no nan")
        super().write(batch)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("what", ["nan", "config", "table", "image", "artifacts"])
def test_one_call_that_raises_costs_nothing_but_itself(
    what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is skipped, counted in `health`, at the end and by `chiplog show`; later rows and `finish` arrive."""
    from chiplog.cli import main

    touchy = Touchy()
    touchy.refuses = (what,)
    note = tmp_path / "note.txt"
    note.write_text("hello")
    run = chiplog.init("p", config={"lr": 0.1}, sinks=[touchy], dir=tmp_path, alerts=False)
    run.log({"loss": 2.0}, step=0)
    run.log({"loss": float("nan")}, step=1)
    run.table("t", [{"a": 1}])
    run.artifact(note)
    run.log({"picture": chiplog.Image(b"\x89PNG\r\n\x1a\n")}, step=1)
    for step in range(2, 8):
        run.log({"loss": 2.0}, step=step)
    expected = [step for step in range(8) if what != "nan" or step != 1]
    wait_for(lambda: touchy.steps == expected, 20)
    done = run.finish()
    health = run.health()["sinks"]["touchy"]
    assert touchy.finished == 1 and touchy.steps == expected
    assert health["state"] == "closed" and health["skipped"] == 1 and health["last_error"] == f"RuntimeError: no {what}"
    assert done.missing == {"touchy": f"1 call is not delivered (RuntimeError: no {what})"}
    assert "'touchy' is not complete: 1 call is not delivered" in capfd.readouterr().err
    main(["--dir", str(tmp_path), "show", run.id])
    assert f"touchy  1 call skipped (RuntimeError: no {what})" in capfd.readouterr().out


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", [TouchyScalars, TouchyWriter, TouchySink])
def test_one_value_that_raises_costs_nothing_but_itself(kind: type[Good], tmp_path: Path) -> None:
    """In each shape: a metrics logger, a metric writer and a sink of batches."""
    backend = kind()
    run = chiplog.init("p", sinks={"touchy": backend}, dir=tmp_path, alerts=False)
    for step in range(20):
        run.log({"loss": float("nan") if step in (0, 7, 8, 19) else 1.0}, step=step)
    done = run.finish()
    assert backend.steps == [step for step in range(20) if step not in (0, 7, 8, 19)] and backend.closed
    assert run.health()["sinks"]["touchy"]["skipped"] == 4
    assert "4 calls are not delivered (ValueError: no nan)" in done.missing["touchy"]


@pytest.mark.usefixtures("impatient")
def test_rows_that_wait_for_a_backend_all_arrive_when_it_is_back(tmp_path: Path) -> None:
    """However many tries have failed; one that takes the config and tables meanwhile has not shown that it works."""
    touchy = Touchy()
    touchy.refuses = ("rows",)
    run = chiplog.init("p", config={"lr": 0.1}, sinks=[touchy], dir=tmp_path, alerts=False)
    for step in range(5_000):  # more than are held at once
        run.log({"loss": 1.0}, step=step)
        if step % 1000 == 0:
            run.table("t", [{"a": 1}])
    wait_for(lambda: run.health()["sinks"]["touchy"]["errors"] > 20, 60)
    assert run.health()["sinks"]["touchy"]["skipped"] == 0
    touchy.refuses = ()
    assert run.finish()
    assert touchy.steps == list(range(5_000)) and touchy.finished == 1


@pytest.mark.usefixtures("impatient")
def test_a_backend_is_finished_whatever_happened(tmp_path: Path) -> None:
    """When everything failed, and when nothing was logged; what it did not get is counted."""
    touchy = Touchy()
    touchy.refuses = ("rows", "config")
    run = chiplog.init("p", config={"lr": 0.1}, sinks=[touchy], dir=tmp_path, alerts=False)
    for step in range(3):
        run.log({"loss": 1.0}, step=step)
    done = run.finish(timeout=10)
    assert touchy.finished == 1 and run.health()["sinks"]["touchy"]["state"] == "failing"
    assert "4 calls are not delivered (RuntimeError: no " in done.missing["touchy"]
    nothing = Touchy()
    assert chiplog.init("p", sinks=[nothing], dir=tmp_path).finish() and nothing.finished == 1
