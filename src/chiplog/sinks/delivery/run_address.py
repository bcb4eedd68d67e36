"""The address of a run at a service: known to its sink, saved with its position, and printed once.

A sink may have `url`, the address or the directory of the run there, from its start on; and `where`, a line about it,
if "<sink> run: <url>" is not enough. An empty `where` prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chiplog.core import messages
from chiplog.core.records import Plain


def address(name: str, sink: object) -> dict[str, str]:
    """`url` and `where` of a service, as in its health; empty if it has not started a run."""
    url, where = getattr(sink, "url", None), getattr(sink, "where", None)
    if not isinstance(url, str) or not url:
        return {}
    return {"url": url, "where": where if isinstance(where, str) else f"{name} run: {url}"}


def announce(run: Path, name: str, health: Mapping[str, Plain]) -> None:
    """Print the address of a run, once."""
    if where := health.get("where"):
        messages.once(f"where {run} {name} {where}", where)
