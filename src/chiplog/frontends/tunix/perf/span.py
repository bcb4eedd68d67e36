"""Spans and groups of spans, as the first version has them: a tree a timeline, times in seconds."""

from __future__ import annotations

from math import inf


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
    """A stretch that others lie in, in order; the root lies in itself."""

    __slots__ = ("inner", "outer")

    def __init__(self, name: str, outer: SpanGroup | None = None, begin: float = 0.0, end: float = inf) -> None:
        super().__init__(name, begin, end)
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
        return [one for one in self.inner if not isinstance(one, SpanGroup) and one.name == name]

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
