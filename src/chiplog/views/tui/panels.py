"""What a terminal shows of a run, each panel as lines of text that fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chiplog.core.notes import clean
from chiplog.store.series import bucket
from chiplog.views import ansi, units
from chiplog.views.curves import Line
from chiplog.views.folio import Folio
from chiplog.views.table import Cell, columns, cut, paint, pairs, table, wrap
from chiplog.views.terminal import Curve, line_plot

LEVELS = {"info": "36", "warn": "33", "error": "31"}
SHADES = " .:-=+*#%@"
TONES = (17, 18, 54, 90, 126, 162, 197, 203, 208, 214, 220, 226)  # of 256 colours, from little to much
_SGR = re.compile(r"\x1b\[[0-9;]*m")


class Style(NamedTuple):
    colour: bool = False
    ascii: bool = False


def chart(
    title: str, lines: Sequence[tuple[str, Line]], *, width: int, height: int, style: Style, log: bool, smooth: float,
    x_label: str,
) -> list[str]:  # fmt: skip
    """A chart of exactly so many lines and columns; the lowest and highest of each column are drawn."""
    drawn = [thinned(label, line, 2 * width) for label, line in lines]
    extra = 4 + (1 if smooth or len(drawn) > 1 else 0)
    text = line_plot(
        drawn, width=width, height=max(3, height - extra), log=log, title=title, x_label=x_label, colour=style.colour,
        ascii=style.ascii, smooth=smooth or None,
    )  # fmt: skip
    return [fitted(line, width) for line in (text.split("\n") + [""] * height)[:height]]


def thinned(label: str, line: Line, n: int) -> Curve:
    """A line in few points: of each bucket the least and the most, and whatever is not a number."""
    if len(line.x) <= 2 * n:
        return label, line.x, line.y
    finite = np.isfinite(line.y)
    found = bucket(line.x, line.y if finite.all() else np.where(finite, line.y, np.nan), n)
    x = np.repeat(found.low / 2 + found.high / 2, 2)
    y = np.column_stack([found.min, found.max]).reshape(-1)
    bad = np.flatnonzero(~finite)
    if len(bad):
        x, y = np.concatenate([x, line.x[bad]]), np.concatenate([y, line.y[bad]])
    return label, x, y


def alerts(folio: Folio, *, width: int, style: Style) -> list[str]:
    """The newest first, with their evidence."""
    lines: list[str] = []
    for one in reversed(folio.alerts):
        step = f"step {units.count(one.step)}  " if one.step is not None else ""
        head = f"{step}{units.date(one.time)}  {clean(one.title)}"
        lines.append(paint(cut(head, width), LEVELS.get(one.level, "33"), style.colour))
        for text in (one.text, ", ".join(f"{key} {units.number(value)}" for key, value in one.evidence.items())):
            lines += [f"  {part}" for part in wrap(clean(text), width - 2)] if text else []
    return lines or ["no alerts"]


def samples(folio: Folio, *, width: int, style: Style, find: str) -> list[str]:
    """Rows of all tables, the newest first; only those that hold a text, where one is searched for."""
    wanted = find.casefold()
    lines: list[str] = []
    for name, kept in folio.samples.items():
        for one in list(kept)[-500:][::-1]:
            texts = [(str(key), str(value)) for key, value in one.cells.items()]
            if wanted and not any(wanted in value.casefold() for _, value in texts):
                continue
            head = f"{clean(name)}  step {units.count(one.step)}" if one.step is not None else clean(name)
            lines.append(paint(cut(head, width), "1", style.colour))
            lines += pairs([(key, value[:2000]) for key, value in texts], width=width, indent=2).split("\n")
            if len(lines) > 5000:
                return lines
    return lines or ["no samples" if not wanted else "no sample holds that"]


def console(folio: Folio, *, width: int) -> list[str]:
    """The lines that were printed, with their rank where there are several."""
    lines = list(folio.console)
    ranks = len({line.rank for line in lines}) > 1
    if ranks:
        lines.sort(key=lambda line: line.time)
    said = [(f"[{line.rank}] " if ranks else "") + ansi.plain(line.text) for line in lines]
    return [cut(line, width) for line in said] or ["no console output was captured; init(capture=True) keeps it"]


def overview(folio: Folio, values: Sequence[tuple[str, object]], *, width: int, style: Style) -> list[str]:
    """Last values, settings, and where it runs."""
    environment = folio.environment
    facts = [(name, str(environment.get(name, ""))) for name in ("host", "device", "python", "platform")]
    command = environment.get("command")
    facts.insert(0, ("command", " ".join(map(str, command)) if isinstance(command, list) else ""))
    out: list[str] = []
    for title, rows in (
        ("last values", [(name, units.number(value)) for name, value in values]),
        ("config", [(name, str(value)) for name, value in _leaves(folio.config)]),
        ("environment", facts),
    ):
        if any(text for _, text in rows):
            out += [paint(title, "1", style.colour), *pairs(rows, width=width, indent=2).split("\n"), ""]
    damage = folio.all_damage
    if damage:
        out += [
            paint("what cannot be read", "1;31", style.colour),
            *(f"  {cut(str(one), width - 2)}" for one in damage),
        ]
    return out or ["nothing is known of this run yet"]


def heat(values: np.ndarray, ranks: Sequence[int], *, width: int, height: int, style: Style) -> list[str]:
    """Ranks down, steps across; each cell the mean of what it covers, from the least to the most of all."""
    margin = max(len(str(rank)) for rank in ranks) + 6
    room = max(8, width - margin)
    across = _means(values, room, 1)
    down = _means(across, max(1, height - 2), 0)
    known = down[np.isfinite(down)]
    if not len(known):
        return ["no finite values"]
    low, high = float(known.min()), float(known.max())
    shares = (down - low) / (high - low or 1.0)
    marks = np.linspace(0, len(ranks), len(down) + 1).astype(int)[:-1]
    lines = [
        f"rank {ranks[at]:>{margin - 6}} " + "".join(_shade(share, style) for share in row.tolist())
        for at, row in zip(marks.tolist(), shares, strict=True)
    ]
    scale = "".join(_shade(share, style) for share in np.linspace(0, 1, 12).tolist())
    return [*lines, "", f"{units.number(low)} {scale} {units.number(high)}"]


def slowest(names: Sequence[int], means: Sequence[float]) -> str:
    """Which rank is above all others, and by how much."""
    known = sorted(((mean, rank) for mean, rank in zip(means, names, strict=True) if mean == mean), reverse=True)
    if len(known) < 2:
        return ""
    middle = known[len(known) // 2][0]
    times = f", {known[0][0] / middle:.2f} times the median" if middle else ""
    return f"highest: rank {known[0][1]} at {units.number(known[0][0])} on average{times}"


def runs(rows: Sequence[Sequence[str | Cell]], head: Sequence[str], *, width: int, style: Style) -> list[str]:
    return table(head, rows, width=width, right=("ran", "step", "loss"), colour=style.colour).split("\n")


def fitted(line: str, width: int) -> str:
    """A line of exactly so many columns; what is painted stays painted where it fits."""
    plain = _SGR.sub("", line)
    size = columns(plain)
    return line + " " * (width - size) if size <= width else cut(plain, width)


def _leaves(value: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, item in list(value.items())[:1000]:
        if isinstance(item, dict) and item and prefix.count(".") < 20:
            found += _leaves(item, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", item))
    return found


def _means(values: np.ndarray, most: int, axis: int) -> np.ndarray:
    """Along an axis at most so many: the means of neighbours, over what is finite."""
    count = values.shape[axis]
    if count <= most:
        return values
    starts = np.linspace(0, count, most + 1).astype(int)[:-1]
    known = np.isfinite(values)
    with np.errstate(all="ignore"):
        means: np.ndarray = np.add.reduceat(np.where(known, values, 0.0), starts, axis=axis) / np.add.reduceat(
            known.astype(np.int64), starts, axis=axis
        )
    return means


def _shade(share: float, style: Style) -> str:
    if share != share:
        return " "
    if style.colour:
        return f"\x1b[48;5;{TONES[min(len(TONES) - 1, int(share * len(TONES)))]}m \x1b[0m"
    return SHADES[min(len(SHADES) - 1, int(share * len(SHADES)))]
