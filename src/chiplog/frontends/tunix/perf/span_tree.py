"""Recorded spans as the first version shows them: a tree of groups and spans for every timeline.

The groups of the main thread are on all timelines. A span that contains others is a group, and is still found as a
span; on a device, by its part there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from math import inf

from chiplog.frontends.tunix.perf.span import Span, SpanGroup
from chiplog.store.spans.span import Span as Recorded

HOSTS = ("", "task")
THREAD = "thread-"


class Forest:
    """The trees of some spans; `groups` are the ids of those that were opened as groups."""

    def __init__(
        self, spans: Iterable[Recorded], groups: set[int], main: str, born: float, seconds: Callable[[int], float]
    ) -> None:
        self._spans = sorted(spans, key=lambda span: (span.start, -span.duration, span.id))  # outer ones first
        self._main, self._born, self._seconds = main, born, seconds
        hosts = [span for span in self._spans if span.kind in HOSTS]
        self._hosts = {span.id: span for span in hosts}
        self._opened = groups
        self._groups = groups | {span.parent for span in hosts if span.parent in self._hosts}

    def timelines(self) -> list[str]:
        """Return the ids of all timelines: `thread-` and its name for a host, the name of a device."""
        return list(dict.fromkeys([self._main, *(timeline_of(span) for span in self._spans)]))

    def tree(self, timeline: str) -> SpanGroup:
        root = SpanGroup("root", begin=self._born)
        nodes: dict[int, SpanGroup] = {}
        placed: list[tuple[float, float, SpanGroup]] = []  # the main thread's groups by their starts
        busy = -inf  # until when a device works
        with_part = {span.parent for span in self._spans if span.kind not in HOSTS and span.thread == timeline}
        for span in self._spans:
            lane = timeline_of(span)
            begin, end = self._seconds(span.start), _end(span, self._seconds)
            grouped = span.id in self._groups and (span.id in self._opened or span.id not in with_part)
            if span.kind in HOSTS and grouped and lane in (self._main, timeline):
                outer = self._around(span, nodes) or (root if lane == self._main else _at(placed, begin, root))
                as_span = lane == timeline and span.id not in self._opened
                nodes[span.id] = group = SpanGroup(span.name, outer, begin, end, as_span)
                group.error = span.error
                if lane == self._main:
                    placed.append((begin, end, group))
            elif lane == timeline:
                outer = self._around(span, nodes) or (root if lane == self._main else _at(placed, begin, root))
                if span.kind == "device":  # one after another, even if they may overlap
                    begin = min(max(begin, busy), end)
                    busy = max(busy, end)
                outer.inner.append(Span(span.name, begin, end, span.error))
        return root

    def _around(self, span: Recorded, nodes: dict[int, SpanGroup]) -> SpanGroup | None:
        """Return the nearest group around a span."""
        parent = span.parent
        while parent and parent not in nodes and parent in self._hosts:
            parent = self._hosts[parent].parent
        return nodes.get(parent)


def timeline_of(span: Recorded) -> str:
    return f"{THREAD}{span.thread}" if span.kind in HOSTS else span.thread


def _end(span: Recorded, seconds: Callable[[int], float]) -> float:
    return inf if span.duration < 0 else seconds(span.end)


def _at(placed: Sequence[tuple[float, float, SpanGroup]], moment: float, root: SpanGroup) -> SpanGroup:
    """Return the innermost group of the main thread that was open at a moment."""
    for at in range(bisect_right(placed, moment, key=lambda one: one[0]) - 1, -1, -1):
        if placed[at][1] > moment:
            return placed[at][2]
    return root
