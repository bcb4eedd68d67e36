"""A run's curves as text: a line plot, a histogram and a summary per metric; with statistics across ranks, one panel
per statistic and an overlay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from chiplog.core import display
from chiplog.core.errors import BadSetting
from chiplog.core.files.writing import make_place, replacing
from chiplog.store.contents.contents import LOGGED, Contents
from chiplog.store.points.series import Series
from chiplog.store.reader import Stored
from chiplog.views.charts.curve_data import deviation, statistics
from chiplog.views.charts.text_plot import Band, beside, histogram, line_plot
from chiplog.views.charts.text_style import KINDS, TextStyle
from chiplog.views.metric_families import Family, filename
from chiplog.views.metric_groups import curves_of
from chiplog.views.table import table
from chiplog.views.without_warmup import after

MOST = 200  # metrics; a run may have thousands
GLYPHS = {"max": "+", "min": "-", "mean": "·", "std": "*"}


def texts(stored: Stored, look: TextStyle = TextStyle()) -> Iterator[tuple[Family, str]]:  # noqa: B008  frozen
    """The text of every metric that has values and is not a counter; at most 200."""
    for family, series in _all(stored, look, None):
        yield family, text(family, series, look)


def text(family: Family, series: dict[str, Series], look: TextStyle) -> str:
    """One metric: its curve, or with statistics the panels and the overlay; its histograms; and a summary."""
    stats = {stat: one for stat, one in series.items() if len(one)}
    blocks = [*_curves(family.name, stats, look), _histograms(family.name, stats, look)]
    if look.kind == "hist" and len(stats) == 1:
        blocks.reverse()
    return "\n\n".join([*blocks, _summary(family.name, stats, look)]) + "\n"


def write(
    stored: Stored,
    folder: Path,
    look: TextStyle = TextStyle(),  # noqa: B008
    *,
    warmup: int | float = 0,
    contents: Contents | None = None,
) -> Iterator[tuple[Path, Callable[[], str]]]:
    """Write `<group>/<metric>.txt` for every metric; yields each with a function that renders it for this terminal.

    The files do not depend on the terminal: default width, Unicode, no styles.
    """
    plain = TextStyle(marker=look.marker, kind=look.kind)
    taken: dict[Path, list[str]] = {}
    for family, series in _all(after(stored, warmup), look, contents):
        where = folder / filename(family.group) if family.group else folder
        make_place(where)
        name = filename(family.short, taken.setdefault(where, []))
        taken[where].append(name)
        path = where / f"{name}.txt"
        drawn = text(family, series, plain)
        with replacing(path) as temporary:
            temporary.write_text(drawn, encoding="utf-8")
        yield path, partial(text, family, series, look) if look != plain else partial(str, drawn)


def _all(stored: Stored, look: TextStyle, contents: Contents | None) -> Iterator[tuple[Family, dict[str, Series]]]:
    if look.kind not in KINDS:
        raise BadSetting(f"unknown kind of text plot {look.kind!r}; available: {', '.join(KINDS)}")
    shown = curves_of(stored, contents or stored.contents(*LOGGED))
    for family in shown[:MOST]:
        series = {"": stored.series(family.name, missing_ok=True), **statistics(stored, family)}
        if any(map(len, series.values())):
            yield family, series


def _curves(name: str, stats: dict[str, Series], look: TextStyle) -> list[str]:
    """The curve alone; or one panel per statistic, and then all on the same axes."""
    if len(stats) == 1:
        return [_plot(name, stats, look, name)]
    half = look._replace(width=(look.width - 2) // 2, height=max(5, look.height // 2))
    panels = [_plot(name, {stat: one}, half, _title(name, stat)) for stat, one in stats.items()]
    rows = [beside(panels[at : at + 2]) for at in range(0, len(panels), 2)]
    over = [stat for stat in ("max", "min", "mean", "") if stat in stats]
    overlay = _plot(name, {stat: stats[stat] for stat in over}, look, f"{name} across ranks", _between(stats))
    return [*rows, overlay]


def _plot(name: str, stats: dict[str, Series], look: TextStyle, title: str, band: Band | None = None) -> str:
    return line_plot(
        [(_title(name, stat), one.steps, one.values) for stat, one in stats.items()],
        width=look.width,
        height=look.height,
        title=title,
        colour=look.colour,
        ascii=look.ascii,
        marker=look.marker,
        glyphs=[GLYPHS.get(stat, "") for stat in stats],
        text_width=look.text_width,
        band=band,
    )


def _histograms(name: str, stats: dict[str, Series], look: TextStyle) -> str:
    count = 1 if len(stats) == 1 else 2
    width, height = (look.width - 2 * (count - 1)) // count, max(5, look.height // 2)
    shown = [stat for stat in ("mean", "max", "min", "std") if stat in stats] if count > 1 else [""]
    drawn = [
        histogram(
            stats[stat].values,
            width=width,
            height=height,
            title=f"{_title(name, stat)} histogram",
            colour=look.colour,
            ascii=look.ascii,
            text_width=look.text_width,
        )
        for stat in shown
    ]
    return "\n\n".join(beside(drawn[at : at + count]) for at in range(0, len(drawn), count))


def _between(stats: dict[str, Series]) -> Band | None:
    """The band from the lowest to the highest rank, if both were logged at the same steps."""
    if not {"min", "max"} <= stats.keys() or not np.array_equal(stats["min"].steps, stats["max"].steps):
        return None
    return stats["min"].steps, stats["min"].values, stats["max"].values


def _summary(name: str, stats: dict[str, Series], look: TextStyle) -> str:
    rows = []
    for stat, series in stats.items():
        finite = series.values[np.isfinite(series.values)]
        numbers = [finite.mean(), deviation(finite), finite.min(), finite.max()] if len(finite) else []
        rows.append(
            [
                _title(name, stat),
                display.count(len(series)),
                display.number(series.values[-1].item()),
                *([display.number(float(number)) for number in numbers] or [""] * 4),
                display.count(len(series) - len(finite)) if len(finite) < len(series) else "",
            ]
        )
    head = ["metric", "points", "last", "mean", "std", "min", "max", "not finite"]
    return table(head, rows, width=look.text_width or look.width, right=head[1:], colour=look.colour)


def _title(name: str, stat: str) -> str:
    return f"{name}/{stat}" if stat else name
