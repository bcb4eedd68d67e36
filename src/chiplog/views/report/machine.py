"""Report sections about the machine: speed, GPUs, ranks and routers, if the run has such data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from chiplog.core import display
from chiplog.metrics.catalog import STATISTICS, unit
from chiplog.store.contents.contents import Contents
from chiplog.store.contents.matrices import dense
from chiplog.store.points.columns import Floats
from chiplog.store.reader import Stored
from chiplog.views.charts import svg
from chiplog.views.charts.heatmap import matrix_text
from chiplog.views.metric_families import ABOUT_RANKS, Family
from chiplog.views.report.document import Block, Grid, Picture, Section, Words

SPEED = ("tokens_per_sec", "samples_per_sec", "mfu", "hfu", "sol", "tflops", "step_time_sec", "data_time_sec")
TELEMETRY = ("gpu/", "host/", "allocator/")
STEP_TIME = "train/step_time_sec"
SLOW = 1.05  # times the median rank: a straggler

Wanted: TypeAlias = Callable[[str], bool]  # by name


class Shown(NamedTuple):
    """The metrics of the report, which are read one at a time."""

    names: Sequence[str]
    values: Callable[[str], Floats]


def sections(
    stored: Stored, contents: Contents, values: Callable[[str], Floats], shown: Sequence[Family] = ()
) -> Iterator[Section]:
    """The sections; `shown` are the metrics of the report, and `values` reads one of them."""
    series = Shown([family.name for family in shown], values)
    yield Section("Speed", [_quantiles(series, lambda name: name.rpartition("/")[2] in SPEED)])
    goodput = _last(series, lambda name: "goodput" in name or "badput" in name)
    yield Section("Goodput", [*_ledger(stored, series), goodput])
    yield Section("Machines", [_quantiles(series, lambda name: name.startswith(TELEMETRY))])
    yield Section("Ranks", [_across(stored, shown), *_waits(stored), _ranks(stored), *_stragglers(contents)])
    yield Section(
        "Routers", [_last(series, lambda name: "moe" in name.split("/")[0] or "/moe" in name), *_loads(contents)]
    )


def _quantiles(series: Shown, wanted: Wanted) -> Grid:
    rows = []
    for name in filter(wanted, series.names):
        values = series.values(name)
        finite = values[np.isfinite(values)]
        if len(finite):
            numbers = np.quantile(finite, [0.5, 0.05, 0.95])
            last = display.number(float(finite[-1]))
            rows.append([name, *(display.number(float(number)) for number in numbers), last, unit(name)])
    head = ["metric", "median", "5 %", "95 %", "last", "unit"]
    return Grid(head, rows, right=head[1:5])


def _last(series: Shown, wanted: Wanted) -> Grid:
    rows = [[name, display.number(float(series.values(name)[-1])), unit(name)] for name in filter(wanted, series.names)]
    return Grid(["metric", "last", "unit"], rows, right=["last"])


def _ledger(stored: Stored, series: Shown) -> Iterator[Block]:
    """Where the time went, if steps were timed."""
    if STEP_TIME not in series.names:
        return
    spent = stored.goodput()
    if spent.wall <= 0:
        return
    yield Words(f"{spent.goodput:.1%} of {display.duration(spent.wall)} went into productive steps.")
    rows = [[kind, display.duration(one), f"{one / spent.wall:.1%}"] for kind, one in spent.seconds.items() if one > 0]
    yield Grid(["kind", "time", "share"], rows, right=["time", "share"])


def _across(stored: Stored, shown: Sequence[Family]) -> Grid:
    """The last statistics across ranks of each metric that has them."""
    rows = []
    for family in shown:
        last = {
            stat: one.values[-1]
            for stat, name in family.curves.items()
            if len(one := stored.series(name, missing_ok=True))
        }
        if last:
            rows.append(
                [family.name, *(display.number(float(last[stat])) if stat in last else "" for stat in STATISTICS)]
            )
    return Grid(["metric", *STATISTICS], rows, right=STATISTICS, more="the last values" if rows else "")


def _waits(stored: Stored) -> Iterator[Block]:
    """Which ranks delayed the others, and for how long."""
    names = set(stored.names())
    if f"{ABOUT_RANKS}/slowest" not in names:
        return
    ranks, counts = np.unique(stored.series(f"{ABOUT_RANKS}/slowest", missing_ok=True).values, return_counts=True)
    behind = stored.series(f"{ABOUT_RANKS}/behind_sec", missing_ok=True).values
    if not len(ranks) or not np.isfinite(behind).any():
        return
    often = int(np.argmax(counts))
    share, wait = counts[often] / len(behind), display.duration(float(np.nanmedian(behind)))
    yield Words(
        f"Rank {ranks[often]:.0f} was the slowest most often, at {share:.0%} of the steps. In the median step, "
        f"the slowest rank was {wait} behind the median rank."
    )


def _ranks(stored: Stored) -> Grid:
    """The step times of each rank and the median rank, if each rank keeps a journal."""
    head = ["rank", "median step time, s", "times the median", ""]
    name = next((one for one in stored.names() if one.endswith("step_time_sec")), None)
    if name is None or len({attempt.rank for attempt in stored.attempts}) < 2:
        return Grid(head, [])
    _, ranks, values = stored.series(name, missing_ok=True).by_rank()
    with np.errstate(all="ignore"):
        medians = np.array([np.median(one[np.isfinite(one)]) if np.isfinite(one).any() else np.nan for one in values.T])
    middle = float(np.nanmedian(medians))
    rows = [
        [str(rank), f"{median:.4g}", f"{median / middle:.3f}", "straggler" if median > SLOW * middle else ""]
        for rank, median in zip(ranks.tolist(), medians.tolist(), strict=True)
    ]
    return Grid(head, rows, right=head[:3])


def _stragglers(contents: Contents) -> Iterator[Block]:
    stragglers = [one for name, samples in contents.tables.items() if "straggler" in name for one in samples]
    rows = [one.cells for one in sorted(stragglers, key=lambda one: one.time)[-20:]]
    if rows:
        head = list(dict.fromkeys(key for row in rows for key in row))
        yield Grid(head, [[display.number(row.get(key, "")) for key in head] for row in rows], right=head)


def _loads(contents: Contents) -> Iterator[Block]:
    """The newest matrix of each router, layer by expert."""
    for name, logged in contents.matrices.items():
        frame = logged[-1]
        if not ("moe" in name or "expert" in name) or not frame.rows:
            continue
        values = dense(frame)
        title = name if frame.step is None else f"{name}, step {frame.step:,}"
        yield Picture(title, svg.heat(values, "layer", "expert"), matrix_text(values))
