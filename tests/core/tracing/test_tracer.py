"""Those who look at spans while the run lives."""

from __future__ import annotations

import threading
from typing import Any

import chiplog
from chiplog.core.tracing.tracer import Tracer


def test_a_reader_sees_every_span_that_is_taken() -> None:
    """The same batch, whoever takes it, and the spans it was made of."""
    tracer = Tracer()
    seen: list[Any] = []
    tracer.readers.append(lambda batch, spans: seen.append((batch, [span.name for span in spans])))
    with tracer.span("a"), tracer.span("b"):
        pass
    batch = tracer.next_batch(0)
    assert batch is not None and seen == [(batch, ["b", "a"])] and batch["names"] == ["b", "a"]
    assert tracer.next_batch(0) is None and len(seen) == 1


def test_who_takes_waits_for_whoever_is_taking() -> None:
    """So that afterwards the readers have seen everything that had finished."""
    tracer = Tracer()
    inside, go_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def slow(batch: dict[str, Any], spans: list[Any]) -> None:
        inside.set()
        assert go_on.wait(30)
        seen.extend(batch["names"])

    tracer.readers.append(slow)
    with tracer.span("first"):
        pass
    other = threading.Thread(target=tracer.next_batch, args=(0,))
    other.start()
    assert inside.wait(30)
    mine = threading.Thread(target=tracer.next_batch, args=(0,))
    mine.start()
    mine.join(0.05)
    assert mine.is_alive() and seen == []
    go_on.set()
    mine.join(30)
    other.join(30)
    assert seen == ["first"]


def test_the_spans_of_a_run_can_be_kept_at_once() -> None:
    """In the journal, and seen by readers, without waiting for the background."""
    with chiplog.init("p", sinks="none") as run:
        seen: list[Any] = []
        run.engine.tracer.readers.append(lambda batch, spans: seen.extend(batch["names"]))
        with run.span("x"):
            pass
        run.write_spans()
        assert seen == ["x"]
        run.flush()
        assert [span.name for span in chiplog.read(run.dir).spans()] == ["x"]
