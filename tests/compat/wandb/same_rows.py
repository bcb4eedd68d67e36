"""Brings the history of W&B's client and that of the stand-in to one form, in which they must be equal."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

# What depends on the clock: that it is there is compared, and not its value.
CLOCK = re.compile(r"runtime|per_second|per_sec|/fps$|time_elapsed|^profiling/|step_time")


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without W&B's own columns; media only by their kind; rows without any value are left out."""
    made = [{name: _value(name, value) for name, value in _flat("", row) if value is not None} for row in rows]
    return [row for row in made if row]


def differences(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> list[str]:
    """One line for each row that is not the same."""
    found = [f"{len(theirs)} rows, and here {len(ours)}"] if len(theirs) != len(ours) else []
    for at, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        found += [
            f"row {at}: {name} is {one.get(name)!r}, and here {other.get(name)!r}"
            for name in sorted({*one, *other})
            if not _equal(one.get(name), other.get(name))
        ]
    return found


def _flat(prefix: str, row: Mapping[str, Any]) -> Any:
    for name, value in row.items():
        if not prefix and name.startswith("_"):
            continue
        if isinstance(value, Mapping) and "_type" not in value:
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def _value(name: str, value: Any) -> Any:
    if CLOCK.search(name):
        return "a time"
    if isinstance(value, Mapping):
        kind = str(value["_type"])
        if kind == "histogram":
            return ["histogram", list(value["values"])]
        return "images" if kind.startswith("image") else "html" if kind in ("html-file", "text-file") else kind
    if isinstance(value, str) and value.startswith("["):
        return json.loads(value)  # lists are kept as text
    return value


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=1e-6)
    return type(one) is type(other) and one == other
