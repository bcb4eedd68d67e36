"""A run in the list."""

from __future__ import annotations

from collections.abc import Iterable

from chiplog.store.runs.summary_cache import Entry


def row(entry: Entry, columns: Iterable[str] = ()) -> dict[str, object]:
    """A run in the list; columns are `c:` and a setting, or `v:` and a series."""
    cells: dict[str, object] = {}
    for column in columns:
        place = entry.config if column.startswith("c:") else entry.values
        if column[2:] in place:
            cells[column] = place[column[2:]]
    return {
        "key": entry.key,
        "project": entry.project,
        "id": entry.id,
        "name": entry.name,
        "tags": entry.tags,
        "state": entry.state,
        "started": entry.started / 1e6,
        "seconds": entry.seconds,
        "step": entry.step,
        "attempts": entry.attempts,
        "cells": cells,
        **({"reason": entry.reason} if entry.reason else {}),
    }
