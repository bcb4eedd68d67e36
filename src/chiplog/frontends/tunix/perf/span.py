"""Spans and groups of spans, as the first version has them: a tree a timeline, times in seconds."""

from __future__ import annotations

from math import inf, isclose

CLOSE = 1e-9  # s between times that are the same


class Span:
    """A stretch of work; its end is infinite while it is open."""

    __slots__ = ("begin", "end", "error", "name")

    def __init__(self, name: str, begin: float, end: float = inf, error: str = "") -> None:
        self.name, self.begin, self.end, self.error = name, begin, end, error

    @property
    def ended(self) -> bool:
        return self.end != inf

    @property
    def duration(self) -> float:
        return self.end - self.begin

    def __repr__(self) -> str:
        return f"{self.name}: {self.begin:.6f}, {self.end:.6f}"


class SpanGroup(Span):
    """A stretch that others lie in, in order; the root lies in itself. One opened as a span is found as one."""

    __slots__ = ("as_span", "inner", "outer")

    def __init__(
        self, name: str, outer: SpanGroup | None = None, begin: float = 0.0, end: float = inf, as_span: bool = False
    ) -> None:
        super().__init__(name, begin, end)
        self.as_span = as_span
        self.outer: SpanGroup = self if outer is None else outer
        self.inner: list[Span] = []
        if outer is not None:
            outer.inner.append(self)

    def find_all_inner_groups(self, name: str) -> list[SpanGroup]:
        return [one for one in self.inner if isinstance(one, SpanGroup) and one.name == name]

    def find_first_inner_group(self, name: str) -> SpanGroup | None:
        return next(iter(self.find_all_inner_groups(name)), None)

    def find_last_inner_group(self, name: str) -> SpanGroup | None:
        return next(reversed(self.find_all_inner_groups(name)), None)

    def find_all_inner_spans(self, name: str) -> list[Span]:
        return [one for one in self.inner if one.name == name and is_span(one)]

    def find_last_inner_span(self, name: str) -> Span | None:
        return next(reversed(self.find_all_inner_spans(name)), None)

    def picture(self, born: float = 0.0, depth: int = 0) -> str:
        """The tree in lines, each deeper one indented; times since `born`."""
        lines = f"{'  ' * depth}- {self.name} ({self.begin - born:.6f}, {self.end - born:.6f})\n"
        for one in self.inner:
            if isinstance(one, SpanGroup):
                lines += one.picture(born, depth + 1)
            else:
                lines += f"{'  ' * (depth + 1)}- {one.name} ({one.begin - born:.6f}, {one.end - born:.6f})\n"
        return lines


def is_span(one: Span) -> bool:
    """Whether it was opened as a span, whatever lies in it."""
    return not isinstance(one, SpanGroup) or one.as_span


def merge_span_group_trees(first: Span, second: Span) -> Span:
    """What is in either of two trees of one root, as a new one: groups that both have are merged, spans are there once.

    Fails where their roots are not the same, or where what is not the same overlaps.
    """
    if not _is_same(first, second):
        raise ValueError(f"Roots are not identical: {first!r} and {second!r}")
    return _merged([first, second], None)


def _is_same(one: Span, other: Span) -> bool:
    return (
        isinstance(one, SpanGroup) == isinstance(other, SpanGroup)
        and one.name == other.name
        and all(
            isclose(a, b, rel_tol=1e-15, abs_tol=CLOSE) for a, b in ((one.begin, other.begin), (one.end, other.end))
        )
    )


def _merged(same: list[Span], outer: SpanGroup | None) -> Span:
    """A copy of the same node of several trees, with what lies in any of them, in `outer`."""
    one = same[0]
    if not isinstance(one, SpanGroup):
        span = Span(one.name, one.begin, one.end, one.error)
        if outer is not None:
            outer.inner.append(span)
        return span
    group = SpanGroup(one.name, outer, one.begin, one.end, one.as_span)
    group.error = one.error
    children: list[list[Span]] = []
    inside = [child for each in same if isinstance(each, SpanGroup) for child in each.inner]
    for child in sorted(inside, key=lambda one: one.begin):
        last = children[-1][0] if children and len(same) > 1 else None  # one that only one tree has is as it is there
        if last is not None and _is_same(last, child):
            children[-1].append(child)
        elif last is not None and child.begin < last.end - CLOSE:
            raise ValueError(f"Merge is not possible: Overlap detected between {last!r} and {child!r}")
        else:
            children.append([child])
    for found in children:
        _merged(found, group)
    return group
