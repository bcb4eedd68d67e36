"""Records as W&B shows them: pure functions from a record to a row of history, or to an artifact."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import wandb

from chiplog.core.identity import Identity
from chiplog.core.paths import file_name
from chiplog.core.records import (
    NONFINITE,
    AnyRecord,
    Event,
    File,
    HistogramRecord,
    MatrixRecord,
    Plain,
    Table,
    TextRecord,
)
from chiplog.sinks.shared import record_file
from chiplog.sinks.shared.clean_values import ascii_name, cell, edges, int64, utf8
from chiplog.sinks.shared.rows import Row, Rows, is_too_ragged, read_journal, tabulate
from chiplog.sinks.shared.service_metrics import allocated, own_name, service_points, texts, with_step

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d", "#ff9da6", "#bab0ac")
BINS = 512  # of a histogram, W&B's limit
MOST_ROWS = 10_000  # of a table, the most that W&B shows


def row(record: AnyRecord, run: Path, table: wandb.Table | None = None) -> dict[str, Plain] | None:
    """The row of a record, with its step and time; None if it has nothing to show."""
    values = _values(record, run, table)
    if not values:
        return None
    step = getattr(record, "step", None)
    if step is not None and step - step == 0:
        values = with_step(values, int64(step))
    values["_timestamp"] = record.time / 1e9
    return values


def _values(record: AnyRecord, run: Path, table: wandb.Table | None) -> dict[str, Plain]:
    if isinstance(record, Table):
        return {name(record.name): table}
    if isinstance(record, HistogramRecord):
        return {name(record.name): histogram(record)}
    if isinstance(record, TextRecord):
        return {name(record.name): _page(f"<pre style='white-space:pre-wrap'>{html.escape(utf8(record.text))}</pre>")}
    if isinstance(record, MatrixRecord):
        if is_too_ragged(record, "wandb"):
            return {}
        columns = [str(column) for column in range(max(map(len, record.values), default=0))]
        rows = [[_cell(value) for value in line] + [None] * (len(columns) - len(line)) for line in record.values]
        return {name(record.name): wandb.Table(columns=columns, data=rows, allow_mixed_types=True)}
    if isinstance(record, File):
        return {name(record.name): image(record, run)} if record.media.startswith("image/") else {}
    values: dict[str, Plain] = {name(key): int64(value) for key, value in service_points(record).items()}
    values |= {name(key): utf8(text) for key, text in texts(record).items()}
    if isinstance(record, Event) and record.name == "gpu":
        # The first GPU also under the names of Surogate's charts.
        values |= {f"gpu/{key[6:]}": value for key, value in values.items() if key.startswith("gpu/0/")}
    if isinstance(record, Event) and record.name == "allocator" and (shares := allocated(record.data)):
        values["allocations"] = _page(pie({key[10:-4]: value for key, value in shares.items()}, "MiB"))
    if isinstance(record, Event) and record.name == "sol":
        values["ops"] = _page(
            pie({key[6:]: value / 1e6 for key, value in values.items() if key[:6] == "flops/"}, "MFLOP")
        )
    return values


def name(text: str) -> str:
    """A key that W&B accepts: not empty, valid UTF-8, and without a leading `_`, which it reserves."""
    text = utf8(text) or "unnamed"
    return f"x{text}" if text.startswith("_") else text


def histogram(record: HistogramRecord) -> wandb.Histogram:
    """W&B's histogram; if it has too many bins, neighbours are joined."""
    bounds = edges(record.edges)
    counts, join = list(record.counts), -(-len(record.counts) // BINS)
    if join > 1:
        counts = [sum(counts[at : at + join]) for at in range(0, len(counts), join)]
        bounds = [*bounds[:-1:join], bounds[-1]]
    return wandb.Histogram(np_histogram=(counts, bounds))


def table_rows(record: Table) -> tuple[list[str], list[list[Plain]]]:
    """The columns of a table record, in order of appearance, and its rows."""
    columns, rows = tabulate(record.rows, f"wandb: table {record.name[:60]!r}")
    return [utf8(column) for column in columns], [[_cell(value) for value in row] for row in rows]


def history_table(run: Path) -> wandb.Table | None:
    """All numbers of a run as one table with a row per step; if there are too many, every second, fourth, … row."""
    kept: list[Row] = []
    every = 1
    for at, one in enumerate(_stored(run)):
        if at % every == 0:
            kept.append(one)
        if len(kept) > MOST_ROWS:
            kept, every = kept[::2], every * 2
    names, rows = tabulate([one.metrics for one in kept], "wandb: the table of all numbers")
    data = [[_cell(one.step), *map(_cell, values)] for one, values in zip(kept, rows, strict=True)]
    columns = ["step", *(own_name(one, names) if one == "step" else utf8(one) for one in names)]
    return wandb.Table(columns=columns, data=data, allow_mixed_types=True) if kept else None


def _stored(run: Path) -> Iterator[Row]:
    rows = Rows()
    for record in read_journal(run):
        yield from rows.feed(record)
    yield from rows.drain()


def image(record: File, run: Path) -> wandb.Image | wandb.Html:
    """W&B's image; without Pillow, which it needs, or if Pillow cannot read the file, a page that embeds it."""
    path, caption = record_file.path_of(run, record), utf8(record.caption) or None
    content = record_file.contents_of(run, record)
    if path is None or content is None:
        return _page(f"<p>{html.escape(utf8(record.path))} is missing</p>")
    if find_spec("PIL") is not None:
        with suppress(Exception):  # a browser may support more formats, such as SVG; Pillow refuses huge images
            return wandb.Image(str(path), caption=caption)
    data = base64.b64encode(content).decode()
    media = html.escape(utf8(record.media), quote=True)
    return _page(f"<img src='data:{media};base64,{data}'><p>{html.escape(caption or '')}</p>")


def artifact(record: File, identity: Identity) -> wandb.Artifact | None:
    """A file or folder as W&B's artifact; None for an image, which is in a row, and for a missing file."""
    path = None if record.media.startswith("image/") else record_file.path_of(identity.dir, record)
    if path is None:
        return None
    made = wandb.Artifact(
        f"{identity.id}-{ascii_name(record.name) or 'file'}"[:128], type="file", metadata={"media": record.media}
    )
    if path.is_dir():
        made.add_dir(str(path))
    else:
        made.add_file(str(path), name=file_name(record.name, path.suffix))
    return made


def pie(shares: Mapping[str, float], unit: str) -> str:
    """A pie chart as SVG with a legend, the largest share first: each slice is a dash of a thick circle."""
    ordered = sorted(((key, value) for key, value in shares.items() if value > 0), key=lambda item: -item[1])
    total = sum(value for _, value in ordered) or 1.0
    shapes, start = [], 0.0
    for index, (key, value) in enumerate(ordered):
        colour, share, y = COLOURS[index % len(COLOURS)], value / total, 20 + 22 * index
        shapes += [
            f"<circle cx='110' cy='110' r='50' fill='none' stroke='{colour}' stroke-width='100' pathLength='1' "
            f"stroke-dasharray='{share:.4f} 1' stroke-dashoffset='{-start:.4f}'/>",
            f"<rect x='240' y='{y - 12}' width='14' height='14' fill='{colour}'/>",
            f"<text x='262' y='{y}'>{html.escape(utf8(key))}  {value:,.1f} {unit}, {share:.1%}</text>",
        ]
        start += share
    size = f"width='620' height='{max(220, 30 + 22 * len(ordered))}' style='font:14px sans-serif'"
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size}>{''.join(shapes)}</svg>"


def _page(body: str) -> wandb.Html:
    return wandb.Html(body, inject=False)


def _cell(value: Plain) -> Plain:
    return NONFINITE.get(value, cell(value)) if isinstance(value, str) else cell(value)
