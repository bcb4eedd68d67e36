"""The panels of a run in the terminal, each as lines of text that fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from chiplog.core import display
from chiplog.core.display import LEVELS, cut, fit, paint, wrap
from chiplog.core.messages import clean
from chiplog.core.values.flatten import flatten
from chiplog.store.contents.contents import Contents
from chiplog.store.points.series import bucket
from chiplog.views import ansi
from chiplog.views.alert_groups import alert_groups
from chiplog.views.charts.bucketed_series import DrawnLine
from chiplog.views.charts.text_plot import Curve, line_plot
from chiplog.views.table import pairs


class Style(NamedTuple):
    colour: bool = False
    ascii: bool = False


def chart(
    title: str, lines: Sequence[tuple[str, DrawnLine]], *, width: int, height: int, style: Style, log: bool,
    smooth: float, x_label: str,
) -> list[str]:  # fmt: skip
    """A chart of exactly this size; draws the lowest and highest value of each column."""
    drawn = [thinned(label, line, 2 * width) for label, line in lines]
    extra = 4 + (1 if smooth or len(drawn) > 1 else 0)
    text = line_plot(
        drawn, width=width, height=max(3, height - extra), log=log, title=title, x_label=x_label, colour=style.colour,
        ascii=style.ascii, smooth=smooth or None,
    )  # fmt: skip
    return [fit(line, width) for line in (text.split("\n") + [""] * height)[:height]]


def thinned(label: str, line: DrawnLine, n: int) -> Curve:
    """A line in few points: the minimum and maximum of each bucket, and every NaN."""
    if len(line.x) <= 2 * n:
        return label, line.x, line.y
    finite = np.isfinite(line.y)
    buckets = bucket(line.x, line.y if finite.all() else np.where(finite, line.y, np.nan), n)
    x = np.repeat(buckets.low / 2 + buckets.high / 2, 2)
    y = np.column_stack([buckets.min, buckets.max]).reshape(-1)
    bad = np.flatnonzero(~finite)
    if len(bad):
        x, y = np.concatenate([x, line.x[bad]]), np.concatenate([y, line.y[bad]])
    return label, x, y


def alerts(contents: Contents, *, width: int, style: Style) -> list[str]:
    """Alerts by what they are about, errors first, each with its newest evidence."""
    lines: list[str] = []
    for group in alert_groups(contents.alerts):
        one = group.newest
        step = f"step {group.steps}  " if group.steps else ""
        head = f"{step}{display.date(one.time)}  {clean(group.title)}"
        lines.append(paint(cut(head, width), LEVELS.get(one.level, "33"), style.colour))
        for text in (one.text, ", ".join(f"{key} {display.number(value)}" for key, value in one.evidence.items())):
            lines += [f"  {part}" for part in wrap(clean(text), width - 2)] if text else []
    return lines or ["no alerts"]


def samples(contents: Contents, *, width: int, style: Style, find: str) -> list[str]:
    """Rows of all tables, newest first; only those that contain the searched text."""
    searched = find.casefold()
    lines: list[str] = []
    for name, kept in contents.samples():
        for one in contents.load(list(kept)[-500:][::-1]):
            texts = [(str(key), str(value)) for key, value in one.cells.items()]
            if searched and not any(searched in value.casefold() for _, value in texts):
                continue
            head = f"{clean(name)}  step {display.count(one.step)}" if one.step is not None else clean(name)
            lines.append(paint(cut(head, width), "1", style.colour))
            lines += pairs([(key, value[:2000]) for key, value in texts], width=width, indent=2).split("\n")
            if len(lines) > 5000:
                return lines
    return lines or ["no samples" if not searched else "no matching samples"]


def console(contents: Contents, *, width: int) -> list[str]:
    """The printed lines, with the rank if there are several."""
    lines = list(contents.console)
    ranks = len({line.rank for line in lines}) > 1
    if ranks:
        lines.sort(key=lambda line: line.time)
    texts = [(f"[{line.rank}] " if ranks else "") + ansi.plain(line.text) for line in lines]
    return [cut(text, width) for text in texts] or [
        "no console output was captured; use init(capture=True) to record it"
    ]


def overview(contents: Contents, values: Sequence[tuple[str, object]], *, width: int, style: Style) -> list[str]:
    """The last values, settings, and environment."""
    environment = contents.environment
    facts = [(name, str(environment.get(name, ""))) for name in ("host", "device", "python", "platform")]
    command = environment.get("command")
    facts.insert(0, ("command", " ".join(map(str, command)) if isinstance(command, list) else ""))
    out: list[str] = []
    for title, rows in (
        ("last values", [(name, display.number(value)) for name, value in values]),
        ("config", [(name, str(value)) for name, value in islice(flatten(contents.config, ".", deepest=20), 1000)]),
        ("environment", facts),
    ):
        if any(text for _, text in rows):
            out += [paint(title, "1", style.colour), *pairs(rows, width=width, indent=2).split("\n"), ""]
    if damage := contents.damage:
        out += [paint("damage", "1;31", style.colour), *(f"  {cut(str(one), width - 2)}" for one in damage)]
    return out or ["nothing has been recorded yet"]


def highest(ranks: Sequence[int], means: Sequence[float]) -> str:
    """Which rank is the highest, and by how much."""
    numbers = sorted(((mean, rank) for mean, rank in zip(means, ranks, strict=True) if mean == mean), reverse=True)
    if len(numbers) < 2:
        return ""
    mean, rank = numbers[0]
    median = numbers[len(numbers) // 2][0]
    times = f", {mean / median:.2f} times the median" if median else ""
    return f"highest: rank {rank} at {display.number(mean)} on average{times}"
