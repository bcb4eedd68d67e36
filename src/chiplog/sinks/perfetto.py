"""A Perfetto trace that grows while the run goes on: every batch appends packets, and what is there is never touched.

The file opens at any moment in ui.perfetto.dev, after a kill too. It goes on over all attempts of the run, each a
process. Files of several ranks put together (`cat *.pftrace`) are one trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Attempt, Plain
from chiplog.sinks.shared.append_file import AppendFile
from chiplog.store.perfetto import trace
from chiplog.store.perfetto.trace import COUNTERS, Trace

KEPT = 1000  # tracks that a state names


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],  # noqa: ARG001
    path: str | None = None,
    counters: str | Sequence[str] = COUNTERS,
) -> Perfetto:
    patterns = counters.split(",") if isinstance(counters, str) else counters
    return Perfetto(
        Path(path) if path else identity.files / f"trace-r{identity.rank:05d}.pftrace", identity.rank, patterns
    )


class Perfetto:
    """One trace file; taken up again after a failure, its packets go on in the same tracks."""

    def __init__(self, path: Path, rank: int = 0, counters: Sequence[str] = COUNTERS) -> None:
        self.path = Path(path)
        self._rank, self._counters = rank, tuple(counters)
        self._tape = AppendFile(self.path)
        self._attempt = 1
        self._starts = 0  # how often this attempt's packets were begun anew
        self._tracks: Mapping[str, int] = {}
        self._trace: Trace | None = None

    def write(self, batch: Sequence[AnyRecord]) -> None:
        data = b"".join([self._packets(record) for record in batch])
        if data:
            self._tape.append(data)

    def close(self) -> None:
        self._tape.close()

    def state(self) -> dict[str, Plain]:
        tracks = dict(list((self._trace.tracks if self._trace else self._tracks).items())[:KEPT])
        return {"size": self._tape.size, "attempt": self._attempt, "starts": self._starts, "tracks": tracks}

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Cut back to where it was, and go on as a new sequence: what was interned since is not known any more."""
        self._attempt, self._tracks = state.get("attempt", 1), state.get("tracks", {})
        self._starts = state.get("starts", 0) + 1
        self._trace = None
        self._tape.close()
        self._tape.cut(min(state.get("size", 0), self._tape.length()))

    def _packets(self, record: AnyRecord) -> bytes:
        if isinstance(record, Attempt):
            self._attempt, self._starts = record.attempt, self._starts if record.attempt == self._attempt else 0
            self._trace = trace.opened(record, record.attempt, self._counters, start=self._starts)
        elif self._trace is None:
            self._trace = Trace(
                self._rank,
                self._attempt,
                record.time,
                counters=self._counters,
                start=self._starts,
                tracks=self._tracks,
            )
        return self._trace.feed(record)
