"""A bound on what an MLflow server may answer.

The client reads whole answers into memory, unpacked. In the relay process, which is ours, an answer that is longer than
any of an MLflow server, or that takes too long, is an error and is tried again like every other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import requests

LONGEST = 64 << 20  # bytes
SLOWEST = 120.0  # s


def bound_answers(longest: int = LONGEST, slowest: float = SLOWEST) -> None:
    """Bound all answers that `requests` reads in this process, from now on."""
    real = getattr(requests.Response.iter_content, "unbounded", requests.Response.iter_content)

    def iter_content(response: requests.Response, *args: Any, **options: Any) -> Iterator[Any]:
        until, size = time.monotonic() + slowest, 0
        for data in real(response, *args, **options):
            size += len(data)
            if size > longest or time.monotonic() > until:
                response.close()
                raise requests.ConnectionError(f"the answer is longer than {longest:,} bytes or {slowest:g} s")
            yield data

    iter_content.unbounded = real  # type: ignore[attr-defined]  # so that a second call replaces the first
    requests.Response.iter_content = iter_content
