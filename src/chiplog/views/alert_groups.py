"""Alerts folded by what they are about: one line for a GPU that was throttled thirty times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from chiplog.core import display, records

LEVELS = ("error", "warn", "info")  # the most urgent first


class AlertGroup(NamedTuple):
    """The newest alert about something, and how often there was one."""

    newest: records.Alert
    times: int
    first_step: int | float | None

    @property
    def steps(self) -> str:
        """The step, or the first and the last."""
        first, last = (None if step is None else display.count(step) for step in (self.first_step, self.newest.step))
        return last or "" if first in (None, last) or last is None else f"{first} to {last}"

    @property
    def title(self) -> str:
        """The title of the newest, and how many there were."""
        return f"{self.newest.title} ({self.times} times)" if self.times > 1 else self.newest.title


def alert_groups(alerts: Iterable[records.Alert]) -> list[AlertGroup]:
    """Errors before warnings, and the newest first among those of a level."""
    groups: dict[object, AlertGroup] = {}
    for one in alerts:
        subject = (one.rule, str(one.evidence.get("name", one.evidence.get("id")))) if one.rule else one.title
        before = groups.pop((one.level, subject), None)  # the newest is last
        first = one.step if before is None else before.first_step
        groups[one.level, subject] = AlertGroup(one, 1 if before is None else before.times + 1, first)
    newest_first = list(groups.values())[::-1]
    return sorted(newest_first, key=lambda group: _urgency(group.newest.level))


def _urgency(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else LEVELS.index("warn")
