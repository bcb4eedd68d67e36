"""Strict JSON."""

from __future__ import annotations

import json

from chiplog.views.strict_json import encode, pretty


def test_numbers_that_are_not_finite_are_strings() -> None:
    """At any depth; a parser that knows no NaN reads them."""
    data = {"loss": [float("nan"), 1.0], "max": {"x": float("inf")}}
    assert json.loads(encode(data), parse_constant=lambda _: 1 / 0) == {"loss": ["nan", 1.0], "max": {"x": "inf"}}


def test_people_get_it_indented() -> None:
    """One value per line."""
    assert pretty([1]) == "[\n  1\n]"


def test_names_that_are_not_utf8_are_escaped() -> None:
    """As Python has the names of files of an older time."""
    assert json.loads(pretty({"files": [b"caf\xe9".decode("utf-8", "surrogateescape")]})) == {"files": ["caf\\udce9"]}
