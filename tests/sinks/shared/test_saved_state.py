"""Saved states, which may be from a cursor that somebody else wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chiplog.core.errors import RestartDelivery
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Event, Step, Table, TextRecord
from chiplog.sinks import registry
from chiplog.sinks.shared import saved_state
from tests.support.memory import peak, reset_peak

ODD: list[Any] = [None, -1, 1e308, "x", "", [], [None], {}, {"a": None}, {"a": {"a": None}}, True, 10**30, -(10**30)]
FILES = {
    "csv": "metrics.csv",
    "json": "metrics.json",
    "jsonl": "metrics.jsonl",
    "tensorboard": "tensorboard/events.out.tfevents.chiplog",
    "perfetto": "trace-r00000.pftrace",
}
RESTARTS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RestartDelivery)  # as for a courier


@pytest.mark.parametrize("name", FILES)
def test_an_odd_state_costs_a_start_from_scratch(tmp_path: Path, name: str) -> None:
    """Any value of any key, at any depth: refused when it is restored, or as good as none; never an error of `write`."""
    sink = _sink(tmp_path, name)
    sink.write(_batch())
    for state in _changed(sink.state()):
        fresh = _sink(tmp_path, name)
        try:
            fresh.restore(state)
        except RESTARTS:
            with contextlib.suppress(RestartDelivery):
                fresh.restore({})
        fresh.write(_batch())
        fresh.write([])
        fresh.state()
        fresh.close()


def _changed(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The state with one value replaced by an odd one."""
    for key, value in state.items():
        for odd in ODD:
            yield {**state, key: odd}
        if isinstance(value, dict):
            for inner in _changed(value):
                yield {**state, key: inner}


@pytest.mark.parametrize("name", FILES)
def test_a_huge_file_is_not_read_to_continue_it(tmp_path: Path, name: str) -> None:
    """A sparse file of a TiB in the place of a sink's own: seconds and little memory, whatever the state says of it."""
    sink = _sink(tmp_path, name)
    sink.write(_batch())
    state = sink.state()
    sink.close()
    path = tmp_path / "files" / FILES[name]
    assert path.exists()
    for start in (path.read_bytes()[:4], b"", b'"\n'):
        for given in (state, _larger(state, 1 << 41), {}):
            with path.open("r+b" if path.exists() else "wb") as file:
                file.write(start or bytes(4))
                file.truncate(1 << 40)
            reset_peak()
            before = peak()
            fresh = _sink(tmp_path, name)
            try:
                fresh.restore(given)
            except RESTARTS:
                with contextlib.suppress(RestartDelivery):
                    fresh.restore({})
            fresh.write(_batch())
            fresh.close()
            assert peak() - before < 400


def _larger(state: dict[str, Any], size: int) -> dict[str, Any]:
    return {
        key: size if key == "size" else _larger(value, size) if isinstance(value, dict) else value
        for key, value in state.items()
    }


def _batch() -> list[AnyRecord]:
    return [
        Event(0, 1, "config", {"lr": 1}),
        Step(1, 2, 1, {"loss": 1.0}),
        Table(2, 3, "t", [{"a": 1}]),
        TextRecord(3, 4, "words", "x"),
        Step(4, 5, 2, {"loss": 0.5}),
    ]


def _sink(root: Path, name: str) -> Any:
    identity = Identity("p", "r", root, "n", "launch", (), 0, attempt=1, config={}, cwd=str(root), script="")
    return registry.open_named(name, {}, identity, {})


def test_values_have_the_type_that_is_asked_for() -> None:
    """Or they are refused by name."""
    state = {"size": 3, "on": True, "name": "x", "names": ["a"], "all": {"a": 1}}
    assert saved_state.count(state, "size") == 3
    assert saved_state.flag(state, "on") is True
    assert saved_state.text(state, "name") == "x"
    assert saved_state.texts(state, "names") == ["a"]
    assert saved_state.mapping(state, "all", int) == {"a": 1}
    assert saved_state.whole(state, "missing", -5) == -5
    with pytest.raises(ValueError, match="'on'"):
        saved_state.count(state, "on")
    with pytest.raises(ValueError, match="'all'"):
        saved_state.mapping(state, "all", str)
