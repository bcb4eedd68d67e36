"""Where the time went: a table, the critical path of a step, and the changes from another run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from chiplog.core.display import short_duration
from chiplog.core.messages import clean
from chiplog.metrics import step_spans
from chiplog.store.spans.span import StoredSpan
from chiplog.views.table import Cell, table

if TYPE_CHECKING:
    from chiplog.store.spans.spans import Spans

MOST = 20  # names in a table
NEAR = 0.01  # of a step: a host span that ends this close to a device's had waited for the device
PLACES = {"device": 1, "queue": 2}
KINDS = {"": "host", "task": "task", "device": "device", "queue": "queue"}


class Leg(msgspec.Struct, frozen=True):
    """A leg of the critical path; without a span it is idle time."""

    span: StoredSpan | None
    begin: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e9


class Change(msgspec.Struct, frozen=True):
    """Seconds per step and rank of a name, in this run and the other."""

    name: str
    kind: str
    here: float
    there: float

    @property
    def more(self) -> float:
        return self.here - self.there


def where(spans: Spans, *, width: int | None = None, colour: bool = False) -> str:
    """A table of names by own time, devices last; shares are of the time from first start to last end per rank."""
    if not spans:
        return "no spans; `with run.span(name):` records them"
    begin, end = spans.reach
    wall = (end - begin) / 1e9 * len(spans.ranks) or 1e-9
    rows = sorted(spans.table(by_step=False), key=lambda one: (PLACES.get(one.kind, 0), -one.own))
    shown: list[list[str | Cell]] = [
        [
            one.name,
            KINDS.get(one.kind, one.kind),
            f"{one.count:,}",
            short_duration(one.total),
            short_duration(one.own),
            Cell(f"{one.own / wall:.1%}", "1" if one.own / wall >= 0.2 else ""),
            short_duration(one.p50),
            short_duration(one.p95),
            short_duration(one.longest),
        ]
        for one in rows[:MOST]
    ]
    head = ["span", "on", "count", "total", "own", "share", "p50", "p95", "longest"]
    lines = [table(head, shown, width=width, right=head[2:], colour=colour)]
    if len(rows) > MOST:
        lines.append(f"and {len(rows) - MOST} more")
    if devices := spans.device():
        idle = devices.idle()
        lines.append("")
        lines += [
            f"{clean(name)} idle {short_duration(seconds)} between its spans"
            for name, seconds in sorted(idle.items())[:MOST]
        ]
        waited, overlap = short_duration(devices.wait()), short_duration(spans.overlap())
        lines.append(f"work waited {waited} for devices; host and device both busy {overlap}")
    if failed := spans.failed():
        failures = Counter(clean(f"{span.name} ({span.error or 'failed'})") for span in failed)
        lines += ["", f"failed: {', '.join(f'{count}× {what}' for what, count in failures.most_common(5))}"]
    return "\n".join(lines)


def typical_step(spans: Spans) -> int | float | None:
    """The step with the median time from first start to last end."""
    lengths = spans.lengths()
    by_time = sorted(lengths, key=lengths.__getitem__)
    return by_time[len(by_time) // 2] if by_time else None


def critical_path(spans: Spans) -> list[Leg]:
    """The critical path to the end of these spans, first leg first.

    Found backwards: from the last end to the start of the innermost span that was active then, and so on. If a device
    ended together with a host span, the host had waited for the device.
    """
    leaves = [leaf for leaf in _leaves(spans) if leaf.end > leaf.begin]
    if not leaves:
        return []
    lanes: dict[object, list[_Leaf]] = {}
    for leaf in sorted(leaves, key=lambda one: one.begin):
        lanes.setdefault(leaf.span.timeline, []).append(leaf)
    begin, at = min(leaf.begin for leaf in leaves), max(leaf.end for leaf in leaves)
    near = int((at - begin) * NEAR)
    newest = _Newest(list(lanes.values()), near)
    legs: list[Leg] = []
    while at > begin:
        chosen = newest.at(at)
        end = min(chosen.end, at)
        if end < at - near:
            legs.append(Leg(None, end, at))
        else:
            end = at
        legs.append(Leg(chosen.span, chosen.begin, end))
        at = chosen.begin
    return legs[::-1]


class _Newest:
    """The newest leaf of every timeline before a moment that moves backwards, in heaps, as there may be many.

    Entries of leaves that are no longer the newest of their timeline are dropped when they come up.
    """

    def __init__(self, lanes: list[list[_Leaf]], near: int) -> None:
        self._lanes, self._near = lanes, near
        self._place = [len(leaves) for leaves in lanes]
        self._begun: list[tuple[int, int, int]] = [(-(1 << 64), lane, len(leaves)) for lane, leaves in enumerate(lanes)]
        # (-end, -begin, lane, place) of those that have ended before the moment, and (-begin, lane, place) of others;
        # of all, and of devices: of their others those that end close to the moment
        self._ended: tuple[list[_Ended], list[_Ended]] = [], []
        self._others: tuple[list[_Other], list[_Other]] = [], []

    def at(self, moment: int) -> _Leaf:
        """The one that determined when this moment came."""
        while self._begun and -self._begun[0][0] >= moment:
            _, lane, place = heappop(self._begun)
            leaves, place = self._lanes[lane], place - 1
            while place >= 0 and leaves[place].begin >= moment:
                place -= 1
            self._place[lane] = place
            if place >= 0:
                leaf = leaves[place]
                heappush(self._begun, (-leaf.begin, lane, place))
                for heap in self._ended[: 1 + leaf.is_device]:
                    heappush(heap, (-leaf.end, -leaf.begin, lane, place))
        for ended, others in zip(self._ended, self._others, strict=True):
            while ended and (-ended[0][0] >= moment or self._place[ended[0][2]] != ended[0][3]):
                _, begin, lane, place = heappop(ended)
                heappush(others, (begin, lane, place))
            while others and self._place[others[0][1]] != others[0][2]:
                heappop(others)
        (ended, ended_devices), (others, devices) = self._ended, self._others
        while devices and (
            self._place[devices[0][1]] != devices[0][2] or self._leaf(devices[0]).end > moment + self._near
        ):
            heappop(devices)
        latest = moment if others else -ended[0][0]
        if devices:
            return self._leaf(devices[0])
        if ended_devices and -ended_devices[0][0] >= latest - self._near:
            return self._leaf(ended_devices[0])
        return self._leaf(others[0] if others else ended[0])

    def _leaf(self, entry: tuple[int, ...]) -> _Leaf:
        return self._lanes[entry[-2]][entry[-1]]


def path(spans: Spans, *, width: int | None = None, colour: bool = False) -> str:
    """The critical path as a table; consecutive legs of the same span are merged."""
    legs = critical_path(spans)
    whole = sum(leg.seconds for leg in legs) or 1e-9
    several = len({leg.span.rank for leg in legs if leg.span}) > 1
    joined: list[tuple[str, str, float, int]] = []
    for leg in legs:
        name, lane = (leg.span.name, leg.span.thread) if leg.span else ("(idle)", "")
        if several and leg.span:
            lane = f"rank {leg.span.rank} {lane}"
        if joined and joined[-1][:2] == (name, lane):
            joined[-1] = name, lane, joined[-1][2] + leg.seconds, joined[-1][3] + 1
        else:
            joined.append((name, lane, leg.seconds, 1))
    rows = [
        [name, lane, short_duration(seconds), f"{seconds / whole:.1%}", f"×{times}" if times > 1 else ""]
        for name, lane, seconds, times in joined
        if seconds / whole >= 0.001
    ]
    return table(["span", "on", "time", "share", ""], rows, width=width, right=["time", "share"], colour=colour)


def changes(here: Spans, there: Spans) -> list[Change]:
    """Seconds per step by name and kind in both runs, largest difference first."""
    mine, theirs = _per_step(here), _per_step(there)
    listed = [Change(*key, mine.get(key, 0.0), theirs.get(key, 0.0)) for key in dict.fromkeys([*mine, *theirs])]
    return sorted(listed, key=lambda one: -abs(one.more))


def against(here: Spans, there: Spans, *, width: int | None = None, colour: bool = False) -> str:
    """The changes as a table; slower is red."""
    rows: list[list[str | Cell]] = [
        [
            one.name,
            KINDS.get(one.kind, one.kind),
            short_duration(one.here),
            short_duration(one.there),
            Cell(
                _sign(one.more) + short_duration(abs(one.more)), "31" if one.more > 0 else "32" if one.more < 0 else ""
            ),
            f"{one.here / one.there:.2f}x" if one.there else "new",
        ]
        for one in changes(here, there)[:MOST]
    ]
    head = ["own time per step", "on", "here", "there", "change", ""]
    return table(head, rows, width=width, right=head[2:], colour=colour)


def _sign(seconds: float) -> str:
    return "+" if seconds > 0 else "-" if seconds < 0 else ""


def _per_step(spans: Spans) -> dict[tuple[str, str], float]:
    steps = 0  # of all ranks; spans without a step count as one step
    for rank in spans.ranks:
        mine = spans.of(rank=rank)
        steps += len(mine.steps) + (len(mine.at()) < len(mine))
    return {(one.name, one.kind): one.own / (steps or 1) for one in spans.table(by_step=False)}


_Ended: TypeAlias = tuple[int, int, int, int]
_Other: TypeAlias = tuple[int, int, int]


class _Leaf(msgspec.Struct, frozen=True):
    span: StoredSpan
    begin: int
    end: int

    @property
    def is_device(self) -> bool:
        return self.span.kind == "device"


def _leaves(spans: Sequence[StoredSpan]) -> list[_Leaf]:
    """The intervals of every span that no child on the same timeline covers; queues are left out."""
    by_key = {span.key: span for span in spans}
    inside: dict[object, list[step_spans.Interval]] = {}
    for span in spans:
        outer = by_key.get(span.parent_key)
        if outer is not None and outer.timeline == span.timeline:
            inside.setdefault(outer.key, []).append((span.start, span.end))
    leaves: list[_Leaf] = []
    for span in spans:
        if span.kind == "queue":
            continue
        at = span.start
        for begin, end in step_spans.union(inside.get(span.key, ())):
            if begin > at:
                leaves.append(_Leaf(span, at, min(begin, span.end)))
            at = max(at, end)
        if at < span.end:
            leaves.append(_Leaf(span, at, span.end))
    return leaves
