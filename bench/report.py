"""What a run of the benchmark found: as lines, as JSON, as a page and as a picture.

`python -m bench.report` writes docs/benchmarks.md and its picture from the last whole run.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers import PEERS
from bench.rows import Figure

LATEST = Path("bench/results/latest.json")
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"


class Result(NamedTuple):
    """A run of the benchmark: where and when, and the figures by row."""

    about: dict[str, Any]
    titles: dict[str, str]
    rows: dict[str, list[Figure]]

    def plain(self) -> dict[str, Any]:
        rows = {name: [figure._asdict() for figure in row] for name, row in self.rows.items()}
        return {"about": self.about, "titles": self.titles, "rows": rows}


def load(path: Path) -> Result:
    plain = json.loads(path.read_text())
    rows = {name: [Figure(**figure) for figure in row] for name, row in plain["rows"].items()}
    return Result(plain["about"], plain["titles"], rows)


def _number(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.3g}"


def _bar(figure: Figure) -> str:
    return "" if figure.bar is None else f"{'≥' if figure.at_least else '≤'} {_number(figure.bar)}"


def line(figure: Figure) -> str:
    """A figure as the terminal shows it."""
    mark = "" if figure.bar is None else ("ok" if figure.met else "MISSED")
    tail = "" if figure.p99 is None else f"p99 {_number(figure.p99)}"
    got = f"{_number(figure.value):>12} {figure.unit:<9}"
    return f"{figure.what:<44} {got} {_bar(figure):<12} {mark:<7} {tail} {figure.note}".rstrip()


def table(result: Result) -> str:
    """All figures as one Markdown table a row."""
    about = result.about
    parts = [f"{about['date']}, {about['machine']}, Python {about['python']}; {', '.join(about['versions'])}.\n"]
    for name, figures in result.rows.items():
        parts += [
            f"\n### {name}\n\n{result.titles[name]}\n\n",
            "| what | got | p99 | must be | |\n|---|---:|---:|---:|---|\n",
        ]
        for figure in figures:
            tail = "" if figure.p99 is None else _number(figure.p99)
            mark = "" if figure.bar is None else ("yes" if figure.met else "**no**")
            got = f"{_number(figure.value)} {figure.unit}"
            parts.append(f"| {figure.what.strip()} | {got} | {tail} | {_bar(figure)} | {mark} |\n")
    return "".join(parts)


def picture(result: Result) -> str:
    """The cost of a call with each tracker, on a logarithmic scale, as SVG."""
    costs = {
        row: {figure.peer: figure.value for figure in result.rows[row] if figure.peer and figure.unit == "µs"}
        for row in ("log", "paced")
    }
    order = sorted(PEERS, key=lambda name: costs["paced"][name])
    left, right, top, height = 170, 90, 84, 40
    width = 860
    low, high = 0.0, math.ceil(math.log10(max(max(row.values()) for row in costs.values())))

    def across(value: float) -> float:
        return left + (math.log10(max(value, 1.0)) - low) / (high - low) * (width - left - right)

    bottom = top + height * len(order)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 44}" '
        'font-family="system-ui, sans-serif" font-size="14" fill="#24292f">',
        f'<rect width="{width}" height="{bottom + 44}" rx="8" fill="#fff"/>',
        '<text x="24" y="34" font-size="18" font-weight="600">'
        "One call that logs 10 scalars, on the training thread</text>",
        '<rect x="24" y="50" width="12" height="12" fill="#0969da"/>'
        '<text x="42" y="61" fill="#57606a">paced, one call every 2 ms</text>'
        '<rect x="250" y="50" width="12" height="12" fill="#0969da" opacity=".4"/>'
        '<text x="268" y="61" fill="#57606a">in a tight loop</text>',
    ]
    for power in range(int(low), high + 1):
        x = across(10**power)
        name = f"{10**power} µs" if power < 3 else f"{10 ** (power - 3)} ms"
        parts.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 22}" text-anchor="middle" fill="#57606a">{name}</text>')
    for number, name in enumerate(order):
        y = top + number * height
        ours = name == "chiplog"
        color = "#0969da" if ours else "#8c959f"
        weight = ' font-weight="600"' if ours else ""
        title = PEERS[name].title.replace("&", "&amp;")
        parts.append(f'<text x="{left - 12}" y="{y + 25}" text-anchor="end"{weight}>{title}</text>')
        for row, at, faint in (("paced", 6, ""), ("log", 21, ' opacity=".4"')):
            value = costs[row][name]
            end = across(value)
            size = f'width="{end - left:.1f}" height="13"'
            parts.append(f'<rect x="{left}" y="{y + at}" {size} fill="{color}"{faint}/>')
            label = f"{_number(value)} µs" if value < 1000 else f"{_number(value / 1000)} ms"
            parts.append(f'<text x="{end + 6:.1f}" y="{y + at + 11}" font-size="12"{weight}>{label}</text>')
    return "\n".join([*parts, "</svg>", ""])


def report(result: Result, docs: Path) -> None:
    """Put the figures between the marks of docs/benchmarks.md, and the picture beside it."""
    page = docs / "benchmarks.md"
    text = page.read_text()
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(head + BEGIN + table(result) + END + tail)
    (docs / "images" / "bench.svg").write_text(picture(result))


if __name__ == "__main__":
    report(load(Path(sys.argv[1]) if sys.argv[1:] else LATEST), Path("docs"))
