"""The sinks of a run that has started: their saved state, and one more of them. For front ends."""

from __future__ import annotations

import time
from collections.abc import Mapping

from chiplog.core.engine.shutdown import SinkDelivery
from chiplog.core.protocols import Sink
from chiplog.core.records import Plain
from chiplog.core.run import Run
from chiplog.sinks.delivery.couriers import deliver
from chiplog.store import layout
from chiplog.store.journal import cursors


def sink_state(run: Run, name: str) -> Mapping[str, Plain]:
    """What a sink has saved to resume from, such as the id of its run at a service; empty before that.

    It is read from the run directory, so it also works for a sink in the relay process and after the run has ended.
    """
    try:
        return cursors.load(cursors.cursor_path(run.dir, name)).state
    except (OSError, ValueError):
        return {}


def add_sink(run: Run, name: str, sink: Sink) -> None:
    """Deliver a run to one more sink, from the first record of this attempt on."""
    segment = layout.Segment(run.identity.rank, run.identity.attempt, 0)
    added = deliver(run.dir, segment, {name: sink})
    run.post = added if run.post is None else _joined(run.post, added)


def _joined(first: SinkDelivery, second: SinkDelivery) -> SinkDelivery:
    def close(timeout: float) -> dict[str, str]:
        deadline = time.monotonic() + timeout
        return first.close(timeout) | second.close(max(1.0, deadline - time.monotonic()))

    return SinkDelivery(
        {**first.sinks, **second.sinks},
        lambda: {**first.health(), **second.health()},
        close,
        first.away,
        lambda timeout, *names: first.settle(timeout, *names) and second.settle(timeout, *names),
    )
