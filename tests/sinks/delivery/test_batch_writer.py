"""What a sink accepts and rejects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

import chiplog
from chiplog.core.errors import Rejected, RejectedByService
from chiplog.core.records import AnyRecord, Step
from chiplog.sinks.delivery.batch_writer import IDLE, BatchWriter, HalvingWriter, IdleBatch
from chiplog.store.journal.tail import Tail, stream_key


class Picky:
    """Rejects the steps in `no`."""

    def __init__(self, *no: int) -> None:
        self.no = set(no)
        self.steps: list[float] = []

    def write(self, batch: Sequence[AnyRecord]) -> None:
        steps = [one.step for one in batch if isinstance(one, Step)]
        if self.no.intersection(steps):
            raise Rejected("not this one")
        self.steps += steps

    def close(self) -> None: ...


def test_a_rejected_record_is_left_out_reported_once_and_sent_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are delivered; at the end it is sent once more, and only once."""
    with chiplog.init("p", sinks="none", dir=tmp_path, compact=False) as run:
        for step in range(6):
            run.log({"loss": 1.0}, step=step)
    tail = Tail(run.dir, rank=0)
    batch = tail.read()
    sink, writer = Picky(2, 4), BatchWriter("picky")
    writer.write(sink, batch, [stream_key(tail.source)] * len(batch))
    assert (writer.delivered, writer.rejected(sink), sink.steps) == (len(batch) - 2, 2, [0, 1, 3, 5])
    assert capsys.readouterr().err.count("rejects a record") == 1
    sink.no = {4}
    writer.send_rejected(sink, run.dir, 0)
    assert (writer.delivered, writer.rejected(sink), writer.why) == (len(batch) - 1, 1, "not this one")
    sink.no = set()
    writer.send_rejected(sink, run.dir, 0)
    assert writer.rejected(sink) == 1 and sink.steps == [0, 1, 3, 5, 2]


def test_an_empty_batch_is_due_once_after_a_pause() -> None:
    """Not before the first records, not at once, and not a second time."""
    idle = IdleBatch()
    assert not idle.due(None, 100.0, closing=False)
    idle.accepted(["record"], 100.0)
    assert not idle.due(None, 100.0 + IDLE, closing=False)
    assert idle.due(None, 100.1 + IDLE, closing=False)
    idle.accepted([], 101.0)
    assert not idle.due(None, 200.0, closing=False)


def test_at_the_end_nothing_waits() -> None:
    """A sink that holds something back gets its empty batch before it is closed."""
    idle = IdleBatch()
    assert not idle.due(None, 100.0, closing=True)
    idle.accepted(["record"], 100.0)
    assert idle.due(None, 100.0, closing=True)


def test_a_sink_may_set_its_own_pause() -> None:
    """Anything else of that name is ignored: a sink of the user may be any object."""
    idle = IdleBatch()
    idle.accepted(["record"], 100.0)
    assert not idle.due(SimpleNamespace(chiplog_idle=5.0), 104.0, closing=False)
    assert idle.due(SimpleNamespace(chiplog_idle="soon"), 104.0, closing=False)


class Service:
    """Rejects some steps, and counts what it is asked."""

    def __init__(self, *bad: int, error: type[Rejected] = RejectedByService) -> None:
        self.taken: list[float] = []
        self.asked = self.answered = 0
        self._bad, self._error = bad, error

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self.asked += 1
        steps = [record.step for record in batch if isinstance(record, Step)]
        if set(self._bad).intersection(steps):
            raise self._error("not this")
        self.taken += steps
        self.answered += 1

    def close(self) -> None: ...


def rows(number: int) -> tuple[list[Step], list[str]]:
    return [Step(n, n, n, {"x": 1.0}) for n in range(number)], ["r0-a1"] * number


def test_only_rejected_records_are_left_out() -> None:
    """The others arrive in order."""
    service = Service(3, 50)
    sift = HalvingWriter(service, 64)
    sift.write(*rows(100))
    assert service.taken == [n for n in range(100) if n not in (3, 50)]
    assert [(key, record.seq) for key, record in sift.rejected] == [("r0-a1", 3), ("r0-a1", 50)]


def test_a_service_that_rejects_everything_is_out_of_order() -> None:
    """Nothing is left out, and it is not asked once for every record."""
    service = Service(*range(1000))
    with pytest.raises(ConnectionError, match="not this"):
        HalvingWriter(service, 64).write(*rows(1000))
    assert service.asked == 64
    with pytest.raises(ConnectionError):
        HalvingWriter(Service(0), 64).write(*rows(1))


def test_a_record_that_the_sink_itself_rejects_needs_no_comparison() -> None:
    sift = HalvingWriter(Service(0, error=Rejected), 64)
    sift.write(*rows(1))
    assert len(sift.rejected) == 1


def test_at_the_end_everything_is_tried() -> None:
    sift = HalvingWriter(Service(*range(100)), None)
    sift.write(*rows(100))
    assert len(sift.rejected) == 100
