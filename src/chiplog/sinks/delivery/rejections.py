"""The records that a service has rejected: kept by their numbers, to be sent again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from chiplog.core.records import AnyRecord
from chiplog.store.journal.tail import Tail, stream_key

MOST = 1000  # ranges; beyond that the last one grows, and may take in records that were accepted

Ranges = dict[str, list[tuple[int, int]]]  # by stream, the first and last `seq` of each range


class Rejections:
    """Ranges of records by rank and attempt. `count` is exact; the ranges may cover more if there are very many."""

    def __init__(self, ranges: Mapping[str, Sequence[tuple[int, int]]] | None = None) -> None:
        self.ranges: Ranges = {key: [(first, last) for first, last in pairs] for key, pairs in (ranges or {}).items()}
        self.count = sum(last - first + 1 for pairs in self.ranges.values() for first, last in pairs)

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, rejected: Iterable[tuple[str, AnyRecord]]) -> None:
        """Note records with the keys of their streams."""
        for key, record in rejected:
            pairs = self.ranges.setdefault(key, [])
            self.count += 1
            if pairs and (pairs[-1][1] + 1 == record.seq or len(pairs) >= MOST):
                pairs[-1] = min(pairs[-1][0], record.seq), max(pairs[-1][1], record.seq)
            else:
                pairs.append((record.seq, record.seq))

    def read(self, run: Path, rank: int) -> Iterator[tuple[list[AnyRecord], list[str]]]:
        """The records from the journal, in batches, with the keys of their streams."""
        tail = Tail(run, rank=rank)
        while batch := tail.read():
            key = stream_key(tail.source)
            pairs = self.ranges.get(key, ())
            if chosen := [one for one in batch if any(first <= one.seq <= last for first, last in pairs)]:
                yield chosen, [key] * len(chosen)
