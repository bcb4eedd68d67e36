"""Memory: keeps the records themselves, for tests, notebooks and small programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord
from chiplog.sinks.shared.rows import Row, Rows


def open_sink(identity: Identity, environ: Mapping[str, str]) -> Memory:  # noqa: ARG001
    return Memory()


class Memory:
    """Keeps every record in `records`, in order."""

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self.records.extend(batch)

    def close(self) -> None:
        pass

    @property
    def rows(self) -> list[Row]:
        """The metrics so far, joined by step."""
        rows = Rows()
        return [row for record in self.records for row in rows.feed(record)] + rows.drain()
