"""How a run went as a machine: speed, GPUs, ranks and routers, as sections of a report, where it has such data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from chiplog.core.records import NONFINITE
from chiplog.store.columns import Floats
from chiplog.store.reader import Stored
from chiplog.store.series import Series
from chiplog.views import svg, units
from chiplog.views.document import Block, Grid, Picture, Section, Words
from chiplog.views.drawn import unit
from chiplog.views.facts import Facts

SPEED = ("tokens_per_sec", "samples_per_sec", "mfu", "hfu", "sol", "tflops", "step_time_sec", "data_time_sec")
TELEMETRY = ("gpu/", "cpu/", "allocator/")
STEP_TIME = "train/step_time_sec"
SLOW = 1.05  # times the middle rank: a straggler


def sections(stored: Stored, facts: Facts, known: Mapping[str, Series]) -> Iterator[Section]:
    """The sections; `known` are series that have been read already."""
    yield Section("Speed", [_quantiles(known, lambda name: name.rpartition("/")[2] in SPEED)])
    goodput = _last(known, lambda name: "goodput" in name or "badput" in name)
    yield Section("Goodput", [*_ledger(stored, known), goodput])
    yield Section("Machines", [_quantiles(known, lambda name: name.startswith(TELEMETRY))])
    yield Section("Ranks", [_ranks(stored), *_stragglers(facts)])
    yield Section("Routers", [_last(known, lambda name: "moe" in name.split("/")[0] or "/moe" in name), *_loads(facts)])


def _quantiles(known: Mapping[str, Series], wanted: Any) -> Grid:
    rows = []
    for name, series in known.items():
        finite = series.values[np.isfinite(series.values)]
        if wanted(name) and len(finite):
            numbers = np.quantile(finite, [0.5, 0.05, 0.95])
            last = units.number(float(finite[-1]))
            rows.append([name, *(units.number(float(number)) for number in numbers), last, unit(name)])
    head = ["metric", "median", "5 %", "95 %", "last", "unit"]
    return Grid(head, rows, right=head[1:5])


def _last(known: Mapping[str, Series], wanted: Any) -> Grid:
    rows = [
        [name, units.number(float(series.values[-1])), unit(name)] for name, series in known.items() if wanted(name)
    ]
    return Grid(["metric", "last", "unit"], rows, right=["last"])


def _ledger(stored: Stored, known: Mapping[str, Series]) -> Iterator[Block]:
    """Where the time went, where steps were timed."""
    if STEP_TIME not in known:
        return
    spent = stored.goodput()
    if spent.wall <= 0:
        return
    yield Words(f"{spent.goodput:.1%} of {units.duration(spent.wall)} went into steps that counted.")
    rows = [[kind, units.duration(one), f"{one / spent.wall:.1%}"] for kind, one in spent.seconds.items() if one > 0]
    yield Grid(["kind", "time", "share"], rows, right=["time", "share"])


def _ranks(stored: Stored) -> Grid:
    """The step times of each rank beside the middle one, where each keeps a journal of its own."""
    head = ["rank", "median step time, s", "times the middle", ""]
    name = next((one for one in stored.names() if one.endswith("step_time_sec")), None)
    if name is None or len({attempt.rank for attempt in stored.attempts}) < 2:
        return Grid(head, [])
    _, ranks, values = stored.series(name).by_rank()
    with np.errstate(all="ignore"):
        medians = np.array([np.median(one[np.isfinite(one)]) if np.isfinite(one).any() else np.nan for one in values.T])
    middle = float(np.nanmedian(medians))
    rows = [
        [str(rank), f"{median:.4g}", f"{median / middle:.3f}", "straggler" if median > SLOW * middle else ""]
        for rank, median in zip(ranks.tolist(), medians.tolist(), strict=True)
    ]
    return Grid(head, rows, right=head[:3])


def _stragglers(facts: Facts) -> Iterator[Block]:
    rows: list[dict[str, Any]] = []
    for record in facts.tables:
        if "straggler" in record.name:
            rows = [*rows, *record.rows][-20:]
    if rows:
        head = list(dict.fromkeys(key for row in rows for key in row))
        yield Grid(head, [[units.number(row.get(key, "")) for key in head] for row in rows], right=head)


def _loads(facts: Facts) -> Iterator[Block]:
    """The newest matrix of each router, layer by expert."""
    for name, logged in facts.matrices.items():
        record = logged[-1]
        if not ("moe" in name or "expert" in name) or not record.values:
            continue
        values = np.full((len(record.values), max(map(len, record.values))), np.nan)
        for at, row in enumerate(record.values):
            values[at, : len(row)] = [NONFINITE[one] if isinstance(one, str) else one for one in row]
        title = name if record.step is None else f"{name}, step {record.step:,}"
        yield Picture(title, svg.heat(values, "layer", "expert"), _shaded(values))


def _shaded(values: Floats) -> str:
    """A matrix in five shades of grey."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    shares = np.nan_to_num((values - low) / (high - low or 1.0))
    return "\n".join("".join(" ░▒▓█"[min(4, int(share * 5))] * 2 for share in row) for row in shares.tolist())
