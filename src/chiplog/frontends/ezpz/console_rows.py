"""Rows for people: with deviations across ranks, in two halves by their prefixes, and in four numbers each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chiplog.core.values import convert
from chiplog.frontends.ezpz.writer import leaves
from chiplog.metrics.ranks.statistics import ALWAYS


def with_deviations(metrics: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as it was given, each metric once, with the deviations that were found for it."""
    found: dict[str, Any] = {}
    for shown, name, value in _both_names(metrics):
        found[shown] = value
        if (deviation := row.get(f"{name}/std")) is not None:
            found.setdefault(f"{shown}/std", deviation)
    return found


def by_prefix(metrics: Mapping[str, Any], prefixes: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what goes to the console, what goes to the debug log)."""
    debug = {name: value for name, value in metrics.items() if str(name).startswith(tuple(prefixes))}
    return {name: value for name, value in metrics.items() if name not in debug}, debug


def statistics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Mean, extremes and deviation of each number, of this rank alone."""
    found: dict[str, float] = {}
    for name, value in leaves(metrics):
        if (number := convert.number(value)) is not None:
            found |= {f"{name}/{one}": 0.0 if one == "std" else float(number) for one in ALWAYS}
    return found


def _both_names(metrics: Mapping[Any, Any], shown: str = "", name: str = "") -> Iterator[tuple[str, str, Any]]:
    """The values of a row as the line calls them, `d.a`, and as they are kept, `d/a`."""
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            yield from _both_names(value, f"{shown}{key}.", f"{name}{key}/")
        else:
            yield f"{shown}{key}", f"{name}{key}", value
