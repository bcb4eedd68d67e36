"""Factories of backends: called once, on the thread that calls the backend, and named where they fail."""

from __future__ import annotations

import functools
import os
import signal
import sqlite3
import threading
from contextlib import closing
from typing import Any

import pytest

import chiplog
from chiplog.sinks import registry
from chiplog.sinks.adapters import factories
from chiplog.sinks.delivery import courier
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "POLL", 0.01)
    monkeypatch.setattr(registry, "_registered", {})


class Logger:
    """A metrics logger that knows which threads it was made and called on."""

    def __init__(self, **_: Any) -> None:
        self.threads = [threading.current_thread()]
        self.values: list[float] = []

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        self.threads.append(threading.current_thread())
        self.values.append(value)

    def close(self) -> None:
        self.threads.append(threading.current_thread())


class Database:
    """A backend whose connection is bound to the thread that made it, as sqlite3 has it."""

    def __init__(self, path: str = "metrics.db") -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("CREATE TABLE metrics (name, value)")

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        self.connection.execute("INSERT INTO metrics VALUES (?, ?)", (event, value))

    def close(self) -> None:
        self.connection.commit()
        self.connection.close()


def begin(sinks: Any, **more: Any) -> chiplog.Run:
    return chiplog.init("p", sinks=sinks, alerts=False, **more)


@pytest.mark.parametrize("how", ["class", "lambda", "registered"])
def test_a_factory_is_called_on_the_thread_that_calls_the_backend(how: str) -> None:
    """At `init`, which waits for it; the object is there when `init` returns."""
    chiplog.register_backend("logger", Logger)
    run = begin({"class": [Logger], "lambda": [lambda: Logger(path="x")], "registered": "logger"}[how])
    logger: Any = run.sink("logger")
    assert isinstance(logger, Logger)
    run.log({"x": 1.0})
    assert run.finish()
    assert logger.values == [1.0] and len(logger.threads) == 3
    assert len(set(logger.threads)) == 1 and threading.main_thread() not in logger.threads


def test_a_client_that_is_bound_to_its_thread_works() -> None:
    """A connection of sqlite3 that the constructor opens has all rows."""
    run = begin([Database])
    for step in range(3):
        run.log({"loss": float(step)}, step=step)
    assert run.finish()
    with closing(sqlite3.connect("metrics.db")) as database:
        rows = database.execute("SELECT * FROM metrics").fetchall()
    assert rows == [("loss", 0.0), ("loss", 1.0), ("loss", 2.0)]


def test_a_factory_is_called_once_and_gives_the_backend_its_name() -> None:
    """A lambda has no name of its own; what it makes has one."""
    made: list[int] = []

    def factory() -> Logger:
        made.append(1)
        return Logger()

    run = begin([factory, lambda: Database("metrics.db")])
    run.log({"x": 1.0})
    assert run.finish()
    assert made == [1]
    assert sorted(run.health()["sinks"]) == ["database", "logger"]


def test_a_factory_that_raises_is_named_once_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    """With its error; the other backend has everything."""

    def broken() -> Logger:
        raise RuntimeError("no such host")

    run = begin([broken, Logger])
    run.log({"x": 1.0})
    assert not run.finish()
    said = capsys.readouterr().err
    assert said.count("its factory broken raised RuntimeError: no such host") == 1
    assert run.sink("logger").values == [1.0]  # type: ignore[attr-defined]


def test_a_factory_that_takes_long_does_not_hold_up_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run begins without it, one line says so, and the backend gets everything when it is there."""
    monkeypatch.setattr(factories, "PATIENCE", 0.05)
    go = threading.Event()

    def slow() -> Logger:
        go.wait(30)
        return Logger()

    run = begin([slow])
    run.log({"x": 1.0})
    assert capsys.readouterr().err.count("the backend factory slow has not returned within") == 1
    go.set()
    monkeypatch.setattr(factories, "PATIENCE", 10.0)
    logger: Any = run.sink("slow")
    wait_for(lambda: logger.values == [1.0])
    assert run.finish() and len(set(logger.threads)) == 1


def test_a_thread_that_nobody_has_work_for_ends() -> None:
    """Where a run could not begin, for example."""
    made = factories.FactoryThread(Logger)
    assert made.wait() and isinstance(made.product(), Logger)
    thread = made.product().threads[0]
    del made
    wait_for(lambda: not thread.is_alive())


def test_a_factory_has_a_name_for_people() -> None:
    """A class, a function within a function, a partial, and a lambda by its line."""

    def inner() -> Logger:
        return Logger()

    assert factories.factory_name(Logger) == "Logger"
    assert factories.factory_name(inner) == "inner"
    assert factories.factory_name(functools.partial(Logger, path="x")) == "Logger"
    assert factories.factory_name(lambda: Logger(path="x")).startswith("lambda (test_factories.py:")


def test_other_ranks_make_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """A factory is not called there."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    made: list[int] = []
    run = chiplog.init("p", sinks=[lambda: made.append(1)], ranks=0)
    run.log({"x": 1.0})
    run.finish()
    assert made == []


def test_ctrl_c_while_a_backend_is_made_is_a_persons_wish() -> None:
    """It ends `init`, unlike a KeyboardInterrupt that a backend raises by itself."""
    before = signal.getsignal(signal.SIGINT)

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10_000):
            pass  # let the interpreter see it

    with pytest.raises(KeyboardInterrupt):
        begin([press])
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("thing", "factory"),
    [
        (Logger, True),
        (lambda: Logger(path="x"), True),
        (functools.partial(Logger, path="x"), True),
        (lambda path="x": Logger(), True),
        (lambda *, path="x": Logger(path=path), True),
        (Logger(), False),
        (lambda batch: None, False),
        (lambda batch, more=1: None, False),
        (lambda *batches: None, False),
        ([].extend, False),
        (print, False),
        ({}.update, False),
        (5, False),
    ],
)
def test_a_factory_is_told_from_a_function_of_a_batch(thing: Any, factory: bool) -> None:
    """By its signature: what must be given something, or takes any number of things, is a function of a batch."""
    assert factories.is_factory(thing) is factory
