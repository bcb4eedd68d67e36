"""Nested settings without levels."""

from __future__ import annotations

from typing import Any

from chiplog.core.values.flatten import flatten


def test_names_are_joined_in_order() -> None:
    """Lists and empty mappings are values."""
    data = {"model": {"dim": 64, "extra": {}, "deep": {"er": [1]}}, 3: "x"}
    assert list(flatten(data, ".")) == [  # type: ignore[arg-type]
        ("model.dim", 64), ("model.extra", {}), ("model.deep.er", [1]), ("3", "x"),
    ]  # fmt: skip
    assert dict(flatten({"a": {"b": 1}})) == {"a/b": 1} and list(flatten({})) == []


def test_what_is_nested_too_deep_is_a_value() -> None:
    assert list(flatten({"a": {"b": {"c": 1}}}, deepest=1)) == [("a/b", {"c": 1})]


def test_no_depth_is_too_deep() -> None:
    data: dict[str, Any] = {}
    for _ in range(5000):
        data = {"a": data or 1}
    ((name, value),) = flatten(data)
    assert name.count("/") == 4999 and value == 1
