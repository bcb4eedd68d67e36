"""Functions over timelines: their ids, spans by name, and the spans of a device one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chiplog.core.tracing.span import lane_label
from chiplog.core.tracing.timelines import Device
from chiplog.frontends.tunix.perf.experimental import constants
from chiplog.frontends.tunix.perf.experimental.span import Span
from chiplog.frontends.tunix.perf.experimental.timeline import HOST, QUEUE, Timeline
from chiplog.frontends.tunix.perf.shared_tracer import device_names


def sequentialize_overlapping_spans(spans: Mapping[int, Span]) -> tuple[dict[int, Span], dict[int, Span]]:
    """Return the spans of a device one after another, and the spans in which they waited, both by id.

    They are placed as a tracer does, in the order in which they ended; none is dropped.
    """
    device = Device("")
    active: dict[int, Span] = {}
    queue: dict[int, Span] = {}
    for span in sorted(spans.values(), key=lambda one: (one.end, one.begin, one.id)):
        begin, waited = device.place(round(span.begin * 1e9), round(span.end * 1e9))
        really = span.begin if begin == round(span.begin * 1e9) else begin / 1e9
        active[span.id] = Span(span.name, really, span.id, span.parent_id, dict(span.tags), span.end, span.error)
        if waited is not None:
            since, until = (moment / 1e9 for moment in waited)
            queue[span.id] = Span(constants.QUEUE, since, span.id, None, {constants.NAME: span.name}, until)
    return dict(sorted(active.items())), dict(sorted(queue.items()))


def generate_host_timeline_id() -> str:
    """Return the id of the timeline of this thread or task, by its name."""
    return f"{HOST}{lane_label()}"


def generate_device_timeline_id(id: object) -> str:
    """Return the id of the timeline of a device; fail for anything else."""
    (name,) = device_names(id)
    return name


def generate_queued_timeline_id(timeline_id: str) -> str:
    """Return the id of the timeline on which the spans of a device wait."""
    return f"{timeline_id}{QUEUE}"


def filter_spans_by_name(timeline: Timeline, span_names: Sequence[str] | str) -> list[Span]:
    """Return the spans with these names, of all steps that the timeline still has."""
    names = {span_names} if isinstance(span_names, str) else set(span_names)
    return [span for step in timeline.all_steps for span in step.values() if span.name in names]
