"""What a record is at W&B: pure functions from a record to a row of history, or to an artifact."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import wandb

from chiplog.core.engine.attachments import file_name
from chiplog.core.identity import Identity
from chiplog.core.records import NONFINITE, AnyRecord, Event, File, Histogram, Matrix, Number, Table, Text
from chiplog.core.values.convert import double
from chiplog.sinks.shared.rows import Row, Rows
from chiplog.sinks.shared.service_metrics import allocated, outward, texts
from chiplog.store.journal.tail import Tail
from chiplog.store.runs import manifest

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d", "#ff9da6", "#bab0ac")
LARGEST = 2.0**63  # of an integer; a larger one becomes a float
BINS = 512  # of a histogram, by W&B's own limit
MOST_ROWS = 10_000  # of a table, as many as W&B shows


def row(record: AnyRecord, run: Path, table: Any = None) -> dict[str, Any] | None:
    """The row of a record, with its step and its time; None for one that has nothing to show."""
    values = _values(record, run, table)
    if not values:
        return None
    step = getattr(record, "step", None)
    if step is not None and step - step == 0:
        values["step"] = number(step)
    values["_timestamp"] = record.time / 1e9
    return values


def _values(record: AnyRecord, run: Path, table: Any) -> dict[str, Any]:
    if isinstance(record, Table):
        return {name(record.name): table}
    if isinstance(record, Histogram):
        return {name(record.name): histogram(record)}
    if isinstance(record, Text):
        return {
            name(record.name): _page(f"<pre style='white-space:pre-wrap'>{html.escape(sayable(record.text))}</pre>")
        }
    if isinstance(record, Matrix):
        columns = [str(column) for column in range(max(map(len, record.values), default=0))]
        rows = [[_cell(value) for value in line] + [None] * (len(columns) - len(line)) for line in record.values]
        return {name(record.name): wandb.Table(columns=columns, data=rows, allow_mixed_types=True)}
    if isinstance(record, File):
        return {name(record.name): picture(record, run)} if record.media.startswith("image/") else {}
    found: dict[str, Any] = {name(key): number(value) for key, value in outward(record).items()}
    found |= {name(key): sayable(text) for key, text in texts(record).items()}
    if isinstance(record, Event) and record.name == "gpu":
        # Of the first one also under the names that Surogate's charts have.
        found |= {f"gpu/{key[6:]}": value for key, value in found.items() if key.startswith("gpu/0/")}
    if isinstance(record, Event) and record.name == "allocator" and (shares := allocated(record.data)):
        found["allocations"] = _page(pie({key[10:-4]: value for key, value in shares.items()}, "MiB"))
    if isinstance(record, Event) and record.name == "sol":
        found["ops"] = _page(
            pie({key[6:]: value / 1e6 for key, value in found.items() if key[:6] == "flops/"}, "MFLOP")
        )
    return found


def name(text: str) -> str:
    """A key that W&B takes: not empty, valid UTF-8, and none of those that begin with `_`, which are its own."""
    text = sayable(text) or "unnamed"
    return f"x{text}" if text.startswith("_") else text


def number(value: Number | str) -> Number | str:
    """A number that W&B takes; NaN and infinities are fine."""
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        return double(value)
    return value


def sayable(value: Any) -> Any:
    """Plain data without what UTF-8 cannot say."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {sayable(str(key)): sayable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sayable(item) for item in value]
    return number(value) if isinstance(value, (int, float)) else value


def histogram(record: Histogram) -> Any:
    """W&B's histogram, with neighbouring bins joined where there are more than it takes."""
    edges = [NONFINITE.get(edge, 0.0) if isinstance(edge, str) else edge for edge in record.edges]
    counts, join = list(record.counts), -(-len(record.counts) // BINS)
    if join > 1:
        counts = [sum(counts[at : at + join]) for at in range(0, len(counts), join)]
        edges = [*edges[:-1:join], edges[-1]]
    return wandb.Histogram(np_histogram=(counts, edges))


def piece(record: Table) -> tuple[list[str], list[list[Any]]]:
    """The columns of a piece of a table in the order they come, and its rows."""
    columns = list(dict.fromkeys(key for one in record.rows for key in one))
    return [sayable(column) for column in columns], [[_cell(one.get(key)) for key in columns] for one in record.rows]


def history(run: Path) -> Any:
    """All numbers of a run as one table, a row a step; of more than W&B shows every second, fourth, … row."""
    kept: list[Row] = []
    every = 1
    for at, one in enumerate(_stored(run)):
        if at % every == 0:
            kept.append(one)
        if len(kept) > MOST_ROWS:
            kept, every = kept[::2], every * 2
    names = list(dict.fromkeys(key for one in kept for key in one.metrics))
    data = [[_cell(one.step), *(_cell(one.metrics.get(key)) for key in names)] for one in kept]
    return wandb.Table(columns=["step", *map(sayable, names)], data=data, allow_mixed_types=True) if kept else None


def _stored(run: Path) -> Iterator[Row]:
    rows, tail = Rows(), Tail(run, rank=manifest.load(run).rank)
    while batch := tail.read():
        for record in batch:
            yield from rows.feed(record)
    yield from rows.drain()


def picture(record: File, run: Path) -> Any:
    """W&B's image; without Pillow, which that needs, or of what Pillow cannot read, a page that holds it."""
    path, caption = run / record.path, sayable(record.caption) or None
    if not path.is_file():
        return _page(f"<p>{html.escape(record.path)} is not there</p>")
    if find_spec("PIL") is not None:
        with suppress(OSError):  # a browser may know more formats, such as SVG
            return wandb.Image(str(path), caption=caption)
    data = base64.b64encode(path.read_bytes()).decode()
    return _page(f"<img src='data:{record.media};base64,{data}'><p>{html.escape(caption or '')}</p>")


def artifact(record: File, identity: Identity) -> Any:
    """A file or folder as W&B's artifact; None for a picture, which is in a row, and for what has gone."""
    path = identity.dir / record.path
    if record.media.startswith("image/") or not path.exists():
        return None
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in record.name)
    made = wandb.Artifact(f"{identity.id}-{safe or 'file'}"[:128], type="file", metadata={"media": record.media})
    if path.is_dir():
        made.add_dir(str(path))
    else:
        made.add_file(str(path), name=file_name(record.name, path.suffix))
    return made


def pie(shares: Mapping[str, float], unit: str) -> str:
    """A pie chart as SVG, with a legend; the largest first."""
    ordered = sorted(((key, value) for key, value in shares.items() if value > 0), key=lambda item: -item[1])
    total = sum(value for _, value in ordered) or 1.0
    drawn, at = [], 0.0
    for index, (key, value) in enumerate(ordered):
        colour, share = COLOURS[index % len(COLOURS)], value / total
        drawn.append(f"<path fill='{colour}' d='{_slice(at, share)}'/>")
        y = 20 + 22 * index
        label = f"{html.escape(sayable(key))}  {value:,.1f} {unit}, {share:.1%}"
        drawn.append(f"<rect x='240' y='{y - 12}' width='14' height='14' fill='{colour}'/>")
        drawn.append(f"<text x='262' y='{y}'>{label}</text>")
        at += share
    height = max(220, 30 + 22 * len(ordered))
    style = "font:14px sans-serif"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='620' height='{height}' style='{style}'>{''.join(drawn)}</svg>"
    )


def _slice(at: float, share: float) -> str:
    """The outline of a share of a circle, from `at` on, both in turns."""
    x, y, radius = 110.0, 110.0, 100.0
    if share > 0.9999:  # an arc cannot end where it began
        return f"M{x - radius},{y} a{radius},{radius} 0 1,0 {2 * radius},0 a{radius},{radius} 0 1,0 {-2 * radius},0"
    points: Sequence[float] = [
        value
        for turn in (at, at + share)
        for value in (x + radius * math.sin(math.tau * turn), y - radius * math.cos(math.tau * turn))
    ]
    x0, y0, x1, y1 = (f"{point:.2f}" for point in points)
    return f"M{x},{y} L{x0},{y0} A{radius},{radius} 0 {int(share > 0.5)},1 {x1},{y1} Z"


def _page(body: str) -> Any:
    return wandb.Html(body, inject=False)


def _cell(value: Any) -> Any:
    """What a table of W&B takes as a cell: numbers and text, and nested data as text."""
    if isinstance(value, str):
        return NONFINITE.get(value, sayable(value))
    if isinstance(value, (bool, int, float)):
        return number(value)
    return None if value is None else str(sayable(value))
