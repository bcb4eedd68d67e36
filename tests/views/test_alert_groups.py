"""Alerts folded by what they are about."""

from __future__ import annotations

from typing import Any

from chiplog.core import records
from chiplog.views.alert_groups import alert_groups


def alert(title: str, step: float | None = None, level: str = "warn", rule: str = "", **evidence: Any) -> records.Alert:
    return records.Alert(1, 1, title=title, level=level, text="", step=step, rule=rule, evidence=evidence)


def test_what_repeats_is_one_line_and_errors_come_first() -> None:
    """By rule and series, or by title; the newest of each is shown."""
    groups = alert_groups(
        [
            alert("loss is nan", 5, "error", "non-finite", name="loss"),
            alert("GPU 6 is throttled: heat", 10, rule="throttled", id=6),
            alert("GPU 7 is throttled: heat", 20, rule="throttled", id=7),
            alert("GPU 6 is throttled: power", 1960, rule="throttled", id=6),
            alert("by hand", None),
            alert("by hand", None),
        ]
    )
    assert [(one.title, one.steps) for one in groups] == [
        ("loss is nan", "5"), ("by hand (2 times)", ""), ("GPU 6 is throttled: power (2 times)", "10 to 1,960"),
        ("GPU 7 is throttled: heat", "20"),
    ]  # fmt: skip


def test_an_unknown_level_is_a_warning() -> None:
    """Whoever wrote it."""
    groups = alert_groups([alert("b", level="dire"), alert("a", level="info"), alert("c", level="error")])
    assert [one.newest.title for one in groups] == ["c", "b", "a"]
