"""Short names that tell runs apart, for legends and the heads of columns."""

from __future__ import annotations

from collections.abc import Sequence

from chiplog.core.values.redact import redact_text
from chiplog.store.reader import Stored


def labels(runs: Sequence[Stored]) -> list[str]:
    """A unique label for each run: its name; the last part of its id if it has none; else as much as is needed."""
    choices = [[_name(run), run.id, f"{run.project}/{run.id}"] for run in runs]
    level = [0] * len(runs)
    while True:
        names = [choice[at] for choice, at in zip(choices, level, strict=True)]
        shared = [at for at, name in enumerate(names) if names.count(name) > 1 and level[at] < 2]
        if not shared:
            return names
        for at in shared:
            level[at] += 1


def _name(run: Stored) -> str:
    """`7f3a9c` for `261115-213045-7f3a9c`, which begins like all runs of that day; it finds the run, too."""
    if run.name != run.id:
        return redact_text(run.name)
    date, _, rest = run.id.partition("-")
    return rest.rpartition("-")[2] if len(date) == 6 and date.isdecimal() and "-" in rest else run.id
