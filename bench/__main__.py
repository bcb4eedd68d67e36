"""`python -m bench`: measure, print a table, write JSON, exit with 1 when a bar is missed."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path

from bench import loops, paths, stores  # noqa: F401  each adds its rows
from bench.rows import ROWS, Figure


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", default="", help=f"rows to run, comma separated: {', '.join(ROWS)}")
    parser.add_argument("-o", "--output", type=Path, default=Path("bench/results/latest.json"))
    args = parser.parse_args()
    wanted = [name for name in args.only.split(",") if name] or list(ROWS)
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        parser.error(f"no row {unknown[0]!r}; there are: {', '.join(ROWS)}")
    figures: dict[str, list[Figure]] = {}
    for name in wanted:
        began = time.monotonic()
        print(f"{name}: {(ROWS[name].__doc__ or '').splitlines()[0]}", flush=True)
        figures[name] = list(ROWS[name]())
        for figure in figures[name]:
            print(f"  {_line(figure)}", flush=True)
        print(f"  ({time.monotonic() - began:.0f} s)", flush=True)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "python": platform.python_version(),
        "machine": platform.platform(),
        "time": time.strftime("%Y-%m-%d %H:%M"),
    }
    rows = {name: [figure._asdict() for figure in row] for name, row in figures.items()}
    args.output.write_text(json.dumps({"about": about, "rows": rows}, indent=2) + "\n")
    missed = [figure for row in figures.values() for figure in row if not figure.met]
    print(f"\n{sum(map(len, figures.values()))} figures, {len(missed)} bars missed; written to {args.output}")
    for figure in missed:
        print(f"  missed: {_line(figure)}")
    return 1 if missed else 0


def _line(figure: Figure) -> str:
    bar = "" if figure.bar is None else f"{'≥' if figure.at_least else '≤'} {figure.bar:,.3g}"
    mark = "" if figure.bar is None else ("ok" if figure.met else "MISSED")
    return f"{figure.what:<58} {figure.value:>12,.3f} {figure.unit:<9} {bar:<10} {mark:<7} {figure.note}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
