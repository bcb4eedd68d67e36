"""The files of a finalized history: moved to one directory, with a link to the journal; and the style of text plots."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from chiplog import Stored
from chiplog.core import display
from chiplog.core.values import convert
from chiplog.sinks.shared.append_file import keep_aside
from chiplog.views.charts.text_style import KINDS, TextStyle

logger = logging.getLogger("chiplog.ezpz")

SHEETS = ("metrics.csv", "config.json", "training_history.csv")
ABOUT = "run_info.json"


def text_style(kind: str | None) -> TextStyle:
    """How text plots are drawn on this terminal."""
    marker = os.environ.get("EZPZ_TPLOT_MARKER", "").lower()
    chosen = (kind or os.environ.get("EZPZ_TPLOT_TYPE", "")).lower()
    screen = display.screen(sys.stdout, os.environ)
    return TextStyle(
        width=max(60, min(120, screen.width)),
        colour=screen.colour,
        ascii=screen.ascii,
        marker=marker if marker in ("braille", "fhd", "hd") else "braille",
        kind=chosen if chosen in KINDS else "line",
    )


def collect(stored: Stored, out: Path, sheets: Path | None, facts: Mapping[str, object]) -> None:
    """Move the files of the csv backend to `out`, link to the journal, and write what is known of the run."""
    if sheets is not None and sheets != out:
        for name in SHEETS:
            _move(sheets / name, out / name)
    created = time.localtime(stored.created / 1e9) if stored.created else time.localtime()
    journals = sorted((stored.path / "journal").glob("r*-a*-*.jsonl"))
    if journals:
        _link(out, time.strftime("%Y-%m-%d-%H%M%S", created), os.path.relpath(journals[-1], out))
    manifest = stored.path / "run.json"
    if manifest.exists():
        about = msgspec.json.decode(manifest.read_bytes())
        about |= {name: convert.plain(fact) for name, fact in facts.items() if fact}
        (out / ABOUT).write_bytes(msgspec.json.format(msgspec.json.encode(about)) + b"\n")


def _link(out: Path, stamp: str, target: str) -> None:
    """Link to the journal; a run that started in the same second gets a link of its own."""
    link, number = out / f"{stamp}-rank0.jsonl", 1
    while link.is_symlink() or link.exists():
        if link.is_symlink() and str(link.readlink()) == target:
            return
        number += 1
        link = out / f"{stamp}-{number}-rank0.jsonl"
    link.symlink_to(target)


def _move(source: Path, target: Path) -> None:
    """Move a file; an existing one is renamed."""
    if not source.exists():
        return
    try:
        if target.exists():
            keep_aside(target)
        shutil.move(source, target)
    except OSError as error:
        logger.warning("%s cannot be moved to %s: %s", source, target, error)
