"""The values of a sink's saved state, which may be from a cursor that somebody else wrote.

One of another type, or out of bounds, is a `ValueError`, and the sink starts from scratch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from chiplog.core.records import Plain
from chiplog.sinks.shared.clean_values import INT64

Count = Annotated[int, msgspec.Meta(ge=0, le=INT64)]
Whole = Annotated[int, msgspec.Meta(ge=-INT64, le=INT64)]


def count(state: Mapping[str, Plain], name: str, default: int = 0) -> int:
    """A size or number of something, from 0."""
    return int(_saved(state, name, Count, default))


def whole(state: Mapping[str, Plain], name: str, default: int = 0) -> int:
    """A step, which may be negative."""
    return int(_saved(state, name, Whole, default))


def flag(state: Mapping[str, Plain], name: str, *, default: bool = False) -> bool:
    return bool(_saved(state, name, bool, default))


def text(state: Mapping[str, Plain], name: str, default: str = "") -> str:
    return str(_saved(state, name, str, default))


def texts(state: Mapping[str, Plain], name: str) -> list[str]:
    return list(_saved(state, name, list[str], []))


def mapping(state: Mapping[str, Plain], name: str, kind: Any = Any) -> dict[str, Any]:
    """A mapping of texts to values of a kind."""
    return dict(_saved(state, name, dict[str, kind], {}))


def _saved(state: Mapping[str, Plain], name: str, kind: Any, default: Plain) -> Any:
    try:
        return msgspec.convert(state.get(name, default), kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"its {name!r}: {error}") from None
