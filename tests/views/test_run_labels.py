"""Short names that tell runs apart."""

from __future__ import annotations

import chiplog
from chiplog.views.run_labels import labels


def test_runs_can_be_told_apart() -> None:
    """By name, by the last part of an id, by the id where names repeat, and by the project where ids do."""
    runs = []
    for project, run_id, name in (
        ("p", "261116-213045-7f3a9c", None),
        ("p", "261116-213046-aa12ff", None),
        ("p", "one", "twin"),
        ("q", "one", "twin"),
        ("p", "two", "alone"),
    ):
        run = chiplog.init(project, name, id=run_id, sinks="none")
        run.finish()
        runs.append(chiplog.read(run.dir))
    assert labels(runs) == ["7f3a9c", "aa12ff", "p/one", "q/one", "alone"]
    assert chiplog.read("7f3a9c").id == runs[0].id
