"""What ranks know about each other."""

from __future__ import annotations

from chiplog.runtime.ranks.rounds.hosts_and_devices import EVERY, FactsByRank


def test_facts_are_sent_when_they_have_changed_and_not_too_often() -> None:
    """A new group gets them again."""
    facts = FactsByRank(1, {"host": "a", "local": 0})
    assert facts.unsent(0.0) == {"host": "a", "local": 0}
    facts.add_device({"id": 3, "clock": 900, "memory": 1})
    assert facts.unsent(1.0) is None
    assert facts.unsent(EVERY) == {"host": "a", "local": 0, "devices": {"3": {"clock": 900}}}
    assert facts.unsent(2 * EVERY) is None
    facts.forget_sent()
    assert facts.unsent(2 * EVERY) is not None


def test_samples_of_a_device_add_up() -> None:
    """Not every sample has every field."""
    facts = FactsByRank(0, {})
    facts.add_device({"id": 0, "clock": 900, "throttle": ""})
    facts.add_device({"id": 0, "clock": 300, "power": 350_000})
    assert facts.by_rank[0]["devices"] == {"0": {"clock": 300, "throttle": "", "power": 350_000}}
