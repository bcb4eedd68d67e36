"""Records of spans, by hand."""

from __future__ import annotations

from chiplog.core.records import SpansRecord as Batch

NOW = 1_794_800_000_000_000_000
S = 10**9


def batch(
    *spans: tuple[str, float, float], parents: tuple[int, ...] = (), kinds: dict[str, str] | None = None
) -> Batch:
    """A record of spans (name, begin, end) on one timeline, ids from 1."""
    n = len(spans)
    return Batch(
        0, NOW, [name for name, *_ in spans], ["main"], list(range(n)), [0] * n, list(range(1, n + 1)),
        list(parents) or [0] * n, [NOW + int(begin * S) for _, begin, _ in spans],
        [int((end - begin) * S) for _, begin, end in spans], [None] * n, kinds=kinds or {},
    )  # fmt: skip
