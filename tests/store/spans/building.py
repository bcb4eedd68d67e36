"""Stored spans from objects, and scattered ones."""

from __future__ import annotations

import random
from collections.abc import Iterable

from chiplog.core import records
from chiplog.store.spans.columns import SpanColumns, from_record
from chiplog.store.spans.span import StoredSpan
from chiplog.store.spans.spans import Spans

STREAMS = ((0, 0), (1, 0), (0, 1))  # rank, attempt


def spans_of(spans: Iterable[StoredSpan]) -> Spans:
    columns = SpanColumns()
    for one in spans:
        ident = str(one.id)
        batch = from_record(
            records.SpansRecord(
                0, 0, [one.name], [one.thread], [0], [0], [one.id], [one.parent], [one.start], [one.duration], [one.step],
                tags={ident: one.tags}, failed=[one.id] if one.failed else [], errors={ident: one.error},
                kinds={one.thread: one.kind},
            )
        )  # fmt: skip
        assert batch is not None
        columns.append(batch, one.rank, one.attempt)
    return Spans(columns)


def scattered(seed: int) -> list[tuple[records.SpansRecord, int, int]]:
    """Batches of spans of every sort: nested and not, on threads and devices, of several ranks, some without a step."""
    chance = random.Random(seed)
    found = []
    for stream, (rank, attempt) in enumerate(STREAMS):
        number = 0
        moments = chance.sample(range(300), 90)
        for _ in range(3):
            size = chance.randrange(30)
            ids = list(range(number + 1, number + size + 1))
            number += size
            found.append(
                (
                    records.SpansRecord(
                        0, 0, ["a", "b", "global step"], ["main", "tpu0", "tpu0_queue", "main/Task-1"],
                        [chance.randrange(3) for _ in ids], [chance.randrange(4) for _ in ids], ids,
                        [chance.choice((0, 0, chance.randint(1, number))) for _ in ids],
                        [10**18 + 3 * moments[one - 1] + stream for one in ids], [chance.randrange(300) for _ in ids],
                        [chance.choice((None, 1, 2, 2.5, 3)) for _ in ids], failed=[one for one in ids if one % 7 == 0],
                        tags={str(one): {"micro": one % 3} for one in ids if one % 5 == 0},
                        errors={str(one): "ValueError" for one in ids if one % 14 == 0},
                        kinds={"tpu0": "device", "tpu0_queue": "queue", "main/Task-1": "task"},
                    ),
                    rank,
                    attempt,
                )
            )  # fmt: skip
    return found
