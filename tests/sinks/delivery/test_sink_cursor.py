"""The position of a sink, saved with its state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core.errors import RestartDelivery
from chiplog.sinks.delivery.sink_cursor import SinkCursor
from chiplog.store.journal import cursors


class Counter:
    """A sink that counts; `other` refuses a state that is not empty."""

    def __init__(self, other: bool = False) -> None:
        self.count, self.other = 0, other

    def state(self) -> dict[str, Any]:
        return {"count": self.count}

    def restore(self, state: Mapping[str, Any]) -> None:
        if self.other and state:
            raise RestartDelivery("it is another place")
        self.count = state.get("count", 0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with chiplog.init("p", id="r", sinks="none", dir=tmp_path, compact=False) as run:
        run.log({"x": 1.0}, step=0)
    return run.dir


def test_a_sink_continues_from_its_saved_position(run: Path) -> None:
    """With the state that was saved with it; what came later is forgotten."""
    sink = Counter()
    position = SinkCursor(run, "counter", 0, sink)
    tail = position.restore()
    sink.count = len(tail.read())
    position.save(tail, "https://example.org")
    count, sink.count = sink.count, 99
    assert position.restore().read() == [] and sink.count == count > 0
    assert cursors.load(position.path).url == "https://example.org"
    again = Counter()
    assert SinkCursor(run, "counter", 0, again).restore().lag() == 0 and again.count == count


def test_a_state_of_another_place_starts_over(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the first record, which is reported; and so does a cursor that is damaged."""
    sink = Counter()
    position = SinkCursor(run, "counter", 0, sink)
    tail = position.restore()
    everything = tail.read()
    sink.count = 5
    position.save(tail, None)
    assert len(SinkCursor(run, "counter", 0, Counter(other=True)).restore().read()) == len(everything)
    assert "restarts from the first record: it is another place" in capsys.readouterr().err
    position.path.write_bytes(b"{}")
    assert len(SinkCursor(run, "counter", 0, sink).restore().read()) == len(everything) and sink.count == 0
    assert "cannot be read" in capsys.readouterr().err


def test_another_process_is_seen_to_move(run: Path) -> None:
    """Once for each time it saves the cursor."""
    ours, theirs = (SinkCursor(run, "counter", 0, Counter()) for _ in range(2))
    assert not ours.poll()
    tail = theirs.restore()
    assert ours.poll() and not ours.poll()
    lag = ours.tail().lag()
    tail.read()
    theirs.save(tail, None)
    assert ours.poll() and ours.tail().lag() == 0 < lag
