"""A flame view of spans: stacked timelines, time to the right, children below their parents."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape
from zlib import crc32

import msgspec

from chiplog.core.display import columns, cut, paint, short_duration
from chiplog.core.messages import clean
from chiplog.store.spans.span import StoredSpan
from chiplog.views.trace.lanes import Lanes

PALETTE = ("44", "42", "45", "46", "43", "41")  # SGR backgrounds
HUES = ("#7aa6da", "#8cc98c", "#c397d8", "#70c0b1", "#e7c547", "#d98a8a", "#b9a98c", "#9db4c8")
MOST = 40  # timelines drawn
DEEPEST = 100  # rows of a timeline
ROW, MARGIN, LABELS = 22, 10, 150  # pixels
ORDER = {"": 0, "task": 1, "device": 2, "queue": 3}


class Box(msgspec.Struct, frozen=True):
    """A span with its row; row 0 is the top of its timeline."""

    span: StoredSpan
    row: int


class Band(msgspec.Struct, frozen=True):
    """A timeline with its boxes."""

    label: str
    rows: int
    boxes: list[Box]
    left: int = 0  # spans further down than the last row


def bands(spans: Sequence[StoredSpan]) -> list[Band]:
    """The timelines of spans: threads first, then tasks, devices and queues; spans of a row do not overlap."""
    lanes: dict[tuple[int, int, int, str], list[StoredSpan]] = {}
    for span in sorted(spans, key=lambda one: (one.start, -one.duration)):
        lanes.setdefault((span.rank, span.attempt, ORDER.get(span.kind, 4), span.thread), []).append(span)
    several = len({key[0] for key in lanes}) > 1
    listed = []
    for rank, attempt, kind, label in sorted(lanes):
        boxes: list[Box] = []
        rows = Lanes()
        row_of: dict[int, int] = {}
        for span in lanes[rank, attempt, kind, label]:
            row = row_of[span.id] = rows.place(span.start, span.end, first=row_of.get(span.parent, -1) + 1)
            boxes.append(Box(span, row))
        shown = [box for box in boxes if box.row < DEEPEST]
        name = clean(f"rank {rank} {label}" if several else label)
        listed.append(Band(name, min(DEEPEST, len(rows)), shown, len(boxes) - len(shown)))
    return listed


def draw(
    spans: Sequence[StoredSpan], *, width: int = 100, colour: bool = False, ascii: bool = False, whole: bool = False
) -> str:
    """Draw for the terminal. The width of a box is its duration, at least one column; names where they fit.

    With `whole`, a name that does not fit is left out instead of cut.
    """
    if not spans:
        return "no spans"
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    shown, left = _busiest(bands(spans))
    longest = max(columns(band.label) for band in shown)
    edge = (longest if whole else min(24, longest)) + 1
    room = max(20, width - edge)
    scale = room / max(1, end - begin)
    ruler = _ruler((end - begin) / 1e9, room)
    lines = [" " * edge + (ruler.replace("µ", "u") if ascii else ruler)]
    for band in shown:
        rows: list[list[StoredSpan]] = [[] for _ in range(band.rows)]
        for box in band.boxes:
            rows[box.row].append(box.span)
        for row, boxes in enumerate(rows):
            label = (_plain if ascii else cut)(band.label, edge - 1).ljust(edge) if row == 0 else " " * edge
            lines.append((label + _row(boxes, begin, scale, room, colour, ascii, whole)).rstrip())
    deeper = sum(band.left for band in shown)
    lines += [f"and {deeper:,} spans below the {DEEPEST} rows of their timelines: -o writes all of them"] * (deeper > 0)
    return "\n".join([*lines, *([f"and {left:,} more timelines"] if left else [])])


def svg(spans: Sequence[StoredSpan], *, width: int = 1000, title: str = "") -> str:
    """The same as an SVG picture."""
    if not spans:
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20"/>\n'
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    scale = (width - LABELS - 2 * MARGIN) / max(1, end - begin)
    hues: dict[str, str] = {}
    out: list[str] = []
    y = MARGIN + 40
    shown, left = _busiest(bands(spans))
    if deeper := sum(band.left for band in shown):
        title += f", without {deeper:,} spans below the {DEEPEST} rows of their timelines"
    if left:
        title += f", without {left:,} more timelines"
    for band in shown:
        out.append(
            f'<text x="{MARGIN}" y="{y + 15}" class="lane">{escape(cut(band.label, 22))}</text>'
            f'<line x1="{MARGIN}" x2="{width - MARGIN}" y1="{y - 3}" y2="{y - 3}" class="rule"/>'
        )
        for box in band.boxes:
            span = box.span
            x = MARGIN + LABELS + (span.start - begin) * scale
            wide = max(1.0, span.duration * scale)
            top = y + box.row * ROW
            words = f"{span.name} {short_duration(span.seconds)}"
            hue = hues.setdefault(span.name, HUES[len(hues) % len(HUES)]) if span.kind != "queue" else "#e3e3e3"
            fill = "#d9534f" if span.failed else hue
            out.append(
                f'<g><title>{escape(words)}</title><rect x="{x:.1f}" y="{top}" width="{wide:.1f}" height="{ROW - 3}" '
                f'rx="2" fill="{fill}"/>'
            )
            for text in (words, span.name):
                if len(text) * 6.6 + 6 < wide:
                    out.append(f'<text x="{x + 4:.1f}" y="{top + 14}">{escape(text)}</text>')
                    break
            out.append("</g>")
        y += band.rows * ROW + 10
    ticks = []
    for part in range(5):
        x = MARGIN + LABELS + (width - LABELS - 2 * MARGIN) * part / 4
        anchor = "end" if part == 4 else "start" if part == 0 else "middle"
        ticks.append(
            f'<text x="{x:.0f}" y="{MARGIN + 30}" text-anchor="{anchor}" class="lane">'
            f"{short_duration((end - begin) / 1e9 * part / 4) if part else '0'}</text>"
            f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{MARGIN + 35}" y2="{y}" class="rule"/>'
        )
    style = (
        "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1c1c1c}.lane{fill:#707070}"
        ".rule{stroke:#dddddd;stroke-width:1}.title{font-weight:bold;fill:#444444}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + MARGIN}" '
        f'viewBox="0 0 {width} {y + MARGIN}"><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="{MARGIN}" y="{MARGIN + 10}" class="title">'
        f"{escape(title)}</text>"
    )
    return "\n".join((head, *ticks, *out, "</svg>\n"))


def _busiest(listed: list[Band]) -> tuple[list[Band], int]:
    """At most `MOST` timelines, the busiest ones; and how many are left out."""
    if len(listed) <= MOST:
        return listed, 0
    busy = sorted(listed, key=lambda band: -sum(box.span.duration for box in band.boxes if box.row == 0))
    kept = {id(band) for band in busy[:MOST]}
    return [band for band in listed if id(band) in kept], len(listed) - MOST


def _row(
    spans: Sequence[StoredSpan], begin: int, scale: float, room: int, colour: bool, ascii: bool, whole: bool
) -> str:
    cells = [" "] * room
    styles = [""] * room
    left, fill, right = ("[", "=", "]") if ascii else ("▐", "█", "▌")
    for span in spans:
        first = min(room - 1, round((span.start - begin) * scale))
        last = min(room, max(first + 1, round((span.end - begin) * scale)))
        size = last - first
        name = clean(span.name)
        fits = size >= 4 and not (whole and columns(name) > size - 2)
        name = "" if not fits else _plain(name, size - 2) if ascii else cut(name, size - 2)
        if colour:
            text = f" {name}".ljust(size)[:size]
        elif size == 1:
            text = "|" if ascii else "▏"
        elif not name:
            text = (left + fill * size)[: size - 1] + right
        else:
            text = f"[{name.ljust(size - 2, '-' if ascii else '─')}]"
        cells[first:last] = text.ljust(size)[:size]
        styles[first:last] = [_sgr(span)] * size
    if not colour:
        return "".join(cells)
    out, at = [], 0
    begins = {round((span.start - begin) * scale) for span in spans}
    while at < room:
        stop = at
        while stop < room and styles[stop] == styles[at] and (stop == at or stop not in begins):
            stop += 1
        piece = "".join(cells[at:stop])
        out.append(paint(piece, styles[at], True) if styles[at] else piece)
        at = stop
    return "".join(out)


def _plain(text: str, width: int) -> str:
    return text.encode("ascii", "replace").decode()[:width]


def _ruler(seconds: float, room: int) -> str:
    labels = [short_duration(seconds * part / 4) if part else "0" for part in range(5)]
    line = [" "] * room
    for part, text in enumerate(labels):
        at = min(room - len(text), max(0, round(room * part / 4) - (len(text) // 2 if 0 < part < 4 else 0)))
        line[at : at + len(text)] = text
    return "".join(line)


def _sgr(span: StoredSpan) -> str:
    if span.failed:
        return "37;41"
    if span.kind == "queue":
        return "30;47"
    return f"30;{PALETTE[crc32(span.name.encode('utf-8', 'replace')) % 5]}"
