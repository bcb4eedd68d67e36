"""The memory sink."""

from pathlib import Path

from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import Alert, Step
from chiplog.sinks import memory


def test_memory_keeps_the_records_and_joins_rows():
    """Records are kept as they are, in order, and can be had as rows."""
    sink = memory.open_sink(Identity("p", "r", Path("x"), "n", "l"), {})
    records = [Step(0, 1, 1, {"a": 1}), Alert(1, 2, "spike"), Step(2, 3, 1, {"b": 2})]
    sink.write(records[:2])
    sink.write([])
    sink.write(records[2:])
    sink.close()
    assert isinstance(sink, Sink)
    assert sink.records == records
    assert sink.rows == [(1, 1, {"a": 1, "b": 2})]
