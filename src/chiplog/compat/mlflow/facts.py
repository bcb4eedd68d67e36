"""What MLflow knows of a run and chiplog has no word for: the rows of its table `mlflow`, in which the last one counts.

Keys are `status`, `start_time`, `end_time`, `user`, `lifecycle_stage` and `tags.<key>`; values are texts, or None for
a tag that was deleted. Inputs and outputs are under `dataset.<digest>` (JSON), `model_input.<id>` and
`model_output.<id>`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from chiplog.core.run import Run
from chiplog.store.reader import Stored

TABLE = "mlflow"
TAG = "tags."


class Facts(dict[str, str]):
    """Facts by key."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: set[str] = set()  # keys


def write(run: Run, facts: Mapping[str, str | None]) -> None:
    """Add facts to a run."""
    now = time.time_ns()
    run.table(TABLE, [{"key": key, "value": value, "time": now} for key, value in facts.items()])


def read(stored: Stored) -> Facts:
    """The facts of a run, as of now."""
    rows = list(stored.table(TABLE, missing_ok=True))
    facts = Facts()
    for row in sorted(rows, key=lambda row: int(row["time"])):  # several processes may have written
        key, value = str(row["key"]), row["value"]
        if value is None:
            facts.pop(key, None)
            facts.deleted.add(key)
        else:
            facts[key] = str(value)
    return facts


def under(facts: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The facts whose keys start with a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in facts.items() if key.startswith(prefix)}


def as_word(key: str, value: str) -> str | None:
    """A tag of MLflow as a word to find the run by; None if it is MLflow's own, or no word."""
    word = f"{key}={value}" if value else key
    return word if not key.startswith("mlflow.") and len(word) <= 100 and word.isprintable() else None
