"""One bad call is skipped and counted; a backend that is down loses nothing, however long that lasts."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from chiplog.core.errors import Rejected, SinkLost
from chiplog.sinks.adapters import backend_calls
from chiplog.sinks.adapters.backend_calls import Call, Calls


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_calls, "PAUSES", (0.0, 0.0))


class Backend:
    """Takes numbers; `refuses` says which ones raise, `down` whether all do."""

    def __init__(self, refuses: Callable[[int], bool] = lambda _: False) -> None:
        self.refuses, self.down = refuses, False
        self.taken: list[int] = []
        self.tries = 0

    def log(self, value: int) -> None:
        self.tries += 1
        if self.down:
            raise ConnectionError("nobody listens")
        if self.refuses(value):
            raise ValueError(f"not {value}")
        self.taken.append(value)


def queue(backend: Backend, count: int) -> Calls:
    made = Calls()
    made.add(Call(partial(backend.log, value)) for value in range(count))
    return made


def test_a_call_that_fails_while_the_next_succeeds_is_skipped_and_counted() -> None:
    """What comes behind it is delivered in order."""
    backend = Backend(lambda value: value == 3)
    pending = queue(backend, 8)
    pending.make()
    assert backend.taken == [0, 1, 2, 4, 5, 6, 7]
    assert (pending.skipped, pending.why, len(pending)) == (1, "ValueError: not 3", 0)


def test_many_bad_calls_in_a_row_are_skipped_too() -> None:
    """More of those behind are tried every time, until one succeeds; nothing good is lost or comes twice."""
    backend = Backend(lambda value: 10 <= value < 300)
    pending = queue(backend, 310)
    for _ in range(10):
        try:
            pending.make()
        except ValueError:
            continue
    assert len(pending) == 0 and pending.skipped == 290
    assert backend.taken == [*range(10), *range(300, 310)]


def test_a_backend_that_is_down_loses_nothing() -> None:
    """Of any number of tries none is a reason to skip; when it is back, everything arrives in order."""
    backend = Backend()
    backend.down = True
    pending = queue(backend, 100)
    for _ in range(200):
        with pytest.raises(ConnectionError):
            pending.make()
    assert pending.skipped == 0 and len(pending) == 100
    backend.down = False
    pending.make()
    assert backend.taken == list(range(100))


def test_a_method_that_does_nothing_does_not_show_that_a_backend_takes_numbers() -> None:
    """In an outage a table may be accepted by a method that is empty; the rows before it are not given up for that."""
    backend = Backend()
    backend.down = True
    pending = queue(backend, 2)
    tables: list[str] = []
    pending.add([Call(partial(tables.append, "table"), numbers=False)])
    for _ in range(20):
        with pytest.raises(ConnectionError):
            pending.make()
    assert pending.skipped == 0
    backend.down = False
    pending.make()
    assert backend.taken == [0, 1] and tables == ["table"]


def test_a_bad_config_is_given_up_when_numbers_arrive() -> None:
    """A kind of call that never succeeds holds nothing up."""
    backend = Backend()

    def refuse() -> None:
        raise RuntimeError("no config")

    pending = Calls()
    pending.add([Call(refuse, numbers=False)])
    with pytest.raises(RuntimeError):
        pending.make()  # nothing has shown yet that the backend works
    pending.add([Call(partial(backend.log, 1))])
    pending.make()
    assert backend.taken == [1] and pending.skipped == 1


def test_what_is_known_to_be_bad_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses are for the first bad value; with one in every row the backend still keeps up."""
    monkeypatch.setattr(backend_calls, "PAUSES", (0.1, 0.1))
    backend = Backend(lambda value: value % 2 == 0)
    pending = queue(backend, 200)
    began = time.monotonic()
    pending.make()
    assert time.monotonic() - began < 2  # and not 100 times 0.2 s
    assert backend.taken == list(range(1, 200, 2)) and pending.skipped >= 99


def test_rejected_is_skipped_at_once_and_lost_ends_it() -> None:
    """Those who know say so."""
    tries: list[str] = []

    def reject() -> None:
        tries.append("rejected")
        raise Rejected("never")

    def lose() -> None:
        raise SinkLost("gone")

    pending = Calls()
    pending.add([Call(reject), Call(lose)])
    with pytest.raises(SinkLost):
        pending.make()
    assert tries == ["rejected"] and pending.skipped == 1 and pending.why == "never"


def test_at_the_end_each_call_is_tried_once_more() -> None:
    """In the time that is left; what fails is counted."""
    backend = Backend(lambda value: value < 5)
    pending = queue(backend, 6)
    assert pending.make_last(time.monotonic() + 60)
    assert backend.taken == [5] and backend.tries == 6 and pending.skipped == 5
    pending = queue(backend, 6)
    assert not pending.make_last(time.monotonic())
    assert pending.skipped == 0 and len(pending) == 6
