"""The end of a history, beside what every run has: the table of everything, how text looks here, and where files go."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from chiplog.core.values import convert
from chiplog.frontends.ezpz.output.rows import Logged, rows
from chiplog.store.reader import Stored

if TYPE_CHECKING:
    import xarray as xr

logger = logging.getLogger("chiplog.ezpz")

SHEETS = ("metrics.csv", "config.json", "training_history.csv")
ABOUT = "run_info.json"


def table(stored: Stored) -> tuple[list[str], list[list[Any]]]:
    """Everything as one table, in the order of updates: a column per metric; None where an update has none.

    Updates of one step that have no name in common share a row.
    A metric called `step` is the column there is, or `step/value` where it says something else.
    """
    found: list[Logged] = []
    for row in rows(stored):
        if found and found[-1].step == row.step and found[-1].metrics.keys().isdisjoint(row.metrics):
            found[-1].metrics.update(row.metrics)
        else:
            found.append(row)
    own = "step/value" if any(row.metrics.get("step", row.step) != row.step for row in found) else ""
    renamed = [{own if name == "step" else name: value for name, value in row.metrics.items()} for row in found]
    columns = [name for name in dict.fromkeys(name for row in renamed for name in row) if name]
    return ["step", *columns], [[one.step, *map(row.get, columns)] for one, row in zip(found, renamed, strict=True)]


def one(found: Mapping[str, xr.Dataset]) -> xr.Dataset | dict[str, xr.Dataset]:
    """The only dataset, or all by group."""
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        import xarray

        return xarray.Dataset()
    return dict(found)


def save(found: Mapping[str, xr.Dataset], out: Path, fname: str | None) -> list[Path]:
    """Write datasets, an only one under the name that is given."""
    from chiplog.frontends.ezpz.output import datasets

    return datasets.save(found, out, fname)


def draw(found: Mapping[str, xr.Dataset], folder: Path, **how: Any) -> dict[str, Path]:
    """Draw datasets in the place of the usual pictures."""
    from chiplog.frontends.ezpz.output import plots

    return plots.plot_all(found, folder, **how)


def look(kind: str | None) -> Any:
    """How text plots look here."""
    from chiplog.views.charts.text_plot_files import KINDS, Look

    marker = os.environ.get("EZPZ_TPLOT_MARKER", "").lower()
    chosen = (kind or os.environ.get("EZPZ_TPLOT_TYPE", "")).lower()
    return Look(
        width=max(60, min(120, shutil.get_terminal_size((100, 30)).columns)),
        colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
        ascii=not (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf"),
        marker=marker if marker in ("braille", "fhd", "hd") else "braille",
        kind=chosen if chosen in KINDS else "line",
    )


def collect(stored: Stored, out: Path, sheets: Path | None, facts: Mapping[str, Any]) -> None:
    """Bring what was written elsewhere to the rest, and lead from there to the journal."""
    for name in SHEETS if sheets is not None and sheets != out else ():
        _move(sheets / name, out / name)  # type: ignore[operator]
    created = time.localtime(stored.created / 1e9) if stored.created else time.localtime()
    journals = sorted((stored.path / "journal").glob("r*-a*-*.jsonl"))
    if journals:
        _link(out, time.strftime("%Y-%m-%d-%H%M%S", created), os.path.relpath(journals[-1], out))
    about = stored.path / "run.json"
    if about.exists():
        known = msgspec.json.decode(about.read_bytes())
        more = {name: convert.plain(fact) for name, fact in facts.items() if fact}
        (out / ABOUT).write_bytes(msgspec.json.format(msgspec.json.encode({**known, **more})) + b"\n")


def _link(out: Path, stamp: str, target: str) -> None:
    """Lead to the journal; another run that began in the same second has its own link."""
    link, number = out / f"{stamp}-rank0.jsonl", 1
    while link.is_symlink() or link.exists():
        if link.is_symlink() and str(link.readlink()) == target:
            return
        number += 1
        link = out / f"{stamp}-{number}-rank0.jsonl"
    link.symlink_to(target)


def _move(source: Path, target: Path) -> None:
    """Move a file; another one that is there is kept under a number."""
    if not source.exists():
        return
    try:
        if target.exists():
            number = 1
            while (aside := target.with_name(f"{target.stem}.{number}{target.suffix}")).exists():
                number += 1
            target.rename(aside)
        shutil.move(source, target)
    except OSError as error:
        logger.warning("%s cannot be moved to %s: %s", source, target, error)
