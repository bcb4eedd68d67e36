"""What MLflow knows of a run and chiplog has no word for: the rows of its table `mlflow`, in which the last one counts.

Keys are `status`, `start_time`, `end_time`, `user`, `lifecycle_stage` and `tags.<key>`; values are texts, or None for
a tag that was deleted. Inputs and outputs are under `dataset.<digest>` (JSON), `model_input.<id>` and
`model_output.<id>`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from chiplog.core.run import Run
from chiplog.store.reader import Stored

TABLE = "mlflow"
TAG = "tags."

T = TypeVar("T")


class Fact(msgspec.Struct):
    """A row of the table."""

    key: str
    value: str | None
    time: int  # ns


class RunFacts(dict[str, str]):
    """Facts by key."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: set[str] = set()  # keys


def write(run: Run, facts: Mapping[str, str | None]) -> None:
    """Add facts to a run."""
    now = time.time_ns()
    run.table(TABLE, [{"key": key, "value": value, "time": now} for key, value in facts.items()])


def read(stored: Stored) -> RunFacts:
    """The facts of a run, as of now."""
    rows = typed_rows(stored, TABLE, Fact)
    facts = RunFacts()
    for fact in sorted(rows, key=lambda fact: fact.time):  # several processes may have written
        if fact.value is None:
            facts.pop(fact.key, None)
            facts.deleted.add(fact.key)
        else:
            facts[fact.key] = fact.value
    return facts


def typed_rows(stored: Stored, table: str, kind: type[T]) -> Iterator[T]:
    """The rows of a table as structs; others are left out, which a script has written under the same name."""
    for row in stored.table(table, missing_ok=True):
        try:
            yield msgspec.convert(row, kind)
        except msgspec.ValidationError:
            continue


def under(facts: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The facts whose keys start with a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in facts.items() if key.startswith(prefix)}


def as_word(key: str, value: str) -> str | None:
    """A tag of MLflow as a word to find the run by; None if it is MLflow's own, or no word."""
    word = f"{key}={value}" if value else key
    return word if not key.startswith("mlflow.") and len(word) <= 100 and word.isprintable() else None
