"""Spans and groups of spans of the first version: one tree per timeline, times in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isclose

CLOSE = 1e-9  # s between times that count as equal


class Span:
    """An interval of work; its end is infinite while it is open."""

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
    """A span that contains others, in order; the root is its own outer. If opened as a span, it is found as one."""

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

    def picture(self, born: float = 0.0) -> str:
        """Return the tree as indented lines, with times since `born`."""
        return "".join(
            f"{'  ' * depth}- {one.name} ({one.begin - born:.6f}, {one.end - born:.6f})\n"
            for depth, one in ((0, self), *walk(self))
        )


def walk(group: SpanGroup, depth: int = 1) -> Iterator[tuple[int, Span]]:
    """Yield everything in a group, with its depth, in order."""
    for one in group.inner:
        yield depth, one
        if isinstance(one, SpanGroup):
            yield from walk(one, depth + 1)


def is_span(one: Span) -> bool:
    """Whether it was opened as a span, even if it contains others."""
    return not isinstance(one, SpanGroup) or one.as_span


def merge_span_group_trees(first: Span, second: Span) -> Span:
    """Merge two trees with the same root into a new one, in which groups and spans of both appear once.

    Fails if the roots differ, or if different spans overlap.
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
    """Copy the same node of several trees into `outer`, with the contents of all of them."""
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
        last = children[-1][0] if children and len(same) > 1 else None  # what only one tree has is copied as it is
        if last is not None and _is_same(last, child):
            children[-1].append(child)
        elif last is not None and child.begin < last.end - CLOSE:
            raise ValueError(f"Merge is not possible: Overlap detected between {last!r} and {child!r}")
        else:
            children.append([child])
    for nodes in children:
        _merged(nodes, group)
    return group
