"""The rows of all ranks by topic, until the steps they belong to are complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chiplog.metrics.ranks.row_matching import RowMatcher
from chiplog.metrics.ranks.step_gather import GatheredStep, RankRow, StepGather, Topic
from chiplog.runtime.ranks.reduce_options import ReduceOptions


class Gathers:
    """One gather per topic, for the members of the current group.

    With the option `order`, training rows are matched one by one instead, and stay when the group changes: what a rank
    logged before it finished still counts.
    """

    def __init__(self, rank: int, world: int, options: ReduceOptions) -> None:
        self._rank, self._deadline = rank, options.deadline
        self.matcher = RowMatcher(rank, range(world), options.deadline) if options.order else None
        self.form(())

    def form(self, members: Sequence[int], after: int | float | None = None) -> None:
        """Start with a new group; training rows of other ranks up to the step `after` are too old for it."""
        self._by_topic: dict[Topic, StepGather | RowMatcher] = {
            topic: StepGather(members, self._deadline) for topic in Topic
        }
        if self.matcher is not None:
            self._by_topic[Topic.TRAIN] = self.matcher
            self.matcher.form(members)
        self._after = after

    @property
    def train(self) -> StepGather | RowMatcher:
        return self._by_topic[Topic.TRAIN]

    @property
    def is_empty(self) -> bool:
        return not any(map(len, self._by_topic.values()))

    def add_own(self, row: RankRow, now: float, step: int | float) -> None:
        """Add a row of this rank, which was logged at this step."""
        if row.counted and self.matcher is not None:
            self.matcher.add(self._rank, row, now, step)
        else:
            self._by_topic[row.topic].add(self._rank, row, now)

    def add(self, rank: int, row: RankRow, now: float) -> None:
        """Add a row of another rank, unless it was logged before the group was complete again."""
        is_step = row.topic is Topic.TRAIN and self.matcher is None
        if not is_step or self._after is None or row.step > self._after:
            self._by_topic[row.topic].add(rank, row, now)

    def finish(self, rank: int) -> None:
        """A rank will not send any more rows."""
        for gather in self._by_topic.values():
            gather.leave(rank)

    def end_round(self) -> None:
        """What arrives from now on is later."""
        for gather in self._by_topic.values():
            gather.end_round()

    def ready(self, now: float) -> Iterator[tuple[Topic, GatheredStep]]:
        """Remove the steps that are complete, or have waited too long."""
        return ((topic, step) for topic, gather in self._by_topic.items() for step in gather.ready(now))

    def rest(self) -> Iterator[tuple[Topic, GatheredStep]]:
        """Remove all steps, at the end."""
        return ((topic, step) for topic, gather in self._by_topic.items() for step in gather.rest())
