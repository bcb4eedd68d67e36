"""The filters of `Api().runs(filters=...)`: MongoDB's operators over the values of a run."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from chiplog.compat.wandb import messages

NAMES = {"displayName": "name", "display_name": "name", "jobType": "job_type", "createdAt": "created_at"}
_ABSENT = object()

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": lambda value, bound: _is_comparable(value) and value > bound,
    "$gte": lambda value, bound: _is_comparable(value) and value >= bound,
    "$lt": lambda value, bound: _is_comparable(value) and value < bound,
    "$lte": lambda value, bound: _is_comparable(value) and value <= bound,
    "$in": lambda value, several: any(one in several for one in _several(value)),
    "$nin": lambda value, several: not any(one in several for one in _several(value)),
    "$exists": lambda value, wanted: (value is not _ABSENT) is bool(wanted),
    "$regex": lambda value, pattern: value is not _ABSENT and re.search(pattern, str(value)) is not None,
}


def matches(filters: Mapping[str, Any], value_of: Callable[[str], Any]) -> bool:
    """Whether a run, whose values are read by name, fits all filters. A key that is not known fits nothing."""
    for key, wanted in filters.items():
        if key == "$and":
            fits = all(matches(one, value_of) for one in wanted)
        elif key == "$or":
            fits = any(matches(one, value_of) for one in wanted)
        elif key in ("$not", "$nor"):
            fits = not any(matches(one, value_of) for one in (wanted if isinstance(wanted, list) else [wanted]))
        else:
            fits = _fits(value_of(NAMES.get(key, key)), wanted)
        if not fits:
            return False
    return True


def within(data: Mapping[str, Any], path: str) -> Any:
    """A value by its name, or by its path in nested mappings; W&B's `.value` at the end is ignored."""
    path = path.removesuffix(".value")
    if path in data:
        return data[path]
    head, dot, rest = path.partition(".")
    if dot and isinstance(inner := data.get(head), Mapping):
        return within(inner, rest)
    return _ABSENT


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and any(str(name).startswith("$") for name in wanted):
        for name, bound in wanted.items():
            if name == "$not":
                if _fits(value, bound):
                    return False
            elif name not in OPERATORS:
                choices = ", ".join(OPERATORS)
                messages.once(f"filter {name}", f"the filter {name!r} is not known; choose from: {choices}")
                return False
            elif not OPERATORS[name](value, bound):
                return False
        return True
    return bool(value == wanted or (isinstance(value, tuple | list) and wanted in value))


def _is_comparable(value: Any) -> bool:
    return value is not _ABSENT and value is not None and not isinstance(value, Mapping)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]
