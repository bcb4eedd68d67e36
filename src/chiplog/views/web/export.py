"""`chiplog ui --export`: the page with chosen runs, as files that open from disk without a server.

The script is inside the page, because a browser does not load modules from disk; the server's responses are next to it,
one script per run. Series of more than 4,000 points are stored as 2,000 buckets with their minimum and maximum.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from chiplog.core.files.writing import make_place, match_run, replacing
from chiplog.core.paths import in_run
from chiplog.store.contents.contents import LIVE, Contents
from chiplog.store.contents.table_samples import Sample
from chiplog.store.reader import Stored
from chiplog.store.runs import find
from chiplog.store.runs.summary_cache import Entry, SummaryCache
from chiplog.views.charts import bucketed_series as curves
from chiplog.views.strict_json import encode
from chiplog.views.web import asset_bundle, console, queries
from chiplog.views.web.responses import listing

BUCKETS = 2000
SAMPLES = 1000  # newest rows per table
FRAMES = 200  # of a matrix
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' file:; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def export(root: Path, target: Path, chosen: Sequence[str] = (), others: Sequence[Path] = ()) -> list[str]:
    """Write the page and its runs to a folder; returns the ids of the runs."""
    summaries = SummaryCache(root, others=others)
    summaries.refresh()
    entries = [entry for entry in summaries.entries() if not entry.reason]
    if chosen:
        places = {(root / entry.place).resolve(): entry for entry in entries}
        entries = [places[path.resolve()] for path in find.select(chosen, root) if path.resolve() in places]
    make_place(target)
    for entry in entries:
        path = summaries.path(entry.key)
        assert path is not None
        _write(target / f"{entry.key}.js", f"chiplogAdd({_script(_run(path, entry))});\n")
    listed = {"version": 1, "root": "", "chiplog": "", "gone": [], "runs": [_row(entry) for entry in entries]}
    _write(target / "runs.js", f"chiplogAdd({_script({'runs': listed})});\n")
    _write(target / "index.html", _page([entry.key for entry in entries]))
    if in_run(target):
        match_run(target)
    return [entry.id for entry in entries]


def _row(entry: Entry) -> dict[str, object]:
    columns = [*(f"c:{name}" for name in entry.config), *(f"v:{name}" for name in entry.values)]
    return listing.row(entry, columns)


def _run(path: Path, entry: Entry) -> dict[str, object]:
    stored = Stored(path)
    contents = stored.contents(bounds=LIVE)
    about = queries.about(stored, entry, contents)
    about["state"] = entry.state
    series = {name: _series(stored, name) for name in about["names"][:5000]}
    samples = {
        table["name"]: [
            {"step": one.step, "time": one.time / 1e6, "cells": one.cells} for one in _newest(contents, table["name"])
        ]
        for table in about["tables"]
    }
    matrices = {}
    for one in about["matrices"]:
        count = len(one["steps"])
        kept = range(0, count, max(1, -(-count // FRAMES)))
        matrices[one["name"]] = [queries.matrix(contents, one["name"], at) for at in kept]
    ranks = {}
    if len(about["ranks"]) > 1:
        ranks = {name: queries.ranks(stored, name) for name in about["names"][:200]}
    return {
        "run": entry.key,
        "about": about,
        "series": series,
        "samples": samples,
        "matrices": matrices,
        "ranks": ranks,
        "trace": queries.trace(stored.spans()) if about["spans"] else None,
        "goodput": queries.goodput(stored),
        "console": console.since(contents, 0),
    }


def _newest(contents: Contents, table: str) -> list[Sample]:
    return contents.load(queries.samples_of(contents, table)[-SAMPLES:][::-1])


def _series(stored: Stored, name: str) -> dict[str, object]:
    """A series over its steps, and the seconds of each point."""
    axes: dict[str, object] = {}
    for kind in ("step", "relative", "tokens"):
        line = curves.over(stored, stored.series(name, missing_ok=True), kind)
        if not len(line.x):
            continue
        ((facts, arrays),) = curves.draw([line], curves.XValues(kind), BUCKETS)
        axes[kind] = {
            **facts,
            "arrays": {key: base64.b64encode(column.tobytes()).decode() for key, column in arrays.items()},
        }
    return axes


def _page(keys: list[str]) -> str:
    """The page with its script and style inline."""
    icon = "data:image/svg+xml;base64," + base64.b64encode(asset_bundle.source("icon.svg").encode()).decode()
    runs = "".join(f'<script src="{name}.js"></script>\n' for name in ("runs", *keys))
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<script>var chiplogParts = []; function chiplogAdd(part) {{ chiplogParts.push(part); }}</script>\n{runs}"
        f'<script type="module">{asset_bundle.script("offline", "main")}</script>'
    )
    return (
        asset_bundle.source("index.html")
        .replace('<link rel="stylesheet" href="style.css">', f"<style>{asset_bundle.source('style.css')}</style>")
        .replace('href="icon.svg"', f'href="{icon}"')
        .replace('<script type="module" src="main.js"></script>', head)
    )


def _script(data: object) -> str:
    """Data for an inline script, escaped so that it cannot end the script."""
    text = encode(data).decode()
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
