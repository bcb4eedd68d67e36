"""Where a service shows a run: known to its sink, kept with its position, and told once to the person at the terminal.

A sink may have `url`, the address or the directory of the run there, from its beginning on; and `where`, the line about
it, if "<sink> run: <url>" does not say enough. An empty `where` is no line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chiplog.core import messages


def address(name: str, sink: Any) -> dict[str, str]:
    """`url` and `where` of a service, as its health has them; nothing where it has not begun a run."""
    url, where = getattr(sink, "url", None), getattr(sink, "where", None)
    if not isinstance(url, str) or not url:
        return {}
    return {"url": url, "where": where if isinstance(where, str) else f"{name} run: {url}"}


def announce(run: Path, name: str, health: Mapping[str, Any]) -> None:
    """Print where a run is, once."""
    if where := health.get("where"):
        messages.once(f"where {run} {name} {where}", where)
