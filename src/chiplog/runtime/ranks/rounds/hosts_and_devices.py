"""What ranks know about each other: their hosts, and the state of their devices."""

from __future__ import annotations

from collections.abc import Mapping

from chiplog.metrics.ranks.stragglers import Facts

EVERY = 10.0  # s between two reports of a rank
DEVICE = ("clock", "throttle", "temperature", "power")  # fields of a device that may explain a slow rank


class FactsByRank:
    """The facts of this rank and of those that have sent theirs."""

    def __init__(self, rank: int, facts: Facts) -> None:
        self._rank = rank
        self.by_rank: dict[int, Facts] = {rank: facts.copy()}
        self._sent: Facts = {}
        self._due = 0.0

    def add(self, rank: int, facts: Facts) -> None:
        self.by_rank[rank] = facts

    def add_device(self, sample: Mapping[str, object]) -> None:
        """Keep from a device's sample what may explain a slow rank; not every sample has every field."""
        fields = {name: value for name, value in sample.items() if any(word in name for word in DEVICE)}
        mine, device = self.by_rank[self._rank], str(sample.get("id", 0))
        devices = mine.get("devices", {})
        mine["devices"] = {**devices, device: {**devices.get(device, {}), **fields}}

    def unsent(self, now: float) -> Facts | None:
        """The facts of this rank if they have changed since they were sent, and it is time to send them again."""
        mine = self.by_rank[self._rank]
        if now < self._due or self._sent == mine:
            return None
        self._due = now + EVERY
        self._sent = mine.copy()
        return self._sent

    def forget_sent(self) -> None:
        """Start with a new group, which has no facts yet."""
        self._sent = {}
        self._due = 0.0
