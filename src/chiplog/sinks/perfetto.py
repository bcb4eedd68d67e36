"""A Perfetto trace that grows during the run: every batch appends packets, and what was written never changes.

The file opens in ui.perfetto.dev at any moment, even after a kill. It continues over all attempts of the run, each as a
process of its own. The files of several ranks concatenated (`cat *.pftrace`) are one trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Attempt, Plain
from chiplog.sinks.shared import saved_state
from chiplog.sinks.shared.append_file import AppendFile
from chiplog.store.perfetto import trace
from chiplog.store.perfetto.trace import COUNTERS, Trace

KEPT = 1000  # tracks in a saved state


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
    """One trace file; after a failure its packets continue on the same tracks."""

    def __init__(self, path: Path, rank: int = 0, counters: Sequence[str] = COUNTERS) -> None:
        self.path = Path(path)
        self._rank, self._counters = rank, tuple(counters)
        self._file = AppendFile(self.path)
        self._attempt = 1
        self._starts = 0  # how many times this attempt's packets were restarted
        self._tracks: Mapping[str, int] = {}
        self._trace: Trace | None = None

    def write(self, batch: Sequence[AnyRecord]) -> None:
        data = b"".join([self._packets(record) for record in batch])
        if data:
            self._file.append(data)

    def close(self) -> None:
        self._file.close()

    def state(self) -> dict[str, Plain]:
        tracks = dict(list((self._trace.tracks if self._trace else self._tracks).items())[:KEPT])
        return {"size": self._file.size, "attempt": self._attempt, "starts": self._starts, "tracks": tracks}

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Cut the file back, and continue as a new sequence, because the interned strings are no longer known."""
        self._attempt = saved_state.count(state, "attempt", 1)
        self._tracks = saved_state.mapping(state, "tracks", saved_state.Count)
        self._starts = saved_state.count(state, "starts") + 1
        self._trace = None
        if not self._file.restore(saved_state.count(state, "size")):
            self._file.cut(self._file.length())

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
